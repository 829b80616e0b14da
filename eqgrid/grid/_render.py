"""Pictures and films of a world, for people: on concrete values, outside of any transformation.

A picture is a mosaic: everything in a cell is drawn inside that cell. So a cell's picture follows
from a small tuple (`_Look`), is drawn once, and is copied from then on. A film of 400 steps holds a
few hundred different cells.

Drawing functions take a `_Pen`, whose unit of length is one cell, with y pointing down.
"""

import functools
import io
import itertools
import math
import typing
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageColor, ImageDraw, ImageFont

from ._layout import Layout
from ._world import IDLE, Cell, Fixture, Hand, Heading, Item, World, read_things

SMALLEST_CELL = 16
"""The fewest pixels per cell in which anything can be recognised."""

_SUPERSAMPLING = 4
_SMALLEST_NUMBER = 8  # pixels; below it a number is a smudge, so none is drawn
_COUNTDOWN = 0.3  # the height of its digits in cells
_CACHED_TILES = 4096
_FILM_COLOURS = 250
_PALETTE_SAMPLES = 200_000

Colour: typing.TypeAlias = str | tuple[int, ...]
Number: typing.TypeAlias = int | float
Point: typing.TypeAlias = tuple[Number, Number]

# Ordered so that neighbours differ in lightness too: readable without seeing red and green.
_COOKS = (
    ("#1F77C9", "#0F3F70"),
    ("#E8622C", "#8A3210"),
    ("#12A079", "#07543F"),
    ("#D66FB0", "#7F2F63"),
    ("#EFC42F", "#87690A"),
    ("#6CC3F0", "#2B6D93"),
    ("#8C2A4C", "#4A0F24"),
    ("#4B3FA7", "#231B5C"),
    ("#A9A93A", "#5B5B12"),
    ("#5A5F69", "#26292F"),
    ("#8FD9A8", "#3A7A52"),
    ("#B18CE6", "#5F3F94"),
)
_FLOOR = ("#F3EADB", "#E9DDC9")
_WALL = "#343A46"
_BAR = (52, 58, 70)
_BAR_TEXT = (236, 239, 244)
_SKIN, _SKIN_EDGE = "#F7D3AE", "#9A6A42"
_ONION, _ONION_EDGE = "#F6DC94", "#8D5A14"
_TOMATO, _TOMATO_EDGE = "#E2402F", "#7E150C"
_LEAF, _LEAF_EDGE = "#3E9A45", "#1F5A26"
_PLATE, _PLATE_EDGE = "#FDFDFE", "#7D8896"
_WOOD, _WOOD_DARK, _WOOD_LIGHT = "#C8955A", "#8C5F30", "#DDB07A"
_STEEL, _STEEL_DARK, _STEEL_LIGHT = "#79828F", "#4A515D", "#A4ADB9"
_READY, _COOKING = "#2FB45A", "#FF8A1F"
_BROTH_ONION, _BROTH_TOMATO = (214, 158, 58), (205, 74, 44)
_DIRECTION = {
    Heading.NORTH: (0, -1),
    Heading.SOUTH: (0, 1),
    Heading.EAST: (1, 0),
    Heading.WEST: (-1, 0),
}


class _Thing(typing.NamedTuple):
    """Something to carry or to put down."""

    item: int
    onions: int
    tomatoes: int


class _Chef(typing.NamedTuple):
    number: int
    heading: int
    held: _Thing
    numbered: bool


class _Look(typing.NamedTuple):
    """Everything that the picture of one cell depends on.

    `open_sides` tells where floor adjoins, in the order of `Heading`; `shade` alternates like a
    chess board; `cook_time` is that of the soup in a pot, in steps.
    """

    fixture: int
    shade: int
    open_sides: tuple[bool, bool, bool, bool]
    thing: _Thing
    timer: int
    cook_time: int
    chef: _Chef | None


