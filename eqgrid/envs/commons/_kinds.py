"""The kinds of tiles and objects of the orchard and the river, and the numbers of the beams."""

import jax
import numpy as np
from jaxtyping import UInt8

from ...grid import Kind, Kinds, Layout, Look, Number, Overlay, Pen, World

_SAND = ("#E7DCC0", "#E0D4B5")
_GRASS, _BLADE = ("#A9C66B", "#A2C063"), "#86A84B"
_RIVER, _WAVE = ("#6FB2DA", "#69ACD5"), "#9CD0EC"
_WATER, _RIPPLE = ("#8CCBE8", "#86C6E4"), "#B9E2F3"

ZAP_BEAM = 1
"""The value of `Cell.extra` in cells that a zapping beam crosses in this step. It is 0 in cells
without a beam.
"""

CLEANING_BEAM = 2
"""The number in `Cell.extra` of cells that only a cleaning beam crosses in this step."""

_BEAM_COLOURS = {ZAP_BEAM: (255, 221, 64, 150), CLEANING_BEAM: (120, 232, 246, 160)}


def draw_ground(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_SAND[look.shade], edge="#D8CBA8", width=0.01)


def draw_wall(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#5E6472", edge="#4B505D", width=0.03)


def draw_orchard(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_GRASS[look.shade])
    for x, y in ((0.2, 0.3), (0.55, 0.2), (0.8, 0.55), (0.35, 0.75), (0.7, 0.9)):
        pen.line([(x, y), (x + 0.04, y - 0.14)], fill=_BLADE, width=0.04)


def draw_river(pen: Pen, look: Look) -> None:
    _draw_waves(pen, _RIVER[look.shade], _WAVE)


def draw_water(pen: Pen, look: Look) -> None:
    _draw_waves(pen, _WATER[look.shade], _RIPPLE)


def _draw_waves(pen: Pen, fill: str, wave: str) -> None:
    pen.box(0, 0, 1, 1, fill=fill)
    for x, y in ((0.1, 0.3), (0.5, 0.65)):
        pen.line(
            [(x, y), (x + 0.12, y - 0.06), (x + 0.26, y), (x + 0.38, y - 0.06)],
            fill=wave,
            width=0.035,
        )


def draw_apple(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a red apple with a leaf."""
    pen.line(
        [(x, y - 0.6 * radius), (x + 0.15 * radius, y - 1.2 * radius)], fill="#6B4A2B", width=0.05
    )
    leaf = [(0.1, -0.9), (0.45, -1.25), (0.85, -1.1), (0.55, -0.85)]
    pen.shape([(x + a * radius, y + b * radius) for a, b in leaf], fill="#3E9A45")
    pen.disc(x, y + 0.1 * radius, radius, 0.92 * radius, fill="#DE4437", edge="#8C1B12", width=0.03)
    pen.disc(x - 0.35 * radius, y - 0.2 * radius, 0.22 * radius, fill=(255, 255, 255, 140))


def draw_pollution(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws patches of green slime that cover most of a cell."""
    slime, dark = (110, 138, 52, 225), "#566D22"
    patches = ((-0.75, -0.6, 0.8), (0.7, -0.75, 0.6), (-0.2, 0.75, 0.95), (1.0, 0.6, 0.55))
    for a, b, size in patches:
        pen.disc(x + a * radius, y + b * radius, size * radius, fill=slime, edge=dark, width=0.02)


def draw_beam(pen: Pen, number: int) -> None:
    """Draws a yellow zapping beam, or a light blue cleaning beam, over a cell."""
    pen.box(0.06, 0.06, 0.94, 0.94, fill=_BEAM_COLOURS[number], round_by=0.18)


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
"""Agents start and come back on `start` cells. Apples grow in the `orchard`, and pollution appears
in the `river`; `water` stays clean. The characters are those of Melting Pot's maps.
"""

LEGEND = {"A": "B*", "F": "H%"}
"""Characters of layouts for a cell with an object: an orchard cell with an apple, and a polluted
river cell.
"""

ORCHARD, RIVER = KINDS.tile("orchard"), KINDS.tile("river")
APPLE, POLLUTION = KINDS.code("apple"), KINDS.code("pollution")
