"""Planes: image-like observations, which every game has by default."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Integer, UInt8

from ..._checks import check_whole
from .._kinds import NOTHING, Kinds
from .._layout import Layout
from .._world import IDLE, Bodies, Cell, Direction, World, get_cell
from ._observation import AbstractObservation
from ._sight import Sight, check_radius, for_each_agent

_TIMES = 256
_BODIES = 2 * len(Direction)  # the agent itself or another one, in each direction
_MOST_ROWS = 2**16  # of a table with layers in it


class Views(NamedTuple):
    """Every possible appearance of a cell to an agent, as arrays with one entry per appearance. It
    is the input of a `Column` of `Planes`.

    - `tile`: the kind of tile; -1 outside the grid.
    - `lying`, `held`: the codes of the object in the cell, and of the object held by the agent
        there.
    - `timer`: as in `Cell`, at most 255.
    - `own`, `other`: whether the agent itself, or another agent, is in the cell.
    - `direction`: the direction of the agent in the cell; -1 if there is none.
    - `last_steps`: whether the episode is about to end; see `Planes`.
    - `kinds`: the kinds of the game.
    """

    tile: np.ndarray
    lying: np.ndarray
    held: np.ndarray
    timer: np.ndarray
    own: np.ndarray
    other: np.ndarray
    direction: np.ndarray
    last_steps: np.ndarray
    kinds: Kinds

    @property
    def there(self) -> np.ndarray:
        """The code of the object in the cell, or else of the object held there."""
        return np.where(self.lying == NOTHING, self.held, self.lying)

    def is_tile(self, name: str) -> np.ndarray:
        """Whether each cell has the kind of tile with this name."""
        return self.tile == self.kinds.tile(name)

    def variant(self, name: str, codes: np.ndarray) -> np.ndarray:
        """The variant of each code of this kind, counted from 1; 0 for codes of other kinds."""
        first = self.kinds.code(name)
        (kind,) = (kind for kind in self.kinds.objects if kind.name == name)
        return np.where((codes >= first) & (codes < first + kind.variants), codes - first + 1, 0)


Column: TypeAlias = Callable[[Views], np.ndarray]
"""A function that computes one plane: an integer from 0 to 255, or a boolean, for each view. Use a
function of a module or an `eqgrid.Partial` of one, so that the world can be pickled and copied.
"""

Layer: TypeAlias = Callable[[Sight], Bool[Array, "*grid"] | UInt8[Array, "*grid"]]
"""A function that computes one plane in every step, from all that is in the world: a boolean or a
uint8 for each cell of the grid, or one number for all cells.
"""


def own_cell(views: Views) -> np.ndarray:
    """A `Column`: whether the agent itself is in the cell."""
    return views.own


def other_cell(views: Views) -> np.ndarray:
    """A `Column`: whether another agent is in the cell."""
    return views.other


def faces(body: Column, direction: Direction, views: Views) -> np.ndarray:
    """Whether the agent that `body` marks, such as `own_cell`, faces a direction. It is a `Column`
    with its first arguments: `Partial(faces, own_cell, Direction.NORTH)`.
    """
    return body(views) & (views.direction == direction)


def tile_cell(name: str, views: Views) -> np.ndarray:
    """Whether the cell has the kind of tile with this name. It is a `Column` with its first
    argument: `Partial(tile_cell, "exit")`.
    """
    return views.is_tile(name)


@final
class Planes(AbstractObservation):
    """Image-like observations for every agent: `agents rows cols planes`, as uint8.

    A cell has a limited number of possible appearances. The planes of all of them are precomputed
    in a table, and a step only looks them up, since computing observations is most of the cost of a
    step. What a game keeps in `extra` has no limited number of appearances, and is shown by
    `layers`.

    ```python
    from eqgrid import make
    from eqgrid.grid import Planes

    env = make("goals").with_observation(Planes(radius=2))  # a window of 5 x 5 cells
    ```

    **Arguments:**

    - `columns`: the functions that compute the planes, in order. By default there are planes for
        each kind of tile and object, held objects, timers, and the positions and directions of
        agents; see `plane_names`.
    - `radius`: the range of sight in cells. The observation is then a square window,
        `2 * radius + 1` cells wide and centred on the agent. By default it is the whole grid.
    - `last_steps`: `Views.last_steps` is true when fewer steps than this are left.
    - `layers`: functions of `Sight` that compute further planes in each step, after the `columns`.
        They are 0 outside the grid.
    """

    columns: tuple[Column, ...] | None = eqx.field(static=True, default=None)
    radius: int | None = eqx.field(static=True, default=None)
    last_steps: int = eqx.field(static=True, default=0)
    layers: tuple[Layer, ...] = eqx.field(static=True, default=())

    def __check_init__(self):
        check_whole(last_steps=self.last_steps)
        check_radius(self.radius)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols planes"]:
        directions = world.bodies.direction[None]
        rows, outside = table_rows(self, layout, world, steps_left, directions)
        rows, marks, layers = with_layers(self, layout, world, steps_left, rows)
        if self.radius is not None:
            cut = functools.partial(_window, radius=self.radius)
            rows = jax.vmap(functools.partial(cut, outside=outside))(rows, world.bodies)
            nothing = jnp.zeros((), jnp.uint8)
            layers = {
                number: jax.vmap(functools.partial(cut, outside=nothing))(layer, world.bodies)
                for number, layer in layers.items()
            }
        return look_up(self, layout.kinds, rows, marks, layers)


def table_rows(
    planes: Planes,
    layout: Layout,
    world: World,
    steps_left: Int32[Array, ""],
    directions: Int8[Array, "#agents bodies"],
) -> tuple[Integer[Array, "agents height width"], Integer[Array, ""]]:
    """The appearance of each cell to each agent, as rows of the table, and the appearance of a
    cell outside the grid. `directions` has the direction in which each agent sees each body.
    """
    table = _Table(layout.kinds)
    rows = table.rows_of_cells(layout, world.cells)
    of_bodies = table.rows_of_bodies(layout, world, directions)
    outside = jnp.asarray(table.outside_at)
    # The table has a second part for the last steps, so that time costs one addition.
    if planes.last_steps:
        late = (steps_left < planes.last_steps).astype(rows.dtype) * table.size
        rows, of_bodies = rows + late, of_bodies + late
        outside = outside + late.astype(outside.dtype)
    rows = jnp.broadcast_to(rows, (world.num_agents, *rows.shape))
    row, col = world.bodies.position[:, 0], world.bodies.position[:, 1]
    if world.bodies.active is not None:  # inactive agents are moved out of the grid and dropped
        row = jnp.where(world.bodies.active, row, jnp.int8(127))
    # Agents never share a cell, which lets XLA write without an order. Those out of the grid may.
    rows = rows.at[:, row, col].set(
        of_bodies, unique_indices=world.bodies.active is None, mode="drop"
    )
    return rows, outside


def _draw_layers(
    planes: Planes, layout: Layout, world: World, steps_left: Int32[Array, ""]
) -> list[Bool[Array, "agents height width"] | UInt8[Array, "agents height width"]]:
    """The layers of the whole grid for every agent."""

    def draw(layer: Layer, sight: Sight) -> Array:
        shown = jnp.asarray(layer(sight))
        if shown.dtype not in (bool, jnp.uint8):
            raise ValueError(
                f"A layer of Planes must give booleans or uint8, but {layer!r:.60} gives "
                f"{shown.dtype}."
            )
        return jnp.broadcast_to(shown, layout.tiles.shape)

    return [
        for_each_agent(functools.partial(draw, layer), layout, world, steps_left)
        for layer in planes.layers
    ]


def with_layers(
    planes: Planes,
    layout: Layout,
    world: World,
    steps_left: Int32[Array, ""],
    rows: Integer[Array, "agents height width"],
) -> tuple[
    Integer[Array, "agents height width"],
    tuple[int, ...],
    dict[int, UInt8[Array, "agents height width"]],
]:
    """Draws the layers, and makes boolean layers a part of the appearance of cells, as long as
    the table stays small: to look up a larger table is several times as fast as one more plane.

    **Returns:** the rows of a table that is twice as long for every such layer, the numbers of
    these layers, and the other layers by their numbers.
    """
    size = _Table(layout.kinds).size * (1 + bool(planes.last_steps))
    marks, others = [], {}
    for number, layer in enumerate(_draw_layers(planes, layout, world, steps_left)):
        if layer.dtype == bool and 2 * size <= _MOST_ROWS:
            rows = rows.astype(jnp.int32) + layer.astype(jnp.int32) * size
            size *= 2
            marks.append(number)
        else:
            others[number] = layer.astype(jnp.uint8)
    return rows, tuple(marks), others


def look_up(
    planes: Planes,
    kinds: Kinds,
    rows: Integer[Array, "agents height width"],
    marks: tuple[int, ...],
    layers: Mapping[int, UInt8[Array, "agents height width"]],
) -> UInt8[Array, "agents height width planes"]:
    """The planes of the rows, with the layers after them; see `with_layers`."""
    num_layers, late = len(planes.layers), bool(planes.last_steps)
    table = jnp.asarray(_tabulate(kinds, planes.columns, late, marks, num_layers))
    # Without the barrier, a GPU computes the row of a cell again for each of its planes.
    rows = jax.lax.optimization_barrier(rows)
    # One look-up of all planes of a cell; without the promise, XLA would clamp every index.
    seen = table.at[rows].get(mode="promise_in_bounds", wrap_negative_indices=False)
    num_planes = table.shape[1]
    for number, layer in layers.items():
        is_plane = np.arange(num_planes) == num_planes - num_layers + number
        seen = jnp.where(is_plane, layer[..., None], seen)
    return seen


@functools.lru_cache(maxsize=64)
def opaque_rows(planes: Planes, kinds: Kinds, marks: tuple[int, ...]) -> Bool[np.ndarray, " rows"]:
    """Whether a tile or an object hides what is behind it, for every row of the table of
    `look_up`; what is outside the grid hides it, too.
    """
    views = _Table(kinds).views()
    opaque = (
        np.asarray(kinds.opaque_tiles)[views.tile] | np.asarray(kinds.opaque_codes)[views.lying]
    )
    return np.tile(opaque | (views.tile < 0), (1 + bool(planes.last_steps)) * 2 ** len(marks))


def plane_names(kinds: Kinds) -> tuple[str, ...]:
    """The names of the default planes, in order. The plane of a kind of object with variants
    contains the variant, counted from 1.
    """
    directions = [direction.name.lower() for direction in Direction]
    return (
        *("own", *(f"own_{x}" for x in directions)),
        *("other", *(f"other_{x}" for x in directions)),
        *(kind.name for kind in kinds.tiles[1:]),
        *(kind.name for kind in kinds.objects),
        *(f"held_{kind.name}" for kind in kinds.objects if kind.carryable),
        *("timer" for kind in kinds.tiles if kind.duration is not None),
    )


def _default_planes(views: Views) -> list[np.ndarray]:
    """The default planes, in the order of `plane_names`."""
    kinds = views.kinds
    facing = [views.direction == direction for direction in Direction]
    return [
        *(views.own, *(views.own & x for x in facing)),
        *(views.other, *(views.other & x for x in facing)),
        *(views.is_tile(kind.name) for kind in kinds.tiles[1:]),
        *(views.variant(kind.name, views.lying) for kind in kinds.objects),
        *(views.variant(kind.name, views.held) for kind in kinds.objects if kind.carryable),
        *(
            np.where(views.is_tile(kind.name), np.maximum(views.timer, 0), 0)
            for kind in kinds.tiles
            if kind.duration is not None
        ),
    ]


class _Table:
    """The order of the rows of the look-up table of `Planes`, one per appearance of a cell.

    First come cells without an agent: `tile * codes + code`. Then agents on the tiles that they can
    enter: `(body * under + contents under it) * codes + held`. Then tiles with a running timer:
    `(clock * codes + code) * _TIMES + time`. The last row is outside the grid.
    """

    def __init__(self, kinds: Kinds):
        self.kinds, self.codes = kinds, kinds.num_codes
        self.walkable = kinds.walkable
        lies = any(kinds.tiles[number].holds for number in self.walkable)
        self.codes_under = self.codes if lies else 1
        self.clocks = [i for i, kind in enumerate(kinds.tiles) if kind.duration is not None]
        self.bodies_at = kinds.num_tiles * self.codes
        self.under = len(self.walkable) * self.codes_under
        self.clocks_at = self.bodies_at + _BODIES * self.under * self.codes
        self.outside_at = self.clocks_at + len(self.clocks) * self.codes * _TIMES
        self.size = self.outside_at + 1
        # Half of the bytes; twice the size, since the last steps may double the table.
        self.dtype = jnp.int16 if 2 * self.size <= np.iinfo(np.int16).max else jnp.int32

    def rows_of_cells(self, layout: Layout, cells: Cell) -> Integer[Array, "height width"]:
        """The row of each cell, without the agents."""
        code = cells.object.astype(self.dtype)
        lying = layout.tiles.astype(self.dtype) * self.codes + code
        if not self.clocks or cells.timer is None:
            return lying
        # Longer times look like the longest one that a plane of uint8 can show.
        time = jnp.minimum(cells.timer, _TIMES - 1).astype(self.dtype)
        running = self.clocks_at + code * _TIMES + time
        for clock, number in enumerate(self.clocks[1:], start=1):
            later = (layout.tiles == number).astype(self.dtype)
            running += later * (clock * self.codes * _TIMES)
        return jnp.where(cells.timer == IDLE, lying, running)

    def rows_of_bodies(
        self,
        layout: Layout,
        world: World,
        directions: Int8[Array, "#agents bodies"],
    ) -> Integer[Array, "agents bodies"]:
        """The row that each agent observes in the cell of each body."""
        bodies = world.bodies
        others = (~np.eye(world.num_agents, dtype=bool)).astype(self.dtype) * len(Direction)
        body = others + directions.astype(self.dtype)
        if self.under > 1:
            places = jnp.stack([self._under(layout, world.cells, x) for x in bodies.position])
            body = body * self.under + places[None]
        return bodies.held[None].astype(self.dtype) + (body * self.codes + self.bodies_at)

    def _under(self, layout: Layout, cells: Cell, position: Array) -> Array:
        tile, cell = get_cell((layout.tiles, cells), position)
        # Agents stand on few kinds of tiles, which are renumbered to keep the table small.
        rank = np.zeros(self.kinds.num_tiles, self.dtype)
        rank[list(self.walkable)] = np.arange(len(self.walkable))
        place = jnp.asarray(rank)[tile]
        if self.codes_under == 1:
            return place
        return place * self.codes_under + cell.object.astype(self.dtype)

    def views(self) -> Views:
        """The appearance that belongs to each row."""
        place, code = np.divmod(np.arange(self.bodies_at), self.codes)
        cells = {"tile": place, "lying": code}
        body, held = np.divmod(np.arange(_BODIES * self.under * self.codes), self.codes)
        body, under = np.divmod(body, self.under)
        tile, lying = np.divmod(under, self.codes_under)
        other, direction = np.divmod(body, len(Direction))
        bodies = {
            "tile": np.asarray(self.walkable)[tile],
            "lying": lying,
            "held": held,
            "direction": direction,
            "own": other == 0,
            "other": other == 1,
        }
        clock, time = np.divmod(np.arange(len(self.clocks) * self.codes * _TIMES), _TIMES)
        clock, code = np.divmod(clock, self.codes)
        clocks = {"tile": np.asarray(self.clocks, int)[clock], "lying": code, "timer": time}
        nowhere = {"tile": np.asarray([-1])}
        parts = [
            {"lying": 0, "held": 0, "timer": IDLE, "own": False, "other": False, "direction": -1}
            | part
            for part in (cells, bodies, clocks, nowhere)
        ]
        arrays = {
            name: np.concatenate([np.broadcast_to(x[name], x["tile"].shape) for x in parts])
            for name in ("tile", *parts[0].keys() - {"tile"})
        }
        return Views(**arrays, last_steps=np.zeros(self.size, bool), kinds=self.kinds)


@functools.lru_cache(maxsize=64)
def _tabulate(
    kinds: Kinds,
    columns: tuple[Column, ...] | None,
    two_parts: bool,
    marks: tuple[int, ...],
    num_layers: int,
) -> UInt8[np.ndarray, "rows planes"]:
    """The planes of every appearance and, if `two_parts`, a second part for the last steps; then,
    for every mark, all of that once more with a 1 in the plane of this layer.
    """
    views = _Table(kinds).views()
    parts = [views]
    if two_parts:
        parts.append(views._replace(last_steps=np.ones_like(views.last_steps)))
    # In NumPy and cached: the table is a constant of the compiled program.
    numbers = np.concatenate([_numbers(columns, part) for part in parts])
    numbers = np.pad(numbers, ((0, 0), (0, num_layers)))
    for mark in marks:
        marked = numbers.copy()
        marked[:, mark - num_layers] = 1
        numbers = np.concatenate([numbers, marked])
    return numbers


def _numbers(columns: tuple[Column, ...] | None, views: Views) -> UInt8[np.ndarray, "rows planes"]:
    made = _default_planes(views) if columns is None else [column(views) for column in columns]
    planes = np.stack([np.broadcast_to(np.asarray(x).astype(int), views.tile.shape) for x in made])
    if planes.min(initial=0) < 0 or planes.max(initial=0) > 255:
        raise ValueError("A plane can show whole numbers from 0 to 255 only.")
    return planes.T.astype(np.uint8)


def _window(
    grid: Integer[Array, "height width"],
    body: Bodies,
    *,
    radius: int,
    outside: Integer[Array, ""],
) -> Integer[Array, "side side"]:
    """The window around a body, cut out of the row numbers before the look-up, or of a layer."""
    # A window of row numbers is small: the planes are looked up after it is cut out.
    edges = [(radius, radius, 0)] * 2
    padded = jax.lax.pad(grid, outside.astype(grid.dtype), edges)
    start: Any = tuple(body.position.astype(jnp.int32))
    return jax.lax.dynamic_slice(padded, start, (2 * radius + 1,) * 2)
