"""The numbers of the kitchen: tiles, codes of things, and what is in a soup."""

import functools
from enum import IntEnum
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from ...grid import NOTHING, Kinds

INGREDIENTS = {
    "onion": "O",
    "tomato": "T",
    "carrot": "C",
    "mushroom": "M",
    "broccoli": "B",
    "fish": "F",
    "garlic": "G",
    "eggplant": "E",
    "kale": "K",
}
"""All ingredients, in their order, and what stands for a pile of each in the text of a layout."""

MAX_INGREDIENTS = 3
"""How many ingredients a soup has at most, and every recipe exactly."""


class Tile(IntEnum):
    """What is built into a cell. `WALL` is solid and does nothing: it pads a kitchen. Piles are
    last: one of plates, and from `INGREDIENTS` on one of each ingredient."""

    FLOOR = 0
    COUNTER = 1
    SERVING = 2
    POT = 3
    INDICATOR = 4
    BUTTON = 5
    WALL = 6
    PLATES = 7
    INGREDIENTS = 8


PLATE = 1
"""The code of a plate."""

FIRST_INGREDIENT = 2
"""The code of the first ingredient: things come in the order of their piles."""


class Contents(NamedTuple):
    """What is in each thing, for kitchens with some number of ingredients, as constant tables.

    A soup in a pot may hold one to three ingredients. In a hand or on a counter it is on a plate.

    - `recipes`: the ingredients of each soup, as sorted positions in `INGREDIENTS`; the codes of
      soups are in this order.
    - `amount`: how many of an ingredient (column, by its code) are in a thing (row); one in an
      ingredient itself.
    - `first_soup`: the code of the first soup; all codes from here on are soups.
    - `size`: how many ingredients are in a soup; 0 for all else.
    - `mixed`: what comes of adding a thing (column) to what is in a pot (row); `NOTHING` where that
      cannot be.
    """

    recipes: tuple[tuple[int, ...], ...]
    amount: UInt8[np.ndarray, "codes codes"]
    first_soup: int
    size: UInt8[np.ndarray, " codes"]
    mixed: UInt8[np.ndarray, "codes codes"]

    def soup(self, ingredients: tuple[int, ...]) -> int:
        """The code of the soup of some ingredients, given as positions in `INGREDIENTS`."""
        return self.first_soup + self.recipes.index(tuple(sorted(ingredients)))


@functools.cache
def contents(num_ingredients: int) -> Contents:
    """The tables of kitchens with the first `num_ingredients` of `INGREDIENTS`."""
    recipes = tuple(
        recipe
        for size in range(1, MAX_INGREDIENTS + 1)
        for recipe in combinations_with_replacement(range(num_ingredients), size)
    )
    first = FIRST_INGREDIENT + num_ingredients
    codes = first + len(recipes)
    size = np.zeros(codes, np.uint8)
    amount, mixed = np.zeros((2, codes, codes), np.uint8)
    np.fill_diagonal(amount[FIRST_INGREDIENT:first, FIRST_INGREDIENT:first], 1)
    for code, recipe in enumerate(recipes, start=first):
        amount[code, FIRST_INGREDIENT:first] = [recipe.count(i) for i in range(num_ingredients)]
        size[code] = len(recipe)
        for last in recipe:
            rest = list(recipe)
            rest.remove(last)
            under = first + recipes.index(tuple(rest)) if rest else NOTHING
            mixed[under, FIRST_INGREDIENT + last] = code
    return Contents(recipes, amount, first, size, mixed)


def contents_of(kinds: Kinds) -> Contents:
    """The tables of the kitchens that are made of these kinds."""
    return contents(kinds.num_tiles - Tile.INGREDIENTS)
