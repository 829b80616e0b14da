"""The kinds of tiles, objects and roles of search and rescue, and their pictures."""

from collections.abc import Callable
from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ..._functions import Partial
from ...grid import NOTHING, AgentLook, Direction, Kind, Kinds, Look, Number, Pen, World, top_of


class Tile(IntEnum):
    """The kinds of tiles."""

    FLOOR = 0
    WALL = 1
    EXIT = 2


class Thing(IntEnum):
    """The object codes. Agents can carry only keys and green victims, and walk only over an open
    door.
    """

    NOTHING = 0
    GREEN_VICTIM = 1
    YELLOW_VICTIM = 2
    RED_VICTIM = 3
    RUBBLE = 4
    HIGH_RUBBLE = 5
    PURPLE_DOOR = 6
    BLUE_DOOR = 7
    ORANGE_DOOR = 8
    OPEN_DOOR = 9
    PURPLE_KEY = 10
    BLUE_KEY = 11
    ORANGE_KEY = 12


class Role(IntEnum):
    """The role of an agent: only a medic can heal, and only an engineer can clear rubble."""

    MEDIC = 0
    ENGINEER = 1


VICTIMS = (Thing.GREEN_VICTIM, Thing.YELLOW_VICTIM, Thing.RED_VICTIM)
"""The codes of all victims, of any colour."""

DOORS = (Thing.PURPLE_DOOR, Thing.BLUE_DOOR, Thing.ORANGE_DOOR)
KEYS = (Thing.PURPLE_KEY, Thing.BLUE_KEY, Thing.ORANGE_KEY)
"""The codes of the closed doors, and of their keys in the same order."""

KEY_OF_DOOR = KEYS[0] - DOORS[0]
"""The difference between the codes of a key and of its door."""


