"""Whether the cooks of a kitchen can deliver any soup at all."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, UInt8
from scipy.ndimage import binary_dilation, label

from ..grid import ALL_RECIPES, MAX_INGREDIENTS, Fixture, Item, Layout

_CROSS = np.asarray([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


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
    fixtures = np.asarray(layout.fixtures)
    things = np.asarray(layout.start.cells.item)
    held = np.asarray(layout.start.bodies.held.item)
    if Item.SOUP in things or Item.SOUP in held:
        return None  # it may be ready, and then only needs to be carried
    recipes = _paying_recipes(layout, dynamics)
    if not recipes:
        return "No soup can be delivered: there is no order that pays and can be cooked."
    lacks = [
        _lacking(fixtures[reached], {*things[reached].tolist(), *held[cooks].tolist()}, recipes)
        for cooks, reached in _teams(layout)
    ]
    fewest = min(lacks, key=len)
    if not fewest:
        return None
    return f"No soup can be delivered: the cooks cannot reach {' and '.join(fewest)}."


def _paying_recipes(layout: Layout, dynamics: str) -> list[tuple[str, ...]]:
    pays = np.asarray(layout.recipes.ordered) & (np.asarray(layout.recipes.value) > 0)
    return [
        recipe
        for recipe in ALL_RECIPES
        if pays[recipe.count("onion"), recipe.count("tomato")]
        and (dynamics != "classic" or len(recipe) == MAX_INGREDIENTS)
    ]


def _teams(layout: Layout) -> Iterator[tuple[list[int], Bool[np.ndarray, "height width"]]]:
    """The cooks who can hand things to each other, and the cells that they reach together."""
    fixtures = np.asarray(layout.fixtures)
    regions = np.empty(fixtures.shape, np.int32)
    label(fixtures == Fixture.FLOOR, output=regions)
    rows, cols = np.asarray(layout.start.bodies.position).T
    areas = {int(region): regions == region for region in regions[rows, cols]}
    touched = {
        region: np.asarray(binary_dilation(area, _CROSS), bool) for region, area in areas.items()
    }
    left = set(areas)
    while left:
        team, new = set(), {left.pop()}
        while new:
            region = new.pop()
            team.add(region)
            # One cook may fill a pot and another one empty it.
            shared = touched[region] & ((fixtures == Fixture.COUNTER) | (fixtures == Fixture.POT))
            met = {other for other in left if (shared & touched[other]).any()}
            new |= met
            left -= met
        cooks = [i for i, region in enumerate(regions[rows, cols]) if int(region) in team]
        yield cooks, np.any([touched[region] for region in team], axis=0)


def _lacking(
    fixtures: UInt8[np.ndarray, " cells"], items: set[int], recipes: list[tuple[str, ...]]
) -> list[str]:
    """What a team misses among the fixtures and things that it reaches."""
    there = set(fixtures.tolist())
    lacking = []
    if Fixture.SERVING not in there:
        lacking.append("a serving hatch")
    if Fixture.POT not in there:
        lacking.append("a pot")
    if Fixture.DISH_DISPENSER not in there and Item.DISH not in items:
        lacking.append("dishes")
    sources = {
        "onion": Fixture.ONION_DISPENSER in there or Item.ONION in items,
        "tomato": Fixture.TOMATO_DISPENSER in there or Item.TOMATO in items,
    }
    if not any(all(sources[name] for name in recipe) for recipe in recipes):
        plural = {"onion": "onions", "tomato": "tomatoes"}
        lacking += sorted({plural[name] for name in recipes[0] if not sources[name]})
    return lacking
