"""The 26 planes of Overcooked-AI's lossless state encoding, as columns of `Planes`."""

import numpy as np

from ...grid import Column, Direction, Planes, Views

LAST_STEPS = 40
"""The last plane is 1 when fewer steps than this are left."""


def _own(direction: Direction) -> Column:
    return lambda views: views.own & (views.direction == direction)


def _other(direction: Direction) -> Column:
    return lambda views: views.other & (views.direction == direction)


def _tile(name: str) -> Column:
    return lambda views: views.is_tile(name)


def _object(name: str) -> Column:
    return lambda views: views.variant(name, views.there) > 0


def _onions(views: Views) -> np.ndarray:
    return _contents(views) // 4


def _tomatoes(views: Views) -> np.ndarray:
    return _contents(views) % 4


def _contents(views: Views) -> np.ndarray:
    return np.maximum(views.variant("soup", views.there) - 1, 0)


def _waits(views: Views) -> np.ndarray:
    """Whether the cell is a pot that has not been started."""
    return views.is_tile("pot") & (views.timer < 0)


def _time_left(views: Views) -> np.ndarray:
    return np.maximum(views.timer, 0)


def _is_ready(views: Views) -> np.ndarray:
    soup = views.variant("soup", views.there) > 0
    return soup & (~views.is_tile("pot") | (views.timer == 0))


LOSSLESS_COLUMNS: tuple[Column, ...] = (
    lambda views: views.own,
    lambda views: views.other,
    *(_own(direction) for direction in Direction),
    *(_other(direction) for direction in Direction),
    _tile("pot"),
    _tile("counter"),
    _tile("onion_dispenser"),
    _tile("tomato_dispenser"),
    _tile("dish_dispenser"),
    _tile("serving"),
    lambda views: np.where(_waits(views), _onions(views), 0),
    lambda views: np.where(_waits(views), _tomatoes(views), 0),
    lambda views: np.where(_waits(views), 0, _onions(views)),
    lambda views: np.where(_waits(views), 0, _tomatoes(views)),
    _time_left,
    _is_ready,
    _object("dish"),
    _object("onion"),
    _object("tomato"),
    lambda views: views.last_steps,
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
