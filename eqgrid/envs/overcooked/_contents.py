"""The numbers of Overcooked: kinds of tiles, items, and the contents of soups."""

from enum import IntEnum

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Shaped, UInt8


class Tile(IntEnum):
    """The kinds of tiles. `WALL` is solid and has no function: it pads a kitchen."""

    FLOOR = 0
    COUNTER = 1
    POT = 2
    ONION_DISPENSER = 3
    TOMATO_DISPENSER = 4
    DISH_DISPENSER = 5
    SERVING = 6
    WALL = 7


class Item(IntEnum):
    """The kinds of items in a cell or in a hand. A pot with any ingredient holds a `SOUP`.

    Soups have 16 object codes, one for each contents; see `encode`. The code of any other item is
    the value of its `Item`.
    """

    NOTHING = 0
    ONION = 1
    TOMATO = 2
    DISH = 3
    SOUP = 4


class Ingredient(IntEnum):
    """The index of an ingredient in the contents of a soup, which count each ingredient."""

    ONION = 0
    TOMATO = 1


MAX_INGREDIENTS = 3
"""The largest number of ingredients in a soup."""

RADIX = MAX_INGREDIENTS + 1
"""The base in which the contents of a soup are encoded: `RADIX * onions + tomatoes`."""

DIGIT = {Ingredient.ONION: np.uint8(RADIX), Ingredient.TOMATO: np.uint8(1)}
"""The amount that one ingredient adds to the code of a soup."""

_SOUP = np.uint8(Item.SOUP)


def encode(
    item: Shaped[ArrayLike, "*#things"], contents: Shaped[ArrayLike, "*#things ingredients"]
) -> UInt8[Array, "*things"]:
    """The object codes of items; for a soup, `Item.SOUP + 4 * onions + tomatoes`.

    **Arguments:**

    - `item`: the `Item`s.
    - `contents`: the number of each `Ingredient`, at most 3; only used for a `SOUP`.
    """
    item, contents = jnp.asarray(item, jnp.uint8), jnp.asarray(contents, jnp.uint8)
    soup = sum((contents[..., i] * digit for i, digit in DIGIT.items()), start=item)
    return jnp.where(item == _SOUP, soup, item)


def is_soup(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are soups; codes that another game adds to the kitchen are not."""
    return code - _SOUP < np.uint8(RADIX**2)  # smaller codes wrap around to large bytes


def item_of(code: Shaped[ArrayLike, "*things"]) -> UInt8[Array, "*things"]:
    """The `Item` of each code; codes that another game adds to the kitchen are unchanged."""
    code = jnp.asarray(code, jnp.uint8)
    return jnp.where(is_soup(code), _SOUP, code)


def soup_index(code: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """The contents of each soup as one number, and 0 for other codes. It is the flat index of the
    soup in the tables of `Recipes`.
    """
    return jnp.where(is_soup(code), code - _SOUP, np.uint8(0))


def soup_size(code: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """The number of ingredients in each soup; 0 for other codes."""
    index = soup_index(code)
    return index // np.uint8(RADIX) + index % np.uint8(RADIX)


def soup_contents(code: Shaped[ArrayLike, "*things"]) -> UInt8[Array, "*things ingredients"]:
    """The number of each `Ingredient` in each soup; zeros for other codes."""
    index = soup_index(jnp.asarray(code, jnp.uint8))
    return jnp.stack([index // np.uint8(RADIX), index % np.uint8(RADIX)], axis=-1)


def contents_of(code: int) -> tuple[int, int]:
    """The onions and tomatoes in a soup as Python integers, for tables and pictures."""
    return divmod(max(code, Item.SOUP) - Item.SOUP, RADIX)
