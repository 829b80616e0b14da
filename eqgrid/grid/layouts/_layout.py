"""Layouts: everything that is constant during an episode, and the initial state."""

import dataclasses
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, Shaped, UInt8

from ..._checks import is_known
from ..._files import read_regular_text
from .._kinds import AGENT_CHARACTERS, NOTHING, Kinds
from .._world import IDLE, Bodies, Cell, Direction, World

_MAX_SIDE = 127  # positions are int8
_TOO_LARGE = f"A layout has at most {_MAX_SIDE} rows and {_MAX_SIDE} columns."


class LayoutError(ValueError):
    """A layout that cannot be used; the message gives the reason and the place."""


@final
class Layout(eqx.Module):
    """A grid as arrays. A batch of layouts of one size is a `Layout` with a leading axis.

    - `tiles`: the kind of tile of every cell, as indices into `kinds.tiles`.
    - `start`: the default initial state of an episode.
    - `params`: other parameters that may differ between layouts, such as prices, as arrays.
    - `kinds`: the kinds of tiles and objects.
    """

    tiles: UInt8[Array, "*batch height width"]
    start: World
    params: PyTree
    kinds: Kinds = eqx.field(static=True)

    @classmethod
    def parse(
        cls,
        text: str,
        kinds: Kinds,
        params: PyTree = None,
        starts: Sequence[tuple[int, int]] | None = None,
    ) -> "Layout":
        """Builds a layout from its text.

        **Arguments:**

        - `text`: one row per line and one character of `kinds` per cell; objects lie on the floor.
            `1` to `9`, and then `a` to `z`, mark the cells in which the agents start. Leading and
            trailing white space of a row is dropped.
        - `kinds`: the kinds of tiles and objects of the game.
        - `params`: the parameters of the game.
        - `starts`: `(row, col)` of every agent, instead of the marks in the text.

        **Raises:** `LayoutError` when the text has no border, no start, rows of different lengths,
        an unknown character, or a mark that occurs twice; or when `starts` are not distinct floor
        cells.
        """
        rows = [row.strip() for row in text.strip().splitlines()]
        tiles, objects, marks = _read_rows(rows, kinds)
        positions = _check_marks(marks) if starts is None else _check_starts(starts, tiles)
        start = empty_world(kinds, tiles.shape, positions)
        cells = dataclasses.replace(start.cells, object=jnp.asarray(objects))
        start = dataclasses.replace(start, cells=cells)
        return cls(jnp.asarray(tiles), start, params, kinds)

    @property
    def num_agents(self) -> int:
        return self.start.num_agents

    def pad(self, height: int, width: int) -> "Layout":
        """The same layout in a grid of `height` rows and `width` columns, with solid tiles added at
        the bottom and on the right, so that it can be batched with others.

        **Raises:** `LayoutError` when the layout does not fit, or the new size is too large.
        """
        if max(height, width) > _MAX_SIDE:
            raise LayoutError(_TOO_LARGE)
        rows, cols = height - self.tiles.shape[0], width - self.tiles.shape[1]
        if rows < 0 or cols < 0:
            raise LayoutError(
                f"A layout of {self.tiles.shape} cells does not fit into {(height, width)}."
            )
        cells = self.start.cells

        def widen(x: Shaped[Array, "height width ..."], fill: int = 0) -> Array:
            edges = ((0, rows), (0, cols), *[(0, 0)] * (x.ndim - 2))
            return jnp.pad(x, edges, constant_values=fill)

        padded = Cell(
            widen(cells.object, NOTHING),
            None if cells.timer is None else widen(cells.timer, IDLE),
            jax.tree.map(widen, cells.extra),
        )
        start = dataclasses.replace(self.start, cells=padded)
        return Layout(widen(self.tiles, self.kinds.wall), start, self.params, self.kinds)

    def __str__(self) -> str:
        codes = np.asarray(self.start.cells.object)
        rows = [[self.kinds.tiles[number].char for number in row] for row in self.tiles.tolist()]
        for row, col in np.argwhere((codes != NOTHING) & (np.asarray(self.tiles) == 0)):
            kind = self.kinds.read(int(codes[row, col]))
            rows[row][col] = (kind and kind[0].char) or rows[row][col]
        for number, (row, col) in enumerate(np.asarray(self.start.bodies.position)):
            rows[row][col] = (AGENT_CHARACTERS + "+" * len(rows) * len(rows[0]))[number]
        return "\n".join("".join(map(str, row)) for row in rows)


