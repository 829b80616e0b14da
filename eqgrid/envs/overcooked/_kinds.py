"""The kinds of tiles and objects of Overcooked, in the order of `Tile` and `Item`, and their
pictures.
"""

import math
from collections.abc import Callable

import numpy as np

from ...grid import (
    NOTHING,
    AgentLook,
    Colour,
    Direction,
    Kind,
    Kinds,
    Look,
    Number,
    Pen,
    Point,
    top_of,
)
from ._contents import RADIX, Recipes, contents_of

_DIGIT_HEIGHT = 0.3  # of the countdown, in cells

_FLOOR = ("#F3EADB", "#E9DDC9")
_SKIN, _SKIN_EDGE = "#F7D3AE", "#9A6A42"
_ONION, _ONION_EDGE = "#F6DC94", "#8D5A14"
_TOMATO, _TOMATO_EDGE = "#E2402F", "#7E150C"
_LEAF, _LEAF_EDGE = "#3E9A45", "#1F5A26"
_PLATE, _PLATE_EDGE = "#FDFDFE", "#7D8896"
_WOOD, _WOOD_DARK, _WOOD_LIGHT = "#C8955A", "#8C5F30", "#DDB07A"
_STEEL, _STEEL_DARK, _STEEL_LIGHT = "#79828F", "#4A515D", "#A4ADB9"
_READY, _COOKING = "#2FB45A", "#FF8A1F"
_BROTH_ONION, _BROTH_TOMATO = (214, 158, 58), (205, 74, 44)


# Items.


def _onion(pen: Pen, x: Number, y: Number, r: Number) -> None:
    width = max(0.018, 0.11 * r)
    tip = [(-0.34, -0.62), (-0.2, -1.2), (0.0, -0.92), (0.26, -1.22), (0.34, -0.62)]
    pen.shape(
        [(x + r * a, y + r * b) for a, b in tip], fill=_LEAF, edge=_LEAF_EDGE, width=width * 0.8
    )
    pen.disc(x, y + 0.08 * r, r, 0.88 * r, fill=_ONION, edge=_ONION_EDGE, width=width)
    if r * pen.pixels >= 5:
        pen.disc(x, y + 0.08 * r, 0.48 * r, 0.88 * r, fill=None, edge="#C9973F", width=width * 0.7)
        pen.disc(x - 0.45 * r, y - 0.22 * r, 0.16 * r, 0.22 * r, fill="#FFF6DA")


def _tomato(pen: Pen, x: Number, y: Number, r: Number) -> None:
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


