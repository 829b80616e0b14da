"""Layouts: everything that is constant during an episode, and the initial state."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped, UInt8

from .._checks import is_known
from .._files import read_regular_text
from ..errors import did_you_mean
from ..typing import PyTree
from ._kinds import AGENT_CHARACTERS, NOTHING, Kinds
from ._world import IDLE, Bodies, Cell, Direction, World

_MAX_SIDE = 127  # positions are int8
_TOO_LARGE = f"A layout has at most {_MAX_SIDE} rows and {_MAX_SIDE} columns."

_Marks: TypeAlias = list[tuple[str, tuple[int, int]]]
"""The characters that mark where agents start, each with its `(row, col)`."""


class LayoutError(ValueError):
    """An error for a layout that cannot be used. The message gives the reason and the place."""


@final
class Layout(eqx.Module):
    r"""A grid as arrays. A batch of layouts of one size is a `Layout` with a leading axis.

    ```python
    from eqgrid.grid import Kind, Kinds, Layout

    kinds = Kinds((Kind("floor", " "), Kind("wall", "#", solid=True)))
    layout = Layout.parse("#####\n#1 2#\n#####", kinds)
    print(layout.tiles.shape)  # (3, 5)
    print(layout.start.bodies.position.tolist())  # [[1, 1], [1, 3]]
    ```

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
        legend: Mapping[str, str] | None = None,
    ) -> "Layout":
        """Builds a layout from its text.

        **Arguments:**

        - `text`: one row per line and one character of `kinds` per cell; objects lie on the floor.
            `1` to `9`, and then `a` to `z`, mark the cells in which the agents start. White space
            at the ends of a row is dropped.
        - `kinds`: the kinds of tiles and objects of the game.
        - `params`: the parameters of the game.
        - `starts`: `(row, col)` of every agent, instead of the marks in the text.
        - `legend`: further characters of this text. Each stands for several characters in one cell:
            at most one tile, one object and one mark. With `{"A": "1K", "B": "XK"}`, an A is the
            start of the first agent with an object K, and a B is a tile X with an object K.

        **Raises:** `LayoutError` when the text has no border, no start, rows of different lengths,
        an unknown character, or a mark that occurs twice; when `starts` are not distinct floor
        cells; or when the `legend` redefines a character of a kind or an agent, or puts two tiles,
        objects or marks into one cell.
        """
        rows = [row.strip() for row in text.strip().splitlines()]
        tiles, objects, marks = _read_rows(rows, kinds, legend or {})
        positions = _marked_positions(marks) if starts is None else _given_positions(starts, tiles)
        start = empty_world(kinds, tiles.shape, positions)
        cells = dataclasses.replace(start.cells, object=jnp.asarray(objects))
        start = dataclasses.replace(start, cells=cells)
        return cls(jnp.asarray(tiles), start, params, kinds)

    @property
    def num_agents(self) -> int:
        return self.start.num_agents

    def with_start(
        self,
        *,
        objects: Mapping[tuple[int, int], int] | None = None,
        timers: Mapping[tuple[int, int], int] | None = None,
        directions: Sequence[int] | None = None,
        held: Sequence[int] | None = None,
        cell_extra: PyTree = None,
        body_extra: PyTree = None,
        extra: PyTree = None,
    ) -> "Layout":
        """This layout with another initial state. An argument that is `None` changes nothing.

        **Arguments:**

        - `objects`: object codes by `(row, col)`, which may be the cell of an agent.
        - `timers`: timers by `(row, col)`, in a game that has timers.
        - `directions`, `held`: the direction of every agent, and the code of the object it holds.
        - `cell_extra`: `Cell.extra`: arrays with the leading axes `height width`.
        - `body_extra`: `Bodies.extra`: arrays with a leading `agents` axis.
        - `extra`: `World.extra`: arrays of any shape.

        **Raises:** `LayoutError` when a cell, a code, a direction or a shape does not fit the
        layout.
        """
        cells, bodies = self.start.cells, self.start.bodies
        if self.tiles.ndim != 2:
            raise LayoutError("with_start changes one layout: call it before they are stacked.")
        if timers is not None and cells.timer is None:
            raise LayoutError("The layout has no timers: give a kind of tile a `duration`.")
        codes = range(self.kinds.num_codes)
        changed = {
            "object": _place_values(cells.object, objects, codes, "object codes"),
            "extra": _extra_arrays(cell_extra, cells.extra, self.tiles.shape, "cell_extra"),
        }
        if timers is not None:
            changed["timer"] = _place_values(cells.clock, timers, range(-1, 2**15), "timers")
        new_cells = dataclasses.replace(cells, **changed)
        agents = (self.num_agents,)
        new_bodies = dataclasses.replace(
            bodies,
            direction=_per_agent(bodies.direction, directions, range(len(Direction)), "directions"),
            held=_per_agent(bodies.held, held, codes, "held objects"),
            extra=_extra_arrays(body_extra, bodies.extra, agents, "body_extra"),
        )
        start = dataclasses.replace(
            self.start,
            cells=new_cells,
            bodies=new_bodies,
            extra=_extra_arrays(extra, self.start.extra, (), "extra"),
        )
        return dataclasses.replace(self, start=start)

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
        # Agents cannot enter the added walls, so the game stays the same.
        return Layout(widen(self.tiles, self.kinds.wall), start, self.params, self.kinds)

    def __str__(self) -> str:
        codes = np.asarray(self.start.cells.object)
        rows = [
            [str(self.kinds.tiles[number].char) for number in row] for row in self.tiles.tolist()
        ]
        # As in `parse`, the character of an object stands for an object on the floor.
        for row, col in np.argwhere((codes != NOTHING) & (np.asarray(self.tiles) == 0)):
            if (found := self.kinds.read(int(codes[row, col]))) is not None:
                kind, variant = found
                rows[row][col] = kind.chars[variant] or rows[row][col]
        for agent, (row, col) in enumerate(np.asarray(self.start.bodies.position)):
            rows[row][col] = AGENT_CHARACTERS[agent] if agent < len(AGENT_CHARACTERS) else "+"
        return "\n".join("".join(row) for row in rows)


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
    """Checks the type of a `layout` argument, which may always be a string.

    **Arguments:**

    - `layout`: the argument.
    - `types`: the types that are also accepted.

    **Raises:** `LayoutError` when it has another type.
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
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise LayoutError(f"The layout file {str(layout)!r:.200} cannot be read: {why}.") from error
    raise LayoutError(
        f"There is no layout {str(layout)!r:.200}{did_you_mean(str(layout), texts)} Known are "
        f"{', '.join(texts)}, and the path of a layout file."
    )


def check_layout(layout: Layout) -> None:
    """Checks that every tile and object of a layout belongs to one of its kinds.

    **Raises:** `LayoutError` if one does not. Traced arrays are not checked.
    """
    kinds, cells, bodies = layout.kinds, layout.start.cells, layout.start.bodies
    for values, count, what in (
        (layout.tiles, kinds.num_tiles, "tile"),
        (cells.object, kinds.num_codes, "object"),
        (bodies.held, kinds.num_codes, "held object"),
    ):
        if not is_known(values):
            continue
        # Numbers are uint8, so none is below 0.
        if (wrong := np.asarray(values)[np.asarray(values) >= count]).size:
            raise LayoutError(
                f"The layout has a {what} with the number {wrong[0]}, but the largest number of "
                f"its kinds is {count - 1}."
            )


def _read_rows(
    rows: list[str], kinds: Kinds, legend: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray, _Marks]:
    """The tiles, the objects and the marks of a text."""
    if len(rows) < 3 or len(rows[0]) < 3:
        raise LayoutError(
            "A layout needs at least 3 rows of 3 cells: a floor and a border around it."
        )
    if max(len(rows), len(rows[0])) > _MAX_SIDE:
        raise LayoutError(_TOO_LARGE)
    numbers, codes = _characters(kinds)
    _check_legend(legend, numbers, codes)
    tiles, objects = np.zeros((2, len(rows), len(rows[0])), np.uint8)
    marks: _Marks = []
    for row, characters in enumerate(rows):
        if len(characters) != len(rows[0]):
            raise LayoutError(
                f"The layout's rows are ragged: row {row + 1} has {len(characters)} cells, row 1 "
                f"has {len(rows[0])}."
            )
        for col, character in enumerate(characters):
            for part in legend.get(character, character):
                if part in AGENT_CHARACTERS:
                    marks.append((part, (row, col)))
                elif part in numbers:
                    tiles[row, col] = numbers[part]
                elif part in codes:
                    objects[row, col] = codes[part]
                else:
                    known = [char for char in (*numbers, *codes, *legend) if char.strip()]
                    raise LayoutError(
                        f"The layout has an unknown character {character!r} in row {row + 1}, "
                        f"column {col + 1}; known are {' '.join(known)}, blank, 1 to 9 and a to z."
                    )
    border = np.ones_like(tiles, bool)
    border[1:-1, 1:-1] = False
    if (gaps := np.argwhere(border & np.isin(tiles, kinds.walkable))).size:
        row, col = gaps[0] + 1
        raise LayoutError(
            f"The layout has no border at row {row}, column {col}: its outermost cells must not be "
            "floor."
        )
    return tiles, objects, marks


def _characters(kinds: Kinds) -> tuple[dict[str, int], dict[str, int]]:
    """The tile numbers and the object codes of the characters in layout texts."""
    numbers = {
        char: number
        for number, kind in enumerate(kinds.tiles)
        for char in (*kind.chars, *kind.aliases)
        if char is not None
    }
    codes: dict[str, int] = {}
    for kind in kinds.objects:
        first = kinds.code(kind.name)
        codes |= dict.fromkeys(kind.aliases, first)
        # In reverse order: a character of all variants stands for the first variant.
        for variant in reversed(range(kind.variants)):
            if (char := kind.chars[variant]) is not None:
                codes[char] = first + variant
    return numbers, codes


def _check_legend(
    legend: Mapping[str, str], numbers: Mapping[str, int], codes: Mapping[str, int]
) -> None:
    for character, parts in legend.items():
        if len(character) != 1 or character in (*numbers, *codes, *AGENT_CHARACTERS):
            raise LayoutError(
                f"The legend explains {character!r}, but must explain single characters that no "
                "kind and no agent has."
            )
        for known, what in ((numbers, "tile"), (codes, "object"), (AGENT_CHARACTERS, "mark")):
            if sum(part in known for part in parts) > 1:
                raise LayoutError(
                    f"The legend says that {character!r} stands for {parts!r}, but a cell has room "
                    f"for one {what}."
                )


def _marked_positions(marks: _Marks) -> np.ndarray:
    if not marks:
        raise LayoutError(
            "The layout has no start: put the digit 1 on the floor for the first agent."
        )
    # Duplicates come first, since they would also look like gaps in the order of the marks.
    for mark, count in Counter(mark for mark, _ in marks).items():
        if count > 1:
            what = "digit" if mark.isdigit() else "letter"
            raise LayoutError(
                f"The layout has {count} starts with the {what} {mark}: each must be unique."
            )
    ordered = sorted(marks, key=lambda mark: AGENT_CHARACTERS.index(mark[0]))
    for expected, (mark, _) in zip(AGENT_CHARACTERS, ordered, strict=False):
        if mark != expected:
            raise LayoutError(f"The layout has a start {mark} but no start {expected}.")
    return np.asarray([position for _, position in ordered], np.int8)


def _given_positions(starts: Sequence[tuple[int, int]], tiles: np.ndarray) -> np.ndarray:
    height, width = tiles.shape
    if not starts:
        raise LayoutError("The layout has no start: give at least one `(row, col)`.")
    for row, col in starts:
        if not (0 <= row < height and 0 <= col < width and tiles[row, col] == 0):
            raise LayoutError(f"The start {(row, col)} is not a floor cell of the layout.")
    if len(set(starts)) < len(starts):
        raise LayoutError("Two agents cannot start in one cell: each start must be unique.")
    return np.asarray(starts, np.int8)


def _place_values(
    grid: Shaped[Array, "height width"],
    values: Mapping[tuple[int, int], int] | None,
    allowed: range,
    name: str,
) -> Shaped[Array, "height width"]:
    """The grid with other values in some cells."""
    for (row, col), value in (values or {}).items():
        if not (0 <= row < grid.shape[0] and 0 <= col < grid.shape[1]):
            raise LayoutError(f"The cell {(row, col)} is not in the layout's {grid.shape}.")
        _check_value(int(value), allowed, name)
        grid = grid.at[row, col].set(value)
    return grid


def _per_agent(
    old: Shaped[Array, " agents"], values: Sequence[int] | None, allowed: range, name: str
) -> Shaped[Array, " agents"]:
    """The values of all agents, or the old ones if there are no new ones."""
    if values is None:
        return old
    if len(values) != len(old):
        raise LayoutError(f"The layout has {len(old)} agents, but {len(values)} {name} were given.")
    for value in values:
        _check_value(int(value), allowed, name)
    return jnp.asarray([int(value) for value in values], old.dtype)


def _extra_arrays(
    new: PyTree, old: PyTree, leading: tuple[int, ...], name: str
) -> PyTree[Shaped[Array, "..."]]:
    """The new arrays, checked for their leading axes, or the old ones if there are no new ones."""
    if new is None:
        return old
    new = jax.tree.map(jnp.asarray, new)
    for leaf in jax.tree.leaves(new):
        if leaf.shape[: len(leading)] != leading:
            raise LayoutError(
                f"Each array of `{name}` must lead with {leading}, but one has the shape "
                f"{leaf.shape}."
            )
    return new


def _check_value(value: int, allowed: range, name: str) -> None:
    if value not in allowed:
        raise LayoutError(
            f"The {name} of this layout are from {allowed[0]} to {allowed[-1]}, but one is {value}."
        )
