"""Observations of cooks: features, and planes.

The feature vector is short, so that training with memory is fast. The planes are those of JaxMARL's
OvercookedV2, with one column of `Planes` for each plane.
"""

from collections.abc import Callable
from typing import TypeAlias, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int, Int32, UInt8

from ..._functions import Partial
from ...grid import (
    IDLE,
    NOTHING,
    AbstractFeature,
    AbstractObservation,
    Around,
    Column,
    Direction,
    FacedAgent,
    FacedTile,
    Features,
    Kinds,
    Layout,
    NearestTiles,
    Others,
    OwnDirection,
    OwnHeld,
    Planes,
    Sight,
    Views,
    World,
    faces,
    other_cell,
    own_cell,
    prefixed,
    tile_cell,
)
from ._contents import FIRST_INGREDIENT, INGREDIENTS, MAX_INGREDIENTS, PLATE, Tile, contents_of

TIME_UNIT = 20
"""Steps per unit of a pot's remaining time: the default cook time."""

NEAREST_POTS = 2
"""The number of pots in the features of a cook, nearest first."""


def _ingredients(kinds: Kinds) -> list[str]:
    """The names of the ingredients of a kitchen."""
    return list(INGREDIENTS)[: kinds.num_tiles - Tile.INGREDIENTS]


def _amounts(kinds: Kinds, code: UInt8[Array, "*things"]) -> Float32[Array, "*things ingredients"]:
    """The amount of each ingredient in objects, in units of a full pot."""
    table = contents_of(kinds)
    amount = table.amount[:, FIRST_INGREDIENT : table.first_soup]
    return jnp.asarray(amount)[code.astype(jnp.int32)].astype(jnp.float32) / MAX_INGREDIENTS


