"""The events of Overcooked, and the reward for delivered soups."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from ...grid import IDLE, AbstractEvents, AbstractReward, Step, World
from ._contents import Item, Tile, item_of, soup_size
from ._interactions import AddIngredient, Deliver, PickUp, Plate, PutDown, StartCooking, Take

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
"""The events that are counted for every cook. A pick-up is from a dispenser or a counter; that
of a soup may also be from a pot, and is then also a plating. A drop is onto a counter. A
cooking start is by hand (`interactive` dynamics).
"""

_ITEMS = {"onion": Item.ONION, "tomato": Item.TOMATO, "dish": Item.DISH, "soup": Item.SOUP}


@final
class KitchenEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        gave, got = item_of(step.before.bodies.held), item_of(step.world.bodies.held)
        picked, dropped = step.by(PickUp, Take, Plate), step.by(PutDown)
        potted = step.by(AddIngredient)
        happened = {
            **{f"{name}_pickup": picked & (got == item) for name, item in _ITEMS.items()},
            **{f"{name}_drop": dropped & (gave == item) for name, item in _ITEMS.items()},
            "onion_potting": potted & (gave == Item.ONION),
            "tomato_potting": potted & (gave == Item.TOMATO),
            "useful_dish_pickup": step.by(Take) & (got == Item.DISH) & dish_is_useful(step),
            "cooking_start": step.by(StartCooking),
            "soup_plating": step.by(Plate),
            "soup_delivery": step.by(Deliver),
        }
        return tuple(happened[name] for name in self.names)


def dish_is_useful(step: Step) -> Bool[Array, " agents"]:
    """Whether it would be useful for each cook to pick up a dish on its turn; false unless there
    are exactly two cooks.

    It is if no dish lies on a counter, and fewer dishes are held than there are pots that are
    ready, cooking or partly filled. Hands and counters are those at the cook's turn, pots those
    before the step. Source: `is_dish_pickup_useful` of Overcooked-AI.
    """
    if len(step.turns) != 2:
        return jnp.zeros(len(step.turns), bool)
    cells = step.before.cells
    amount = soup_size(cells.object)
    needs_dish = (cells.clock != IDLE) | (amount == 1) | (amount == 2)
    pots = ((step.layout.tiles == Tile.POT) & needs_dish).sum(dtype=jnp.int32)
    return jnp.stack([_fewer_dishes_than(pots, world) for world in step.turns])


def _fewer_dishes_than(number: Int32[Array, ""], world: World) -> Bool[Array, ""]:
    on_counters = (world.cells.object == Item.DISH).any()
    in_hands = (world.bodies.held == Item.DISH).sum(dtype=jnp.int32)
    return ~on_counters & (in_hands < number)


@final
class SharedDeliveryReward(AbstractReward):
    """The value of every soup that any cook delivers, paid to every cook."""

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        soups = step.before.bodies.held
        paid = [
            jnp.where(delivered, step.layout.params.payoff(soup), 0.0)
            for delivered, soup in zip(step.by(Deliver), soups, strict=True)
        ]
        return jnp.broadcast_to(sum(paid), soups.shape)
