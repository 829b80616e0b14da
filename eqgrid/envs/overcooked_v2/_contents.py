"""The numbers of OvercookedV2: kinds of tiles, object codes, and the contents of soups."""

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
"""All ingredients in order, with the character of a pile of each in the text of a layout."""

MAX_INGREDIENTS = 3
"""The largest number of ingredients in a soup, and the number in every recipe."""


class Tile(IntEnum):
    """The kinds of tiles. `WALL` is solid and has no function: it pads a kitchen. Piles come
    last: one of plates, and then, from `INGREDIENTS` on, one of each ingredient.
    """

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
"""The object code of a plate."""

FIRST_INGREDIENT = 2
"""The object code of the first ingredient; the codes are in the order of the piles."""


class Contents(NamedTuple):
    """Constant tables of the contents of objects, for kitchens with some number of ingredients.

    A soup in a pot has one to three ingredients. A soup in a hand or on a counter is on a plate.

    - `recipes`: the ingredients of each soup, as sorted indices into `INGREDIENTS`; the codes of
        soups are in this order.
    - `amount`: how many of an ingredient (column, by its code) are in an object (row); an
        ingredient contains one of itself.
    - `first_soup`: the code of the first soup; all codes from here on are soups.
    - `size`: the number of ingredients in a soup; 0 for other objects.
    - `mixed`: the code after adding an object (column) to the contents of a pot (row); `NOTHING` if
        that is impossible.
    """

    recipes: tuple[tuple[int, ...], ...]
    amount: UInt8[np.ndarray, "codes codes"]
    first_soup: int
    size: UInt8[np.ndarray, " codes"]
    mixed: UInt8[np.ndarray, "codes codes"]

    def soup(self, ingredients: tuple[int, ...]) -> int:
        """The code of the soup with these ingredients, given as indices into `INGREDIENTS`."""
        return self.first_soup + self.recipes.index(tuple(sorted(ingredients)))


@functools.cache
def contents(num_ingredients: int) -> Contents:
    """The tables for kitchens with the first `num_ingredients` of `INGREDIENTS`."""
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
    """The tables for kitchens with these kinds."""
    return contents(kinds.num_tiles - Tile.INGREDIENTS)
