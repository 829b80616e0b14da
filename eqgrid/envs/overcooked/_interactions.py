"""The interaction rules of Overcooked: what a cook does to the cell that it faces.

They are those of Overcooked-AI (Carroll et al., "On the Utility of Learning about Humans for
Human-AI Coordination", NeurIPS 2019). At most one of them fires in a turn.
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp

from ...grid import IDLE, AbstractInteraction, Cell, Outcome, Turn
from ._contents import DIGIT, MAX_INGREDIENTS, Ingredient, Item, Tile, is_soup, soup_size
from ._recipes import look_up


def _emptied(turn: Turn) -> Cell:
    """The faced cell without an object and without a running timer."""
    return turn.cell_with(Item.NOTHING, timer=jnp.asarray(IDLE, jnp.int16))


@final
class PutDown(AbstractInteraction):
    """Puts the held item on an empty counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object == Item.NOTHING)
        fired &= turn.body.held != Item.NOTHING
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(Item.NOTHING))


@final
class PickUp(AbstractInteraction):
    """Picks up the item on a counter, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object != Item.NOTHING)
        fired &= turn.body.held == Item.NOTHING
        return Outcome(fired, _emptied(turn), turn.body_with(turn.cell.object))


@final
class Take(AbstractInteraction):
    """Takes a new item from a dispenser, with empty hands. Items cannot be put back.

    **Arguments:**

    - `dispenser`, `item`: the kind of tile, and the code of the item that it dispenses.
    """

    dispenser: int = eqx.field(static=True)
    item: int = eqx.field(static=True)

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == self.dispenser) & (turn.body.held == Item.NOTHING)
        return Outcome(fired, turn.cell, turn.body_with(self.item))


@final
class AddIngredient(AbstractInteraction):
    """Puts a held ingredient into a pot that is not cooking and holds fewer than three."""

    item: Item = eqx.field(static=True)
    ingredient: Ingredient = eqx.field(static=True)

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == self.item) & (turn.cell.clock == IDLE)
        fired &= soup_size(turn.cell.object) < MAX_INGREDIENTS
        soup = jnp.maximum(turn.cell.object, jnp.uint8(Item.SOUP)) + DIGIT[self.ingredient]
        return Outcome(fired, turn.cell_with(soup), turn.body_with(Item.NOTHING))


@final
class StartCooking(AbstractInteraction):
    """Starts a pot with at least one ingredient, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == Item.NOTHING)
        fired &= is_soup(turn.cell.object) & (turn.cell.clock == IDLE)
        cook_time = look_up(turn.params.cook_time, turn.cell.object)
        return Outcome(fired, turn.cell_with(turn.cell.object, timer=cook_time), turn.body)


@final
class Plate(AbstractInteraction):
    """Takes a ready soup out of a pot, with a held dish."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == Item.DISH)
        fired &= is_soup(turn.cell.object) & (turn.cell.clock == 0)
        return Outcome(fired, _emptied(turn), turn.body_with(turn.cell.object))


@final
class Deliver(AbstractInteraction):
    """Delivers a held soup at a serving hatch."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.SERVING) & is_soup(turn.body.held)
        return Outcome(fired, turn.cell, turn.body_with(Item.NOTHING))
