"""Kinds of tiles, object codes, and the contents of soups in OvercookedV2."""

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
"""All ingredients in order, each with the character of its pile in the text of a layout."""

MAX_INGREDIENTS = 3
"""The largest number of ingredients in a soup, and the number in every recipe."""


class Tile(IntEnum):
    """The kinds of tiles.

    `WALL` is solid and has no function: it pads a kitchen. `PLATES` is a pile of plates.
    `INGREDIENTS` is a pile of the first ingredient; the piles of the other ingredients have the
    numbers after it.
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
    """Constant tables of the contents of objects, for kitchens with a given number of ingredients.

    A soup has one to three ingredients. A soup in a hand or on a counter is on a plate.

    - `recipes`: the ingredients of each soup, as sorted indices into `INGREDIENTS`, in the order of
        the codes of soups.
    - `amount`: `amount[object, ingredient]` is the amount of an ingredient in an object, both given
        by their codes; an ingredient contains one of itself.
    - `first_soup`: the code of the first soup. All codes from `first_soup` on are soups.
    - `size`: the number of ingredients in a soup; 0 for other objects.
    - `mixed`: `mixed[soup, object]` is the code of the soup in a pot after adding an object;
        `NOTHING` if it cannot be added.
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
        for added in recipe:
            rest = list(recipe)
            rest.remove(added)
            before = first + recipes.index(tuple(rest)) if rest else NOTHING
            mixed[before, FIRST_INGREDIENT + added] = code
    return Contents(recipes, amount, first, size, mixed)


def contents_of(kinds: Kinds) -> Contents:
    """The tables for kitchens with the given kinds of tiles and objects."""
    return contents(kinds.num_tiles - Tile.INGREDIENTS)
