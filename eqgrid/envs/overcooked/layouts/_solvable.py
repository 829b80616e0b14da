"""Conditions for a kitchen in which a soup can be delivered: a sufficient and a necessary one."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from ....grid import Layout, next_to, reach
from .._contents import ALL_RECIPES, MAX_INGREDIENTS, Item, Tile


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
    # Counters that two cooks can reach let them hand on all that either of them can reach.
    counter = (layout.tiles == Tile.COUNTER)[None, None]
    for _ in range(len(touched) - 1):
        meets = (touched[:, None] & touched[None] & counter).any(axis=(-2, -1))
        touched = (meets[..., None, None] & touched[None]).any(axis=1) | touched
    return _has_all(layout, touched).any()


def can_deliver_alone(layout: Layout) -> Bool[Array, ""]:
    """Whether at least one cook could deliver a soup if there were no other cooks."""
    floor = layout.tiles == Tile.FLOOR
    walks = jax.vmap(lambda start: reach(floor, start))(layout.start.bodies.position)
    return _has_all(layout, jax.vmap(next_to)(walks)).any()


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


def find_obstacle(layout: Layout, dynamics: str) -> str | None:
    r"""The reason why no soup can ever be delivered in a kitchen, if there is one.

    Cooks walk on connected floor, and hand items over on counters and at pots that both can reach.
    A group of cooks that can hand items over must together reach a serving hatch, a pot, dishes and
    every ingredient of some recipe that pays. The check is only about reachability, not about time
    or about cooks that block each other.

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
    things = np.minimum(np.asarray(layout.start.cells.object), Item.SOUP)
    held = np.minimum(np.asarray(layout.start.bodies.held), Item.SOUP)
    if Item.SOUP in things or Item.SOUP in held:
        return None  # it may be ready, and then only needs to be delivered
    pays = np.asarray(layout.params.ordered) & (np.asarray(layout.params.value) > 0)
    recipes = [
        recipe
        for recipe in ALL_RECIPES
        if pays[recipe.count("onion"), recipe.count("tomato")]
        and (dynamics != "classic" or len(recipe) == MAX_INGREDIENTS)
    ]
    if not recipes:
        return "No soup can be delivered: there is no order that pays and can be cooked."
    lacks = [
        _lacking(tiles[reached], {*things[reached].tolist(), *held[cooks].tolist()}, recipes)
        for cooks, reached in _teams(layout)
    ]
    fewest = min(lacks, key=len)
    if not fewest:
        return None
    return f"No soup can be delivered: the cooks cannot reach {' and '.join(fewest)}."


def _teams(layout: Layout) -> Iterator[tuple[list[int], Bool[np.ndarray, "height width"]]]:
    """The groups of cooks that can hand items over, and the cells that each group can reach."""
    tiles = np.asarray(layout.tiles)
    positions = np.asarray(layout.start.bodies.position)
    reached = [_reach(tiles == Tile.FLOOR, position) for position in positions]
    # Cooks share floor, a counter, or a pot that one of them fills and another one empties.
    places = np.isin(tiles, (Tile.FLOOR, Tile.COUNTER, Tile.POT))
    left = set(range(len(reached)))
    while left:
        team, new = [], {left.pop()}
        while new:
            cook = new.pop()
            team.append(cook)
            met = {other for other in left if np.any(reached[cook] & reached[other] & places)}
            new |= met
            left -= met
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


def _lacking(
    tiles: UInt8[np.ndarray, " cells"], items: set[int], recipes: list[tuple[str, ...]]
) -> list[str]:
    """The names of the things that a group needs but does not reach."""
    there = set(tiles.tolist())
    lacking = []
    if Tile.SERVING not in there:
        lacking.append("a serving hatch")
    if Tile.POT not in there:
        lacking.append("a pot")
    if Tile.DISH_DISPENSER not in there and Item.DISH not in items:
        lacking.append("dishes")
    sources = {
        "onion": Tile.ONION_DISPENSER in there or Item.ONION in items,
        "tomato": Tile.TOMATO_DISPENSER in there or Item.TOMATO in items,
    }
    if not any(all(sources[name] for name in recipe) for recipe in recipes):
        plural = {"onion": "onions", "tomato": "tomatoes"}
        lacking += sorted({plural[name] for name in recipes[0] if not sources[name]})
    return lacking
