"""The inputs of the picture of one cell, and the default sprites."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .._kinds import NOTHING, Kind, Kinds
from .._world import Direction
from ._pen import Number, Pen

# Ordered so that neighbouring colours also differ in lightness, for readers with colour blindness.
_AGENT_COLOURS = (
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

_FLOORS = ("#F3EADB", "#E9DDC9")
_STEPS = {
    Direction.NORTH: (0, -1),
    Direction.SOUTH: (0, 1),
    Direction.EAST: (1, 0),
    Direction.WEST: (-1, 0),
}


def agent_colours(number: int) -> tuple[str, str]:
    """The colour of an agent and a dark shade of it; agents are numbered from 1."""
    return _AGENT_COLOURS[(number - 1) % len(_AGENT_COLOURS)]


class AgentLook(NamedTuple):
    """The inputs of an agent's picture, as a hashable tuple.

    - `number`: the number of the agent, counted from 1.
    - `direction`: the direction that it faces, as a `Direction`.
    - `held`: the code of the object that it holds.
    - `numbered`: whether numbers are drawn on agents, as in worlds with more than two.
    - `extra`: all numbers of the agent in `Bodies.extra`.
    """

    number: int
    direction: int
    held: int
    numbered: bool
    extra: tuple[Any, ...] = ()

    @property
    def colours(self) -> tuple[str, str]:
        """The agent's colour, and a dark shade of it."""
        return agent_colours(self.number)

    @property
    def step(self) -> tuple[int, int]:
        """`(dx, dy)` towards the faced cell; y points down."""
        return _STEPS[Direction(self.direction)]


class Look(NamedTuple):
    """The inputs of a cell's picture, as a hashable tuple.

    - `tile`, `lying`: the kind of tile, and the code of the object on it.
    - `timer`, `duration`: the steps left on the timer, and its total number of steps.
    - `shade`: 0 or 1, alternating as on a chess board.
    - `open_sides`: whether the adjacent cells can be entered, in the order of `Direction`.
    - `middle`: the y coordinate of the middle of the tile's top, in cells from the upper edge.
    - `agent`: the agent that stands here, or `None`.
    - `mark`: the number that `Kinds.overlay` gives this cell.
    """

    tile: int
    lying: int
    timer: int
    duration: int
    shade: int
    open_sides: tuple[bool, bool, bool, bool]
    middle: float
    agent: AgentLook | None
    mark: int = 0


def top_of(open_sides: tuple[bool, bool, bool, bool]) -> float:
    """The y coordinate of the lower edge of a solid tile's top, in cells from the upper edge. If
    the cell to the south can be entered, the tile's front is visible below it.
    """
    return 0.84 if open_sides[Direction.SOUTH] else 1.0


def draw_cell(pen: Pen, kinds: Kinds, look: Look) -> None:
    """Draws the tile, then the object on it, then the agent, then what is over them."""
    kind = kinds.tiles[look.tile]
    if kind.sprite is None:
        _draw_tile(pen, kind, look)
    else:
        kind.sprite(pen, look)
    draw_over_tile(pen, kinds, look)


def draw_over_tile(pen: Pen, kinds: Kinds, look: Look) -> None:
    """Draws the object on the tile, unless the tile draws it, then the agent, then what is over
    them.
    """
    kind = kinds.tiles[look.tile]
    if look.lying != NOTHING and not kind.draws_object:
        _object_drawer(pen, kinds, look.lying)(0.5, look.middle, 0.26)
    if look.agent is not None:
        draw_agent = kinds.agent_sprite or _draw_agent
        draw_agent(pen, look.agent, _object_drawer(pen, kinds, look.agent.held))
    if kinds.overlay is not None and look.mark:
        kinds.overlay.sprite(pen, look.mark)


def _object_drawer(pen: Pen, kinds: Kinds, code: int) -> Callable[[Number, Number, Number], None]:
    """A function that draws an object around `(x, y)` within a radius, or nothing for code 0."""
    found = kinds.read(code)

    def draw(x: Number, y: Number, radius: Number) -> None:
        if found is not None:
            kind, variant = found
            (kind.sprite or _object_sprite(kind))(pen, variant, x, y, radius)

    return draw


def _object_sprite(kind: Kind) -> Callable[[Pen, int, Number, Number, Number], None]:
    def draw(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
        """Draws a coloured block with a character, and the variant if there are several."""
        fill, dark = _colours(kind)
        text = kind.chars[variant] or kind.name[0].upper()
        if kind.variants > 1 and not isinstance(kind.char, tuple):
            text += str(variant + 1)
        box = (x - radius, y - radius, x + radius, y + radius)
        pen.box(*box, fill=fill, edge=dark, round_by=0.3 * radius)
        pen.text(x, y, text, 1.3 * radius, fill="#FFFFFF")

    return draw


def _draw_tile(pen: Pen, kind: Kind, look: Look) -> None:
    """Draws a plain floor, or a coloured block with its character, which has a front if solid."""
    pen.box(0, 0, 1, 1, fill=_FLOORS[look.shade], edge="#DCCDB4", width=0.008)
    if look.tile == 0:
        return
    fill, dark = _colours(kind)
    if kind.solid:
        pen.box(0, 0, 1, 1, fill=dark)
        pen.box(0, 0, 1, top_of(look.open_sides), fill=fill)
    else:
        pen.box(0.06, 0.06, 0.94, 0.94, fill=fill, edge=dark, round_by=0.12)
    if kind.char != "#" and look.lying == NOTHING:
        pen.text(0.5, look.middle, kind.chars[0] or "", 0.5, fill="#FFFFFF")
    if look.timer > 0:
        pen.text(0.82, 0.84, str(look.timer), 0.26, fill="#FFFFFF")


def _draw_agent(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    """Draws a disc with a tip towards the faced cell, the agent's number and the held object."""
    colour, dark = agent.colours
    dx, dy = agent.step
    pen.pointer(dx, dy, colour)
    pen.disc(0.5, 0.5, 0.27, fill=colour, edge=dark, width=0.03)
    pen.text(0.5, 0.5, str(agent.number), 0.32, fill="#FFFFFF")
    draw_held(0.5 + 0.27 * (dx or 1), 0.5 + (0.27 if dx else 0.27 * dy), 0.15)


def _colours(kind: Kind) -> tuple[str, str]:
    """A colour and a dark shade, which depend only on the name of the kind; walls are grey."""
    if kind.char == "#":
        return "#4A515D", "#2B3038"
    return agent_colours(sum(map(ord, kind.name)))
