"""What the agents are paid for: rewards read the events that happened, never the actions."""

import abc
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from ._interactions import (
    AddIngredient,
    Deliver,
    Events,
    PickUp,
    Plate,
    PutDown,
    StartCooking,
    Take,
)
from ._layout import Layout
from ._world import IDLE, Fixture, Item, World, soup_size

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
"""What is counted for every cook. A pick-up is from a dispenser or a counter (a soup's from a pot,
too, which is also a plating); a drop is onto a counter; a start is by hand (`interactive`
dynamics)."""

_ITEMS = {"onion": Item.ONION, "tomato": Item.TOMATO, "dish": Item.DISH, "soup": Item.SOUP}


def count_events(layout: Layout, events: Events) -> Int32[Array, "agents events"]:
    """How often each of `EVENT_NAMES` happened to each cook in one step: 0 or 1."""
    return jnp.stack(_what_happened(layout, events), axis=-1).astype(jnp.int32)


def _what_happened(layout: Layout, events: Events) -> list[Bool[Array, " agents"]]:
    """Which of `EVENT_NAMES` happened to each cook, event by event."""
    gave, got = events.before.bodies.held.item, events.hands.item
    picked, dropped = events.by(PickUp, Take, Plate), events.by(PutDown)
    potted = events.by(AddIngredient)
    happened = {
        **{f"{name}_pickup": picked & (got == item) for name, item in _ITEMS.items()},
        **{f"{name}_drop": dropped & (gave == item) for name, item in _ITEMS.items()},
        "onion_potting": potted & (gave == Item.ONION),
        "tomato_potting": potted & (gave == Item.TOMATO),
        "useful_dish_pickup": events.by(Take) & (got == Item.DISH) & dish_is_useful(layout, events),
        "cooking_start": events.by(StartCooking),
        "soup_plating": events.by(Plate),
        "soup_delivery": events.by(Deliver),
    }
    return [happened[name] for name in EVENT_NAMES]


def dish_is_useful(layout: Layout, events: Events) -> Bool[Array, " agents"]:
    """Whether a dish would be of use to each of two cooks on its turn (not in other teams).

    No dish lies on a counter and there are fewer dishes in hands than pots that are ready, cooking
    or partly filled. Hands and counters are as the cook finds them, pots as they were before
    anybody acted. Source: `is_dish_pickup_useful` of Overcooked-AI.
    """
    if len(events.turns) != 2:
        return jnp.zeros(len(events.turns), bool)
    cells = events.before.cells
    amount = soup_size(cells.thing)
    wants = (cells.timer != IDLE) | (amount == 1) | (amount == 2)
    num_wants = ((layout.fixtures == Fixture.POT) & wants).sum(dtype=jnp.int32)
    return jnp.stack([_fewer_dishes_than(num_wants, world) for world in events.turns])


def _fewer_dishes_than(number: Int32[Array, ""], world: World) -> Bool[Array, ""]:
    on_counters = (world.cells.item == Item.DISH).any()
    in_hands = (world.bodies.held.item == Item.DISH).sum(dtype=jnp.int32)
    return ~on_counters & (in_hands < number)


class AbstractReward(eqx.Module):
    """What each agent is paid for the events of one step."""

    @abc.abstractmethod
    def __call__(self, layout: Layout, events: Events) -> Float32[Array, " agents"]:
        """The reward of every agent."""


@final
class TeamDelivery(AbstractReward):
    """Every cook is paid for every soup that anyone delivers: what its recipe is worth."""

    def __call__(self, layout: Layout, events: Events) -> Float32[Array, " agents"]:
        soups = events.before.bodies.held.thing
        paid = [
            jnp.where(delivered, layout.recipes.payoff(soup), 0.0)
            for delivered, soup in zip(events.by(Deliver), soups, strict=True)
        ]
        return jnp.broadcast_to(sum(paid), soups.shape)


@final
class EventWeights(AbstractReward):
    """Every cook is paid for its own events, each by its weight.

    **Arguments:**

    - `weights`: what each event of `EVENT_NAMES` is worth; those that are not named are worth
        nothing.

    **Raises:** `ValueError` when there is no such event.
    """

    weights: Float32[Array, " events"]

    def __init__(self, weights: Mapping[str, float | int]):
        if unknown := set(weights) - set(EVENT_NAMES):
            raise ValueError(
                f"There is no event {min(unknown)!r}: the events are {', '.join(EVENT_NAMES)}."
            )
        self.weights = jnp.asarray([weights.get(name, 0.0) for name in EVENT_NAMES], jnp.float32)

    def __call__(self, layout: Layout, events: Events) -> Float32[Array, " agents"]:
        # Added up event by event, in one kernel: a stack begins with a copy of each.
        happened = _what_happened(layout, events)
        paid = [x.astype(jnp.float32) * w for x, w in zip(happened, self.weights, strict=True)]
        return sum(paid, start=jnp.zeros_like(paid[0]))
