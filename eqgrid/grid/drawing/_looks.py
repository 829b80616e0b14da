"""The pen that draws a cell, the inputs of its picture, and the default sprites."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, final

import jax
import numpy as np
from jaxtyping import Int, Shaped

from .._kinds import NOTHING, Kind, Kinds
from .._layout import Layout
from .._world import IDLE, Direction, World

Colour: TypeAlias = str | tuple[int, ...]
"""A name, such as `"white"`, or red, green, blue and optionally the opacity, from 0 to 255."""
Number: TypeAlias = int | float
"""A coordinate or a length; the side of a cell is 1."""
Point: TypeAlias = tuple[Number, Number]
"""The coordinates x and y: from the left, and from the top."""

SMALLEST_NUMBER = 8
"""The smallest height in pixels of a readable text; smaller texts are not drawn."""


@final
class Pen:
    """Draws the picture of one cell. The unit of length is the side of the cell, `(0, 0)` is the
    upper left corner, and y points down. A colour is a name, `"#RRGGBB"` or
    `(red, green, blue, alpha)`.

    - `pixels`: the side of the cell in pixels. Sprites can leave out details of small pictures.
    """

    # `draw` is an `ImageDraw` of Pillow, `font` returns the font of a size, and `unit` is the side
    # of the cell in pixels of the image that is drawn, which is scaled down later.
    def __init__(self, draw: Any, font: Callable[[int], Any], unit: int, pixels: int):
        self._draw, self._font, self._unit = draw, font, unit
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
        """Draws an ellipse around `(x, y)` with the radii `rx` and `ry`; a disc by default."""
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
        """Draws a rectangle with opposite corners `(x0, y0)` and `(x1, y1)`; `round_by` is the
        radius of its corners.
        """
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
        """Draws a filled polygon with these corners."""
        scaled = self._scale(points)
        self._draw.polygon(scaled, fill=fill)
        if edge:
            closed = [*scaled, scaled[0], scaled[1]]  # two points again, to join the first corner
            self._draw.line(closed, fill=edge, width=self._width(width), joint="curve")

    def line(self, points: Iterable[Point], *, fill: Colour, width: Number) -> None:
        """Draws a line through these points."""
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
        """Draws an arc from `start` to `end`, in degrees clockwise from the right."""
        box = self._scale([(x - r, y - r), (x + r, y + r)])
        self._draw.arc(box, start, end, fill=fill, width=self._width(width))

    def pointer(self, dx: int, dy: int, colour: str) -> None:
        """Draws a disc on the floor with a tip towards the faced cell; `colour` is `"#RRGGBB"`."""
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        self.disc(0.5, 0.5, 0.4, fill=(red, green, blue, 120))
        tip = [(0.3, -0.265), (0.485, 0.0), (0.3, 0.265)]
        points = [(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in tip]
        self.shape(points, fill=colour)

    def can_write(self, height: Number) -> bool:
        """Whether a text of this height, in cells, is large enough to read."""
        return height * self.pixels >= SMALLEST_NUMBER

    def text(self, x: Number, y: Number, text: str, height: Number, *, fill: Colour) -> None:
        """Draws a text centred at `(x, y)`, unless it would be too small to read."""
        if self.can_write(height):
            font = self._font(round(height * self._unit))
            place = (x * self._unit, y * self._unit)
            self._draw.text(place, text, fill=fill, font=font, anchor="mm")


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

_FLOORS = ("#F3EADB", "#E9DDC9")  # by `Look.shade`
_STEPS = {
    Direction.NORTH: (0, -1),
    Direction.SOUTH: (0, 1),
    Direction.EAST: (1, 0),
    Direction.WEST: (-1, 0),
}


def agent_colours(number: int) -> tuple[str, str]:
    """The colour of an agent, and a dark shade of it. Agents are numbered from 1."""
    return _AGENT_COLOURS[(number - 1) % len(_AGENT_COLOURS)]


class AgentLook(NamedTuple):
    """The inputs of an agent's picture, as a hashable tuple.

    - `number`: the number of the agent, counted from 1.
    - `direction`: the direction that it faces, as a `Direction`.
    - `held`: the code of the object that it holds.
    - `numbered`: whether there are more than two agents; some sprites draw numbers only then.
    - `extra`: all numbers of the agent in `Bodies.extra`.
    - `colour`: the number of the agent whose colours it has; 0 for its own colours.
    """

    number: int
    direction: int
    held: int
    numbered: bool
    extra: tuple[Any, ...] = ()
    colour: int = 0

    @property
    def colours(self) -> tuple[str, str]:
        """The agent's colour, and a dark shade of it."""
        return agent_colours(self.colour or self.number)

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
    - `agent`: the agent in the cell, or `None`.
    - `mark`: the number that `Kinds.overlay` computes for the cell.
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

    def seen_by(self, seat: int, kinds: Kinds) -> "Look":
        """The same look with the colours of the agent in a seat and of the first agent swapped."""
        look, first, own, agent = self, 1, seat + 1, self.agent
        found = kinds.read(self.lying)
        if found is not None and found[0].of_agents:
            variant = {0: seat, seat: 0}.get(found[1], found[1])
            look = look._replace(lying=kinds.code(found[0].name, variant))
        if agent is None or agent.number not in (first, own):
            return look
        return look._replace(agent=agent._replace(colour=first + own - agent.number))


