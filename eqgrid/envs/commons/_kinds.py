"""The kinds of tiles and objects of the orchard and the river, and the numbers of the beams."""

import jax
import numpy as np
from jaxtyping import UInt8

from ...grid import Kind, Kinds, Layout, Overlay, World
from ._sprites import (
    draw_apple,
    draw_beam,
    draw_ground,
    draw_orchard,
    draw_pollution,
    draw_river,
    draw_wall,
    draw_water,
)

ZAP_BEAM = 1
"""The number in `Cell.extra` of cells that a zapping beam crosses in this step; 0 is no beam."""

CLEANING_BEAM = 2
"""The number in `Cell.extra` of cells that only a cleaning beam crosses in this step."""


def _beams(layout: Layout, world: World) -> UInt8[np.ndarray | jax.Array, "height width"]:
    return world.cells.extra


KINDS = Kinds(
    tiles=(
        Kind("start", "P", aliases="Q", sprite=draw_ground),
        Kind("ground", " ", sprite=draw_ground),
        Kind("wall", "#", solid=True, aliases="W", sprite=draw_wall),
        Kind("orchard", "B", sprite=draw_orchard),
        Kind("river", "H", holds=True, sprite=draw_river),
        Kind("water", "S", sprite=draw_water),
    ),
    objects=(
        Kind("apple", "*", sprite=draw_apple),
        Kind("pollution", "%", sprite=draw_pollution),
    ),
    overlay=Overlay(_beams, draw_beam),
)
"""Agents start, and come back, in the cells of the tile `start`. Apples grow on the `orchard`, and
pollution appears in the `river`; `water` stays clean. The characters are those of the maps of
Melting Pot.
"""

LEGEND = {"A": "B*", "F": "H%"}
"""Characters of layouts for an orchard cell with an apple, and a polluted cell of the river."""

ORCHARD, RIVER = KINDS.tile("orchard"), KINDS.tile("river")
APPLE, POLLUTION = KINDS.code("apple"), KINDS.code("pollution")
