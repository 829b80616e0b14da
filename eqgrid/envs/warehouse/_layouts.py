"""Warehouses by size or from a text, and their random initial states."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PRNGKeyArray, UInt8

from ..._checks import check_whole
from ...errors import did_you_mean
from ...grid import AbstractStart, Layout, LayoutError, World, check_named, empty_world
from ._kinds import KINDS, Load, Tile
from ._rules import find_marked, sample_distinct

COLUMN_HEIGHT = 8
"""The height in cells of a block of shelves, as in `rware`."""

SIZES = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}
"""The rows and columns of blocks of shelves in each size; source: `rware/__init__.py`."""

_MAX_SIDE = 125  # a grid has at most 127 cells per side, two of which are walls
_CHARACTERS = {".": Tile.CORRIDOR, "x": Tile.RACK, "g": Tile.GOAL}


def shelf_rows(rows: int, columns: int, column_height: int = COLUMN_HEIGHT) -> str:
    """The text of a warehouse with blocks of shelves, each two cells wide, and corridors around
    them. Two goals are in the middle of the lowest row, and the block above them is left out.

    **Arguments:**

    - `rows`, `columns`: the number of blocks in each direction; the number of columns must be odd.
    - `column_height`: the height of each block in cells.

    **Returns:** a text for `parse_warehouse`.

    **Raises:** `ValueError` when a number is below 1, or the number of columns is even.
    """
    if min(rows, columns, column_height) < 1 or columns % 2 == 0:
        raise ValueError(
            "A warehouse needs an odd number of columns, and at least 1 row, 1 column and 1 shelf "
            f"in a column, but has {rows}, {columns} and {column_height}."
        )
    height, width = (column_height + 1) * rows + 2, 3 * columns + 1
    row, col = np.indices((height, width))
    middle = (col == width // 2 - 1) | (col == width // 2)
    corridor = (col % 3 == 0) | (row % (column_height + 1) == 0) | (row == height - 1)
    corridor |= middle & (row > height - column_height - 3)
    text = np.where(corridor, ".", "x")
    text[-1] = np.where(middle[-1], "g", ".")
    return "\n".join("".join(line) for line in text)


def load_warehouse(size: str, num_agents: int, num_requests: int) -> Layout:
    """Loads a warehouse by size or text.

    **Arguments:**

    - `size`: a key of `SIZES`, or a text of more than one line.
    - `num_agents`, `num_requests`: as in `parse_warehouse`.

    **Raises:** `LayoutError` when there is no such size, and as in `parse_warehouse`.
    """
    check_named(size)
    check_whole(num_agents=num_agents, num_requests=num_requests)
    if size in SIZES:
        return parse_warehouse(shelf_rows(*SIZES[size]), num_agents, num_requests)
    if "\n" in size.strip():
        return parse_warehouse(size, num_agents, num_requests)
    raise LayoutError(
        f"There is no size {size!r}{did_you_mean(size, SIZES)} Known are {', '.join(SIZES)}, and "
        "texts of several lines."
    )


def parse_warehouse(text: str, num_agents: int, num_requests: int) -> Layout:
    """Builds a warehouse from its text, and adds walls around it.

    **Arguments:**

    - `text`: one row per line, as in `rware`: `x` is a rack with a shelf on it, `g` a goal and `.`
        a corridor; capital letters are allowed, and blanks are ignored.
    - `num_agents`: the number of robots. In the layout's default initial state, the robots are in
        the first cells in row-major order, and face north.
    - `num_requests`: the number of requested shelves. In the layout's default initial state, the
        first shelves in row-major order are requested.

    **Returns:** the layout; its `params` are the `(row, col)` of all goals in row-major order.

    **Raises:** `LayoutError` when rows have different lengths, a character is unknown, there is no
    goal, or there are too few or too many robots or requests.
    """
    tiles = np.pad(_read_tiles(text), 1, constant_values=Tile.WALL)
    shelves, cells = np.argwhere(tiles == Tile.RACK), np.argwhere(tiles != Tile.WALL)
    if not 1 <= num_agents <= len(cells):
        raise LayoutError(
            f"The warehouse has room for 1 to {len(cells)} robots, but is given {num_agents}."
        )
    if not 1 <= num_requests < len(shelves):
        raise LayoutError(
            f"`num_requests` must be from 1 to {len(shelves) - 1}, because one shelf must stay "
            f"unrequested, not {num_requests}."
        )
    objects = np.where(tiles == Tile.RACK, Load.SHELF, Load.NOTHING).astype(np.uint8)
    objects[tuple(shelves[:num_requests].T)] = Load.REQUESTED
    start = empty_world(KINDS, tiles.shape, cells[:num_agents].astype(np.int8))
    bodies = dataclasses.replace(start.bodies, extra=jnp.zeros(num_agents, bool))
    contents = dataclasses.replace(start.cells, object=jnp.asarray(objects))
    start = dataclasses.replace(start, cells=contents, bodies=bodies)
    goals = jnp.asarray(np.argwhere(tiles == Tile.GOAL), jnp.int8)
    return Layout(jnp.asarray(tiles), start, goals, KINDS)


def _read_tiles(text: str) -> UInt8[np.ndarray, "height width"]:
    rows = ["".join(row.split()) for row in text.strip().splitlines()]
    if not rows:
        raise LayoutError("The text of the warehouse is empty: write its rows of cells.")
    if max(len(rows), *map(len, rows)) > _MAX_SIDE:
        raise LayoutError(f"A warehouse has at most {_MAX_SIDE} rows and {_MAX_SIDE} columns.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise LayoutError(
                f"The warehouse's rows are ragged: row {number} has {len(row)} cells, row 1 has "
                f"{len(rows[0])}."
            )
        if unknown := set(row.lower()) - set(_CHARACTERS):
            raise LayoutError(
                f"The warehouse has an unknown character {min(unknown)!r} in row {number}; known "
                f"are {', '.join(_CHARACTERS)}."
            )
    tiles = np.asarray([[_CHARACTERS[x] for x in row.lower()] for row in rows], np.uint8)
    if not (tiles == Tile.GOAL).any():
        raise LayoutError("The warehouse has no goal: mark the delivery cells with g.")
    return tiles


@final
class RandomCells(AbstractStart):
    """Places the robots in distinct cells that are not walls, uniformly at random. A robot may
    start under a shelf or on a goal.
    """

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        cells = _draw_cells(key, layout.tiles != Tile.WALL, world.num_agents)
        bodies = dataclasses.replace(world.bodies, position=cells.astype(jnp.int8))
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomRequests(AbstractStart):
    """Replaces all requests: samples the requested shelves uniformly from the shelves that no robot
    carries.

    **Arguments:**

    - `count`: the number of requested shelves.
    """

    count: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        has_shelf = world.cells.object != Load.NOTHING
        chosen = _draw_cells(key, has_shelf, self.count)
        objects = jnp.where(has_shelf, jnp.uint8(Load.SHELF), jnp.uint8(Load.NOTHING))
        objects = objects.at[chosen[:, 0], chosen[:, 1]].set(jnp.uint8(Load.REQUESTED))
        cells = dataclasses.replace(world.cells, object=objects)
        return dataclasses.replace(world, cells=cells)


def _draw_cells(
    key: PRNGKeyArray, marked: Bool[Array, "height width"], count: int
) -> Int32[Array, "count 2"]:
    """Distinct marked cells, uniformly at random."""
    ranks = sample_distinct(key, count, marked.sum(dtype=jnp.int32))
    return jax.vmap(find_marked, (None, 0))(marked, ranks)[0]