def empty_world(
    kinds: Kinds,
    shape: tuple[int, ...],
    positions: Int[np.ndarray, "agents 2"],
    directions: Sequence[int] | None = None,
) -> World:
    """A world without objects, with agents that hold nothing.

    **Arguments:**

    - `kinds`: the kinds of the game; cells have timers if a kind of tile has a `duration`.
    - `shape`: the number of rows and columns.
    - `positions`: `(row, col)` of every agent.
    - `directions`: the direction of every agent; north by default.
    """
    agents = len(positions)
    directions = [Direction.NORTH] * agents if directions is None else directions
    timed = any(kind.duration is not None for kind in kinds.tiles)
    return World(
        cells=Cell(
            object=jnp.full(shape, NOTHING, jnp.uint8),
            timer=jnp.full(shape, IDLE, jnp.int16) if timed else None,
        ),
        bodies=Bodies(
            position=jnp.asarray(positions, jnp.int8),
            direction=jnp.asarray(directions, jnp.int8),
            held=jnp.full(agents, NOTHING, jnp.uint8),
        ),
        time=jnp.zeros((), jnp.int32),
    )


def check_named(layout: object, *types: type) -> None:
    """Checks the type of a `layout` argument.

    **Arguments:**

    - `layout`: the argument.
    - `types`: the types that are accepted besides a string.

    **Raises:** `LayoutError` when it is anything else.
    """
    if not isinstance(layout, (str, *types)):
        others = {Path: "the path of a file", Layout: "a Layout"}
        known = " or ".join(["a name", "a text", *(others[kind] for kind in types)])
        raise LayoutError(f"A layout is given as {known}, but this one is {layout!r:.60}.")


def choose_text(layout: str | Path, texts: Mapping[str, str]) -> str:
    """The text of a layout that is given by name, text or path.

    **Arguments:**

    - `layout`: a name in `texts`, a text of more than one line, or the path of a text file.
    - `texts`: the texts of the named layouts.

    **Raises:** `LayoutError` when there is no such name and no readable file with this path.
    """
    check_named(layout, Path, Layout)
    if isinstance(layout, str) and "\n" in layout.strip():
        return layout
    if str(layout) in texts:
        return texts[str(layout)]
    try:
        return read_regular_text(layout)
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8"
        raise LayoutError(f"The layout file {str(layout)!r:.200} cannot be read: {why}.") from error
    raise LayoutError(
        f"There is no layout {str(layout)!r:.200}{did_you_mean(str(layout), texts)} Known are "
        f"{', '.join(texts)}, and the path of a layout file."
    )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the most similar known names, or a full stop."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else "."


def check_layout(layout: Layout) -> None:
    """Checks that the tiles and objects of a layout are numbers of its kinds.

    **Raises:** `LayoutError` if not. Traced arrays are not checked.
    """
    kinds, cells, bodies = layout.kinds, layout.start.cells, layout.start.bodies
    for values, count, what in (
        (layout.tiles, kinds.num_tiles, "tile"),
        (cells.object, kinds.num_codes, "object"),
        (bodies.held, kinds.num_codes, "held object"),
    ):
        if not is_known(values):
            continue
        if (wrong := np.asarray(values)[np.asarray(values) >= count]).size:
            raise LayoutError(
                f"The layout has a {what} with the number {wrong[0]}, but the largest number of "
                f"its kinds is {count - 1}."
            )


