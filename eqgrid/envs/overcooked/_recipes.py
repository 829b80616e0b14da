"""Recipes: the values and cook times of soups by their contents."""

from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int16, Shaped, UInt8

from ._contents import MAX_INGREDIENTS, soup_index

_SIZE = MAX_INGREDIENTS + 1
_LARGEST = 1e30  # below the largest float32, even times a bonus factor

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
    """The properties of soups that depend on their contents, as tables indexed
    `[onions, tomatoes]`.

    All of them are array leaves, so that values and cook times can be varied or annealed.

    - `value`: the reward for a delivered soup.
    - `cook_time`: the number of steps that it cooks.
    - `ordered`: whether it pays at all.
    - `bonus`: whether it pays `bonus_factor` times its value.
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

        - `orders`: the recipes that pay; all nine if empty.
        - `bonus_orders`: the recipes that pay `bonus_factor` times their value; each must be in
            `orders`.
        - `values`, `cook_times`: one number for all recipes, or a dict by recipe; recipes that are
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
            f"{recipe!r} is no recipe: name 1 to {MAX_INGREDIENTS} ingredients, each 'onion' or "
            "'tomato'."
        )
    return onions, tomatoes


def _mark(recipes: tuple[Recipe, ...]) -> np.ndarray:
    marked = np.zeros((_SIZE, _SIZE), bool)
    for recipe in recipes:
        marked[_index(recipe)] = True
    return marked


def _tabulate(
    numbers: Number | Mapping[Recipe, Number], default: Number, what: str
) -> Float[np.ndarray, "onions tomatoes"]:
    if not isinstance(numbers, Mapping):
        _check_finite(numbers, what)
        return np.full((_SIZE, _SIZE), float(numbers))
    table = np.full((_SIZE, _SIZE), float(default))
    for recipe, number in numbers.items():
        _check_finite(number, what)
        table[_index(recipe)] = number
    return table


def _check_finite(number: Any, what: str) -> None:
    real = isinstance(number, float | int | np.integer) and not isinstance(number, bool)
    if not (real and -_LARGEST <= number <= _LARGEST):
        raise ValueError(f"{what} must be a finite number, but is {number!r:.60}.")