def is_key(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are keys."""
    return code >= KEYS[0]


def is_victim(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are victims, of any colour."""
    return (code >= VICTIMS[0]) & (code <= VICTIMS[-1])


def victims_left(world: World) -> Int32[Array, ""]:
    """The number of victims that are not rescued yet, in cells or carried."""
    lying = is_victim(world.cells.object).sum(dtype=jnp.int32)
    return lying + is_victim(world.bodies.held).sum(dtype=jnp.int32)


_FLOOR = ("#E6E3DC", "#DAD6CD")
_STONE, _STONE_DARK, _STONE_LIGHT = "#8D8478", "#4F483F", "#B0A799"
_SKIN, _SKIN_EDGE = "#F7D3AE", "#9A6A42"
_PURPLE, _BLUE, _ORANGE = ("#9B4FC4", "#4E2366"), ("#2F74D0", "#173C70"), ("#F08A24", "#86470A")
_GREEN_BLANKET, _YELLOW_BLANKET = ("#35A852", "#1A5A2B"), ("#F2C21B", "#8A6B05")
_RED_BLANKET = ("#D8362F", "#7A1512")


# Tiles.


def draw_floor(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_FLOOR[look.shade], edge="#CBC6BA", width=0.008)


def draw_wall(pen: Pen, look: Look) -> None:
    top = top_of(look.open_sides)
    pen.box(0, 0, 1, 1, fill="#3A404B")
    pen.box(0, 0, 1, top, fill="#5C6472")
    if top < 1:
        pen.line([(0, top), (1, top)], fill="#7C8594", width=0.025)


def draw_exit(pen: Pen, look: Look) -> None:
    """Draws an illuminated exit sign: a person who runs to an open door."""
    pen.box(0, 0, 1, 1, fill="#0F5A32")
    pen.box(0.06, 0.06, 0.94, 0.94, fill="#18A058", edge="#BFF3D5", width=0.03, round_by=0.08)
    pen.box(0.62, 0.18, 0.86, 0.84, fill="#FFFFFF")
    pen.disc(0.4, 0.27, 0.085, fill="#FFFFFF")
    pen.line([(0.38, 0.38), (0.33, 0.58)], fill="#FFFFFF", width=0.12)
    pen.line([(0.33, 0.58), (0.46, 0.68), (0.42, 0.84)], fill="#FFFFFF", width=0.075)
    pen.line([(0.33, 0.58), (0.26, 0.72), (0.13, 0.74)], fill="#FFFFFF", width=0.075)
    pen.line([(0.2, 0.5), (0.27, 0.39), (0.4, 0.39), (0.54, 0.5)], fill="#FFFFFF", width=0.06)


# Victims.


def _draw_victim(pen: Pen, x: Number, y: Number, r: Number, blanket: tuple[str, str]) -> None:
    """Draws a person under a blanket, in the colour of the victim."""
    fill, dark = blanket
    r = 1.2 * r
    width = max(0.018, 0.09 * r)
    pen.box(
        x - 1.25 * r, y - 0.62 * r, x + 1.25 * r, y + 0.72 * r, fill="#FFFFFF", round_by=0.2 * r
    )
    pen.disc(x - 0.82 * r, y, 0.4 * r, fill=_SKIN, edge=_SKIN_EDGE, width=width)
    pen.disc(x - 0.95 * r, y - 0.12 * r, 0.24 * r, 0.2 * r, fill="#5B3A22")
    pen.box(
        x - 0.42 * r,
        y - 0.6 * r,
        x + 1.2 * r,
        y + 0.7 * r,
        fill=fill,
        edge=dark,
        width=width,
        round_by=0.3 * r,
    )


def draw_green_victim(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    _draw_victim(pen, x, y, radius, _GREEN_BLANKET)


def draw_yellow_victim(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a yellow victim. A cross shows that it needs a medic."""
    _draw_victim(pen, x, y, radius, _YELLOW_BLANKET)
    _draw_cross(pen, x + 0.47 * radius, y + 0.06 * radius, 0.42 * radius, "#C8261E")


def draw_red_victim(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a red victim under a beam. A 2 shows that it needs two rescuers."""
    _draw_victim(pen, x, y, radius, _RED_BLANKET)
    beam = [(-0.5, 0.9), (-0.1, 1.1), (1.3, -0.8), (0.9, -1.0)]
    pen.shape(
        [(x + a * radius, y + b * radius) for a, b in beam],
        fill=_STONE_LIGHT,
        edge=_STONE_DARK,
        width=0.02,
    )
    if pen.can_write(0.26):
        pen.disc(0.82, 0.82, 0.15, fill="#FFFFFF", edge=_RED_BLANKET[1], width=0.02)
        pen.text(0.82, 0.82, "2", 0.26, fill=_RED_BLANKET[1])


def _draw_cross(pen: Pen, x: Number, y: Number, r: Number, colour: str) -> None:
    pen.box(x - r, y - 0.34 * r, x + r, y + 0.34 * r, fill=colour)
    pen.box(x - 0.34 * r, y - r, x + 0.34 * r, y + r, fill=colour)


# Rubble.


def _draw_stone(pen: Pen, x: Number, y: Number, r: Number) -> None:
    corners = [(-1.0, 0.75), (-0.85, -0.3), (-0.2, -0.85), (0.65, -0.6), (1.0, 0.2), (0.8, 0.75)]
    points = [(x + a * r, y + b * r) for a, b in corners]
    pen.shape(points, fill=_STONE, edge=_STONE_DARK, width=0.022)
    pen.shape([points[1], points[2], (x + 0.1 * r, y)], fill=_STONE_LIGHT)


def draw_rubble(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    for dx, dy, size in ((-0.75, 0.6, 0.65), (0.75, 0.65, 0.7), (0.0, 0.1, 0.75)):
        _draw_stone(pen, x + dx * radius, y + dy * radius, size * radius)


def draw_high_rubble(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    heap = (
        (-1.0, 0.9, 0.65),
        (1.0, 0.9, 0.65),
        (0.0, 0.95, 0.7),
        (-0.6, 0.0, 0.75),
        (0.6, 0.0, 0.75),
        (0.0, -0.85, 0.75),
    )
    for dx, dy, size in heap:
        _draw_stone(pen, x + dx * radius, y + dy * radius, size * radius)


# Doors and keys.


def _draw_door(
    colours: tuple[str, str], pen: Pen, variant: int, x: Number, y: Number, radius: Number
) -> None:
    """Draws a door, which fills its cell whatever the radius."""
    fill, dark = colours
    pen.box(0.02, 0.02, 0.98, 0.98, fill=dark, round_by=0.04)
    pen.box(0.1, 0.08, 0.9, 0.94, fill=fill, round_by=0.03)
    for top in (0.16, 0.56):
        pen.box(0.2, top, 0.62, top + 0.3, fill=dark, round_by=0.03)
        pen.box(0.23, top + 0.03, 0.59, top + 0.27, fill=fill, round_by=0.02)
    pen.disc(0.76, 0.5, 0.075, fill="#FFE9A8", edge=dark, width=0.02)


def _draw_key(
    colours: tuple[str, str], pen: Pen, variant: int, x: Number, y: Number, radius: Number
) -> None:
    fill, dark = colours
    r = radius
    for colour, width in ((dark, 0.42 * r), (fill, 0.24 * r)):
        pen.line([(x - 0.2 * r, y), (x + 1.1 * r, y)], fill=colour, width=width)
        for tooth in (0.6, 0.98):
            points = [(x + tooth * r, y), (x + tooth * r, y + 0.5 * r)]
            pen.line(points, fill=colour, width=width)
    pen.disc(x - 0.55 * r, y, 0.55 * r, fill=fill, edge=dark, width=0.1 * r)
    pen.disc(x - 0.55 * r, y, 0.22 * r, fill="#FFFFFF", edge=dark, width=0.1 * r)


draw_purple_door = Partial(_draw_door, _PURPLE)
draw_blue_door = Partial(_draw_door, _BLUE)
draw_orange_door = Partial(_draw_door, _ORANGE)
draw_purple_key = Partial(_draw_key, _PURPLE)
draw_blue_key = Partial(_draw_key, _BLUE)
draw_orange_key = Partial(_draw_key, _ORANGE)


def draw_open_door(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws an open door: posts on the left and on the right."""
    for left in (0.02, 0.86):
        pen.box(left, 0.02, left + 0.12, 0.98, fill="#8B6B45", edge="#54401F", round_by=0.03)
    pen.box(0.14, 0.42, 0.86, 0.58, fill=(139, 107, 69, 70))


# Rescuers.


def draw_rescuer(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    """Draws a rescuer in a jacket of the agent's colour. A medic has a white cap with a cross, and
    an engineer has a yellow helmet.
    """
    colour, dark = agent.colours
    dx, dy = agent.step
    pen.pointer(dx, dy, colour)
    x = 0.5 - 0.1 * dx
    y = {Direction.NORTH: 0.6, Direction.SOUTH: 0.46}.get(Direction(agent.direction), 0.52)
    hands = (0.5 + 0.27 * dx, 0.66) if dx else (0.5, 0.24 if dy < 0 else 0.78)
    # The body of a rescuer that faces north hides part of the held object.
    if dy < 0 and agent.held != NOTHING:
        draw_held(*hands, 0.15)
    half = 0.2 if dx == 0 else 0.17
    pen.box(x - half, y + 0.02, x + half, y + 0.33, fill=colour, edge=dark, round_by=0.12)
    pen.line([(x - half + 0.02, y + 0.2), (x + half - 0.02, y + 0.2)], fill="#E8F04A", width=0.05)
    pen.disc(x, y - 0.06, 0.18, 0.17, fill=_SKIN, edge=_SKIN_EDGE)
    if dy >= 0:
        for eye in (-0.07, 0.07) if dy > 0 else (0.05 * dx, 0.13 * dx):
            pen.disc(x + eye, y - 0.02, 0.024, 0.034, fill="#2A1A12")
    _draw_hat(pen, x, y - 0.13, agent, dx)
    if dy >= 0 and agent.held != NOTHING:
        draw_held(*hands, 0.16)


def _draw_hat(pen: Pen, x: Number, y: Number, agent: AgentLook, dx: int) -> None:
    medic = Role.MEDIC in agent.extra
    fill, edge = ("#FFFFFF", "#7D8896") if medic else ("#FFD21F", "#8A6B05")
    pen.box(x - 0.18, y - 0.15, x + 0.18, y + 0.06, fill=fill, edge=edge, round_by=0.1)
    brim = 0.06 * dx
    pen.box(x - 0.22 + brim, y + 0.02, x + 0.22 + brim, y + 0.075, fill=fill, edge=edge)
    if agent.numbered:
        pen.text(x, y - 0.05, str(agent.number), 0.2, fill="#20242B")
    elif medic:
        _draw_cross(pen, x, y - 0.055, 0.07, "#C8261E")
    else:
        pen.line([(x, y - 0.14), (x, y + 0.02)], fill=edge, width=0.035)


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True, sprite=draw_floor),
        Kind("wall", "#", solid=True, sprite=draw_wall),
        Kind("exit", "E", solid=True, sprite=draw_exit),
    ),
    objects=(
        Kind("green_victim", "G", solid=True, carryable=True, sprite=draw_green_victim),
        Kind("yellow_victim", "Y", solid=True, sprite=draw_yellow_victim),
        Kind("red_victim", "R", solid=True, sprite=draw_red_victim),
        Kind("rubble", ".", solid=True, sprite=draw_rubble),
        Kind("high_rubble", ":", solid=True, sprite=draw_high_rubble),
        Kind("purple_door", ")", solid=True, sprite=draw_purple_door),
        Kind("blue_door", "]", solid=True, sprite=draw_blue_door),
        Kind("orange_door", ">", solid=True, sprite=draw_orange_door),
        Kind("open_door", "|", sprite=draw_open_door),
        Kind("purple_key", "(", solid=True, carryable=True, sprite=draw_purple_key),
        Kind("blue_key", "[", solid=True, carryable=True, sprite=draw_blue_key),
        Kind("orange_key", "<", solid=True, carryable=True, sprite=draw_orange_key),
    ),
    agent_sprite=draw_rescuer,
)
"""The kinds of a site. An opening bracket is a key; the matching closing bracket is its door."""
