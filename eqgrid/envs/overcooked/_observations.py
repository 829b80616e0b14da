"""Observations of cooks: features, and lossless planes.

`docs/features.md` lists all features. The 26 planes are the lossless state encoding of
Overcooked-AI, with one column of `Planes` for each plane.
"""

from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt8

from ..._functions import Partial
from ...grid import (
    IDLE,
    AbstractFeature,
    Around,
    Column,
    Direction,
    FacedAgent,
    FacedObject,
    FacedTile,
    Features,
    Kinds,
    NearestTiles,
    Others,
    OwnDirection,
    OwnHeld,
    OwnPosition,
    Planes,
    Sight,
    Views,
    faces,
    other_cell,
    own_cell,
    prefixed,
    tile_cell,
)
from ._contents import MAX_INGREDIENTS, RADIX, Item, Tile, item_of, soup_contents

TIME_UNIT = 20
"""Steps per unit of a pot's remaining time: the default cook time."""

EPISODE_UNIT = 400
"""Steps per unit of the time that is left: the default length of an episode."""

LAST_STEPS = 40
"""The length of the final phase of an episode, in steps. In this phase, the last plane is 1, and
`TimeLeft` has a feature with a finer scale.
"""

TIME_DIGITS = 9
"""The number of binary digits of the remaining time in `TimeLeft`."""

NEAREST_POTS = 2
"""The number of pots in the features of a cook, nearest first."""

_SOUP_NAMES = ("soup_onions", "soup_tomatoes")
_ITEMS = (Item.ONION, Item.TOMATO, Item.DISH, Item.SOUP)
_POT_NAMES = (
    *("exists", "row", "col", "onions", "tomatoes"),
    *("idle", "cooking", "ready", "full", "time_left"),
)


@final
class HeldSoup(AbstractFeature):
    """The contents of the soup that the cook holds, in units of a full pot."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_held", _SOUP_NAMES)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return _in_pot_units(soup_contents(sight.bodies.held[0]))


@final
class FacedSoup(AbstractFeature):
    """The contents of the soup in the faced cell, and whether it is cooking or ready."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("faced", (*_SOUP_NAMES, "cooking", "ready"))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        code = sight.at(sight.cells.object, sight.faced, Item.NOTHING)
        timer = sight.at(sight.cells.clock, sight.faced, IDLE)
        state = jnp.stack([timer > 0, timer == 0]).astype(jnp.float32)
        return jnp.concatenate([_in_pot_units(soup_contents(code)), state])


@final
class NearestOnCounters(AbstractFeature):
    """For empty counters and for each item on counters: whether there is one, and the offset to the
    nearest one.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        places = ("empty_counter", *(f"counter_{item.name.lower()}" for item in _ITEMS))
        return tuple(name for place in places for name in prefixed(place, ("exists", "row", "col")))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        counter, item = sight.layout.tiles == Tile.COUNTER, item_of(sight.cells.object)
        places = jnp.stack([counter & (item == wanted) for wanted in (Item.NOTHING, *_ITEMS)])
        return sight.way_to(*sight.nearest(places)).reshape(-1)


@final
class NumberOnCounters(AbstractFeature):
    """The number of counters with each item; `NearestOnCounters` only shows the nearest counter."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("counters_with", [item.name.lower() for item in _ITEMS])

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        counter, item = sight.layout.tiles == Tile.COUNTER, item_of(sight.cells.object)
        found = jnp.stack([counter & (item == wanted) for wanted in _ITEMS])
        return found.sum(axis=(1, 2)).astype(jnp.float32)


@final
class NearestPots(AbstractFeature):
    """The offsets, contents and states of the nearest pots."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        pots = range(1, NEAREST_POTS + 1)
        return tuple(x for k in pots for x in prefixed(f"pot_{k}", _POT_NAMES))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        pots: Bool[Array, "height width"] = sight.layout.tiles == Tile.POT
        exists, place = sight.nearest(pots, NEAREST_POTS)
        contents = soup_contents(sight.at(sight.cells.object, place, Item.NOTHING))
        timer = sight.at(sight.cells.clock, place, IDLE)
        full = contents.sum(axis=-1) >= MAX_INGREDIENTS
        flags = jnp.stack([timer == IDLE, timer > 0, timer == 0, full], axis=-1)
        time_left = jnp.maximum(timer, 0).astype(jnp.float32)[:, None] / TIME_UNIT
        inside = [_in_pot_units(contents), flags.astype(jnp.float32), time_left]
        inside = jnp.where(exists[:, None], jnp.concatenate(inside, axis=-1), 0.0)
        return jnp.concatenate([sight.way_to(exists, place), inside], axis=-1).reshape(-1)


def _in_pot_units(
    contents: UInt8[Array, "*cells ingredients"],
) -> Float32[Array, "*cells ingredients"]:
    """The contents of soups in units of a full pot."""
    return contents.astype(jnp.float32) / MAX_INGREDIENTS


@final
class TimeLeft(AbstractFeature):
    """The number of steps that are left, in three forms.

    - `time_left`: in units of `EPISODE_UNIT`.
    - `last_steps_left`: in units of `LAST_STEPS`, at most 1.
    - `time_left_digit_0` and so on: the binary digits of the number, lowest digit first, so that a
        network can distinguish successive steps.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        digits = prefixed("time_left_digit", [str(digit) for digit in range(TIME_DIGITS)])
        return ("time_left", "last_steps_left", *digits)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        left = sight.steps_left.astype(jnp.float32)
        smooth = jnp.stack([left / EPISODE_UNIT, jnp.minimum(left / LAST_STEPS, 1.0)])
        digits = (sight.steps_left >> jnp.arange(TIME_DIGITS, dtype=jnp.int32)) & 1
        return jnp.concatenate([smooth, digits.astype(jnp.float32)])


