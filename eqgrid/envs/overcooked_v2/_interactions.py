"""The interaction rules of OvercookedV2: what a cook does to the cell that it faces.

They are those of OvercookedV2 (Gessler et al., "OvercookedV2: Rethinking Overcooked for Zero-Shot
Coordination", ICLR 2025) in JaxMARL 0.2.0. At most one of them fires in a turn.
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ...grid import IDLE, NOTHING, AbstractInteraction, Cell, Outcome, Turn
from ._contents import MAX_INGREDIENTS, PLATE, Tile, contents_of


def _emptied(turn: Turn) -> Cell:
    """The faced cell without an object and without a running timer."""
    return turn.cell_with(NOTHING, timer=jnp.asarray(IDLE, jnp.int16))


def _faces_idle_pot(turn: Turn) -> Bool[Array, ""]:
    return (turn.tile == Tile.POT) & (turn.cell.clock == IDLE)


@final
class PutDown(AbstractInteraction):
    """Puts the held object on an empty counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object == NOTHING)
        fired &= turn.body.held != NOTHING
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(NOTHING))


@final
class PickUp(AbstractInteraction):
    """Picks up the object on a counter, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object != NOTHING)
        fired &= turn.body.held == NOTHING
        return Outcome(fired, turn.cell_with(NOTHING), turn.body_with(turn.cell.object))


@final
class Take(AbstractInteraction):
    """Takes a plate or an ingredient from its pile, with empty hands. It cannot be put back."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile >= Tile.PLATES) & (turn.body.held == NOTHING)
        taken = turn.tile - jnp.uint8(Tile.PLATES - PLATE)  # codes are in the order of the piles
        return Outcome(fired, turn.cell, turn.body_with(taken))


@final
class AddIngredient(AbstractInteraction):
    """Puts a held ingredient into a pot that is not cooking and holds fewer than three.

    **Arguments:**

    - `starts_full`: whether the third ingredient starts the pot.
    """

    starts_full: bool = eqx.field(static=True)

    def __call__(self, turn: Turn) -> Outcome:
        table = contents_of(turn.layout.kinds)
        mixed = jnp.asarray(table.mixed)[turn.cell.object, turn.body.held]
        fired = _faces_idle_pot(turn) & (mixed != NOTHING)
        timer = turn.cell.clock
        if self.starts_full:
            full = jnp.asarray(table.size)[mixed] == MAX_INGREDIENTS
            timer = jnp.where(full, turn.params.cook_time, timer)
        return Outcome(fired, turn.cell_with(mixed, timer=timer), turn.body_with(NOTHING))


@final
class StartFull(AbstractInteraction):
    """Starts a full pot that has not been started, whatever the cook holds. If the third
    ingredient starts pots, only random initial states have such a pot.
    """

    def __call__(self, turn: Turn) -> Outcome:
        size = jnp.asarray(contents_of(turn.layout.kinds).size)[turn.cell.object]
        fired = _faces_idle_pot(turn) & (size == MAX_INGREDIENTS)
        started = turn.cell_with(turn.cell.object, timer=turn.params.cook_time)
        return Outcome(fired, started, turn.body)


@final
class StartByHand(AbstractInteraction):
    """Starts a pot with at least one ingredient, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = _faces_idle_pot(turn) & (turn.cell.object != NOTHING)
        fired &= turn.body.held == NOTHING
        started = turn.cell_with(turn.cell.object, timer=turn.params.cook_time)
        return Outcome(fired, started, turn.body)


@final
class FillPlate(AbstractInteraction):
    """Takes a ready soup out of a pot, with a held plate."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == PLATE) & (turn.cell.clock == 0)
        return Outcome(fired, _emptied(turn), turn.body_with(turn.cell.object))


@final
class Deliver(AbstractInteraction):
    """Delivers any held soup at a serving hatch."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.SERVING) & (
            turn.body.held >= contents_of(turn.layout.kinds).first_soup
        )
        return Outcome(fired, turn.cell, turn.body_with(NOTHING))


@final
class PressButton(AbstractInteraction):
    """Makes a button show the recipe for some steps, with empty hands. Pressing it costs reward
    even while it shows the recipe.
    """

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.BUTTON) & (turn.body.held == NOTHING)
        lit = turn.cell_with(turn.cell.object, timer=turn.params.button_time)
        return Outcome(fired, lit, turn.body)