@typing.final
class _Pen:
    """Draws on an image in units of a cell."""

    def __init__(self, image: Image.Image, pixels: int):
        self._draw = ImageDraw.Draw(image, "RGBA")
        self._unit = image.width
        self.pixels = pixels

    def _scale(self, points: Iterable[Point]) -> list[Point]:
        return [(x * self._unit, y * self._unit) for x, y in points]

    def _width(self, width: Number) -> int:
        return max(1, round(width * self._unit))

    def disc(
        self,
        x: Number,
        y: Number,
        rx: Number,
        ry: Number | None = None,
        *,
        fill: Colour | None,
        edge: Colour | None = None,
        width: Number = 0.02,
    ) -> None:
        ry = rx if ry is None else ry
        box = self._scale([(x - rx, y - ry), (x + rx, y + ry)])
        self._draw.ellipse(box, fill=fill, outline=edge, width=self._width(width) if edge else 0)

    def box(
        self,
        x0: Number,
        y0: Number,
        x1: Number,
        y1: Number,
        *,
        fill: Colour,
        edge: Colour | None = None,
        width: Number = 0.02,
        round_by: Number = 0.0,
    ) -> None:
        box = self._scale([(x0, y0), (x1, y1)])
        edge_width = self._width(width) if edge else 0
        self._draw.rounded_rectangle(box, round_by * self._unit, fill, edge, edge_width)

    def shape(
        self,
        points: Iterable[Point],
        *,
        fill: Colour,
        edge: Colour | None = None,
        width: Number = 0.02,
    ) -> None:
        scaled = self._scale(points)
        self._draw.polygon(scaled, fill=fill)
        if edge:
            closed = [*scaled, scaled[0], scaled[1]]
            self._draw.line(closed, fill=edge, width=self._width(width), joint="curve")

    def line(self, points: Iterable[Point], *, fill: Colour, width: Number) -> None:
        self._draw.line(self._scale(points), fill=fill, width=self._width(width), joint="curve")

    def arc(
        self,
        x: Number,
        y: Number,
        r: Number,
        start: Number,
        end: Number,
        *,
        fill: Colour,
        width: Number,
    ) -> None:
        """Degrees count clockwise from the right."""
        box = self._scale([(x - r, y - r), (x + r, y + r)])
        self._draw.arc(box, start, end, fill=fill, width=self._width(width))

    def text(self, x: Number, y: Number, text: str, height: Number, *, fill: Colour) -> None:
        """Centred; left out where it would be too small to read."""
        if height * self.pixels >= _SMALLEST_NUMBER:
            font = _font(round(height * self._unit))
            place = (x * self._unit, y * self._unit)
            self._draw.text(place, text, fill=fill, font=font, anchor="mm")


@functools.lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


# Things


def _onion(pen: _Pen, x: Number, y: Number, r: Number) -> None:
    width = max(0.018, 0.11 * r)
    tip = [(-0.34, -0.62), (-0.2, -1.2), (0.0, -0.92), (0.26, -1.22), (0.34, -0.62)]
    pen.shape(
        [(x + r * a, y + r * b) for a, b in tip], fill=_LEAF, edge=_LEAF_EDGE, width=width * 0.8
    )
    pen.disc(x, y + 0.08 * r, r, 0.88 * r, fill=_ONION, edge=_ONION_EDGE, width=width)
    if r * pen.pixels >= 5:
        pen.disc(x, y + 0.08 * r, 0.48 * r, 0.88 * r, fill=None, edge="#C9973F", width=width * 0.7)
        pen.disc(x - 0.45 * r, y - 0.22 * r, 0.16 * r, 0.22 * r, fill="#FFF6DA")


def _tomato(pen: _Pen, x: Number, y: Number, r: Number) -> None:
    width = max(0.018, 0.11 * r)
    pen.disc(x, y + 0.06 * r, r, 0.92 * r, fill=_TOMATO, edge=_TOMATO_EDGE, width=width)
    if r * pen.pixels >= 5:
        pen.disc(x - 0.42 * r, y - 0.05 * r, 0.2 * r, 0.26 * r, fill="#FF8E7C")
    star = []
    for k in range(10):
        angle = math.pi * (k / 5 - 0.5)
        reach = r * (0.62 if k % 2 == 0 else 0.24)
        star.append((x + reach * math.cos(angle), y - 0.58 * r + 0.66 * reach * math.sin(angle)))
    pen.shape(star, fill=_LEAF, edge=_LEAF_EDGE, width=width * 0.5)


def _dish(pen: _Pen, x: Number, y: Number, r: Number) -> None:
    pen.disc(x, y, r, fill=_PLATE, edge=_PLATE_EDGE, width=max(0.018, 0.1 * r))
    pen.disc(x, y, 0.62 * r, fill="#EEF2F6", edge="#C3CBD5", width=max(0.012, 0.06 * r))


