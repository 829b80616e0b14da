"""The observations of Harvest and Cleanup: a window that turns with the agent."""

import numpy as np
from jaxtyping import Array, Bool

from ..._functions import Partial
from ...grid import Direction, Egocentric, Planes, Sight, Views, faces, other_cell, tile_cell
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
"""The planes of `Harvest`. Directions are relative to the agent, which faces north: an agent that
comes towards it faces south. Cells outside the grid are walls. `can_zap` is 1 in all cells of the
grid if the agent can fire in the next step.
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

    - `radius`: the window has `2 * radius + 1` rows and columns. The agent is in the middle of the
        second row from the bottom. With the default, it sees 9 cells ahead, 1 behind, and 5 to each
        side, as in Melting Pot.
    """
    return _window(Planes(_ORCHARD, radius, layers=_ZAP))


def river_view(radius: int = 5) -> Egocentric:
    """The observation of `Cleanup`: a window with the planes `RIVER_PLANES`.

    **Arguments:**

    - `radius`: as in `orchard_view`.
    """
    return _window(Planes((*_ORCHARD, *_RIVER), radius, layers=(*_ZAP, *_CLEAN)))


def _window(planes: Planes) -> Egocentric:
    """A window in which the agent is in the second row from the bottom."""
    return Egocentric(planes, ahead=(planes.radius or 1) - 1)


def _wall(views: Views) -> np.ndarray:
    # Cells outside the grid have negative tiles.
    return views.is_tile("wall") | (views.tile < 0)


def _lying(name: str, views: Views) -> np.ndarray:
    return views.variant(name, views.lying)


def _beam(number: int, sight: Sight) -> Bool[Array, "height width"]:
    return sight.cells.extra == number


def _can_fire(wait: str, sight: Sight) -> Bool[Array, ""]:
    return getattr(sight.world.extra, wait)[sight.agent] == 0


# The columns and the layers of `Planes`, in the order of `ORCHARD_PLANES` and `RIVER_PLANES`.
_ORCHARD = (
    _wall,
    Partial(tile_cell, "orchard"),
    Partial(_lying, "apple"),
    *(Partial(faces, other_cell, direction) for direction in Direction),
)
_RIVER = (Partial(tile_cell, "river"), Partial(_lying, "pollution"))
_ZAP = (Partial(_beam, ZAP_BEAM), Partial(_can_fire, "zap_wait"))
_CLEAN = (Partial(_beam, CLEANING_BEAM), Partial(_can_fire, "clean_wait"))
