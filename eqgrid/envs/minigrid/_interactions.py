"""What an agent does to the cell that it faces, as in `MiniGridEnv.step` of minigrid 3.2.

At most one of these rules fires in a turn.
"""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Shaped

from ...grid import NOTHING, AbstractInteraction, Outcome, Turn, Use
from ._kinds import BALL, BOX, CLOSED, COLOURS, DOOR, KEY, LOCKED, OPEN, STATES, door_code

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
