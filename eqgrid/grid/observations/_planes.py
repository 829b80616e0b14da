"""Planes: image-like observations, which every game has by default, and its full state as planes.

The planes of every possible appearance of a cell are the rows of a table. A step computes the row
number of each cell for each agent (`table_rows`), and then looks the planes up (`look_up`).
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int8, Int32, Integer, Shaped, UInt8

from ..._checks import check_whole
from ..._spaces import ObservationAndState
from ...typing import PyTree
from .._kinds import NOTHING, Kinds
from .._layout import Layout
from .._world import IDLE, Bodies, Cell, Direction, World, get_cell
from ._observation import AbstractObservation
from ._sight import Sight, check_radius, for_each_agent

STEPS_UNIT = 100
"""Steps per unit in the plane of the remaining steps."""

_TIMES = 256  # values of a timer that a plane of uint8 can show
_BODIES = 2 * len(Direction)  # the agent itself or another one, in each direction
_MOST_ROWS = 2**16  # of a table that includes boolean layers


class Views(NamedTuple):
    """The input of a `Column`: every possible appearance of a cell to an agent. Each array has one
    entry per appearance.

    - `tile`: the kind of tile; -1 outside the grid.
    - `lying`, `held`: the code of the object in the cell, and of the object that the agent in the
        cell holds.
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
        """The code of the object in the cell or, in an empty cell, of the held object."""
        return np.where(self.lying == NOTHING, self.held, self.lying)

    def is_tile(self, name: str) -> np.ndarray:
        """Whether each cell has the kind of tile with this name."""
        return self.tile == self.kinds.tile(name)

    def variant(self, name: str, codes: np.ndarray) -> np.ndarray:
        """The variant of each code of this kind, counted from 1; 0 for all other codes."""
        first = self.kinds.code(name)
        (kind,) = (kind for kind in self.kinds.objects if kind.name == name)
        return np.where((codes >= first) & (codes < first + kind.variants), codes - first + 1, 0)


Column: TypeAlias = Callable[[Views], np.ndarray]
"""A function that computes one plane: an integer from 0 to 255, or a boolean, for each appearance.
Use a module-level function, or an `eqgrid.Partial` of one, so that the world can be pickled and
copied.
"""

Layer: TypeAlias = Callable[[Sight], Bool[Array, "*grid"] | UInt8[Array, "*grid"]]
"""A function that computes one plane in every step from the whole state: a boolean or a uint8 for
each cell of the grid, or one number for all cells.
"""


def own_cell(views: Views) -> np.ndarray:
    """A `Column`: whether the agent itself is in the cell."""
    return views.own


def other_cell(views: Views) -> np.ndarray:
    """A `Column`: whether another agent is in the cell."""
    return views.other


def faces(body: Column, direction: Direction, views: Views) -> np.ndarray:
    """Whether the agent in the cell faces a direction. `body` is `own_cell` or `other_cell`, and
    selects the agent. `Partial(faces, own_cell, Direction.NORTH)` is a `Column`.
    """
    return body(views) & (views.direction == direction)


def tile_cell(name: str, views: Views) -> np.ndarray:
    """Whether the cell has the kind of tile with this name. `Partial(tile_cell, "exit")` is a
    `Column`.
    """
    return views.is_tile(name)


def lying_cell(name: str, views: Views) -> np.ndarray:
    """The variant of the kind of object with this name that lies in the cell, counted from 1; 0
    without such an object. `Partial(lying_cell, "apple")` is a `Column`.
    """
    return views.variant(name, views.lying)


