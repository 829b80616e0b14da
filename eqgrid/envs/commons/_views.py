"""What agents see: a window that is turned the way they face."""

import numpy as np
from jaxtyping import Array, Bool

from ...grid import Direction, Egocentric, Planes, Sight, Views
from ._kinds import CLEANING_BEAM, ZAP_BEAM

ORCHARD_PLANES = (
    "wall",
    "orchard",
    "apple",
    "other_north",
    "other_south",
    "other_east",
    "other_west",
    "zap_beam",
    "can_zap",
)
"""The planes of `Harvest`. Directions are relative: an agent sees itself facing north, and another
one that comes towards it facing south. What is outside the grid is a wall. `can_zap` is 1 in all
cells of the grid when the agent could fire in the next step.
"""

RIVER_PLANES = (
    *ORCHARD_PLANES[:7],
    "river",
    "pollution",
    *ORCHARD_PLANES[7:],
    "cleaning_beam",
    "can_clean",
)
"""The planes of `Cleanup`."""


def orchard_view(radius: int = 5) -> Egocentric:
    """The observation of `Harvest`: a window with the planes `ORCHARD_PLANES`.

    **Arguments:**

    - `radius`: the window has `2 * radius + 1` rows and columns. An agent stands in the middle of
        the last row but one. With the default, it sees 9 cells ahead, 1 behind, and 5 to each side,
        as in Melting Pot.
    """
    return _window(Planes(_ORCHARD, radius, layers=(_zap_beam, _can_zap)))


def river_view(radius: int = 5) -> Egocentric:
    """The observation of `Cleanup`: a window with the planes `RIVER_PLANES`.

    **Arguments:**

    - `radius`: as in `orchard_view`.
    """
    layers = (_zap_beam, _can_zap, _cleaning_beam, _can_clean)
    return _window(Planes((*_ORCHARD, _river, _pollution), radius, layers=layers))


def _window(planes: Planes) -> Egocentric:
    return Egocentric(planes, ahead=(planes.radius or 1) - 1)


def _wall(views: Views) -> np.ndarray:
    return views.is_tile("wall") | (views.tile < 0)


def _orchard(views: Views) -> np.ndarray:
    return views.is_tile("orchard")


def _apple(views: Views) -> np.ndarray:
    return views.variant("apple", views.lying)


def _north(views: Views) -> np.ndarray:
    return views.other & (views.direction == Direction.NORTH)


def _south(views: Views) -> np.ndarray:
    return views.other & (views.direction == Direction.SOUTH)


def _east(views: Views) -> np.ndarray:
    return views.other & (views.direction == Direction.EAST)


def _west(views: Views) -> np.ndarray:
    return views.other & (views.direction == Direction.WEST)


def _river(views: Views) -> np.ndarray:
    return views.is_tile("river")


def _pollution(views: Views) -> np.ndarray:
    return views.variant("pollution", views.lying)


_ORCHARD = (_wall, _orchard, _apple, _north, _south, _east, _west)


def _zap_beam(sight: Sight) -> Bool[Array, "height width"]:
    return sight.cells.extra == ZAP_BEAM


def _cleaning_beam(sight: Sight) -> Bool[Array, "height width"]:
    return sight.cells.extra == CLEANING_BEAM


def _can_zap(sight: Sight) -> Bool[Array, ""]:
    return sight.world.extra.zap_wait[sight.agent] == 0


def _can_clean(sight: Sight) -> Bool[Array, ""]:
    return sight.world.extra.clean_wait[sight.agent] == 0