def _is_soup(kinds: Kinds, code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    return code >= contents_of(kinds).first_soup


@final
class HeldSoups(AbstractFeature):
    """The amounts of ingredients in the soups that cooks hold, in units of a full pot: first the
    cook itself, then all other cooks in cyclic order.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        cooks = ("own", *(f"other_{k}" for k in range(1, num_agents)))
        soups = [f"{cook}_held_soup" for cook in cooks]
        return tuple(name for soup in soups for name in prefixed(soup, _ingredients(kinds)))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        held, kinds = sight.bodies.held, sight.layout.kinds
        amounts = jnp.where(_is_soup(kinds, held)[:, None], _amounts(kinds, held), 0.0)
        if sight.bodies.active is not None:
            amounts = jnp.where(sight.bodies.active[:, None], amounts, 0.0)
        return amounts.reshape(-1)


@final
class FacedThing(AbstractFeature):
    """The object on the faced counter or in the faced pot: whether it is a plate or a soup on a
    plate, a ready soup, or a cooking soup, and the amounts of ingredients in units of a full pot.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("faced", ("plate", "ready", "cooking", *_ingredients(kinds)))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        tile = sight.at(sight.layout.tiles, sight.faced, int(Tile.WALL))
        code = sight.at(sight.cells.object, sight.faced, NOTHING)
        timer = sight.at(sight.cells.clock, sight.faced, IDLE)
        in_pot, soup = tile == Tile.POT, _is_soup(kinds, code)
        plate = (code == PLATE) | (soup & ~in_pot)  # soups are on plates, except in pots
        flags = jnp.stack([plate, soup & (~in_pot | (timer == 0)), soup & in_pot & (timer > 0)])
        numbers = jnp.concatenate([flags.astype(jnp.float32), _amounts(kinds, code)])
        return jnp.where((tile == Tile.COUNTER) | in_pot, numbers, 0.0)


@final
class NearestOnCounters(AbstractFeature):
    """For empty counters, and for counters with a plate, with each ingredient and with a soup:
    whether there is one, and the offset to the nearest one.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        things = ("plate", *_ingredients(kinds), "soup")
        places = ("empty_counter", *prefixed("counter", things))
        return tuple(name for place in places for name in prefixed(place, ("exists", "row", "col")))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds, code = sight.layout.kinds, sight.cells.object
        soup = _is_soup(kinds, code)
        single = range(contents_of(kinds).first_soup)  # nothing, a plate, ingredients
        places = jnp.stack([*(code == thing for thing in single), soup])
        counter = (sight.layout.tiles == Tile.COUNTER)[None]
        return sight.way_to(*sight.nearest(places & counter)).reshape(-1)


@final
class NearestPots(AbstractFeature):
    """The offsets of the nearest pots, their contents in units of a full pot, whether the soup is
    cooking or done, and the remaining time in units of `TIME_UNIT` steps.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        one = ("exists", "row", "col", *_ingredients(kinds), "cooking", "ready", "time_left")
        return tuple(x for k in range(1, NEAREST_POTS + 1) for x in prefixed(f"pot_{k}", one))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        exists, place = sight.nearest(sight.layout.tiles == Tile.POT, NEAREST_POTS)
        amounts = _amounts(sight.layout.kinds, sight.at(sight.cells.object, place, NOTHING))
        timer = sight.at(sight.cells.clock, place, IDLE)
        flags = jnp.stack([timer > 0, timer == 0], axis=-1).astype(jnp.float32)
        left = jnp.maximum(timer, 0).astype(jnp.float32)[:, None] / TIME_UNIT
        inside = jnp.concatenate([amounts, flags, left], axis=-1)
        inside = jnp.where(exists[:, None], inside, 0.0)
        return jnp.concatenate([sight.way_to(exists, place), inside], axis=-1).reshape(-1)


@final
class ShownRecipe(AbstractFeature):
    """Whether an indicator or a lit button shows the recipe, and its amounts of ingredients in
    units of a full pot.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("recipe", ("shown", *_ingredients(kinds)))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        code = _largest_code(sight, (Tile.INDICATOR, Tile.BUTTON))
        shown = (code != NOTHING).astype(jnp.float32)[None]
        return jnp.concatenate([shown, _amounts(sight.layout.kinds, code)])


@final
class Served(AbstractFeature):
    """Whether a serving hatch shows that the ordered soup has just been delivered."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("served",)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return (_largest_code(sight, (Tile.SERVING,)) != NOTHING).astype(jnp.float32)[None]


def _largest_code(sight: Sight, tiles: tuple[Tile, ...]) -> UInt8[Array, ""]:
    """The largest object code on some kinds of tiles. It is the code that they show, since all of
    them show the same object or nothing.
    """
    is_sign = jnp.stack([sight.layout.tiles == tile for tile in tiles]).any(axis=0)
    return jnp.where(is_sign, sight.cells.object, jnp.asarray(NOTHING, jnp.uint8)).max()


def recipe_features(
    num_ingredients: int, radius: int | None = None, served: bool = False
) -> Features:
    """A feature vector of about a hundred numbers for each cook, relative to the cook.

    It shows only the nearest tile and object of each kind, and the nearest two pots, whereas
    `recipe_planes` show all of them. `Features.names` lists all numbers.

    **Arguments:**

    - `num_ingredients`: the number of ingredients among the kinds of the kitchen.
    - `radius`: the range of sight in cells; the whole kitchen by default.
    - `served`: whether successful deliveries are shown.
    """
    piles = [f"{name}_pile" for name in list(INGREDIENTS)[:num_ingredients]]
    return Features(
        (
            OwnDirection(),
            OwnHeld(),
            HeldSoups(),
            Around(),
            FacedTile(),
            FacedThing(),
            FacedAgent(),
            NearestTiles(("serving", "plate_pile", "indicator", "button", *piles)),
            NearestOnCounters(),
            NearestPots(),
            ShownRecipe(),
            Others(),
            *((Served(),) if served else ()),
        ),
        radius,
    )


@final
class PermutedFeatures(AbstractObservation):
    """Features in which the ingredients are permuted, differently for each cook.

    The numbers that are named after ingredient `i` show ingredient `p[i]`, where `p` is the
    permutation in the `extra` field of the cook's body.

    **Arguments:**

    - `features`: the features of `recipe_features`.
    """

    features: Features

    def names(self, layout: Layout) -> tuple[str, ...]:
        """The name of every number, with the permuted ingredients that the cook observes."""
        return self.features.names(layout)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents features"]:
        features = self.features(layout, world, steps_left)
        ingredient, sources = _find_sources(self.names(layout), _ingredients(layout.kinds))
        shown = world.bodies.extra.astype(jnp.int32)[:, ingredient]
        source = jnp.asarray(sources)[jnp.arange(len(sources))[None], shown]
        return jnp.take_along_axis(features, source, axis=-1)


def _find_sources(
    names: tuple[str, ...], ingredients: list[str]
) -> tuple[Int[np.ndarray, " features"], Int[np.ndarray, "features ingredients"]]:
    """Finds the features that differ only in an ingredient, by their names.

    **Returns:** for each feature, the ingredient in its name, and for each ingredient, the index of
    the feature with this ingredient in its name instead. For a feature without an ingredient, the
    first number is 0, and all indices are the index of the feature itself.
    """
    ingredient_of = np.zeros(len(names), int)
    sources = np.tile(np.arange(len(names))[:, None], len(ingredients))
    for feature, words in enumerate(name.split("_") for name in names):
        own = next((i for i, x in enumerate(ingredients) if x in words), None)
        if own is not None:
            ingredient_of[feature] = own
            for i, other in enumerate(ingredients):
                replaced = [other if word == ingredients[own] else word for word in words]
                sources[feature, i] = names.index("_".join(replaced))
    return ingredient_of, sources


# The columns of the planes: functions that compute the number of each cell in a plane.

_Codes: TypeAlias = Callable[[Views], np.ndarray]
"""A function that returns the object codes of some cells, and `NOTHING` for all other cells."""

_NUM_BODY_PLANES = 1 + len(Direction) + 2  # of a cook, before the amounts of ingredients
_TILES = ("counter", "serving", "pot", "indicator", "button", "plate_pile")


def _held(column: Column, views: Views) -> np.ndarray:
    """The objects in the hands of the cooks in a column."""
    return np.where(column(views), views.held, NOTHING)


def _lying(names: tuple[str, ...], views: Views) -> np.ndarray:
    """The objects on some kinds of tiles."""
    return np.where(np.any([views.is_tile(name) for name in names], axis=0), views.lying, NOTHING)


def _are_soups(codes: np.ndarray, views: Views) -> np.ndarray:
    return codes >= contents_of(views.kinds).first_soup


def _plates(codes: _Codes, views: Views) -> np.ndarray:
    return (codes(views) == PLATE) | (_are_soups(codes(views), views) & ~views.is_tile("pot"))


def _ready(codes: _Codes, views: Views) -> np.ndarray:
    return _are_soups(codes(views), views) & (~views.is_tile("pot") | (views.timer == 0))


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
    lying = Partial(_lying, ("counter", "pot"))
    recipe = Partial(_lying, ("indicator", "button"))
    return (
        *_body_columns(own_cell, num_ingredients),
        *_body_columns(other_cell, num_ingredients),
        *(Partial(tile_cell, name) for name in _TILES),
        *(Partial(tile_cell, f"{name}_pile") for name in list(INGREDIENTS)[:num_ingredients]),
        *(Partial(_plates, lying), Partial(_ready, lying)),
        *(Partial(_amount, lying, i) for i in range(num_ingredients)),
        _never,  # JaxMARL has planes for a plate and a ready soup in the recipe, which are empty
        _never,
        *(Partial(_amount, recipe, i) for i in range(num_ingredients)),
        _time_left,
        *((_served,) if served else ()),
    )


def recipe_planes(num_ingredients: int, radius: int | None = None, served: bool = False) -> Planes:
    """The planes of JaxMARL's OvercookedV2 for `n` ingredients, in an array with the axes
    `agents rows cols planes`.

    | planes | contents |
    |---|---|
    | 1 | the position of the cook itself |
    | 4 | this position, by direction: north, south, east, west |
    | 2 + n | the held object: a plate, a ready soup, the amount of each ingredient |
    | 7 + n | these planes for all other cooks |
    | 6 | counters, serving hatches, pots, indicators, buttons, piles of plates |
    | n | piles of each ingredient |
    | 2 + n | on counters and in pots: a plate, a ready soup, the amount of each ingredient |
    | 2 + n | on indicators and lit buttons: two empty planes, the amount of each ingredient |
    | 1 | steps until the soup in a pot is ready |
    | 1 | with `served`: serving hatches, if the ordered soup has just been delivered |

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

    The planes of ingredient `i` show ingredient `p[i]`, where `p` is the permutation in the `extra`
    field of the cook's body.

    **Arguments:**

    - `planes`: the planes of `recipe_planes`.
    """

    planes: Planes

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols planes"]:
        planes = self.planes(layout, world, steps_left)
        permutation = world.bodies.extra.astype(jnp.int32)
        agents, ingredients = permutation.shape
        source = jnp.broadcast_to(jnp.arange(planes.shape[-1])[None], (agents, planes.shape[-1]))
        # The first planes of the blocks with a plane for each ingredient.
        own, others = _NUM_BODY_PLANES, 2 * _NUM_BODY_PLANES + ingredients
        piles = others + ingredients + len(_TILES)
        lying = piles + ingredients + 2
        recipe = lying + ingredients + 2
        for first in (own, others, piles, lying, recipe):
            source = source.at[:, first : first + ingredients].set(first + permutation)
        return jnp.take_along_axis(planes, source[:, None, None, :], axis=-1)
