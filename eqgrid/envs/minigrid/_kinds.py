"""The kinds of MiniGrid, their pictures, and the numbers by which MiniGrid encodes them.

As in MiniGrid, walls are objects: every cell is floor, and a room is a grid of object codes. The
numbers are from `minigrid/core/constants.py`, version 3.2.
"""

import itertools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, UInt8

from ...grid import AgentLook, Direction, Kind, Kinds, Look, Number, Pen

_DARK, _LINE, _WALL = "#16181D", "#33373F", "#6F757F"
_SHADES = (
    ("#E5484D", "#8E1F24"),
    ("#3DB96B", "#1B6B3A"),
    ("#4C8DF6", "#1F4B99"),
    ("#9A62E0", "#55308A"),
    ("#F2C230", "#8A6B05"),
    ("#9AA1AC", "#565C66"),
)
"""For each of `COLOURS`, the colour and a dark shade of it."""


def draw_floor(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_DARK, edge=_LINE, width=0.02)


def draw_outside(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#000000")


# Objects. Walls, goals, lava and doors fill their cell, so they ignore the place and the radius.


def draw_wall(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    pen.box(0, 0, 1, 1, fill=_WALL)
    pen.line([(0, 0.02), (1, 0.02)], fill="#858B95", width=0.04)
    pen.line([(0, 0.98), (1, 0.98)], fill="#565B64", width=0.04)


def draw_goal(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _SHADES[1]
    pen.box(0.03, 0.03, 0.97, 0.97, fill=fill, edge=dark, width=0.03)
    for side in (0.32, 0.16):
        pen.box(0.5 - side, 0.5 - side, 0.5 + side, 0.5 + side, fill=fill, edge=dark, width=0.04)


def draw_lava(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    pen.box(0.02, 0.02, 0.98, 0.98, fill="#E8671B")
    for top in (0.28, 0.52, 0.76):
        wave = [(0.12 + 0.19 * i, top + (0.09 if i % 2 else 0.0)) for i in range(5)]
        pen.line(wave, fill="#7A2A05", width=0.055)


def draw_door(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a door: a frame if open, a panel with a handle if closed, with a keyhole if locked."""
    colour, state = divmod(variant, len(STATES))
    fill, dark = _SHADES[colour]
    if state == 0:
        for left in (0.02, 0.86):
            pen.box(left, 0.02, left + 0.12, 0.98, fill=fill, edge=dark)
        return
    pen.box(0.02, 0.02, 0.98, 0.98, fill=dark, edge=fill, width=0.06)
    if state == 1:
        pen.box(0.16, 0.14, 0.84, 0.86, fill=_DARK, edge=fill, width=0.05)
        pen.disc(0.7, 0.5, 0.07, fill=fill)
        return
    pen.disc(0.5, 0.43, 0.13, fill=_DARK)
    pen.shape([(0.44, 0.46), (0.56, 0.46), (0.62, 0.76), (0.38, 0.76)], fill=_DARK)


def draw_key(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, _ = _SHADES[variant]
    r = radius
    pen.line([(x, y - 0.3 * r), (x, y + 1.2 * r)], fill=fill, width=0.26 * r)
    for tooth in (0.7, 1.1):
        points = [(x, y + tooth * r), (x + 0.55 * r, y + tooth * r)]
        pen.line(points, fill=fill, width=0.24 * r)
    pen.disc(x, y - 0.65 * r, 0.6 * r, fill=fill)
    pen.disc(x, y - 0.65 * r, 0.25 * r, fill=_DARK)


def draw_ball(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _SHADES[variant]
    pen.disc(x, y, 1.1 * radius, fill=fill, edge=dark, width=0.12 * radius)
    pen.disc(x - 0.35 * radius, y - 0.4 * radius, 0.2 * radius, fill=(255, 255, 255, 150))


def draw_box(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _SHADES[variant]
    r = 1.15 * radius
    pen.box(x - r, y - r, x + r, y + r, fill=dark, edge=fill, width=0.24 * radius)
    pen.box(x - r, y - 0.12 * r, x + r, y + 0.12 * r, fill=fill)


def draw_agent(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    """Draws a triangle that points in the agent's direction, with its number if there are several
    agents, and the held object in front of it.
    """
    colour, dark = agent.colours
    dx, dy = agent.step
    corners = [(0.4, 0.0), (-0.32, 0.32), (-0.2, 0.0), (-0.32, -0.32)]
    points = [(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in corners]
    pen.shape(points, fill=colour, edge=dark, width=0.03)
    if agent.numbered:
        pen.text(0.5, 0.5, str(agent.number), 0.26, fill="#FFFFFF")
    draw_held(0.5 + 0.28 * dx - 0.26 * dy, 0.5 + 0.28 * dy + 0.26 * dx, 0.13)


COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
"""The colours of doors, keys, balls and boxes, by MiniGrid's number."""

STATES = ("open", "closed", "locked")
"""The states of a door, by MiniGrid's number."""

_DOORS = tuple(itertools.product(COLOURS, STATES))
_SOLID_DOORS = tuple(state != "open" for _, state in _DOORS)


def _carryable(name: str, char: str, sprite: Callable[..., None]) -> Kind:
    """A kind of object that agents can carry, with one variant for each colour."""
    return Kind(
        name,
        char,
        solid=True,
        opaque=False,
        carryable=True,
        variants=len(COLOURS),
        sprite=sprite,
    )


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True, sprite=draw_floor),
        Kind("outside", "X", solid=True, sprite=draw_outside),
    ),
    objects=(
        Kind("wall", "#", solid=True, sprite=draw_wall),
        Kind("goal", "G", sprite=draw_goal),
        Kind("lava", "V", sprite=draw_lava),
        Kind("door", "D", solid=_SOLID_DOORS, variants=len(_DOORS), sprite=draw_door),
        _carryable("key", "K", draw_key),
        _carryable("ball", "A", draw_ball),
        _carryable("box", "B", draw_box),
    ),
    agent_sprite=draw_agent,
)
"""The kinds of all rooms. The variant of a key, ball or box is its colour. The variant of a door
is `3 * colour + state`. The tile `outside` is only seen beyond the edge of the grid.
"""

WALL, GOAL, LAVA = KINDS.code("wall"), KINDS.code("goal"), KINDS.code("lava")
DOOR, KEY, BALL, BOX = (KINDS.code(name) for name in ("door", "key", "ball", "box"))
OPEN, CLOSED, LOCKED = range(3)


def door_code(colour: Int[ArrayLike, ""], state: Int[ArrayLike, ""]) -> UInt8[Array, ""]:
    """The object code of a door, from the numbers of its colour and its state."""
    return jnp.asarray(DOOR + len(STATES) * colour + state).astype(jnp.uint8)


# MiniGrid's numbers of the object, its colour and its state: an unseen cell, an empty cell, a wall.
UNSEEN, EMPTY, WALL_SYMBOL = (0, 0, 0), (1, 0, 0), (2, 5, 0)

AGENT = 10
"""MiniGrid's number of an agent as an object."""

SYMBOLS = np.asarray(
    [
        EMPTY,
        WALL_SYMBOL,
        (8, 1, 0),  # a goal
        (9, 0, 0),  # lava
        *itertools.product((4,), range(len(COLOURS)), range(len(STATES))),  # doors
        *itertools.product((5, 6, 7), range(len(COLOURS)), (0,)),  # keys, balls and boxes
    ],
    np.uint8,
)
"""For each object code, MiniGrid's numbers of the object, its colour and its state."""

DIRECTION_SYMBOLS = np.zeros(4, np.uint8)
"""For each `Direction`, MiniGrid's number: right, down, left and up are 0 to 3."""
DIRECTION_SYMBOLS[[Direction.EAST, Direction.SOUTH, Direction.WEST, Direction.NORTH]] = range(4)