@final
class Planes(AbstractObservation):
    """Image-like observations for every agent: `agents rows cols planes`, as uint8.

    A cell has a limited number of possible appearances. Their planes are computed once, in a table,
    and a step only looks them up: computing observations is most of the cost of a step. The arrays
    that a game keeps in `extra` can have any values, so `layers` show them.

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
        directions = world.bodies.direction[None]  # the same for every agent
        rows, outside = table_rows(self, layout, world, steps_left, directions)
        rows, table_layers, other_layers = with_layers(self, layout, world, steps_left, rows)
        if self.radius is not None:
            cut = functools.partial(_window, radius=self.radius)
            rows = jax.vmap(functools.partial(cut, outside=outside))(rows, world.bodies)
            nothing = jnp.zeros((), jnp.uint8)
            other_layers = {
                number: jax.vmap(functools.partial(cut, outside=nothing))(layer, world.bodies)
                for number, layer in other_layers.items()
            }
        return look_up(self, layout.kinds, rows, table_layers, other_layers)


def table_rows(
    planes: Planes,
    layout: Layout,
    world: World,
    steps_left: Int32[Array, ""],
    directions: Int8[Array, "#agents bodies"],
) -> tuple[Integer[Array, "agents height width"], Integer[Array, ""]]:
    """The number of the table row that describes each cell for each agent.

    **Arguments:**

    - `planes`, `layout`, `world`, `steps_left`: as in `Planes.__call__`.
    - `directions`: the direction of each body, as each agent sees it.

    **Returns:** the row numbers, and the row number of a cell outside the grid.
    """
    table = _Table(layout.kinds)
    rows = table.rows_of_cells(layout, world.cells)
    of_bodies = table.rows_of_bodies(layout, world, directions)
    outside = jnp.asarray(table.outside_at)
    # The second half of the table is for the last steps, so that time costs one addition.
    if planes.last_steps:
        late = (steps_left < planes.last_steps).astype(rows.dtype) * table.size
        rows, of_bodies = rows + late, of_bodies + late
        outside = outside + late.astype(outside.dtype)
    rows = jnp.broadcast_to(rows, (world.num_agents, *rows.shape))
    row, col = world.bodies.position[:, 0], world.bodies.position[:, 1]
    if world.bodies.active is not None:  # inactive agents are moved out of the grid and dropped
        row = jnp.where(world.bodies.active, row, jnp.int8(127))
    # Active agents never share a cell, so XLA may write in any order. Inactive agents share a cell
    # outside the grid.
    rows = rows.at[:, row, col].set(
        of_bodies, unique_indices=world.bodies.active is None, mode="drop"
    )
    return rows, outside


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
    """Computes the layers, and adds boolean layers to the table as long as it stays small.

    Every layer in the table doubles the number of rows. This is several times as fast as writing
    one more plane.

    **Arguments:**

    - `planes`, `layout`, `world`, `steps_left`: as in `Planes.__call__`.
    - `rows`: the row numbers of `table_rows`.

    **Returns:** the row numbers in the larger table, the indices of the layers in the table, and
    all other layers by their indices.
    """
    layers = [
        for_each_agent(functools.partial(_layer_values, layer), layout, world, steps_left)
        for layer in planes.layers
    ]
    size = _Table(layout.kinds).size * (1 + bool(planes.last_steps))
    table_layers, other_layers = [], {}
    for number, layer in enumerate(layers):
        if layer.dtype == bool and 2 * size <= _MOST_ROWS:
            rows = rows.astype(jnp.int32) + layer.astype(jnp.int32) * size
            size *= 2
            table_layers.append(number)
        else:
            other_layers[number] = layer.astype(jnp.uint8)
    return rows, tuple(table_layers), other_layers


def _layer_values(
    layer: Layer, sight: Sight
) -> Bool[Array, "height width"] | UInt8[Array, "height width"]:
    values = jnp.asarray(layer(sight))
    if values.dtype not in (bool, jnp.uint8):
        raise ValueError(
            f"A layer of Planes must give booleans or uint8, but {layer!r:.60} gives "
            f"{values.dtype}."
        )
    return jnp.broadcast_to(values, sight.layout.tiles.shape)


def look_up(
    planes: Planes,
    kinds: Kinds,
    rows: Integer[Array, "agents height width"],
    table_layers: tuple[int, ...],
    other_layers: Mapping[int, UInt8[Array, "agents height width"]],
) -> UInt8[Array, "agents height width planes"]:
    """The planes of the columns, then the planes of the layers. The last three arguments are the
    result of `with_layers`.
    """
    num_layers, with_last_steps = len(planes.layers), bool(planes.last_steps)
    table = jnp.asarray(_tabulate(kinds, planes.columns, with_last_steps, table_layers, num_layers))
    # Without the barrier, a GPU computes the row of a cell again for each of its planes.
    rows = jax.lax.optimization_barrier(rows)
    # One look-up gets all planes of a cell. Without the promise, XLA would clamp every index.
    seen = table.at[rows].get(mode="promise_in_bounds", wrap_negative_indices=False)
    num_planes = table.shape[1]
    for number, layer in other_layers.items():
        is_its_plane = np.arange(num_planes) == num_planes - num_layers + number
        seen = jnp.where(is_its_plane, layer[..., None], seen)
    return seen


@functools.lru_cache(maxsize=64)
def opaque_rows(
    planes: Planes, kinds: Kinds, table_layers: tuple[int, ...]
) -> Bool[np.ndarray, " rows"]:
    """For every row of the table of `look_up`, whether the cell is opaque: its tile or its object
    is, or it is outside the grid.
    """
    views = _Table(kinds).views()
    opaque = (
        np.asarray(kinds.opaque_tiles)[views.tile] | np.asarray(kinds.opaque_codes)[views.lying]
    )
    repeats = (1 + bool(planes.last_steps)) * 2 ** len(table_layers)
    return np.tile(opaque | (views.tile < 0), repeats)


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


@final
class StatePlanes(AbstractObservation):
    """The full state of a world as planes: `agents height width planes`, as float32.

    The planes of an agent are, in this order:

    - the default planes; see `plane_names`.
    - for each other agent, in cyclic order, a plane that marks its position.
    - the game's further numbers of each cell, from `Cell.extra`.
    - constant planes with the further numbers of each agent, the agent itself first: `Bodies.extra`
        and, in games that have them, `Bodies.away` and `Bodies.said`.
    - constant planes with the game's further numbers of the world, from `World.extra`, and with
        the number of remaining steps, in units of `STEPS_UNIT`.
    """

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents height width planes"]:
        planes = Planes()(layout, world, steps_left).astype(jnp.float32)
        agents, shape = world.num_agents, layout.tiles.shape
        # For each observer, the agents in cyclic order, itself first.
        order = (np.arange(agents)[:, None] + np.arange(agents)[None, :]) % agents
        bodies = world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        places = jnp.zeros((agents, *shape), jnp.float32)
        places = places.at[jnp.arange(agents), row, col].set(1.0)
        if bodies.active is not None:
            places *= bodies.active.astype(jnp.float32)[:, None, None]
        others = jnp.moveaxis(places[order[:, 1:]], 1, -1)
        of_cells = _numbers(world.cells.extra, shape)[None]
        of_agents = _numbers((bodies.extra, bodies.away, bodies.said), (agents,))
        of_agents = of_agents[order].reshape(agents, -1)
        of_world = _numbers((world.extra, steps_left.astype(jnp.float32) / STEPS_UNIT), ())
        constant = jnp.concatenate(
            [of_agents, jnp.broadcast_to(of_world, (agents, of_world.size))], axis=-1
        )
        parts = [
            planes,
            others,
            jnp.broadcast_to(of_cells, (agents, *of_cells.shape[1:])),
            jnp.broadcast_to(constant[:, None, None], (agents, *shape, constant.shape[-1])),
        ]
        return jnp.concatenate(parts, axis=-1)


@final
class WithState(AbstractObservation):
    """The agents' observations, together with the state for their critics.

    **Arguments:**

    - `local`: the observation of each agent.
    - `state`: the input of its critic; `StatePlanes()` by default.
    """

    local: AbstractObservation
    state: AbstractObservation = StatePlanes()

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> ObservationAndState:
        return ObservationAndState(
            self.local(layout, world, steps_left), self.state(layout, world, steps_left)
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
    """The order of the rows of the look-up table of `Planes`. Each row is one appearance:

    - From 0 on, a cell without an agent and without a running timer: `tile * num_codes + code`.
    - From `bodies_at` on, a cell with an agent: `(body * num_places + place) * num_codes + held`.
        `body` is the direction of the agent, plus 4 if it is another agent. `place` is the rank of
        the tile among the walkable tiles; if one of them `holds` objects, it is
        `rank * num_codes_under + code`.
    - From `timers_at` on, a cell with a running timer: `(rank * num_codes + code) * _TIMES + time`,
        with the rank of the tile among the tiles with timers.
    - At `outside_at`, the last row, a cell outside the grid.
    """

    def __init__(self, kinds: Kinds):
        self.kinds, self.num_codes = kinds, kinds.num_codes
        self.walkable = kinds.walkable
        holds = any(kinds.tiles[number].holds for number in self.walkable)
        self.num_codes_under = self.num_codes if holds else 1
        self.timed_tiles = [i for i, kind in enumerate(kinds.tiles) if kind.duration is not None]
        self.bodies_at = kinds.num_tiles * self.num_codes
        self.num_places = len(self.walkable) * self.num_codes_under
        self.timers_at = self.bodies_at + _BODIES * self.num_places * self.num_codes
        self.outside_at = self.timers_at + len(self.timed_tiles) * self.num_codes * _TIMES
        self.size = self.outside_at + 1
        # int16 halves the bytes. The last steps may double the table, so twice its size must fit.
        self.dtype = jnp.int16 if 2 * self.size <= np.iinfo(np.int16).max else jnp.int32

    def rows_of_cells(self, layout: Layout, cells: Cell) -> Integer[Array, "height width"]:
        """The row of each cell, without the agents."""
        code = cells.object.astype(self.dtype)
        lying = layout.tiles.astype(self.dtype) * self.num_codes + code
        if not self.timed_tiles or cells.timer is None:
            return lying
        # Longer times look like the longest one that a plane of uint8 can show.
        time = jnp.minimum(cells.timer, _TIMES - 1).astype(self.dtype)
        running = self.timers_at + code * _TIMES + time
        # `running` is right for the first timed tile; the rows of the other tiles follow.
        for rank, number in enumerate(self.timed_tiles[1:], start=1):
            is_tile = (layout.tiles == number).astype(self.dtype)
            running += is_tile * (rank * self.num_codes * _TIMES)
        return jnp.where(cells.timer == IDLE, lying, running)

    def rows_of_bodies(
        self,
        layout: Layout,
        world: World,
        directions: Int8[Array, "#agents bodies"],
    ) -> Integer[Array, "agents bodies"]:
        """The row that each agent sees in the cell of each body."""
        bodies = world.bodies
        others = (~np.eye(world.num_agents, dtype=bool)).astype(self.dtype) * len(Direction)
        body = others + directions.astype(self.dtype)
        if self.num_places > 1:
            places = jnp.stack([self._place(layout, world.cells, x) for x in bodies.position])
            body = body * self.num_places + places[None]
        return bodies.held[None].astype(self.dtype) + (body * self.num_codes + self.bodies_at)

    def _place(self, layout: Layout, cells: Cell, position: Array) -> Array:
        tile, cell = get_cell((layout.tiles, cells), position)
        # Walkable tiles are renumbered, since a row for each agent on a solid tile would be wasted.
        ranks = np.zeros(self.kinds.num_tiles, self.dtype)
        ranks[list(self.walkable)] = np.arange(len(self.walkable))
        rank = jnp.asarray(ranks)[tile]
        if self.num_codes_under == 1:
            return rank
        return rank * self.num_codes_under + cell.object.astype(self.dtype)

    def views(self) -> Views:
        """The appearance that each row stands for."""
        # Each `divmod` undoes one product of the numbering above.
        tile, code = np.divmod(np.arange(self.bodies_at), self.num_codes)
        cells = {"tile": tile, "lying": code}
        body, held = np.divmod(
            np.arange(_BODIES * self.num_places * self.num_codes), self.num_codes
        )
        body, place = np.divmod(body, self.num_places)
        rank, lying = np.divmod(place, self.num_codes_under)
        other, direction = np.divmod(body, len(Direction))
        bodies = {
            "tile": np.asarray(self.walkable)[rank],
            "lying": lying,
            "held": held,
            "direction": direction,
            "own": other == 0,
            "other": other == 1,
        }
        rank, time = np.divmod(np.arange(len(self.timed_tiles) * self.num_codes * _TIMES), _TIMES)
        rank, code = np.divmod(rank, self.num_codes)
        timers = {"tile": np.asarray(self.timed_tiles, int)[rank], "lying": code, "timer": time}
        outside = {"tile": np.asarray([-1])}
        bare = {"lying": 0, "held": 0, "timer": IDLE, "own": False, "other": False, "direction": -1}
        parts = [bare | part for part in (cells, bodies, timers, outside)]
        arrays = {
            name: np.concatenate([np.broadcast_to(x[name], x["tile"].shape) for x in parts])
            for name in parts[0]
        }
        return Views(**arrays, last_steps=np.zeros(self.size, bool), kinds=self.kinds)


@functools.lru_cache(maxsize=64)
def _tabulate(
    kinds: Kinds,
    columns: tuple[Column, ...] | None,
    with_last_steps: bool,
    table_layers: tuple[int, ...],
    num_layers: int,
) -> UInt8[np.ndarray, "rows planes"]:
    """The planes of every row of the table.

    With `with_last_steps`, the second half of the rows is for the last steps. For every layer in
    the table, all rows are then repeated with a 1 in the plane of this layer.
    """
    views = _Table(kinds).views()
    parts = [views]
    if with_last_steps:
        parts.append(views._replace(last_steps=np.ones_like(views.last_steps)))
    # The table is computed by NumPy and cached: it is a constant of the compiled program.
    values = np.concatenate([_column_values(columns, part) for part in parts])
    values = np.pad(values, ((0, 0), (0, num_layers)))
    for number in table_layers:
        with_layer = values.copy()
        with_layer[:, number - num_layers] = 1
        values = np.concatenate([values, with_layer])
    return values


def _column_values(
    columns: tuple[Column, ...] | None, views: Views
) -> UInt8[np.ndarray, "rows planes"]:
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
    """Cuts the window around a body out of the row numbers, or out of a layer."""
    # Planes are looked up only for the cells of the window, so row numbers are cut and not planes.
    edges = [(radius, radius, 0)] * 2
    padded = jax.lax.pad(grid, outside.astype(grid.dtype), edges)
    start = body.position.astype(jnp.int32)
    return jax.lax.dynamic_slice(padded, start, (2 * radius + 1,) * 2)


def _numbers(extra: PyTree, leading: tuple[int, ...]) -> Float32[Array, "*leading numbers"]:
    """All numbers of the arrays in `extra`, which have the leading axes. PRNG keys are left out."""
    leaves: list[Shaped[Array, "..."]] = [
        leaf
        for leaf in jax.tree.leaves(extra)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    flat = [leaf.reshape(*leading, -1).astype(jnp.float32) for leaf in leaves]
    # The array without numbers is for games without `extra`: `concatenate` needs an array.
    return jnp.concatenate([jnp.zeros((*leading, 0), jnp.float32), *flat], axis=-1)
