"""Interactions of cooks, cooking, events and rewards.

The interactions are from Overcooked-AI (Carroll et al., "On the Utility of Learning about Humans
for Human-AI Coordination", NeurIPS 2019). In the turn of a cook, at most one interaction fires.
Soups in pots cook at the end of every step.
"""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from ...grid import (
    IDLE,
    AbstractEvents,
    AbstractInteraction,
    AbstractReward,
    AbstractTick,
    Cell,
    Outcome,
    Spot,
    Step,
    Turn,
)
from ._contents import (
    DIGIT,
    MAX_INGREDIENTS,
    Ingredient,
    Item,
    Tile,
    is_soup,
    item_of,
    look_up,
    soup_size,
)


def _emptied(turn: Turn) -> Cell:
    """The faced cell without an object and without a running timer."""
    return turn.cell_with(Item.NOTHING, timer=jnp.asarray(IDLE, jnp.int16))


@final
class PutDown(AbstractInteraction):
    """A cook puts the held item on an empty counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object == Item.NOTHING)
        fired &= turn.body.held != Item.NOTHING
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(Item.NOTHING))


@final
class PickUp(AbstractInteraction):
    """A cook with empty hands picks up the item on a counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object != Item.NOTHING)
        fired &= turn.body.held == Item.NOTHING
        return Outcome(fired, _emptied(turn), turn.body_with(turn.cell.object))


@final
class Take(AbstractInteraction):
    """A cook with empty hands takes a new item from a dispenser. Items cannot be put back.

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
    """A cook puts the held ingredient into a pot that has not been started and has fewer than three
    ingredients.

    **Arguments:**

    - `item`, `ingredient`: the held item, and the ingredient that it adds to the soup.
    """

    item: Item = eqx.field(static=True)
    ingredient: Ingredient = eqx.field(static=True)

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == self.item) & (turn.cell.clock == IDLE)
        fired &= soup_size(turn.cell.object) < MAX_INGREDIENTS
        soup = jnp.maximum(turn.cell.object, jnp.uint8(Item.SOUP)) + DIGIT[self.ingredient]
        return Outcome(fired, turn.cell_with(soup), turn.body_with(Item.NOTHING))


@final
class StartCooking(AbstractInteraction):
    """A cook with empty hands starts a pot that has at least one ingredient."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == Item.NOTHING)
        fired &= is_soup(turn.cell.object) & (turn.cell.clock == IDLE)
        cook_time = look_up(turn.params.cook_time, turn.cell.object)
        return Outcome(fired, turn.cell_with(turn.cell.object, timer=cook_time), turn.body)


@final
class Plate(AbstractInteraction):
    """A cook with a dish takes a ready soup out of a pot."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == Item.DISH)
        fired &= is_soup(turn.cell.object) & (turn.cell.clock == 0)
        return Outcome(fired, _emptied(turn), turn.body_with(turn.cell.object))


@final
class Deliver(AbstractInteraction):
    """A cook delivers the held soup at a serving hatch."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.SERVING) & is_soup(turn.body.held)
        return Outcome(fired, turn.cell, turn.body_with(Item.NOTHING))


@final
class StartWhenFull(AbstractTick):
    """Starts pots with three ingredients, in the `classic` dynamics."""

    def __call__(self, spot: Spot) -> Cell:
        cell, recipes = spot.cell, spot.params
        full = soup_size(cell.object) == MAX_INGREDIENTS
        starts = (spot.tile == Tile.POT) & full & (cell.clock == IDLE)
        timer = jnp.where(starts, look_up(recipes.cook_time, cell.object), cell.clock)
        return dataclasses.replace(cell, timer=timer)


@final
class Cook(AbstractTick):
    """Reduces the remaining time of soups that are cooking by one step."""

    def __call__(self, spot: Spot) -> Cell:
        cell = spot.cell
        cooking = cell.clock > 0
        return dataclasses.replace(cell, timer=cell.clock - cooking.astype(jnp.int16))


EVENT_NAMES = (
    "onion_pickup",
    "tomato_pickup",
    "dish_pickup",
    "soup_pickup",
    "useful_dish_pickup",
    "onion_drop",
    "tomato_drop",
    "dish_drop",
    "soup_drop",
    "onion_potting",
    "tomato_potting",
    "cooking_start",
    "soup_plating",
    "soup_delivery",
)
"""The events that are counted for every cook.

Pick-ups are from dispensers and counters; plating a soup also counts as a soup pick-up. Drops are
onto counters. A cooking start is counted only if a cook starts the pot by hand (`interactive`
dynamics).
"""

_ITEMS = {"onion": Item.ONION, "tomato": Item.TOMATO, "dish": Item.DISH, "soup": Item.SOUP}


@final
class KitchenEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        before, after = item_of(step.before.bodies.held), item_of(step.world.bodies.held)
        picked, dropped = step.by(PickUp, Take, Plate), step.by(PutDown)
        potted = step.by(AddIngredient)
        happened = {
            **{f"{name}_pickup": picked & (after == item) for name, item in _ITEMS.items()},
            **{f"{name}_drop": dropped & (before == item) for name, item in _ITEMS.items()},
            "onion_potting": potted & (before == Item.ONION),
            "tomato_potting": potted & (before == Item.TOMATO),
            "useful_dish_pickup": step.by(Take) & (after == Item.DISH) & dish_is_useful(step),
            "cooking_start": step.by(StartCooking),
            "soup_plating": step.by(Plate),
            "soup_delivery": step.by(Deliver),
        }
        return tuple(happened[name] for name in self.names)


def dish_is_useful(step: Step) -> Bool[Array, " agents"]:
    """Whether it would be useful for each cook to pick up a dish on its turn; false unless there
    are exactly two cooks.

    A dish is useful if no dish lies on a counter, and the cooks hold fewer dishes than there are
    pots that are ready, cooking or partly filled. The function counts dishes at the cook's turn,
    and pots before the step. Source: `is_dish_pickup_useful` of Overcooked-AI.
    """
    if len(step.turns) != 2:
        return jnp.zeros(len(step.turns), bool)
    cells = step.before.cells
    amount = soup_size(cells.object)
    needs_dish = (cells.clock != IDLE) | (amount == 1) | (amount == 2)
    num_pots = ((step.layout.tiles == Tile.POT) & needs_dish).sum(dtype=jnp.int32)
    useful = []
    for world in step.turns:
        on_counters = (world.cells.object == Item.DISH).any()
        num_held = (world.bodies.held == Item.DISH).sum(dtype=jnp.int32)
        useful.append(~on_counters & (num_held < num_pots))
    return jnp.stack(useful)


@final
class SharedDeliveryReward(AbstractReward):
    """Rewards every cook with the total value of the soups that all cooks deliver in the step."""

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        soups = step.before.bodies.held
        values = [
            jnp.where(delivered, step.layout.params.payoff(soup), 0.0)
            for delivered, soup in zip(step.by(Deliver), soups, strict=True)
        ]
        return jnp.broadcast_to(sum(values), soups.shape)