def kitchen_features() -> Features:
    """The feature-vector observation of Overcooked, relative to each cook.

    Times are in units of `TIME_UNIT` steps, and ingredients in units of a full pot. All other units
    are as in `Features`. `docs/features.md` and `Features.names` list all features.

    ```python
    from eqgrid import make
    from eqgrid.envs.overcooked import kitchen_features

    env = make("overcooked", layout="cramped")
    print(kitchen_features().names(env.layout)[:3])
    ```
    """
    return Features(
        (
            OwnPosition(),
            OwnDirection(),
            OwnHeld(),
            HeldSoup(),
            Around(),
            FacedTile(),
            FacedObject(),
            FacedSoup(),
            FacedAgent(),
            NearestTiles(("onion_dispenser", "tomato_dispenser", "dish_dispenser", "serving")),
            NearestOnCounters(),
            NearestPots(),
            Others(),
        )
    )


def timed_features() -> Features:
    """`kitchen_features` with `NumberOnCounters` and `TimeLeft`."""
    return Features((*kitchen_features().parts, NumberOnCounters(), TimeLeft()))


# The columns of the planes: functions that compute the number of each cell in a plane.


def _has_object(name: str, views: Views) -> np.ndarray:
    return views.variant(name, views.there) > 0


def _onions(views: Views) -> np.ndarray:
    return _contents(views) // RADIX


def _tomatoes(views: Views) -> np.ndarray:
    return _contents(views) % RADIX


def _contents(views: Views) -> np.ndarray:
    # Variants count from 1, with 0 for no soup; contents count from 0.
    return np.maximum(views.variant("soup", views.there) - 1, 0)


def _is_idle_pot(views: Views) -> np.ndarray:
    """Whether each cell is a pot that has not been started."""
    return views.is_tile("pot") & (views.timer == IDLE)


def _in_idle_pots(ingredient: Column, views: Views) -> np.ndarray:
    return np.where(_is_idle_pot(views), ingredient(views), 0)


def _elsewhere(ingredient: Column, views: Views) -> np.ndarray:
    return np.where(_is_idle_pot(views), 0, ingredient(views))


def _time_left(views: Views) -> np.ndarray:
    return np.maximum(views.timer, 0)


def _is_ready(views: Views) -> np.ndarray:
    soup = views.variant("soup", views.there) > 0
    return soup & (~views.is_tile("pot") | (views.timer == 0))


def _last_steps(views: Views) -> np.ndarray:
    return views.last_steps


_DISPENSERS = ("onion_dispenser", "tomato_dispenser", "dish_dispenser")


LOSSLESS_COLUMNS: tuple[Column, ...] = (
    own_cell,
    other_cell,
    *(Partial(faces, own_cell, direction) for direction in Direction),
    *(Partial(faces, other_cell, direction) for direction in Direction),
    *(Partial(tile_cell, name) for name in ("pot", "counter", *_DISPENSERS, "serving")),
    Partial(_in_idle_pots, _onions),
    Partial(_in_idle_pots, _tomatoes),
    Partial(_elsewhere, _onions),
    Partial(_elsewhere, _tomatoes),
    _time_left,
    _is_ready,
    *(Partial(_has_object, name) for name in ("dish", "onion", "tomato")),
    _last_steps,
)
"""The columns of the 26 planes; see `lossless_planes`. Games that extend Overcooked may add
columns: `Planes((*LOSSLESS_COLUMNS, ...), last_steps=LAST_STEPS)`.
"""


def lossless_planes(radius: int | None = None) -> Planes:
    """The 26 planes of `lossless_state_encoding` in Overcooked-AI, in an array with the axes
    `agents rows cols planes`.

    | plane | contents |
    |---|---|
    | 0, 1 | the position of the cook itself, and of the other cook |
    | 2-5, 6-9 | these positions, by direction (north, south, east, west) |
    | 10-15 | pots, counters, onion, tomato and dish dispensers, serving hatches |
    | 16, 17 | onions and tomatoes in pots that have not been started |
    | 18, 19 | onions and tomatoes in all other soups, including held ones |
    | 20 | steps until the soup in a pot is ready (at most 255) |
    | 21 | ready soups |
    | 22-24 | dishes, onions, tomatoes, on counters and in hands |
    | 25 | ones everywhere when fewer than 40 steps are left |

    The reference supports only two cooks. With more cooks, the planes of the other cook mark all
    other cooks.

    **Arguments:**

    - `radius`: the range of sight in cells; the whole kitchen by default.
    """
    return Planes(LOSSLESS_COLUMNS, radius, last_steps=LAST_STEPS)
