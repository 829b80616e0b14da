"""The kinds of tiles and objects of the warehouse, in the order of `Tile` and `Load`, and their
pictures.
"""

from collections.abc import Callable
from enum import IntEnum

from ...grid import NOTHING, AgentLook, Kind, Kinds, Look, Number, Pen

_FLOOR = ("#ECEEF1", "#E3E6EA")
_WOOD, _WOOD_DARK, _WOOD_LIGHT = "#B98B5B", "#6E4C28", "#D6AE80"
_WANTED, _WANTED_DARK = "#FFF1EC", "#A81C12"


def draw_corridor(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_FLOOR[look.shade], edge="#D2D7DE", width=0.01)


def draw_rack(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#C9D1DB", edge="#B4BECA", width=0.01)
    for x in (0.08, 0.92):
        for y in (0.08, 0.92):
            pen.disc(x, y, 0.035, fill="#8D99A8")


def draw_goal(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#F7D354", edge="#B8890B", width=0.02)
    for k in range(4):
        x = 0.125 + 0.25 * k
        pen.box(x - 0.065, 0.0, x + 0.065, 0.09, fill="#3A3F47")
        pen.box(x - 0.065, 0.91, x + 0.065, 1.0, fill="#3A3F47")


def draw_wall(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#343A46")


def draw_shelf(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws boards with boxes."""
    half = 1.6 * radius
    pen.box(x - half, y - half, x + half, y + half, fill=_WOOD, edge=_WOOD_DARK, width=0.14 * half)
    for share in (-0.33, 0.33):
        line = [(x - half, y + share * half), (x + half, y + share * half)]
        pen.line(line, fill=_WOOD_DARK, width=0.09 * half)
    for a, b in ((-0.5, -0.66), (0.1, -0.66), (-0.2, 0.0), (0.45, 0.0), (-0.45, 0.66)):
        size = 0.19 * half
        left, top = x + a * half - size, y + b * half - size
        pen.box(left, top, left + 2 * size, top + 2 * size, fill=_WOOD_LIGHT)


def draw_requested_shelf(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a light shelf with a diamond, so that it differs from other shelves also in shape."""
    half, tip = 1.6 * radius, 0.95 * radius
    edges = (x - half, y - half, x + half, y + half)
    pen.box(*edges, fill=_WANTED, edge=_WANTED_DARK, width=0.24 * half)
    diamond = [(x, y - tip), (x + tip, y), (x, y + tip), (x - tip, y)]
    pen.shape(diamond, fill=_WANTED_DARK)


def draw_robot(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    """Draws a robot, which is above a shelf in its cell and below a shelf that it carries."""
    colour, dark = agent.colours
    dx, dy = agent.step
    wide, high = (0.36, 0.3) if dx else (0.3, 0.36)
    if agent.held != NOTHING:
        wide, high = 0.46, 0.46
    for side in (-1, 1):
        x, y = 0.5 + (wide - 0.02) * side * abs(dy), 0.5 + (high - 0.02) * side * abs(dx)
        along, across = (0.2, 0.05) if dx else (0.05, 0.2)
        pen.box(x - along, y - across, x + along, y + across, fill="#20242B", round_by=0.03)
    box = (0.5 - wide + 0.03, 0.5 - high + 0.03, 0.5 + wide - 0.03, 0.5 + high - 0.03)
    pen.box(*box, fill=colour, edge=dark, width=0.03, round_by=0.1)
    draw_held(0.5 - 0.06 * dx, 0.5 - 0.06 * dy, 0.19)
    reach = 0.47 if agent.held != NOTHING else 0.36
    tip = [(reach, 0.0), (reach - 0.16, -0.14), (reach - 0.16, 0.14)]
    points = [(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in tip]
    pen.shape(points, fill="#FFFFFF", edge=dark, width=0.025)
    if agent.held == NOTHING:
        pen.text(0.5 - 0.1 * dx, 0.5 - 0.1 * dy, str(agent.number), 0.3, fill="#FFFFFF")


class Tile(IntEnum):
    """The kinds of tiles. A robot can put a shelf down only on a `RACK`."""

    CORRIDOR = 0
    RACK = 1
    GOAL = 2
    WALL = 3


class Load(IntEnum):
    """The code of the shelf in a cell, or of the shelf that a robot carries. Shelves have no
    identity: the rules only need to know whether a shelf is requested.
    """

    NOTHING = 0
    SHELF = 1
    REQUESTED = 2


KINDS = Kinds(
    tiles=(
        Kind("corridor", ".", holds=True, sprite=draw_corridor),
        Kind("rack", "X", holds=True, sprite=draw_rack),
        Kind("goal", "G", holds=True, sprite=draw_goal),
        Kind("wall", "#", solid=True, sprite=draw_wall),
    ),
    objects=(
        Kind("shelf", carryable=True, sprite=draw_shelf),
        Kind("requested_shelf", carryable=True, sprite=draw_requested_shelf),
    ),
    agent_sprite=draw_robot,
)
"""The kinds of a warehouse."""
