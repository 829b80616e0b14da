"""The interaction rules of search and rescue, which are eqgrid's own: what one rescuer does to the
cell that it faces.

At most one of them fires in a turn.
"""

from typing import final

import jax.numpy as jnp

from ...grid import AbstractInteraction, Outcome, Turn, Use
from ._contents import DOORS, KEY_OF_DOOR, Role, Thing, Tile, is_key

PICKUP = Use("pickup")
"""Picks up an object, puts down the held one, or brings a held victim out of an exit."""

TOGGLE = Use("toggle")
"""Clears rubble, opens a door, or heals a victim."""


@final
class PickUp(AbstractInteraction):
    """Picks up a key or a green victim, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(PICKUP) & (turn.body.held == Thing.NOTHING)
        fired &= is_key(lying) | (lying == Thing.GREEN_VICTIM)
        return Outcome(fired, turn.cell_with(Thing.NOTHING), turn.body_with(lying))


@final
class PutDown(AbstractInteraction):
    """Puts the held object on a floor cell without an object and without an agent. This is not
    possible on an open door.
    """

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.body.held != Thing.NOTHING)
        fired &= (turn.tile == Tile.FLOOR) & (turn.cell.object == Thing.NOTHING) & ~turn.occupied
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(Thing.NOTHING))


@final
class CarryOut(AbstractInteraction):
    """Brings a carried victim out of an exit, and so rescues it."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.tile == Tile.EXIT)
        fired &= turn.body.held == Thing.GREEN_VICTIM
        return Outcome(fired, turn.cell, turn.body_with(Thing.NOTHING))


@final
class Clear(AbstractInteraction):
    """Turns high rubble into low rubble, or removes low rubble, if the agent is an engineer."""

    def __call__(self, turn: Turn) -> Outcome:
        high = turn.cell.object == Thing.HIGH_RUBBLE
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.ENGINEER)
        fired &= high | (turn.cell.object == Thing.RUBBLE)
        left = jnp.where(high, jnp.uint8(Thing.RUBBLE), jnp.uint8(Thing.NOTHING))
        return Outcome(fired, turn.cell_with(left), turn.body)


@final
class Open(AbstractInteraction):
    """Opens a door permanently, with the held key of its colour. The key is not used up."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(TOGGLE) & (lying >= DOORS[0]) & (lying <= DOORS[-1])
        fired &= turn.body.held == lying + jnp.uint8(KEY_OF_DOOR)
        return Outcome(fired, turn.cell_with(Thing.OPEN_DOOR), turn.body)


@final
class Heal(AbstractInteraction):
    """Turns a yellow victim into a green one, if the agent is a medic."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.MEDIC)
        fired &= turn.cell.object == Thing.YELLOW_VICTIM
        return Outcome(fired, turn.cell_with(Thing.GREEN_VICTIM), turn.body)
