"""Interactions with objects, obstacles that move, missions and their rewards.

The rules are from `MiniGridEnv.step` and `DynamicObstaclesEnv` in minigrid 3.2. At most one
interaction fires in a turn.
"""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float32, Int, Int8, Int32, PRNGKeyArray, Shaped, UInt8

from ..._functions import sample_uniform
from ...grid import (
    NOTHING,
    AbstractEnding,
    AbstractInteraction,
    AbstractPhase,
    AbstractReward,
    Forward,
    Outcome,
    Step,
    Turn,
    Use,
    cells_at,
    direction_delta,
    occupied_cells,
)
from ._kinds import (
    BALL,
    BOX,
    CLOSED,
    COLOURS,
    DOOR,
    GOAL,
    KEY,
    LAVA,
    LOCKED,
    OPEN,
    STATES,
    WALL,
    door_code,
)

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
    """Opens a locked door if the agent holds the key of its colour. The key is kept."""

    def __call__(self, turn: Turn) -> Outcome:
        colour, state = jnp.divmod(turn.cell.object.astype(jnp.int32) - DOOR, len(STATES))
        fired = turn.uses(TOGGLE) & is_door(turn.cell.object) & (state == LOCKED)
        fired &= turn.body.held.astype(jnp.int32) == KEY + colour
        return Outcome(fired, turn.cell_with(door_code(colour, OPEN)), turn.body)


@final
class Swing(AbstractInteraction):
    """Opens a closed door, or closes an open door in which no agent stands."""

    def __call__(self, turn: Turn) -> Outcome:
        colour, state = jnp.divmod(turn.cell.object.astype(jnp.int32) - DOOR, len(STATES))
        swings = (state == CLOSED) | ((state == OPEN) & ~turn.occupied)
        fired = turn.uses(TOGGLE) & is_door(turn.cell.object) & swings
        after = door_code(colour, jnp.where(state == CLOSED, OPEN, CLOSED))
        return Outcome(fired, turn.cell_with(after), turn.body)


@final
class OpenBox(AbstractInteraction):
    """Opens a box, which then disappears: boxes are empty."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(TOGGLE) & (lying >= BOX) & (lying < BOX + len(COLOURS))
        return Outcome(fired, turn.cell_with(NOTHING), turn.body)


RULES: tuple[AbstractInteraction, ...] = (PickUp(), Drop(), Unlock(), Swing(), OpenBox())
"""The interaction rules of all rooms without moving obstacles."""


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
"""The index of an obstacle's own cell among the nine cells around it."""


