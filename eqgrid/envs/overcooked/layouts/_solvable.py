"""Tests whether a soup can be delivered in a kitchen: a sufficient condition (`can_deliver`), and a
necessary condition (`find_obstacle`).
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from ....grid import Layout, next_to, reach
from .._contents import ALL_RECIPES, MAX_INGREDIENTS, Item, Tile


def can_deliver(layout: Layout) -> Bool[Array, ""]:
    """Whether a simple plan exists that delivers a soup of three ingredients that pays.

    In a simple plan, one cook walks at a time and then returns to its initial cell, while all other
    cooks wait in their initial cells, so that cooks never block each other. Cooks hand items over
    on counters that two cooks can reach. A group of cooks that can hand items over must together
    reach a serving hatch, a pot, dishes and every ingredient of a recipe.

    A kitchen without a simple plan may still have another plan; `find_obstacle` finds kitchens that
    have no plan at all.

    **Arguments:**

    - `layout`: the kitchen, with empty counters.
    """
    position = layout.start.bodies.position
    floor = layout.tiles == Tile.FLOOR
    waiting = jnp.zeros_like(floor).at[position[:, 0], position[:, 1]].set(True)
    walks = jax.vmap(lambda start: reach(floor & ~waiting, start))(position)
    usable = jax.vmap(next_to)(walks)
    # If two cooks can reach the same counter, each of them can use what the other cook can use. One
    # repetition is enough for each cook through which items may pass.
    counter = (layout.tiles == Tile.COUNTER)[None, None]
    for _ in range(len(usable) - 1):
        meets = (usable[:, None] & usable[None] & counter).any(axis=(-2, -1))
        usable = (meets[..., None, None] & usable[None]).any(axis=1) | usable
    return _has_all(layout, usable).any()


def can_deliver_alone(layout: Layout) -> Bool[Array, ""]:
    """Whether at least one cook could deliver a soup if there were no other cooks."""
    floor = layout.tiles == Tile.FLOOR
    walks = jax.vmap(lambda start: reach(floor, start))(layout.start.bodies.position)
    return _has_all(layout, jax.vmap(next_to)(walks)).any()


def _has_all(layout: Layout, usable: Bool[Array, "cooks height width"]) -> Bool[Array, " cooks"]:
    """Whether each cook can use everything that a soup needs.

    **Arguments:**

    - `layout`: the kitchen.
    - `usable`: the cells that each cook can use.
    """

    def has(tile: Tile) -> Bool[Array, " cooks"]:
        return (usable & (layout.tiles == tile)[None]).any(axis=(-2, -1))

    onions, tomatoes = has(Tile.ONION_DISPENSER), has(Tile.TOMATO_DISPENSER)
    pays = layout.params.ordered & (layout.params.value > 0)
    any_cookable = jnp.zeros_like(onions)
    for recipe in ALL_RECIPES:
        if len(recipe) == MAX_INGREDIENTS:
            cookable = pays[recipe.count("onion"), recipe.count("tomato")]
            cookable &= onions if "onion" in recipe else True
            cookable &= tomatoes if "tomato" in recipe else True
            any_cookable |= cookable
    return any_cookable & has(Tile.POT) & has(Tile.DISH_DISPENSER) & has(Tile.SERVING)


def find_obstacle(layout: Layout, dynamics: str) -> str | None:
    r"""The reason why no soup can ever be delivered in a kitchen, if there is such a reason.

    Cooks walk on connected floor, and hand items over on counters and at pots that both can reach.
    A group of cooks that can hand items over must together reach a serving hatch, a pot, dishes and
    every ingredient of some recipe that pays. The check only considers what cooks can reach. It
    ignores the time, and cooks that block each other.

    ```python
    from eqgrid.envs.overcooked import find_obstacle, parse_kitchen

    print(find_obstacle(parse_kitchen("XXPXX\nO1 2O\nXDXXX"), "classic"))
    # No soup can be delivered: the cooks cannot reach a serving hatch.
    ```

    **Arguments:**

    - `layout`: the kitchen, with its default initial state.
    - `dynamics`: as in `Overcooked`; with `"classic"`, only soups of three ingredients can be
        cooked.

    **Returns:** one sentence, or `None` if no obstacle is found.
    """
    tiles = np.asarray(layout.tiles)
    items = np.minimum(np.asarray(layout.start.cells.object), Item.SOUP)
    held = np.minimum(np.asarray(layout.start.bodies.held), Item.SOUP)
    if Item.SOUP in items or Item.SOUP in held:
        return None  # the soup may be ready, and then only needs to be delivered
    pays = np.asarray(layout.params.ordered) & (np.asarray(layout.params.value) > 0)
    recipes = [
        recipe
        for recipe in ALL_RECIPES
        if pays[recipe.count("onion"), recipe.count("tomato")]
        and (dynamics != "classic" or len(recipe) == MAX_INGREDIENTS)
    ]
    if not recipes:
        return "No soup can be delivered: there is no order that pays and can be cooked."
    missing = [
        _missing(tiles[reached], {*items[reached].tolist(), *held[cooks].tolist()}, recipes)
        for cooks, reached in _teams(layout)
    ]
    fewest = min(missing, key=len)
    if not fewest:
        return None
    return f"No soup can be delivered: the cooks cannot reach {' and '.join(fewest)}."


def _teams(layout: Layout) -> Iterator[tuple[list[int], Bool[np.ndarray, "height width"]]]:
    """The groups of cooks that can hand items over, and the cells that each group can reach."""
    tiles = np.asarray(layout.tiles)
    positions = np.asarray(layout.start.bodies.position)
    reached = [_reach(tiles == Tile.FLOOR, position) for position in positions]
    # Two cooks can hand items over on shared floor, on a counter, or at a pot that one cook fills
    # and the other cook empties.
    places = np.isin(tiles, (Tile.FLOOR, Tile.COUNTER, Tile.POT))
    remaining = set(range(len(reached)))
    while remaining:
        team, new = [], {remaining.pop()}
        while new:
            cook = new.pop()
            team.append(cook)
            met = {x for x in remaining if np.any(reached[cook] & reached[x] & places)}
            new |= met
            remaining -= met
        yield team, np.any([reached[cook] for cook in team], axis=0)


def _reach(
    floor: Bool[np.ndarray, "height width"], position: Int[np.ndarray, "2"]
) -> Bool[np.ndarray, "height width"]:
    """The floor that is connected to a position, and all cells next to it."""
    reached = np.zeros_like(floor)
    reached[tuple(position)] = True
    while True:
        wide = np.pad(reached & floor, 1)
        further = wide[1:-1, 1:-1] | wide[:-2, 1:-1] | wide[2:, 1:-1]
        further |= wide[1:-1, :-2] | wide[1:-1, 2:]
        if (further == reached).all():
            return reached
        reached = further


def _missing(
    tiles: UInt8[np.ndarray, " cells"], items: set[int], recipes: list[tuple[str, ...]]
) -> list[str]:
    """The names of the stations and items that a group of cooks needs but does not reach.

    **Arguments:**

    - `tiles`, `items`: the kinds of tiles and the items that the group reaches.
    - `recipes`: the recipes, of which the group needs one.
    """
    reached = set(tiles.tolist())
    missing = []
    if Tile.SERVING not in reached:
        missing.append("a serving hatch")
    if Tile.POT not in reached:
        missing.append("a pot")
    if Tile.DISH_DISPENSER not in reached and Item.DISH not in items:
        missing.append("dishes")
    has_source = {
        "onion": Tile.ONION_DISPENSER in reached or Item.ONION in items,
        "tomato": Tile.TOMATO_DISPENSER in reached or Item.TOMATO in items,
    }
    if not any(all(has_source[name] for name in recipe) for recipe in recipes):
        plural = {"onion": "onions", "tomato": "tomatoes"}
        missing += sorted({plural[name] for name in recipes[0] if not has_source[name]})
    return missing
