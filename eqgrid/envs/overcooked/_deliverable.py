"""A proof, in arrays, that the cooks of a kitchen can deliver a soup."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ...grid import Layout, next_to, reach
from ._contents import MAX_INGREDIENTS, Tile
from ._recipes import ALL_RECIPES


def can_deliver(layout: Layout) -> Bool[Array, ""]:
    """Whether a plan is found in which the cooks deliver a soup of three ingredients that pays.

    In such a plan one cook walks at a time while all others wait where they started, and it then
    goes back: so nobody is ever in the way. Things are handed over on counters that two cooks can
    touch. Cooks who can hand things on must together touch a serving hatch, a pot, dishes and
    every ingredient of a recipe. Where no such plan is found, there may still be another one; see
    `find_obstacle` for kitchens in which there is none.

    **Arguments:**

    - `layout`: the kitchen, with nothing on its counters.
    """
    position = layout.start.bodies.position
    floor = layout.tiles == Tile.FLOOR
    waiting = jnp.zeros_like(floor).at[position[:, 0], position[:, 1]].set(True)
    walks = jax.vmap(lambda start: reach(floor & ~waiting, start))(position)
    touched = jax.vmap(next_to)(walks)
    return _has_all(layout, _hand_on(touched, layout.tiles == Tile.COUNTER)).any()


def can_deliver_alone(layout: Layout) -> Bool[Array, ""]:
    """Whether some cook could deliver a soup if there were no other cook."""
    floor = layout.tiles == Tile.FLOOR
    walks = jax.vmap(lambda start: reach(floor, start))(layout.start.bodies.position)
    return _has_all(layout, jax.vmap(next_to)(walks)).any()


def _hand_on(
    touched: Bool[Array, "cooks height width"], counter: Bool[Array, "height width"]
) -> Bool[Array, "cooks height width"]:
    """What each cook touches, or others who can hand it on to that cook, one after the other."""
    cooks = touched.shape[0]
    for _ in range(cooks - 1):
        meets = (touched[:, None] & touched[None] & counter[None, None]).any(axis=(-2, -1))
        touched = (meets[..., None, None] & touched[None]).any(axis=1) | touched
    return touched


def _has_all(layout: Layout, touched: Bool[Array, "cooks height width"]) -> Bool[Array, " cooks"]:
    """Whether everything is touched that a soup needs."""

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