class AbstractObstacleDraw(eqx.Module):
    """The distribution of the moves of an obstacle."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        """The index of the cell to which an obstacle moves, among the nine cells around it.

        **Arguments:**

        - `key`: the source of randomness.
        - `number`: the index of the obstacle.
        - `free`: which of the nine cells around the obstacle, row by row, are free.
        """


@final
class UniformObstacleDraw(AbstractObstacleDraw):
    """Moves obstacles to one of the free cells around them, uniformly at random. An obstacle
    without free cells stays.

    minigrid tries at most 101 random cells among all nine, so its obstacles with a single free cell
    stay in 7 of a million steps.
    """

    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        score = jnp.where(free, sample_uniform(key, free.shape), -1.0)
        return jnp.where(free.any(), jnp.argmax(score), STAYS)


@final
class MoveObstacles(AbstractPhase):
    """Moves obstacles, one after the other, to cells around them without objects and agents.
    `World.extra` contains the positions of the obstacles.

    **Arguments:**

    - `draw`: the distribution of the moves.
    """

    draw: AbstractObstacleDraw

    def __call__(self, step: Step) -> Step:
        world = step.world
        places: Int8[Array, "obstacles 2"] = world.extra
        numbers = jnp.arange(len(places), dtype=jnp.int32)
        keys = jax.random.split(step.key, len(places))
        taken = occupied_cells(world)

        def move(
            objects: UInt8[Array, "height width"], obstacle: tuple[Array, Array, Array]
        ) -> tuple[Array, Array]:
            key, number, old = obstacle
            around = old[None] + jnp.asarray(_AROUND)
            free = (cells_at(objects, around, WALL) == NOTHING) & ~cells_at(taken, around, True)
            new = around[self.draw(key, number, free)]
            code = objects[old[0], old[1]]
            objects = objects.at[old[0], old[1]].set(jnp.uint8(NOTHING))
            return objects.at[new[0], new[1]].set(code), new

        objects, places = jax.lax.scan(move, world.cells.object, (keys, numbers, places))
        cells = dataclasses.replace(world.cells, object=objects)
        return step.then(dataclasses.replace(world, cells=cells, extra=places))


@final
class Arrive(AbstractPhase):
    """Fires for agents that stand on a goal."""

    def __call__(self, step: Step) -> Step:
        return step.then(step.world, Arrive, _stand_on(step, GOAL))


@final
class Burn(AbstractPhase):
    """Fires for agents that stand in lava."""

    def __call__(self, step: Step) -> Step:
        return step.then(step.world, Burn, _stand_on(step, LAVA))


@final
class Collide(AbstractPhase):
    """Fires for agents that go forward although an obstacle or a wall was in front of them before
    the step. It also fires if the obstacle moves away in this step.
    """

    def __call__(self, step: Step) -> Step:
        bodies, objects = step.before.bodies, step.before.cells.object
        ahead = cells_at(objects, bodies.position + direction_delta(bodies.direction), WALL)
        fired = step.chose(Forward()) & (ahead != NOTHING) & (ahead != GOAL)
        return step.then(step.world, Collide, fired)


@final
class FetchBall(AbstractPhase):
    """Fires for agents that choose to pick up, and then hold a ball."""

    def __call__(self, step: Step) -> Step:
        fired = step.chose(PICKUP) & is_ball(step.world.bodies.held)
        return step.then(step.world, FetchBall, fired)


def _stand_on(step: Step, code: int) -> Bool[Array, " agents"]:
    """Which agents stand on an object."""
    return cells_at(step.world.cells.object, step.world.bodies.position, NOTHING) == code


@final
class PromptReward(AbstractReward):
    """The reward of MiniGrid: `1 - 0.9 * steps / max_steps` for an agent that fulfils its mission,
    and -1 for an agent that collides.

    **Arguments:**

    - `success`: the type of the rule that fulfils the mission.
    - `max_steps`: the length of an episode, in steps.
    - `shared`: whether every agent gets the sum of these rewards over all agents.
    """

    success: type = eqx.field(static=True)
    max_steps: Int32[Array, ""]
    shared: bool = eqx.field(static=True)

    def __init__(self, success: type, max_steps: Int[ArrayLike, ""], *, shared: bool):
        self.success, self.shared = success, shared
        self.max_steps = jnp.asarray(max_steps, jnp.int32)

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        # The formula as one division of integers: MiniGrid computes in float64, and in float32 a
        # single division has the smallest rounding error.
        numerator = 10 * self.max_steps - 9 * step.world.time
        success = numerator.astype(jnp.float32) / (10 * self.max_steps).astype(jnp.float32)
        own = jnp.where(step.by(self.success), success, jnp.float32(0))
        own = jnp.where(step.by(Collide), jnp.float32(-1), own)
        return jnp.broadcast_to(own.sum(), own.shape) if self.shared else own


@final
class MissionOver(AbstractEnding):
    """An agent's task is over when it has fulfilled its mission, or has failed.

    **Arguments:**

    - `success`: the type of the rule that fulfils the mission.
    - `joint`: whether the task of all agents is over when one agent fulfils the mission.
    """

    success: type = eqx.field(static=True)
    joint: bool = eqx.field(static=True)

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        fulfilled = step.by(self.success)
        if self.joint:
            fulfilled = jnp.broadcast_to(fulfilled.any(), fulfilled.shape)
        return fulfilled | step.by(Burn, Collide)
