"""The numbers of the kitchen: tiles, items, and what is in a soup."""

from enum import IntEnum

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Shaped, UInt8


class Tile(IntEnum):
    """What is built into a cell. `WALL` is solid and does nothing: it pads a kitchen."""

    FLOOR = 0
    COUNTER = 1
    POT = 2
    ONION_DISPENSER = 3
    TOMATO_DISPENSER = 4
    DISH_DISPENSER = 5
    SERVING = 6
    WALL = 7


class Item(IntEnum):
    """What lies in a cell or in a hand. A pot that holds any ingredient holds a `SOUP`.

    A soup is more than its kind: it has 16 codes, by what is in it; see `encode`. The code of
    everything else is its `Item`.
    """

    NOTHING = 0
    ONION = 1
    TOMATO = 2
    DISH = 3
    SOUP = 4


class Ingredient(IntEnum):
    """The position of an ingredient in contents, which say how many of each are in a soup."""

    ONION = 0
    TOMATO = 1


MAX_INGREDIENTS = 3
"""How many ingredients a soup has at most."""

RADIX = MAX_INGREDIENTS + 1
"""The contents of a soup are the digits of a number: `RADIX * onions + tomatoes`."""

DIGIT = {Ingredient.ONION: np.uint8(RADIX), Ingredient.TOMATO: np.uint8(1)}
"""What one ingredient adds to the code of a soup."""

_SOUP = np.uint8(Item.SOUP)


def encode(
    item: Shaped[ArrayLike, "*#things"], contents: Shaped[ArrayLike, "*#things ingredients"]
) -> UInt8[Array, "*things"]:
    """The code of an item, to which a soup adds `4 * onions + tomatoes`.

    **Arguments:**

    - `item`: an `Item` for each, or one for all.
    - `contents`: how many of each `Ingredient` are in it, at most 3; only read for a `SOUP`.
    """
    item, contents = jnp.asarray(item, jnp.uint8), jnp.asarray(contents, jnp.uint8)
    soup = sum((contents[..., i] * digit for i, digit in DIGIT.items()), start=item)
    return jnp.where(item == _SOUP, soup, item)


def is_soup(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are those of soups, and not of what a game has added to the kitchen."""
    return code - _SOUP < np.uint8(RADIX**2)  # below the first soup, a byte starts over at 255


def item_of(code: Shaped[ArrayLike, "*things"]) -> UInt8[Array, "*things"]:
    """The `Item` of a code; a code that a game has added to the kitchen stays as it is."""
    code = jnp.asarray(code, jnp.uint8)
    return jnp.where(is_soup(code), _SOUP, code)


def soup_index(code: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """The contents of a soup as one number, 0 for everything else. It is the flat index of a soup
    in the tables of `Recipes`.
    """
    return jnp.where(is_soup(code), code - _SOUP, np.uint8(0))


def soup_size(code: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """How many ingredients are in a soup; 0 for everything else."""
    index = soup_index(code)
    return index // np.uint8(RADIX) + index % np.uint8(RADIX)


def soup_contents(code: Shaped[ArrayLike, "*things"]) -> UInt8[Array, "*things ingredients"]:
    """How many of each `Ingredient` a soup is made of, else zeros."""
    index = soup_index(jnp.asarray(code, jnp.uint8))
    return jnp.stack([index // np.uint8(RADIX), index % np.uint8(RADIX)], axis=-1)


def contents_of(code: int) -> tuple[int, int]:
    """The onions and tomatoes in a soup, without jax: for tables and pictures."""
    return divmod(max(code, Item.SOUP) - Item.SOUP, RADIX)
