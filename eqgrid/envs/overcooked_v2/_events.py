"""The events of OvercookedV2."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt8

from ...grid import NOTHING, AbstractEvents, Step, World, direction_delta
from ._contents import PLATE, Contents, Tile, contents_of
from ._interactions import (
    AddIngredient,
    Deliver,
    FillPlate,
    PickUp,
    PressButton,
    PutDown,
    StartByHand,
    StartFull,
    Take,
)
from ._orders import is_right_delivery

EVENT_NAMES = (
    "ingredient_pickup",
    "plate_pickup",
    "useful_plate_pickup",
    "soup_pickup",
    "drop",
    "potting",
    "useful_potting",
    "cooking_start",
    "right_cooking_start",
    "plating",
    "right_plating",
    "right_delivery",
    "wrong_delivery",
    "button_press",
)
"""The events that are counted for every cook. A pick-up is from a pile or a counter, a drop is
onto a counter; a cooking start is by hand, or of a full pot that a random initial state had not
started. "Right" means as ordered. "Useful" is an ingredient of which the order needs more than
the pot holds, and a plate from its pile while no plate lies on a counter and fewer plates are
held than pots are filled.
"""


@final
class KitchenEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        table = contents_of(step.layout.kinds)
        gave, got = step.before.bodies.held, step.world.bodies.held
        recipe = step.before.extra.recipe
        faced = jnp.stack([_faced(w, agent) for agent, w in enumerate(step.turns)])
        picked = step.by(PickUp, Take)
        started = step.by(StartByHand, StartFull)
        potted, plated, right = step.by(AddIngredient), step.by(FillPlate), is_right_delivery(step)
        happened = {
            "ingredient_pickup": picked & (got > PLATE) & (got < table.first_soup),
            "plate_pickup": picked & (got == PLATE),
            "useful_plate_pickup": step.by(Take) & (got == PLATE) & _plate_is_useful(step),
            "soup_pickup": picked & (got >= table.first_soup),
            "drop": step.by(PutDown),
            "potting": potted,
            "useful_potting": potted & _is_wanted(table, gave, faced, recipe),
            "cooking_start": started,
            "right_cooking_start": step.by(StartByHand) & (faced == recipe),
            "plating": plated,
            "right_plating": plated & (got == recipe),
            "right_delivery": right,
            "wrong_delivery": step.by(Deliver) & ~right,
            "button_press": step.by(PressButton),
        }
        return tuple(happened[name] for name in self.names)


def _faced(world: World, agent: int) -> UInt8[Array, ""]:
    """The object in the cell that an agent faced on its turn."""
    bodies = world.bodies
    target = bodies.position[agent] + direction_delta(bodies.direction[agent])
    return world.cells.object[target[0], target[1]]


def _is_wanted(
    table: Contents,
    ingredient: UInt8[Array, " agents"],
    soup: UInt8[Array, " agents"],
    recipe: UInt8[Array, ""],
) -> Bool[Array, " agents"]:
    """Whether the recipe has more of an ingredient than the soup has."""
    amount = jnp.asarray(table.amount)
    wanted = amount[jnp.broadcast_to(recipe, soup.shape), ingredient]
    return amount[soup, ingredient] < wanted


def _plate_is_useful(step: Step) -> Bool[Array, " agents"]:
    """Whether it would be useful for each cook to pick up a plate on its turn. Hands are those
    before the step, everything else is as at the cook's turn.
    """
    held = (step.before.bodies.held == PLATE).sum(dtype=jnp.int32)
    pots = step.layout.tiles == Tile.POT
    useful = []
    for world in step.turns:
        things = world.cells.object
        filled = (pots & (things != NOTHING)).sum(dtype=jnp.int32)
        useful.append((held < filled) & ~(things == PLATE).any())
    return jnp.stack(useful)