def _broth(onions: int, tomatoes: int) -> tuple[int, int, int]:
    share = tomatoes / max(1, onions + tomatoes)
    mixed = [round(a + (b - a) * share) for a, b in zip(_BROTH_ONION, _BROTH_TOMATO, strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _ingredients(pen: _Pen, x: Number, y: Number, r: Number, onions: int, tomatoes: int) -> None:
    """The ingredients of a soup, side by side within a circle of radius `r`."""
    draw = [_onion] * onions + [_tomato] * tomatoes
    ring = 0.0 if len(draw) == 1 else 0.5 * r
    for k, one in enumerate(draw):
        angle = 2 * math.pi * k / len(draw) + (math.pi if len(draw) == 2 else math.pi / 6)
        one(pen, x + ring * math.cos(angle), y + ring * math.sin(angle), 0.42 * r)


def _soup(pen: _Pen, x: Number, y: Number, r: Number, onions: int, tomatoes: int) -> None:
    pen.disc(x, y, r, fill=_PLATE, edge=_PLATE_EDGE, width=max(0.018, 0.1 * r))
    pen.disc(x, y, 0.78 * r, fill=_broth(onions, tomatoes), edge="#7A4A16", width=0.015)
    _ingredients(pen, x, y, 0.72 * r, onions, tomatoes)


def _thing(pen: _Pen, x: Number, y: Number, r: Number, thing: _Thing) -> None:
    match thing.item:
        case Item.ONION:
            _onion(pen, x, y, r * 0.86)
        case Item.TOMATO:
            _tomato(pen, x, y, r * 0.88)
        case Item.DISH:
            _dish(pen, x, y, r)
        case Item.SOUP:
            _soup(pen, x, y, r * 1.12, thing.onions, thing.tomatoes)


# Fixtures


def _floor(pen: _Pen, shade: int, open_sides: tuple[bool, bool, bool, bool]) -> None:
    pen.box(0, 0, 1, 1, fill=_FLOOR[shade], edge="#DCCDB4", width=0.008)
    if not open_sides[Heading.NORTH]:
        for depth in (0.04, 0.08, 0.12):
            pen.box(0, 0, 1, depth, fill=(90, 60, 30, 26))


def _top(open_sides: tuple[bool, bool, bool, bool]) -> Number:
    """How far a counter's top reaches down its cell: its front shows where floor adjoins."""
    return 0.84 if open_sides[Heading.SOUTH] else 1.0


def _block(
    pen: _Pen,
    open_sides: tuple[bool, bool, bool, bool],
    *,
    fill: Colour,
    light: Colour,
    dark: Colour,
) -> None:
    """A solid block seen slightly from the front."""
    top = _top(open_sides)
    pen.box(0, 0, 1, 1, fill=dark)
    pen.box(0, 0, 1, top, fill=fill)
    rim = 0.045
    if open_sides[Heading.NORTH]:
        pen.box(0, 0, 1, rim, fill=light)
    if open_sides[Heading.WEST]:
        pen.box(0, 0, rim, top, fill=light)
    if open_sides[Heading.EAST]:
        pen.box(1 - rim, 0, 1, top, fill=light)
    if top < 1:
        pen.box(0, top - rim, 1, top, fill=light)


def _counter(pen: _Pen, open_sides: tuple[bool, bool, bool, bool]) -> None:
    _block(pen, open_sides, fill=_WOOD, light=_WOOD_LIGHT, dark=_WOOD_DARK)
    top = _top(open_sides)
    for share in (1 / 3, 2 / 3):
        pen.line([(0.0, share * top), (1.0, share * top)], fill="#B7834A", width=0.018)
    pen.line([(0.32, 0.0), (0.32, top / 3)], fill="#B7834A", width=0.018)
    pen.line([(0.7, top / 3), (0.7, top * 2 / 3)], fill="#B7834A", width=0.018)
    pen.line([(0.2, top * 2 / 3), (0.2, top - 0.04)], fill="#B7834A", width=0.018)


def _crate(pen: _Pen, y: Number, one: Callable[[_Pen, Number, Number, Number], None]) -> None:
    pen.box(
        0.13, y - 0.3, 0.87, y + 0.34, fill="#5E3B1A", edge="#4A2D12", width=0.03, round_by=0.05
    )
    for dx, dy in ((-0.19, -0.13), (0.19, -0.13), (0.0, -0.08), (-0.17, 0.06), (0.17, 0.06)):
        one(pen, 0.5 + dx, y + dy, 0.16)
    for level in (0.13, 0.245):
        pen.box(
            0.11,
            y + level,
            0.89,
            y + level + 0.1,
            fill="#E5BC85",
            edge="#6B4420",
            width=0.022,
            round_by=0.02,
        )
    for side in (0.18, 0.82):
        pen.disc(side, y + 0.18, 0.018, fill="#6B4420")
        pen.disc(side, y + 0.295, 0.018, fill="#6B4420")


def _dish_stack(pen: _Pen, y: Number) -> None:
    pen.disc(0.5, y + 0.14, 0.36, 0.24, fill=(60, 35, 10, 90))
    for k in range(5):
        level = y + 0.13 - 0.065 * k
        pen.disc(0.5, level, 0.34, 0.22, fill=_PLATE, edge=_PLATE_EDGE, width=0.022)
    pen.disc(0.5, y - 0.135, 0.21, 0.125, fill="#EAEFF4", edge="#C3CBD5", width=0.018)


def _hatch(pen: _Pen, open_sides: tuple[bool, bool, bool, bool]) -> None:
    """Where soups are delivered: a bright counter with a bell on it."""
    _block(pen, open_sides, fill="#3FA7A0", light="#7FD0C8", dark="#1F6963")
    top = _top(open_sides)
    y = top / 2 + 0.02
    pen.box(0.12, 0.1, 0.88, top - 0.1, fill="#E9F6F4", edge="#23766F", width=0.03, round_by=0.12)
    pen.disc(0.5, y + 0.21, 0.3, 0.07, fill="#5C4410")
    dome = [
        (0.5 + 0.25 * math.cos(a), y + 0.16 - 0.31 * math.sin(a)) for a in np.linspace(0, np.pi, 25)
    ]
    pen.disc(0.5, y - 0.19, 0.055, fill="#F2B92E", edge="#7C5A0C", width=0.025)
    pen.shape(dome, fill="#F2B92E", edge="#7C5A0C", width=0.028)
    pen.line([(0.36, y + 0.06), (0.4, y - 0.03), (0.46, y - 0.08)], fill="#FFF0B8", width=0.04)
    pen.box(
        0.2, y + 0.14, 0.8, y + 0.22, fill="#C98F12", edge="#7C5A0C", width=0.025, round_by=0.04
    )


def _stove(pen: _Pen, open_sides: tuple[bool, bool, bool, bool]) -> None:
    _block(pen, open_sides, fill="#59616E", light="#7F8896", dark="#31363F")
    if open_sides[Heading.SOUTH]:
        for x in (0.3, 0.5, 0.7):
            pen.disc(x, 0.925, 0.035, fill="#C9CFD8")


def _fixture(pen: _Pen, look: _Look) -> None:
    match look.fixture:
        case Fixture.FLOOR:
            _floor(pen, look.shade, look.open_sides)
        case Fixture.POT:
            _stove(pen, look.open_sides)
        case Fixture.SERVING:
            _hatch(pen, look.open_sides)
        case Fixture.WALL:
            pen.box(0, 0, 1, 1, fill=_WALL)
        case _:
            _counter(pen, look.open_sides)
    middle = _top(look.open_sides) / 2
    match look.fixture:
        case Fixture.ONION_DISPENSER:
            _crate(pen, middle, _onion)
        case Fixture.TOMATO_DISPENSER:
            _crate(pen, middle, _tomato)
        case Fixture.DISH_DISPENSER:
            _dish_stack(pen, middle)


# Pots


def _pot(pen: _Pen, look: _Look) -> None:
    x, y = 0.5, _top(look.open_sides) / 2
    heat = {IDLE: "#3C424C", 0: _READY}.get(look.timer, "#3C424C")
    pen.disc(x, y, 0.4, fill="#2B3038")
    pen.disc(x, y, 0.39, fill=None, edge=heat, width=0.06)
    if look.timer > 0:
        done = 1 - min(1.0, look.timer / max(1, look.cook_time))
        pen.disc(x, y, 0.39, fill=None, edge="#6B4A2C", width=0.06)
        pen.arc(x, y, 0.39, -90, -90 + 360 * max(done, 0.02), fill=_COOKING, width=0.06)
    for side in (-1, 1):
        pen.disc(x + side * 0.33, y, 0.075, 0.1, fill=_STEEL_DARK, edge="#23272E", width=0.02)
    pen.disc(x, y, 0.315, fill=_STEEL_LIGHT, edge="#2B3038", width=0.022)
    onions, tomatoes = look.thing.onions, look.thing.tomatoes
    if onions + tomatoes == 0:
        pen.disc(x, y, 0.255, fill="#454C57", edge=_STEEL, width=0.02)
        pen.disc(x, y + 0.04, 0.19, 0.17, fill="#3A404A")
        return
    pen.disc(x, y, 0.255, fill=_broth(onions, tomatoes), edge="#6A4A1C", width=0.02)
    _ingredients(pen, x, y, 0.27, onions, tomatoes)
    if look.timer > 0:
        _countdown(pen, look.timer)
    if look.timer == 0:
        _steam(pen, y)
        _tick(pen)


def _countdown(pen: _Pen, steps: int) -> None:
    if _COUNTDOWN * pen.pixels < _SMALLEST_NUMBER:
        return
    text = str(steps)
    half = 0.1 + 0.075 * len(text)
    x, y = 0.98 - half, 0.83
    pen.box(
        x - half,
        y - 0.15,
        x + half,
        y + 0.15,
        fill="#FFFFFF",
        edge="#B4530A",
        width=0.03,
        round_by=0.1,
    )
    pen.text(x, y, text, _COUNTDOWN, fill="#2A1A08")


def _steam(pen: _Pen, y: Number) -> None:
    for x in (0.36, 0.5, 0.64):
        rise = [
            (x + 0.03 * math.sin(9 * t), y - 0.12 - 0.27 * t) for t in np.linspace(0.0, 1.0, 12)
        ]
        pen.line(rise, fill="#FFFFFF", width=0.035)


def _tick(pen: _Pen) -> None:
    pen.disc(0.81, 0.81, 0.165, fill=_READY, edge="#FFFFFF", width=0.03)
    pen.line([(0.735, 0.815), (0.79, 0.865), (0.885, 0.755)], fill="#FFFFFF", width=0.05)


# Cooks


def _chef(pen: _Pen, chef: _Chef) -> None:
    colour, dark = _COOKS[(chef.number - 1) % len(_COOKS)]
    heading = Heading(chef.heading)
    dx, dy = _DIRECTION[heading]
    _pointer(pen, dx, dy, colour)
    x, y = 0.5 - 0.11 * dx, {Heading.NORTH: 0.66, Heading.SOUTH: 0.45}.get(heading, 0.52)
    empty = chef.held.item == Item.NOTHING
    hold = {Heading.NORTH: (0.5, 0.27 if empty else 0.165), Heading.SOUTH: (0.5, 0.74)}.get(
        heading, (0.5 + (0.22 if empty else 0.29) * dx, 0.64)
    )
    pen.disc(x, y + 0.3, 0.22, 0.04, fill=(60, 40, 20, 80))
    if heading == Heading.NORTH:
        _arms(pen, x, y, hold, dx, colour, dark)
        _thing(pen, *hold, 0.15, chef.held)
    _body(pen, x, y, dx, dy, colour, dark)
    _head(pen, x, y - 0.05, dx, dy)
    _hat(pen, x - 0.02 * dx, y - 0.2, colour, dark, str(chef.number) if chef.numbered else "")
    if heading != Heading.NORTH:
        _arms(pen, x, y, hold, dx, colour, dark)
        _thing(pen, *hold, 0.19, chef.held)


def _pointer(pen: _Pen, dx: int, dy: int, colour: str) -> None:
    """A disc on the floor with a tip towards the faced cell."""
    red, green, blue = ImageColor.getrgb(colour)[:3]
    fill = (red, green, blue, 120)
    pen.disc(0.5, 0.5, 0.4, fill=fill)
    tip = [(0.3, -0.265), (0.485, 0.0), (0.3, 0.265)]
    pen.shape([(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in tip], fill=colour)


def _body(pen: _Pen, x: Number, y: Number, dx: int, dy: int, colour: str, dark: str) -> None:
    half = 0.2 if dx == 0 else 0.17
    pen.box(x - half, y + 0.04, x + half, y + 0.32, fill=colour, edge=dark, round_by=0.13)
    apron = "#FFFFFF"
    if dy > 0:
        pen.box(x - 0.115, y + 0.13, x + 0.115, y + 0.315, fill=apron, round_by=0.06)
    elif dy < 0:
        pen.line([(x - 0.18, y + 0.22), (x + 0.18, y + 0.22)], fill=apron, width=0.03)
        for side in (-1, 1):
            pen.disc(x + 0.05 * side, y + 0.22, 0.05, 0.035, fill=apron, edge=dark, width=0.01)
    else:
        front = sorted((x + 0.03 * dx, x + 0.15 * dx))
        pen.box(front[0], y + 0.13, front[1], y + 0.315, fill=apron, round_by=0.05)


def _head(pen: _Pen, x: Number, y: Number, dx: int, dy: int) -> None:
    pen.disc(x, y, 0.2, 0.18, fill=_SKIN, edge=_SKIN_EDGE)
    if dy < 0:
        pen.disc(x, y - 0.01, 0.19, 0.16, fill="#5B3A22")
        return
    for eye in (-0.075, 0.075) if dy > 0 else (0.05 * dx, 0.145 * dx):
        pen.disc(x + eye, y + 0.02, 0.026, 0.038, fill="#2A1A12")
    for cheek in (-0.13, 0.13) if dy > 0 else (0.06 * dx,):
        pen.disc(x + cheek, y + 0.085, 0.032, 0.022, fill="#F0A58A")
    if dx:
        pen.disc(x + 0.205 * dx, y + 0.05, 0.035, 0.03, fill=_SKIN, edge=_SKIN_EDGE, width=0.015)


def _hat(pen: _Pen, x: Number, y: Number, colour: str, dark: str, number: str) -> None:
    puffs = ((-0.13, -0.02, 0.1), (0.13, -0.02, 0.1), (0.0, -0.06, 0.125))
    for a, b, r in puffs:
        pen.disc(x + a, y + b, r, fill="#FFFFFF", edge="#8A93A0")
    pen.box(x - 0.15, y - 0.04, x + 0.15, y + 0.09, fill="#FFFFFF")
    for a, b, r in puffs:
        pen.disc(x + a, y + b, r - 0.02, fill="#FFFFFF")
    pen.box(x - 0.17, y + 0.04, x + 0.17, y + 0.11, fill=colour, edge=dark, round_by=0.03)
    pen.text(x, y - 0.055, number, 0.25, fill="#20242B")


def _arms(pen: _Pen, x: Number, y: Number, hold: Point, dx: int, colour: str, dark: str) -> None:
    hold_x, hold_y = hold
    for side in (-1, 1):
        hand = (hold_x + 0.17 * side, hold_y + 0.03) if dx == 0 else (hold_x, hold_y + 0.06 * side)
        shoulder = (x + (0.17 * side if dx == 0 else 0.04 * dx), y + 0.14)
        pen.line([shoulder, hand], fill=dark, width=0.095)
        pen.line([shoulder, hand], fill=colour, width=0.06)
        pen.disc(*hand, 0.055, fill=_SKIN, edge=_SKIN_EDGE, width=0.018)


# Cells and pictures


@functools.lru_cache(maxsize=_CACHED_TILES)
def _tile(look: _Look, cell_pixels: int) -> UInt8[np.ndarray, "cell cell 3"]:
    side = cell_pixels * _SUPERSAMPLING
    image = Image.new("RGB", (side, side))
    pen = _Pen(image, cell_pixels)
    _fixture(pen, look)
    if look.fixture == Fixture.POT:
        _pot(pen, look)
    else:
        _thing(pen, 0.5, _top(look.open_sides) / 2, 0.26, look.thing)
    if look.chef is not None:
        _chef(pen, look.chef)
    small = image.resize((cell_pixels, cell_pixels), Image.Resampling.LANCZOS)
    return np.asarray(small)


@functools.lru_cache(maxsize=8)
def _open_sides(fixtures: bytes, width: int) -> tuple[tuple[bool, bool, bool, bool], ...]:
    floor = np.frombuffer(fixtures, np.uint8).reshape(-1, width) == Fixture.FLOOR
    around = np.pad(floor, 1)
    sides = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, 2:], around[1:-1, :-2])
    return tuple(
        (bool(n), bool(s), bool(e), bool(w))
        for n, s, e, w in zip(*(side.ravel() for side in sides), strict=True)
    )


def _read_thing(holder: Hand | Cell, place: int | tuple[int, int]) -> _Thing:
    return _Thing(*map(int, read_things(int(holder.thing[place]))))


def _chefs(world: World) -> dict[tuple[int, int], _Chef]:
    bodies = world.bodies
    numbered = len(bodies.position) > 2
    return {
        (int(row), int(col)): _Chef(
            number=index + 1,
            heading=int(bodies.heading[index]),
            held=_read_thing(bodies.held, index),
            numbered=numbered,
        )
        for index, (row, col) in enumerate(bodies.position)
    }


def _looks(layout: Layout, world: World) -> list[_Look]:
    """The looks of all cells, row by row; every leaf is a NumPy array."""
    fixtures, cells = layout.fixtures, world.cells
    width = fixtures.shape[1]
    sides = _open_sides(fixtures.tobytes(), width)
    chefs = _chefs(world)
    looks = []
    for place, fixture in enumerate(fixtures.ravel()):
        row, col = divmod(place, width)
        thing = _read_thing(cells, (row, col))
        timer = int(cells.timer[row, col])
        cook_time = 0
        if timer > 0:
            last = layout.recipes.cook_time.shape[0] - 1
            cook_time = int(
                layout.recipes.cook_time[min(thing.onions, last), min(thing.tomatoes, last)]
            )
        chef = chefs.get((row, col))
        looks.append(
            _Look(int(fixture), (row + col) % 2, sides[place], thing, timer, cook_time, chef)
        )
    return looks


def _mosaic(
    tiles: Sequence[UInt8[np.ndarray, "cell cell *channels"]], height: int, width: int
) -> UInt8[np.ndarray, "pixel_rows pixel_cols *channels"]:
    """Puts tiles together, row by row."""
    stacked = np.stack(tiles)
    _, side, _, *channels = stacked.shape
    grid = stacked.reshape(height, width, side, side, *channels).swapaxes(1, 2)
    return grid.reshape(height * side, width * side, *channels)


def _bar_pixels(cell_pixels: int) -> int:
    return max(14, round(0.36 * cell_pixels))


def _fit(
    text: str, size: int, room: Number
) -> tuple[str, ImageFont.FreeTypeFont | ImageFont.ImageFont]:
    """Shrinks a text until it fits, then shortens it."""
    while size > 9 and _font(size).getlength(text) > room:
        size -= 1
    font = _font(size)
    if font.getlength(text) > room:
        while text and font.getlength(text + "...") > room:
            text = text[:-1]
        text = text + "..." if text else ""
    return text, font


def _bar(time: int, caption: str | None, cell_pixels: int, width: int) -> Image.Image:
    height = _bar_pixels(cell_pixels)
    image = Image.new("RGB", (width, height), _BAR)
    draw = ImageDraw.Draw(image)
    margin, middle = max(4, height // 3), height / 2
    size = max(9, round(0.56 * height))
    step, font = _fit(f"step {time}", size, width - 2 * margin)
    draw.text((margin, middle), step, fill=_BAR_TEXT, font=font, anchor="lm")
    if caption:
        room = width - 3 * margin - font.getlength(step)
        text, font = _fit(caption, size, room)
        draw.text((width - margin, middle), text, fill=_BAR_TEXT, font=font, anchor="rm")
    return image


def _concrete(
    layout: Layout, worlds: World, cell_pixels: int, leading: int
) -> tuple[Layout, World]:
    """Both as NumPy arrays, once it is sure that they can be drawn together."""
    if cell_pixels < SMALLEST_CELL:
        raise ValueError(
            f"`cell_pixels` must be at least {SMALLEST_CELL} to be recognisable, not {cell_pixels}."
        )
    layout, worlds = jax.tree.map(np.asarray, (layout, worlds))
    grid = worlds.cells.thing.shape[leading:]
    if worlds.cells.thing.ndim != leading + 2 or grid != layout.fixtures.shape:
        kind = "a leading time axis and the layout's grid" if leading else "the layout's grid"
        raise ValueError(
            f"The cells of the world are {worlds.cells.thing.shape}, but they must have {kind} of "
            f"{layout.fixtures.shape} cells."
        )
    position = worlds.bodies.position
    if (position < 0).any() or (position >= np.asarray(grid)).any():
        raise ValueError(f"A cook stands outside of the layout's grid of {grid} cells.")
    return layout, worlds


def render(
    layout: Layout, world: World, *, cell_pixels: int = 64, caption: str | None = None
) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
    """Draws one world, with a slim bar below it that shows the time step.

    **Arguments:**

    - `layout`: the kitchen.
    - `world`: what to draw; concrete arrays.
    - `cell_pixels`: the side of a cell in pixels, at least 16; numbers are left out where they
        would be too small to read.
    - `caption`: a short text for the right of the bar, such as the score.

    **Returns:** the picture, RGB.

    **Raises:** `ValueError` when `cell_pixels` is too small, or the world does not fit the layout.
    """
    layout, world = _concrete(layout, world, cell_pixels, leading=0)
    height, width = layout.fixtures.shape
    tiles = [_tile(look, cell_pixels) for look in _looks(layout, world)]
    grid = _mosaic(tiles, height, width)
    bar = _bar(int(world.time), caption, cell_pixels, width * cell_pixels)
    return np.concatenate([grid, np.asarray(bar)])


def render_episode(
    layout: Layout,
    worlds: World,
    *,
    cell_pixels: int = 64,
    frames_per_second: Number = 8,
    captions: Sequence[str] | None = None,
) -> bytes:
    """Makes a film of one episode: an animated GIF that loops.

    **Arguments:**

    - `layout`: the kitchen.
    - `worlds`: what to draw, frame by frame: every array has a leading time axis.
    - `cell_pixels`: the side of a cell in pixels, at least 16.
    - `frames_per_second`: how fast it plays; a GIF counts in hundredths of a second, and viewers
        slow down what is faster than 50 frames per second.
    - `captions`: a short text for every frame, such as the score.

    **Returns:** the GIF file, for `pathlib.Path.write_bytes`.

    **Raises:** `ValueError` when `cell_pixels` is too small, the worlds do not fit the layout,
    there is no frame, the speed is not positive and at most 100, or there is not one caption per
    frame.
    """
    layout, worlds = _concrete(layout, worlds, cell_pixels, leading=1)
    count = len(worlds.time)
    if count == 0:
        raise ValueError("An episode needs at least one world to make a film of.")
    if not 0 < frames_per_second <= 100:
        raise ValueError(f"`frames_per_second` must be between 0 and 100, not {frames_per_second}.")
    if captions is not None and len(captions) != count:
        raise ValueError(
            f"There are {len(captions)} captions for {count} frames: give one for each."
        )
    frames = _frames(layout, worlds, cell_pixels, captions or [None] * count)
    file = io.BytesIO()
    frames[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=max(1, round(100 / frames_per_second)) * 10,
        loop=0,
        optimize=True,
        palette=bytes(frames[0].getpalette() or []),
    )
    return file.getvalue()


def _frame(worlds: World, number: int) -> World:
    return jax.tree.map(lambda leaf: leaf[number], worlds)


def _frames(
    layout: Layout, worlds: World, cell_pixels: int, captions: Sequence[str | None]
) -> list[Image.Image]:
    """The pictures of a film, all in one palette."""
    height, width = layout.fixtures.shape
    times = [int(time) for time in worlds.time]
    looks = [_looks(layout, _frame(worlds, number)) for number in range(len(times))]
    tiles = {look: _tile(look, cell_pixels) for look in dict.fromkeys(itertools.chain(*looks))}
    first_bar = _bar(times[0], captions[0], cell_pixels, width * cell_pixels)
    palette = _palette(list(tiles.values()), first_bar)

    def reduce(image: Image.Image) -> UInt8[np.ndarray, "pixel_rows pixel_cols"]:
        return np.asarray(image.quantize(palette=palette, dither=Image.Dither.NONE))

    indices = {look: reduce(Image.fromarray(tile)) for look, tile in tiles.items()}
    frames = []
    for shown, time, caption in zip(looks, times, captions, strict=True):
        grid = _mosaic([indices[look] for look in shown], height, width)
        bar = reduce(_bar(time, caption, cell_pixels, width * cell_pixels))
        frame = Image.fromarray(np.concatenate([grid, bar]))
        frame.putpalette(palette.getpalette() or [])
        frames.append(frame)
    return frames


def _palette(tiles: Sequence[UInt8[np.ndarray, "cell cell 3"]], bar: Image.Image) -> Image.Image:
    """An image whose palette is that of the film.

    A few of its 256 colours stay unused: Pillow marks with one what does not change in a frame.
    """
    pixels = np.concatenate(tiles).reshape(-1, 3)
    bar_pixels = np.resize(np.asarray(bar).reshape(-1, 3), (_PALETTE_SAMPLES // 20, 3))
    stride = len(pixels) // _PALETTE_SAMPLES | 1  # odd: no column of a tile is left out
    sample = Image.fromarray(np.concatenate([pixels[::stride], bar_pixels])[None])
    # Coverage keeps colours that are rare but matter, such as leaves; k-means then polishes.
    reduced = sample.quantize(_FILM_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3)
    colours = reduced.getpalette() or []
    reduced.putpalette(colours + [0] * (768 - len(colours)))
    return reduced
