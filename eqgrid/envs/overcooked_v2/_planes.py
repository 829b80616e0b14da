"""The observation of JaxMARL's OvercookedV2, as columns of `Planes`."""

from collections.abc import Callable
from typing import TypeAlias, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ..._partial import Partial
from ...grid import (
    NOTHING,
    AbstractObservation,
    Column,
    Direction,
    Layout,
    Planes,
    Views,
    World,
    faces,
    other_cell,
    own_cell,
    tile_cell,
)
from ._contents import FIRST_INGREDIENT, INGREDIENTS, PLATE, contents_of

_Codes: TypeAlias = Callable[[Views], np.ndarray]
"""A function that selects the object codes in some of the views, with `NOTHING` elsewhere."""

_BODY = 1 + len(Direction) + 2
_SIGNS = ("counter", "serving", "pot", "indicator", "button", "plate_pile")


def _held(column: Column, views: Views) -> np.ndarray:
    return np.where(column(views), views.held, NOTHING)


def _lying(names: tuple[str, ...], views: Views) -> np.ndarray:
    """Selects the objects on some kinds of tiles."""
    return np.where(np.any([views.is_tile(name) for name in names], axis=0), views.lying, NOTHING)


def _is_soup(codes: np.ndarray, views: Views) -> np.ndarray:
    return codes >= contents_of(views.kinds).first_soup


def _plates(codes: _Codes, views: Views) -> np.ndarray:
    return (codes(views) == PLATE) | (_is_soup(codes(views), views) & ~views.is_tile("pot"))


def _ready(codes: _Codes, views: Views) -> np.ndarray:
    return _is_soup(codes(views), views) & (~views.is_tile("pot") | (views.timer == 0))


def _amount(codes: _Codes, ingredient: int, views: Views) -> np.ndarray:
    return contents_of(views.kinds).amount[codes(views), FIRST_INGREDIENT + ingredient]


def _never(views: Views) -> np.ndarray:
    return np.zeros_like(views.own)


def _time_left(views: Views) -> np.ndarray:
    return np.where(views.is_tile("pot"), np.maximum(views.timer, 0), 0)


def _served(views: Views) -> np.ndarray:
    return _lying(("serving",), views) != NOTHING


def _body_columns(column: Column, num_ingredients: int) -> tuple[Column, ...]:
    held = Partial(_held, column)
    return (
        column,
        *(Partial(faces, column, direction) for direction in Direction),
        Partial(_plates, held),
        Partial(_ready, held),
        *(Partial(_amount, held, i) for i in range(num_ingredients)),
    )


def recipe_columns(num_ingredients: int, served: bool = False) -> tuple[Column, ...]:
    """The columns of `recipe_planes`."""
    things = Partial(_lying, ("counter", "pot"))
    shown = Partial(_lying, ("indicator", "button"))
    return (
        *_body_columns(own_cell, num_ingredients),
        *_body_columns(other_cell, num_ingredients),
        *(Partial(tile_cell, name) for name in _SIGNS),
        *(Partial(tile_cell, f"{name}_pile") for name in list(INGREDIENTS)[:num_ingredients]),
        *(Partial(_plates, things), Partial(_ready, things)),
        *(Partial(_amount, things, i) for i in range(num_ingredients)),
        *(
            _never,
            _never,
        ),  # a plate and a ready soup in the recipe: two empty planes of the reference
        *(Partial(_amount, shown, i) for i in range(num_ingredients)),
        _time_left,
        *((_served,) if served else ()),
    )


def recipe_planes(num_ingredients: int, radius: int | None = None, served: bool = False) -> Planes:
    """The planes of JaxMARL's OvercookedV2, here `agents rows cols planes`, for `n` ingredients.

    | planes | contents |
    |---|---|
    | 1 | the position of the cook itself |
    | 4 | the same by direction: north, south, east, west |
    | 2 + n | what it holds: a plate, a ready soup, the amount of each ingredient |
    | 7 + n | the same for all other cooks |
    | 6 | counters, serving hatches, pots, indicators, buttons, piles of plates |
    | n | piles of each ingredient |
    | 2 + n | what is on counters and in pots: a plate, a ready soup, the amount of each |
    | 2 + n | the recipe, on indicators and lit buttons: two empty planes, the amount of each |
    | 1 | steps until the soup in a pot is ready |
    | 1 | with `served`: serving hatches, if the right soup has just been delivered |

    Source: `get_obs_default` of JaxMARL 0.2.0.

    **Arguments:**

    - `num_ingredients`: the number of ingredients among the kinds of the kitchen.
    - `radius`: the range of sight in cells; the whole kitchen by default.
    - `served`: whether successful deliveries are shown.
    """
    return Planes(recipe_columns(num_ingredients, served), radius)


@final
class PermutedPlanes(AbstractObservation):
    """Planes in which the ingredients are permuted, differently for each cook.

    In the planes of ingredient `i`, a cook observes ingredient `extra[i]` of its body.

    **Arguments:**

    - `planes`: the planes of `recipe_planes`.
    """

    planes: Planes

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols planes"]:
        seen = self.planes(layout, world, steps_left)
        meant = world.bodies.extra.astype(jnp.int32)
        agents, ingredients = meant.shape
        source = jnp.broadcast_to(jnp.arange(seen.shape[-1])[None], (agents, seen.shape[-1]))
        for first in _ingredient_blocks(ingredients):
            source = source.at[:, first : first + ingredients].set(first + meant)
        return jnp.take_along_axis(seen, source[:, None, None, :], axis=-1)


def _ingredient_blocks(num_ingredients: int) -> list[int]:
    """The index of the first plane of each block of planes for all ingredients."""
    n = num_ingredients
    own, other = _BODY, 2 * _BODY + n
    piles = 2 * (_BODY + n) + len(_SIGNS)
    lying = piles + n + 2
    return [own, other, piles, lying, lying + n + 2]