def _broth(onions: int, tomatoes: int) -> tuple[int, int, int]:
    share = tomatoes / max(1, onions + tomatoes)
    mixed = [round(a + (b - a) * share) for a, b in zip(_BROTH_ONION, _BROTH_TOMATO, strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _ingredients(pen: Pen, x: Number, y: Number, r: Number, onions: int, tomatoes: int) -> None:
    """Draws the ingredients of a soup side by side in a circle of radius `r`."""
    sprites = [_onion] * onions + [_tomato] * tomatoes
    count = len(sprites)
    ring = 0.0 if count == 1 else 0.5 * r
    for k, draw in enumerate(sprites):
        angle = 2 * math.pi * k / count + (math.pi if count == 2 else math.pi / 6)
        draw(pen, x + ring * math.cos(angle), y + ring * math.sin(angle), 0.42 * r)


# The sprites of objects have a `variant`, which only soups use.


def draw_onion(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    _onion(pen, x, y, radius * 0.86)


def draw_tomato(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    _tomato(pen, x, y, radius * 0.88)


def draw_dish(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    r = radius
    pen.disc(x, y, r, fill=_PLATE, edge=_PLATE_EDGE, width=max(0.018, 0.1 * r))
    pen.disc(x, y, 0.62 * r, fill="#EEF2F6", edge="#C3CBD5", width=max(0.012, 0.06 * r))


def draw_soup(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a soup, whose variant is `4 * onions + tomatoes`."""
    onions, tomatoes = divmod(variant, RADIX)
    r = radius * 1.12
    pen.disc(x, y, r, fill=_PLATE, edge=_PLATE_EDGE, width=max(0.018, 0.1 * r))
    pen.disc(x, y, 0.78 * r, fill=_broth(onions, tomatoes), edge="#7A4A16", width=0.015)
    _ingredients(pen, x, y, 0.72 * r, onions, tomatoes)


# Tiles.


def _block(
    pen: Pen,
    open_sides: tuple[bool, bool, bool, bool],
    *,
    fill: Colour,
    light: Colour,
    dark: Colour,
) -> None:
    """Draws a solid block, seen slightly from the front."""
    top = top_of(open_sides)
    pen.box(0, 0, 1, 1, fill=dark)
    pen.box(0, 0, 1, top, fill=fill)
    rim = 0.045
    if open_sides[Direction.NORTH]:
        pen.box(0, 0, 1, rim, fill=light)
    if open_sides[Direction.WEST]:
        pen.box(0, 0, rim, top, fill=light)
    if open_sides[Direction.EAST]:
        pen.box(1 - rim, 0, 1, top, fill=light)
    if top < 1:
        pen.box(0, top - rim, 1, top, fill=light)


def _counter(pen: Pen, open_sides: tuple[bool, bool, bool, bool]) -> None:
    _block(pen, open_sides, fill=_WOOD, light=_WOOD_LIGHT, dark=_WOOD_DARK)
    top = top_of(open_sides)
    for share in (1 / 3, 2 / 3):
        pen.line([(0.0, share * top), (1.0, share * top)], fill="#B7834A", width=0.018)
    pen.line([(0.32, 0.0), (0.32, top / 3)], fill="#B7834A", width=0.018)
    pen.line([(0.7, top / 3), (0.7, top * 2 / 3)], fill="#B7834A", width=0.018)
    pen.line([(0.2, top * 2 / 3), (0.2, top - 0.04)], fill="#B7834A", width=0.018)


def _crate(pen: Pen, y: Number, draw: Callable[[Pen, Number, Number, Number], None]) -> None:
    """Draws an open crate with five ingredients, each drawn by `draw`."""
    pen.box(
        0.13, y - 0.3, 0.87, y + 0.34, fill="#5E3B1A", edge="#4A2D12", width=0.03, round_by=0.05
    )
    for dx, dy in ((-0.19, -0.13), (0.19, -0.13), (0.0, -0.08), (-0.17, 0.06), (0.17, 0.06)):
        draw(pen, 0.5 + dx, y + dy, 0.16)
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


def draw_floor(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_FLOOR[look.shade], edge="#DCCDB4", width=0.008)
    if not look.open_sides[Direction.NORTH]:
        for depth in (0.04, 0.08, 0.12):
            pen.box(0, 0, 1, depth, fill=(90, 60, 30, 26))


def draw_counter(pen: Pen, look: Look) -> None:
    _counter(pen, look.open_sides)


def draw_onions(pen: Pen, look: Look) -> None:
    _counter(pen, look.open_sides)
    _crate(pen, look.middle, _onion)


def draw_tomatoes(pen: Pen, look: Look) -> None:
    _counter(pen, look.open_sides)
    _crate(pen, look.middle, _tomato)


def draw_dishes(pen: Pen, look: Look) -> None:
    y = look.middle
    _counter(pen, look.open_sides)
    pen.disc(0.5, y + 0.14, 0.36, 0.24, fill=(60, 35, 10, 90))
    for k in range(5):
        level = y + 0.13 - 0.065 * k
        pen.disc(0.5, level, 0.34, 0.22, fill=_PLATE, edge=_PLATE_EDGE, width=0.022)
    pen.disc(0.5, y - 0.135, 0.21, 0.125, fill="#EAEFF4", edge="#C3CBD5", width=0.018)


def draw_hatch(pen: Pen, look: Look) -> None:
    """Draws a serving hatch: a bright counter with a bell on it."""
    _block(pen, look.open_sides, fill="#3FA7A0", light="#7FD0C8", dark="#1F6963")
    top = top_of(look.open_sides)
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


def draw_wall(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#343A46")


# Pots.


def draw_pot(pen: Pen, look: Look) -> None:
    _block(pen, look.open_sides, fill="#59616E", light="#7F8896", dark="#31363F")
    if look.open_sides[Direction.SOUTH]:
        for knob in (0.3, 0.5, 0.7):
            pen.disc(knob, 0.925, 0.035, fill="#C9CFD8")
    x, y = 0.5, look.middle
    burner = _READY if look.timer == 0 else "#3C424C"
    pen.disc(x, y, 0.4, fill="#2B3038")
    pen.disc(x, y, 0.39, fill=None, edge=burner, width=0.06)
    if look.timer > 0:
        done = 1 - min(1.0, look.timer / max(1, look.duration))
        pen.disc(x, y, 0.39, fill=None, edge="#6B4A2C", width=0.06)
        pen.arc(x, y, 0.39, -90, -90 + 360 * max(done, 0.02), fill=_COOKING, width=0.06)
    for side in (-1, 1):
        pen.disc(x + side * 0.33, y, 0.075, 0.1, fill=_STEEL_DARK, edge="#23272E", width=0.02)
    pen.disc(x, y, 0.315, fill=_STEEL_LIGHT, edge="#2B3038", width=0.022)
    onions, tomatoes = contents_of(look.lying)
    if onions + tomatoes == 0:
        pen.disc(x, y, 0.255, fill="#454C57", edge=_STEEL, width=0.02)
        pen.disc(x, y + 0.04, 0.19, 0.17, fill="#3A404A")
        return
    pen.disc(x, y, 0.255, fill=_broth(onions, tomatoes), edge="#6A4A1C", width=0.02)
    _ingredients(pen, x, y, 0.27, onions, tomatoes)
    if look.timer > 0 and pen.can_write(_DIGIT_HEIGHT):
        text = str(look.timer)
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
        pen.text(x, y, text, _DIGIT_HEIGHT, fill="#2A1A08")
    if look.timer == 0:
        # Steam, and a tick in the corner.
        for x in (0.36, 0.5, 0.64):
            rise = [
                (x + 0.03 * math.sin(9 * t), y - 0.12 - 0.27 * t) for t in np.linspace(0.0, 1.0, 12)
            ]
            pen.line(rise, fill="#FFFFFF", width=0.035)
        pen.disc(0.81, 0.81, 0.165, fill=_READY, edge="#FFFFFF", width=0.03)
        pen.line([(0.735, 0.815), (0.79, 0.865), (0.885, 0.755)], fill="#FFFFFF", width=0.05)


# Cooks.


def draw_cook(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    colour, dark = agent.colours
    direction = Direction(agent.direction)
    dx, dy = agent.step
    pen.pointer(dx, dy, colour)
    x, y = 0.5 - 0.11 * dx, {Direction.NORTH: 0.66, Direction.SOUTH: 0.45}.get(direction, 0.52)
    empty = agent.held == NOTHING
    hold = {Direction.NORTH: (0.5, 0.27 if empty else 0.165), Direction.SOUTH: (0.5, 0.74)}.get(
        direction, (0.5 + (0.22 if empty else 0.29) * dx, 0.64)
    )
    pen.disc(x, y + 0.3, 0.22, 0.04, fill=(60, 40, 20, 80))
    if direction == Direction.NORTH:
        _arms(pen, x, y, hold, dx, colour, dark)
        draw_held(*hold, 0.15)
    _body(pen, x, y, dx, dy, colour, dark)
    _head(pen, x, y - 0.05, dx, dy)
    _hat(pen, x - 0.02 * dx, y - 0.2, colour, dark, str(agent.number) if agent.numbered else "")
    if direction != Direction.NORTH:
        _arms(pen, x, y, hold, dx, colour, dark)
        draw_held(*hold, 0.19)


def _body(pen: Pen, x: Number, y: Number, dx: int, dy: int, colour: str, dark: str) -> None:
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


def _head(pen: Pen, x: Number, y: Number, dx: int, dy: int) -> None:
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


def _hat(pen: Pen, x: Number, y: Number, colour: str, dark: str, number: str) -> None:
    puffs = ((-0.13, -0.02, 0.1), (0.13, -0.02, 0.1), (0.0, -0.06, 0.125))
    for a, b, r in puffs:
        pen.disc(x + a, y + b, r, fill="#FFFFFF", edge="#8A93A0")
    pen.box(x - 0.15, y - 0.04, x + 0.15, y + 0.09, fill="#FFFFFF")
    for a, b, r in puffs:
        pen.disc(x + a, y + b, r - 0.02, fill="#FFFFFF")
    pen.box(x - 0.17, y + 0.04, x + 0.17, y + 0.11, fill=colour, edge=dark, round_by=0.03)
    pen.text(x, y - 0.055, number, 0.25, fill="#20242B")


def _arms(pen: Pen, x: Number, y: Number, hold: Point, dx: int, colour: str, dark: str) -> None:
    hold_x, hold_y = hold
    for side in (-1, 1):
        hand = (hold_x + 0.17 * side, hold_y + 0.03) if dx == 0 else (hold_x, hold_y + 0.06 * side)
        shoulder = (x + (0.17 * side if dx == 0 else 0.04 * dx), y + 0.14)
        pen.line([shoulder, hand], fill=dark, width=0.095)
        pen.line([shoulder, hand], fill=colour, width=0.06)
        pen.disc(*hand, 0.055, fill=_SKIN, edge=_SKIN_EDGE, width=0.018)


def _cook_time(recipes: Recipes, code: int) -> int:
    return int(recipes.cook_time[contents_of(code)])


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", sprite=draw_floor),
        Kind("counter", "X", solid=True, holds=True, sprite=draw_counter),
        Kind(
            "pot",
            "P",
            solid=True,
            draws_object=True,
            duration=_cook_time,
            sprite=draw_pot,
        ),
        Kind("onion_dispenser", "O", solid=True, sprite=draw_onions),
        Kind("tomato_dispenser", "T", solid=True, sprite=draw_tomatoes),
        Kind("dish_dispenser", "D", solid=True, sprite=draw_dishes),
        Kind("serving", "S", solid=True, sprite=draw_hatch),
        Kind("wall", "#", solid=True, sprite=draw_wall),
    ),
    objects=(
        Kind("onion", carryable=True, sprite=draw_onion),
        Kind("tomato", carryable=True, sprite=draw_tomato),
        Kind("dish", carryable=True, sprite=draw_dish),
        Kind("soup", carryable=True, variants=RADIX**2, sprite=draw_soup),
    ),
    agent_sprite=draw_cook,
)
"""The kinds of Overcooked. A game that extends Overcooked appends its own kinds, so that the
numbers of these kinds do not change.
"""
