"""What one rescuer does to the cell in front of it. The rules are eqgrid's own.

At most one of them fires on any cell, hand and verb.
"""

from typing import final

import jax.numpy as jnp

from ...grid import AbstractInteraction, Outcome, Turn, Use
from ._contents import DOORS, KEY_OF_DOOR, Role, Thing, Tile, is_key

PICKUP = Use("pickup")
"""Picks up what can be carried, puts down what is carried, and hands a victim over at an exit."""

TOGGLE = Use("toggle")
"""Clears rubble, opens a door, heals."""


@final
class PickUp(AbstractInteraction):
    """Takes a key or a green victim into an empty hand."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(PICKUP) & (turn.body.held == Thing.NOTHING)
        fired &= is_key(lying) | (lying == Thing.GREEN_VICTIM)
        return Outcome(fired, turn.cell_with(Thing.NOTHING), turn.body_with(lying))


@final
class PutDown(AbstractInteraction):
    """Puts what is carried on floor where nothing lies and nobody stands. A door is no such place,
    open or not."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.body.held != Thing.NOTHING)
        fired &= (turn.tile == Tile.FLOOR) & (turn.cell.object == Thing.NOTHING) & ~turn.occupied
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(Thing.NOTHING))


@final
class CarryOut(AbstractInteraction):
    """Brings a carried victim out of an exit: it is rescued."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.tile == Tile.EXIT)
        fired &= turn.body.held == Thing.GREEN_VICTIM
        return Outcome(fired, turn.cell, turn.body_with(Thing.NOTHING))


@final
class Clear(AbstractInteraction):
    """An engineer makes high rubble low, and takes low rubble away."""

    def __call__(self, turn: Turn) -> Outcome:
        high = turn.cell.object == Thing.HIGH_RUBBLE
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.ENGINEER)
        fired &= high | (turn.cell.object == Thing.RUBBLE)
        left = jnp.where(high, jnp.uint8(Thing.RUBBLE), jnp.uint8(Thing.NOTHING))
        return Outcome(fired, turn.cell_with(left), turn.body)


@final
class Open(AbstractInteraction):
    """Opens a door for good with the key of its colour, which stays in the hand."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(TOGGLE) & (lying >= DOORS[0]) & (lying <= DOORS[-1])
        fired &= turn.body.held == lying + jnp.uint8(KEY_OF_DOOR)
        return Outcome(fired, turn.cell_with(Thing.OPEN_DOOR), turn.body)


@final
class Heal(AbstractInteraction):
    """A medic heals a yellow victim: it is a green one from then on."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.MEDIC)
        fired &= turn.cell.object == Thing.YELLOW_VICTIM
        return Outcome(fired, turn.cell_with(Thing.GREEN_VICTIM), turn.body)
