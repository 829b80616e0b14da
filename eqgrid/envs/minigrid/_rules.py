"""What agents do with objects, and obstacles that move.

They are those of `MiniGridEnv.step` and of `DynamicObstaclesEnv` in minigrid 3.2. At most one of
the interactions fires in a turn.
"""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, PRNGKeyArray, Shaped, UInt8

from ...grid import (
    NOTHING,
    AbstractInteraction,
    AbstractPhase,
    Outcome,
    Step,
    Turn,
    Use,
    cells_at,
    occupied_cells,
)
from ._kinds import BALL, BOX, CLOSED, COLOURS, DOOR, KEY, LOCKED, OPEN, STATES, WALL, door_code

PICKUP = Use("pickup")
"""Picks up the key, ball or box in front."""

DROP = Use("drop")
"""Puts the held object into the free cell in front."""

TOGGLE = Use("toggle")
"""Opens or closes the door in front, or opens the box in front."""


@final
class PickUp(AbstractInteraction):
    """Picks up a key, a ball or a box, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(PICKUP) & (turn.body.held == NOTHING) & is_thing(lying)
        return Outcome(fired, turn.cell_with(NOTHING), turn.body_with(lying))


@final
class Drop(AbstractInteraction):
    """Puts the held object into a cell without an object and without an agent."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(DROP) & (turn.body.held != NOTHING)
        fired &= (turn.cell.object == NOTHING) & ~turn.occupied
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(NOTHING))


@final
class Unlock(AbstractInteraction):
    """Opens a locked door, with the held key of its colour, which is kept."""

    def __call__(self, turn: Turn) -> Outcome:
        colour, state = jnp.divmod(turn.cell.object.astype(jnp.int32) - DOOR, len(STATES))
        fired = turn.uses(TOGGLE) & is_door(turn.cell.object) & (state == LOCKED)
        fired &= turn.body.held.astype(jnp.int32) == KEY + colour
        return Outcome(fired, turn.cell_with(door_code(colour, OPEN)), turn.body)


@final
class Swing(AbstractInteraction):
    """Opens a closed door, or closes an open one in which no agent stands."""

    def __call__(self, turn: Turn) -> Outcome:
        colour, state = jnp.divmod(turn.cell.object.astype(jnp.int32) - DOOR, len(STATES))
        swings = (state == CLOSED) | ((state == OPEN) & ~turn.occupied)
        fired = turn.uses(TOGGLE) & is_door(turn.cell.object) & swings
        after = door_code(colour, jnp.where(state == CLOSED, OPEN, CLOSED))
        return Outcome(fired, turn.cell_with(after), turn.body)


@final
class OpenBox(AbstractInteraction):
    """Opens a box, which is then gone: boxes are empty."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(TOGGLE) & (lying >= BOX) & (lying < BOX + len(COLOURS))
        return Outcome(fired, turn.cell_with(NOTHING), turn.body)


RULES: tuple[AbstractInteraction, ...] = (PickUp(), Drop(), Unlock(), Swing(), OpenBox())
"""The interaction rules of all rooms in which things can be used."""


def is_door(codes: Shaped[Array, "*cells"]) -> Bool[Array, "*cells"]:
    """Which object codes are doors."""
    return (codes >= DOOR) & (codes < DOOR + len(COLOURS) * len(STATES))


def is_thing(codes: Shaped[Array, "*cells"]) -> Bool[Array, "*cells"]:
    """Which object codes are keys, balls or boxes, which agents can pick up."""
    return (codes >= KEY) & (codes < BOX + len(COLOURS))


def is_ball(codes: Shaped[Array, "*cells"]) -> Bool[Array, "*cells"]:
    """Which object codes are balls."""
    return (codes >= BALL) & (codes < BALL + len(COLOURS))


_AROUND = np.asarray([(row, col) for row in (-1, 0, 1) for col in (-1, 0, 1)], np.int8)
STAYS = 4
"""The number of the middle one of the nine cells around an obstacle, which is its own."""


class AbstractObstacleDraw(eqx.Module):
    """The distribution of where an obstacle moves."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        """The number of the cell to which an obstacle moves.

        **Arguments:**

        - `key`: the source of randomness.
        - `number`: the number of the obstacle.
        - `free`: which of the nine cells around the obstacle, row by row, are free.
        """


@final
class UniformObstacleDraw(AbstractObstacleDraw):
    """Moves obstacles to one of the free cells around them, uniformly at random; an obstacle
    without one stays.

    The reference gives up after 101 draws among all nine cells, so that there an obstacle with a
    single free cell stays in 7 of a million steps.
    """

    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        score = jnp.where(free, jax.random.uniform(key, free.shape), -1.0)
        return jnp.where(free.any(), jnp.argmax(score), STAYS)


@final
class MoveObstacles(AbstractPhase):
    """Moves obstacles, one after the other, to cells around them without objects and agents. The
    positions of the obstacles are in `World.extra`.

    **Arguments:**

    - `draw`: the distribution of where they move.
    """

    draw: AbstractObstacleDraw

    def __call__(self, step: Step) -> Step:
        world = step.world
        places: Int8[Array, "obstacles 2"] = world.extra
        numbers = jnp.arange(len(places), dtype=jnp.int32)
        keys = jax.random.split(step.key, len(places))
        taken = occupied_cells(world)

        def move(
            objects: UInt8[Array, "height width"], told: tuple[Array, Array, Array]
        ) -> tuple[Array, Array]:
            key, number, old = told
            around = old[None] + jnp.asarray(_AROUND)
            free = (cells_at(objects, around, WALL) == NOTHING) & ~cells_at(taken, around, True)
            new = around[self.draw(key, number, free)]
            code = objects[old[0], old[1]]
            objects = objects.at[old[0], old[1]].set(jnp.uint8(NOTHING))
            return objects.at[new[0], new[1]].set(code), new

        objects, moved = jax.lax.scan(move, world.cells.object, (keys, numbers, places))
        cells = dataclasses.replace(world.cells, object=objects)
        return step.then(dataclasses.replace(world, cells=cells, extra=moved))
