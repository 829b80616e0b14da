"""A necessary condition for a kitchen in which a soup can be delivered."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, UInt8

from ....grid import Layout
from .._contents import MAX_INGREDIENTS, Item, Tile
from .._recipes import ALL_RECIPES


def find_obstacle(layout: Layout, dynamics: str) -> str | None:
    """The reason why no soup can ever be delivered in a kitchen, if there is one.

    Cooks walk on connected floor, and hand items over on counters and at pots that both can reach.
    A group of cooks that can hand items over must together reach a serving hatch, a pot, dishes and
    every ingredient of some recipe that pays. The check is only about reachability, not about time
    or about cooks that block each other.

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
    recipes = _paying_recipes(layout, dynamics)
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


def _paying_recipes(layout: Layout, dynamics: str) -> list[tuple[str, ...]]:
    pays = np.asarray(layout.params.ordered) & (np.asarray(layout.params.value) > 0)
    return [
        recipe
        for recipe in ALL_RECIPES
        if pays[recipe.count("onion"), recipe.count("tomato")]
        and (dynamics != "classic" or len(recipe) == MAX_INGREDIENTS)
    ]


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
