"""Whether the cooks of a kitchen can deliver any soup at all."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, UInt8

from ...grid import Layout
from ._contents import MAX_INGREDIENTS, Item, Tile
from ._recipes import ALL_RECIPES


def find_obstacle(layout: Layout, dynamics: str) -> str | None:
    """Says why nothing can ever be earned in a kitchen, if that is so.

    Cooks walk on floor that is connected, and hand things to each other over counters and pots
    that both can touch. Those who can hand things on must together reach a serving hatch, a pot,
    dishes and every ingredient of some recipe that pays. The check is about what can be reached,
    not about how long it takes or who is in the way.

    **Arguments:**

    - `layout`: the kitchen, with its own start.
    - `dynamics`: as of `Overcooked`; in `"classic"` only soups of three ingredients are cooked.

    **Returns:** one sentence, or `None` where nothing stands in the way.
    """
    tiles = np.asarray(layout.tiles)
    things = np.minimum(np.asarray(layout.start.cells.object), Item.SOUP)
    held = np.minimum(np.asarray(layout.start.bodies.held), Item.SOUP)
    if Item.SOUP in things or Item.SOUP in held:
        return None  # it may be ready, and then only needs to be carried
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
    """The cooks who can hand things to each other, and the cells that they reach together."""
    tiles = np.asarray(layout.tiles)
    positions = np.asarray(layout.start.bodies.position)
    reached = [_reach(tiles == Tile.FLOOR, position) for position in positions]
    # Cooks meet on floor, over a counter, or at a pot that one fills and another one empties.
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
    """The floor that a cook can walk to, and all that can be touched from there."""
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
    """What a team misses among the tiles and things that it reaches."""
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
