"""The 26 planes of Overcooked-AI's lossless state encoding, as columns of `Planes`."""

import numpy as np

from ..._partial import Partial
from ...grid import Column, Direction, Planes, Views, faces, other_cell, own_cell, tile_cell

LAST_STEPS = 40
"""The last plane is 1 when fewer steps than this are left."""


def _object(name: str, views: Views) -> np.ndarray:
    return views.variant(name, views.there) > 0


def _onions(views: Views) -> np.ndarray:
    return _contents(views) // 4


def _tomatoes(views: Views) -> np.ndarray:
    return _contents(views) % 4


def _contents(views: Views) -> np.ndarray:
    return np.maximum(views.variant("soup", views.there) - 1, 0)


def _waits(views: Views) -> np.ndarray:
    """Whether the cell is a pot that has not been started."""
    return views.is_tile("pot") & (views.timer < 0)


def _in_waiting_pots(ingredient: Column, views: Views) -> np.ndarray:
    return np.where(_waits(views), ingredient(views), 0)


def _elsewhere(ingredient: Column, views: Views) -> np.ndarray:
    return np.where(_waits(views), 0, ingredient(views))


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
    Partial(_in_waiting_pots, _onions),
    Partial(_in_waiting_pots, _tomatoes),
    Partial(_elsewhere, _onions),
    Partial(_elsewhere, _tomatoes),
    _time_left,
    _is_ready,
    *(Partial(_object, name) for name in ("dish", "onion", "tomato")),
    _last_steps,
)
"""The columns of the 26 planes; see `lossless_planes`. Games that extend Overcooked may add
columns: `Planes((*LOSSLESS_COLUMNS, ...), last_steps=LAST_STEPS)`.
"""


def lossless_planes(radius: int | None = None) -> Planes:
    """The 26 planes of `lossless_state_encoding` in Overcooked-AI, here `agents rows cols planes`.

    | plane | contents |
    |---|---|
    | 0, 1 | the position of the cook itself, and of the other cook |
    | 2-5, 6-9 | the same by direction (north, south, east, west), for the cook and the other one |
    | 10-15 | pots, counters, onion, tomato and dish dispensers, serving hatches |
    | 16, 17 | onions and tomatoes in pots that have not been started |
    | 18, 19 | onions and tomatoes in all other soups, including held ones |
    | 20 | steps until the soup in a pot is ready (at most 255) |
    | 21 | ready soups |
    | 22-24 | dishes, onions, tomatoes, on counters and in hands |
    | 25 | ones everywhere when fewer than 40 steps are left |

    The reference supports two cooks only; with more, the planes of "the other cook" mark all
    others.

    **Arguments:**

    - `radius`: the range of sight in cells; the whole kitchen by default.
    """
    return Planes(LOSSLESS_COLUMNS, radius, last_steps=LAST_STEPS)
