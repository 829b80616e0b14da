"""Tiles, items, the contents of soups, and recipes."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import combinations_with_replacement
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Float32, Int16, Shaped, UInt8


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
    """The index of an ingredient in the contents of a soup."""

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
    return code - _SOUP < np.uint8(RADIX**2)  # codes below `_SOUP` wrap around to large bytes


def item_of(code: Shaped[ArrayLike, "*things"]) -> UInt8[Array, "*things"]:
    """The `Item` of each code; codes that another game adds to the kitchen are unchanged."""
    code = jnp.asarray(code, jnp.uint8)
    return jnp.where(is_soup(code), _SOUP, code)


def soup_index(code: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """The contents of each soup as one number, which is its index in the flattened tables of
    `Recipes`; 0 for other codes.
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


_SIZE = MAX_INGREDIENTS + 1
_LARGEST = 1e30  # the largest accepted value, far below the largest float32 (3.4e38)

Number = float | int
Recipe = tuple[str, ...]
"""A multiset of 1 to 3 ingredients by name, such as `("onion", "onion", "tomato")`."""

ALL_RECIPES: tuple[Recipe, ...] = tuple(
    recipe
    for size in range(1, _SIZE)
    for recipe in combinations_with_replacement(("onion", "tomato"), size)
)
"""All recipes: one to three ingredients in any order, each of them an onion or a tomato."""


@final
class Recipes(eqx.Module):
    r"""The properties of soups that depend on their contents, as tables indexed
    `[onions, tomatoes]`.

    All of them are array leaves, so that values and cook times can be varied or annealed.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.envs.overcooked import Recipes, parse_kitchen

    # Soups of three onions cook for 40 steps.
    slow = Recipes(values=30, cook_times={("onion",) * 3: 40})
    env = make("overcooked", layout=parse_kitchen("XXPXX\nO1 2O\nX   X\nXDXSX", slow))
    observation, state = env.reset(jax.random.key(0))
    ```

    - `value`: the reward for a delivered soup.
    - `cook_time`: the number of steps that the soup cooks.
    - `ordered`: whether the soup pays at all.
    - `bonus`: whether the soup pays `bonus_factor` times its value.
    - `bonus_factor`: the factor for bonus orders.
    """

    value: Float32[Array, "onions tomatoes"]
    cook_time: Int16[Array, "onions tomatoes"]
    ordered: Bool[Array, "onions tomatoes"]
    bonus: Bool[Array, "onions tomatoes"]
    bonus_factor: Float32[Array, ""]

    def __init__(
        self,
        orders: Iterable[Recipe] = (),
        bonus_orders: Iterable[Recipe] = (),
        values: Number | Mapping[Recipe, Number] = 20.0,
        cook_times: int | Mapping[Recipe, int] = 20,
        bonus_factor: Number = 2.0,
    ):
        """**Arguments:**

        - `orders`: the recipes that pay; all nine recipes if empty.
        - `bonus_orders`: the recipes that pay `bonus_factor` times their value; each must be in
            `orders`.
        - `values`, `cook_times`: one number for all recipes, or a dict by recipe. Recipes that are
            not in the dict are worth 20 and cook for 20 steps.
        - `bonus_factor`: the factor for `bonus_orders`.

        **Raises:** `ValueError` when a recipe is invalid, a bonus order is not ordered, a value or
        the bonus factor is not a finite number, or a cook time is not an integer from 1 to 1000.
        """
        orders = tuple(orders) or ALL_RECIPES
        bonus_orders = tuple(bonus_orders)
        ordered, bonus = _mark(orders), _mark(bonus_orders)
        if (bonus & ~ordered).any():
            raise ValueError(
                "Every bonus order must be one of the orders, too: add it to `orders`."
            )
        times = _tabulate(cook_times, 20, "A cook time")
        if (times < 1).any() or (times > 1000).any() or (times % 1).any():
            raise ValueError("A cook time must be a whole number between 1 and 1000 steps.")
        self.value = jnp.asarray(_tabulate(values, 20.0, "The value of a soup"), jnp.float32)
        self.cook_time = jnp.asarray(times, jnp.int16)
        self.ordered, self.bonus = jnp.asarray(ordered), jnp.asarray(bonus)
        _check_finite(bonus_factor, "The bonus factor")
        self.bonus_factor = jnp.asarray(bonus_factor, jnp.float32)

    def payoff(self, soup: UInt8[Array, ""]) -> Float32[Array, ""]:
        """The team's reward for delivering a soup, which is given as its code."""
        value = look_up(self.value, soup)
        factor = jnp.where(look_up(self.bonus, soup), self.bonus_factor, 1.0)
        return jnp.where(look_up(self.ordered, soup), value * factor, 0.0)


def look_up(
    table: Shaped[Array, "onions tomatoes"], soup: UInt8[Array, "*soups"]
) -> Shaped[Array, "*soups"]:
    """The entries of a table for soups, which are given as codes."""
    return table.reshape(-1)[soup_index(soup)]


def _index(recipe: Recipe) -> tuple[int, int]:
    onions, tomatoes = recipe.count("onion"), recipe.count("tomato")
    if not 1 <= len(recipe) <= MAX_INGREDIENTS or onions + tomatoes != len(recipe):
        raise ValueError(
            f"{recipe!r} is not a recipe: name 1 to {MAX_INGREDIENTS} ingredients, each 'onion' or "
            "'tomato'."
        )
    return onions, tomatoes


def _mark(recipes: tuple[Recipe, ...]) -> Bool[np.ndarray, "onions tomatoes"]:
    marked = np.zeros((_SIZE, _SIZE), bool)
    for recipe in recipes:
        marked[_index(recipe)] = True
    return marked


def _tabulate(
    numbers: Number | Mapping[Recipe, Number], default: Number, what: str
) -> Float[np.ndarray, "onions tomatoes"]:
    """One number for all recipes, or a dict by recipe, as a table. `what` is the subject of the
    error message.
    """
    if not isinstance(numbers, Mapping):
        _check_finite(numbers, what)
        return np.full((_SIZE, _SIZE), float(numbers))
    table = np.full((_SIZE, _SIZE), float(default))
    for recipe, number in numbers.items():
        _check_finite(number, what)
        table[_index(recipe)] = number
    return table


def _check_finite(number: object, what: str) -> None:
    if (
        isinstance(number, bool)
        or not isinstance(number, float | int | np.integer)
        or not -_LARGEST <= number <= _LARGEST
    ):
        raise ValueError(f"{what} must be a finite number, but is {number!r:.60}.")
