"""Orders: the recipes that may be ordered, the current one, and where it is shown."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float32, Int16, Int32, Integer, PRNGKeyArray, UInt8

from ...grid import NOTHING, AbstractPhase, AbstractStart, Layout, Step, World, check_whole
from ._contents import INGREDIENTS, MAX_INGREDIENTS, Tile, contents
from ._interactions import Deliver

Recipe: TypeAlias = tuple[str, ...]
"""Three ingredients by name, in any order, such as `("onion", "onion", "tomato")`."""


@final
class Menu(eqx.Module):
    """The recipes that may be ordered in a kitchen, and the durations, all as array leaves.

    - `recipes`: the codes of the soups that may be ordered: the first `num_recipes` entries; the
        rest is padding.
    - `num_ingredients`: the number of ingredients that random initial states sample from: the first
        ones of the kitchen.
    - `cook_time`: the number of steps that a soup cooks.
    - `button_time`: the number of steps for which a button shows the recipe, including the one in
        which it is pressed.
    """

    recipes: UInt8[Array, " recipes"]
    num_recipes: Int32[Array, ""]
    num_ingredients: Int32[Array, ""]
    cook_time: Int16[Array, ""]
    button_time: Int16[Array, ""]

    def __init__(
        self,
        recipes: Sequence[Recipe],
        num_ingredients: int,
        used_ingredients: int | None = None,
        *,
        cook_time: int = 20,
        button_time: int = 10,
    ):
        """**Arguments:**

        - `recipes`: the recipes that may be ordered.
        - `num_ingredients`: the number of ingredients among the kinds of the kitchen.
        - `used_ingredients`: how many of them random initial states sample from; all by default.
        - `cook_time`, `button_time`: the durations in steps.

        **Raises:** `ValueError` when there are no recipes, when a recipe occurs twice, does not
        have three ingredients or has one that is not in the kitchen, or when a duration is not from
        1 to 1000 steps.
        """
        table, names = contents(num_ingredients), list(INGREDIENTS)[:num_ingredients]
        check_whole(cook_time=cook_time, button_time=button_time)
        for time in (cook_time, button_time):
            if not 1 <= time <= 1000:
                raise ValueError(f"A time must be between 1 and 1000 steps, not {time}.")
        codes = []
        for recipe in recipes:
            if len(recipe) != MAX_INGREDIENTS or not set(recipe) <= set(names):
                raise ValueError(
                    f"{recipe!r} is no recipe: name {MAX_INGREDIENTS} ingredients, each of "
                    f"{', '.join(names)}."
                )
            codes.append(table.soup(tuple(names.index(name) for name in recipe)))
        if not codes or len(set(codes)) < len(codes):
            raise ValueError("A kitchen needs at least one recipe, and each only once.")
        room = int((table.size == MAX_INGREDIENTS).sum())
        filled = codes + [codes[0]] * (room - len(codes))
        self.recipes = jnp.asarray(filled, jnp.uint8)
        self.num_recipes = jnp.asarray(len(codes), jnp.int32)
        used = num_ingredients if used_ingredients is None else used_ingredients
        self.num_ingredients = jnp.asarray(used, jnp.int32)
        self.cook_time = jnp.asarray(cook_time, jnp.int16)
        self.button_time = jnp.asarray(button_time, jnp.int16)

    def draw(self, key: PRNGKeyArray) -> UInt8[Array, ""]:
        """Samples one of the recipes uniformly, as its code."""
        return self.recipes[whole_number(jax.random.uniform(key), self.num_recipes)]


@final
class Order(eqx.Module):
    """The current order; it is the `extra` of a world.

    - `recipe`: the code of the ordered soup.
    """

    recipe: UInt8[Array, ""]


def place_order(
    layout: Layout,
    world: World,
    recipe: UInt8[Array, ""],
    served: UInt8[Array, ""] | int = NOTHING,
) -> World:
    """The world with another order, and with everything that shows it updated.

    The recipe is the object on every indicator, and on every button that is lit. `served`, if it is
    not `NOTHING`, is the object on every serving hatch until the next step.
    """
    tiles, cells = layout.tiles, world.cells
    lit = (tiles == Tile.INDICATOR) | ((tiles == Tile.BUTTON) & (cells.clock > 0))
    shown = jnp.where(lit, recipe, jnp.asarray(NOTHING, jnp.uint8))
    shown = jnp.where(tiles == Tile.SERVING, jnp.asarray(served, jnp.uint8), shown)
    signs = lit | (tiles == Tile.BUTTON) | (tiles == Tile.SERVING)
    cells = dataclasses.replace(cells, object=jnp.where(signs, shown, cells.object))
    return dataclasses.replace(world, cells=cells, extra=Order(recipe))


@final
class DrawRecipe(AbstractStart):
    """Samples the recipe of each episode uniformly."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        return place_order(layout, world, layout.params.draw(key))


@final
class TakeOrder(AbstractPhase):
    """The phase that updates the order and everything that shows it, and marks deliveries.

    **Arguments:**

    - `renews`: whether a new recipe is sampled after the delivery of the right soup.
    """

    renews: bool = eqx.field(static=True, default=False)

    def __call__(self, step: Step) -> Step:
        recipe = step.before.extra.recipe
        served = is_right_delivery(step).any()
        wanted = recipe
        if self.renews:
            wanted = jnp.where(served, step.layout.params.draw(step.key), recipe)
        mark = jnp.where(served, recipe, jnp.asarray(NOTHING, jnp.uint8))
        return step.then(place_order(step.layout, step.world, wanted, mark))


def is_right_delivery(step: Step) -> Bool[Array, " agents"]:
    """Which agents have delivered the ordered soup."""
    return step.by(Deliver) & (step.before.bodies.held == step.before.extra.recipe)


def whole_number(
    drawn: Float32[Array, "*shape"], below: Integer[ArrayLike, ""]
) -> Int32[Array, "*shape"]:
    """Converts uniform random numbers in [0, 1) to integers in [0, `below`). It is much cheaper
    than `jax.random.randint`, which samples twice.
    """
    return (drawn * jnp.asarray(below, jnp.float32)).astype(jnp.int32)


def all_recipes(ingredients: Sequence[str]) -> tuple[Recipe, ...]:
    """All recipes of three of the given ingredients."""
    chosen = [list(INGREDIENTS).index(name) for name in ingredients]
    soups = [x for x in contents(len(INGREDIENTS)).recipes if len(x) == MAX_INGREDIENTS]
    names = np.asarray(list(INGREDIENTS))
    return tuple(tuple(map(str, names[list(x)])) for x in soups if set(x) <= set(chosen))
