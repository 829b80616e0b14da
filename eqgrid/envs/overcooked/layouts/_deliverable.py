"""Sufficient conditions, as array operations, for a kitchen in which a soup can be delivered."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ....grid import Layout, next_to, reach
from .._contents import MAX_INGREDIENTS, Tile
from .._recipes import ALL_RECIPES


def can_deliver(layout: Layout) -> Bool[Array, ""]:
    """Whether a simple plan exists that delivers a soup of three ingredients that pays.

    In such a plan one cook walks at a time, and then returns to its initial cell, while all others
    wait in theirs, so that cooks never block each other. Items are handed over on counters that two
    cooks can reach. A group of cooks that can hand items over must together reach a serving hatch,
    a pot, dishes and every ingredient of a recipe. If there is no such plan, there may still be
    another one; `find_obstacle` recognises kitchens without any.

    **Arguments:**

    - `layout`: the kitchen, with empty counters.
    """
    position = layout.start.bodies.position
    floor = layout.tiles == Tile.FLOOR
    waiting = jnp.zeros_like(floor).at[position[:, 0], position[:, 1]].set(True)
    walks = jax.vmap(lambda start: reach(floor & ~waiting, start))(position)
    touched = jax.vmap(next_to)(walks)
    return _has_all(layout, _hand_on(touched, layout.tiles == Tile.COUNTER)).any()


def can_deliver_alone(layout: Layout) -> Bool[Array, ""]:
    """Whether at least one cook could deliver a soup if there were no other cooks."""
    floor = layout.tiles == Tile.FLOOR
    walks = jax.vmap(lambda start: reach(floor, start))(layout.start.bodies.position)
    return _has_all(layout, jax.vmap(next_to)(walks)).any()


def _hand_on(
    touched: Bool[Array, "cooks height width"], counter: Bool[Array, "height width"]
) -> Bool[Array, "cooks height width"]:
    """The cells that each cook can reach, or from which others can hand items over to it."""
    cooks = touched.shape[0]
    for _ in range(cooks - 1):
        meets = (touched[:, None] & touched[None] & counter[None, None]).any(axis=(-2, -1))
        touched = (meets[..., None, None] & touched[None]).any(axis=1) | touched
    return touched


def _has_all(layout: Layout, touched: Bool[Array, "cooks height width"]) -> Bool[Array, " cooks"]:
    """Whether each cook can reach everything that a soup needs."""

    def has(tile: Tile) -> Bool[Array, " cooks"]:
        return (touched & (layout.tiles == tile)[None]).any(axis=(-2, -1))

    onions, tomatoes = has(Tile.ONION_DISPENSER), has(Tile.TOMATO_DISPENSER)
    pays = layout.params.ordered & (layout.params.value > 0)
    cookable = jnp.zeros_like(onions)
    for recipe in ALL_RECIPES:
        if len(recipe) == MAX_INGREDIENTS:
            both = pays[recipe.count("onion"), recipe.count("tomato")]
            both &= onions if "onion" in recipe else True
            both &= tomatoes if "tomato" in recipe else True
            cookable |= both
    return cookable & has(Tile.POT) & has(Tile.DISH_DISPENSER) & has(Tile.SERVING)