def is_free(
    kinds: Kinds, tile: UInt8[Array, "*cells"], code: UInt8[Array, "*cells"]
) -> Bool[Array, "*cells"]:
    """Whether agents can enter cells: the tile is walkable, and the object in it is not solid."""
    free = tile == kinds.walkable[0]
    for number in kinds.walkable[1:]:
        free |= tile == number
    if kinds.solid_codes.any():
        free &= ~jnp.asarray(kinds.solid_codes)[code]
    return free


def _read_rows(
    rows: list[str], kinds: Kinds
) -> tuple[np.ndarray, np.ndarray, list[tuple[str, tuple[int, int]]]]:
    if len(rows) < 3 or len(rows[0]) < 3:
        raise LayoutError(
            "A layout needs at least 3 rows of 3 cells: a floor and a border around it."
        )
    if max(len(rows), len(rows[0])) > _MAX_SIDE:
        raise LayoutError(_TOO_LARGE)
    numbers = {kind.char: number for number, kind in enumerate(kinds.tiles)}
    codes = {kind.char: kinds.code(kind.name) for kind in kinds.objects if kind.char is not None}
    tiles, objects = np.zeros((2, len(rows), len(rows[0])), np.uint8)
    marks: list[tuple[str, tuple[int, int]]] = []
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LayoutError(
                f"The layout's rows are ragged: row {number + 1} has {len(row)} cells, row 1 has "
                f"{len(rows[0])}."
            )
        for col, character in enumerate(row):
            if character in AGENT_CHARACTERS:
                marks.append((character, (number, col)))
            elif character not in numbers and character not in codes:
                known = [char for char in (*numbers, *codes) if char and char.strip()]
                raise LayoutError(
                    f"The layout has an unknown character {character!r} in row {number + 1}, "
                    f"column {col + 1}; known are {' '.join(known)}, blank, 1 to 9 and a to z."
                )
            tiles[number, col] = numbers.get(character, 0)
            objects[number, col] = codes.get(character, NOTHING)
    border = np.ones_like(tiles, bool)
    border[1:-1, 1:-1] = False
    if (gaps := np.argwhere(border & np.isin(tiles, kinds.walkable))).size:
        row, col = gaps[0] + 1
        raise LayoutError(
            f"The layout has no border at row {row}, column {col}: its outermost cells must not be "
            "floor."
        )
    return tiles, objects, marks


def _check_marks(marks: list[tuple[str, tuple[int, int]]]) -> np.ndarray:
    if not marks:
        raise LayoutError(
            "The layout has no start: put the digit 1 on the floor for the first agent."
        )
    for mark, count in Counter(mark for mark, _ in marks).items():
        if count > 1:
            what = "digit" if mark.isdigit() else "letter"
            raise LayoutError(
                f"The layout has {count} starts with the {what} {mark}: each must be unique."
            )
    ordered = sorted(marks, key=lambda x: AGENT_CHARACTERS.index(x[0]))
    for expected, (mark, _) in zip(AGENT_CHARACTERS, ordered, strict=False):
        if mark != expected:
            raise LayoutError(f"The layout has a start {mark} but no start {expected}.")
    return np.asarray([position for _, position in ordered], np.int8)


def _check_starts(starts: Sequence[tuple[int, int]], tiles: np.ndarray) -> np.ndarray:
    height, width = tiles.shape
    if not starts:
        raise LayoutError("The layout has no start: give at least one `(row, col)`.")
    for row, col in starts:
        if not (0 <= row < height and 0 <= col < width and tiles[row, col] == 0):
            raise LayoutError(f"The start {(row, col)} is not a floor cell of the layout.")
    if len(set(starts)) < len(starts):
        raise LayoutError("Two agents cannot start in one cell: each start must be unique.")
    return np.asarray(starts, np.int8)