def top_of(open_sides: tuple[bool, bool, bool, bool]) -> float:
    """The y coordinate of the lower edge of a solid tile's top, in cells from the upper edge. If
    the cell to the south can be entered, the tile's front is visible below it.
    """
    return 0.84 if open_sides[Direction.SOUTH] else 1.0


def draw_cell(pen: Pen, kinds: Kinds, look: Look) -> None:
    """Draws the tile, the object on it, the agent and the overlay, in this order."""
    kind = kinds.tiles[look.tile]
    if kind.sprite is None:
        _draw_tile(pen, kind, look)
    else:
        kind.sprite(pen, look)
    draw_over_tile(pen, kinds, look)


def draw_over_tile(pen: Pen, kinds: Kinds, look: Look) -> None:
    """Draws the object on the tile (unless the sprite of the tile draws it), the agent and the
    overlay.
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
            if kind.sprite is None:
                _draw_object(pen, kind, variant, x, y, radius)
            else:
                kind.sprite(pen, variant, x, y, radius)

    return draw


def _draw_object(pen: Pen, kind: Kind, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a coloured block with a character, and the variant if there are several."""
    fill, dark = _colours(kind)
    text = kind.chars[variant] or kind.name[0].upper()
    if kind.variants > 1 and not isinstance(kind.char, tuple):
        text += str(variant + 1)
    box = (x - radius, y - radius, x + radius, y + radius)
    pen.box(*box, fill=fill, edge=dark, round_by=0.3 * radius)
    pen.text(x, y, text, 1.3 * radius, fill="#FFFFFF")


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
    # The held object is in a corner of the cell, so that it does not hide the number or the tip.
    draw_held(0.5 + 0.27 * (dx or 1), 0.5 + (0.27 if dx else 0.27 * dy), 0.15)


def _colours(kind: Kind) -> tuple[str, str]:
    """A colour and a dark shade of it, chosen by the name of the kind. Walls are grey."""
    if kind.char == "#":
        return "#4A515D", "#2B3038"
    return agent_colours(sum(map(ord, kind.name)))


class LookCodes(NamedTuple):
    """The state that a picture of a world shows, except its tiles, which never change.

    It can be computed from NumPy arrays, or in a traced program for a web page.

    - `lying`: the code of the object in each cell, in row-major order.
    - `timer`: the timer of each cell.
    - `mark`: the number that `Kinds.overlay` computes for each cell.
    - `place`: the cell of each agent, and -1 for an agent that is not drawn.
    - `direction`, `held`: the direction of each agent, and the code of the object that it holds.
    - `extra`: for each leaf of `Bodies.extra`, the numbers of each agent.
    """

    lying: Int[np.ndarray | jax.Array, " cells"]
    timer: Int[np.ndarray | jax.Array, " cells"]
    mark: Int[np.ndarray | jax.Array, " cells"]
    place: Int[np.ndarray | jax.Array, " agents"]
    direction: Int[np.ndarray | jax.Array, " agents"]
    held: Int[np.ndarray | jax.Array, " agents"]
    extra: tuple[Shaped[np.ndarray | jax.Array, "agents numbers"], ...]


def look_codes(layout: Layout, world: World) -> LookCodes:
    """The state that a picture of a world shows, except its tiles.

    **Arguments:**

    - `layout`: the layout of the world.
    - `world`: the state, with NumPy arrays or traced arrays.

    **Raises:** `ValueError` when the overlay of the kinds does not compute a number for each cell.
    """
    cells, bodies = world.cells, world.bodies
    size, agents = layout.tiles.size, len(bodies.position)
    timer = np.full(size, IDLE, np.int32) if cells.timer is None else cells.timer.ravel()
    position = bodies.position.astype(np.int32)
    # Positions are int8, into which the number of a cell does not fit.
    place = position[:, 0] * layout.tiles.shape[1] + position[:, 1]
    if bodies.active is not None:
        # Once every agent has terminated, the picture shows all agents. `Bodies.goes_on` is not
        # used, since it would convert NumPy arrays to JAX arrays, as `jnp.where` would.
        goes_on = bodies.active if bodies.away is None else bodies.active | (bodies.away > 0)
        drawn = (bodies.active | ~goes_on.any()).astype(np.int32)
        place = (place + 1) * drawn - 1  # -1 where not drawn
    extra = tuple(leaf.reshape(agents, -1) for leaf in jax.tree.leaves(bodies.extra))
    return LookCodes(
        cells.object.ravel(),
        timer,
        _marks(layout, world),
        place,
        bodies.direction,
        bodies.held,
        extra,
    )


def _marks(layout: Layout, world: World) -> Int[np.ndarray | jax.Array, " cells"]:
    """The number that the overlay computes for each cell, in row-major order."""
    overlay = layout.kinds.overlay
    if overlay is None:
        return np.zeros(layout.tiles.size, np.int32)
    numbers = overlay.numbers(layout, world)
    if not isinstance(numbers, jax.Array):
        numbers = np.asarray(numbers)
    if numbers.shape != layout.tiles.shape:
        raise ValueError(
            f"An overlay must return an array of shape {layout.tiles.shape}, but returns one of "
            f"shape {numbers.shape}."
        )
    return numbers.astype(np.int32).ravel()
