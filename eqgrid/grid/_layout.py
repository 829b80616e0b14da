"""What never changes during an episode: what is built where, where it starts, and the recipes."""

from collections import Counter
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from ._recipes import Recipes
from ._world import IDLE, Bodies, Cell, Fixture, Hand, Heading, Item, World

CHARACTERS = {
    " ": Fixture.FLOOR,
    "X": Fixture.COUNTER,
    "P": Fixture.POT,
    "O": Fixture.ONION_DISPENSER,
    "T": Fixture.TOMATO_DISPENSER,
    "D": Fixture.DISH_DISPENSER,
    "S": Fixture.SERVING,
    "#": Fixture.WALL,
}


_MAX_SIDE = 127  # positions are int8
_TOO_LARGE = f"A layout has at most {_MAX_SIDE} rows and {_MAX_SIDE} columns."


class LayoutError(ValueError):
    """A layout that is no kitchen: the message says what is wrong with it, and where."""


@final
class Layout(eqx.Module):
    """A kitchen, as arrays: a batch of kitchens of one size is a batch of these.

    - `fixtures`: what is built into every cell, as `Fixture`s.
    - `start`: the world in which an episode starts by default.
    - `recipes`: what soups are worth and how long they cook.
    """

    fixtures: UInt8[Array, "height width"]
    start: World
    recipes: Recipes

    @classmethod
    def parse(
        cls,
        text: str,
        recipes: Recipes | None = None,
        starts: Sequence[tuple[int, int]] | None = None,
    ) -> "Layout":
        """Builds a layout from its text.

        **Arguments:**

        - `text`: one row a line: `X` counter, `O` onions, `T` tomatoes, `D` dishes, `P` pot, `S`
            serving, `#` wall, blank floor, and the digits 1 to 9 for where the cooks start. White
            space around a row is dropped.
        - `recipes`: all nine, worth 20 and cooked for 20 steps, unless given.
        - `starts`: `(row, col)` of every cook, for more than nine of them, in place of the digits.

        **Raises:** `LayoutError` when the text has no border, no start, ragged rows, an unknown
        character, or two starts with one digit; or when `starts` are not distinct floor cells.
        """
        rows = [row.strip() for row in text.strip().splitlines()]
        fixtures, digits = _read_rows(rows)
        positions = _check_digits(digits) if starts is None else _check_starts(starts, fixtures)
        return cls(
            fixtures=jnp.asarray(fixtures),
            start=empty_world(fixtures.shape, positions),
            recipes=Recipes() if recipes is None else recipes,
        )

    @property
    def num_agents(self) -> int:
        return self.start.bodies.position.shape[0]

    def pad(self, height: int, width: int) -> "Layout":
        """The same kitchen in a larger grid, walls below and to the right, so that it can be
        batched with others.

        **Raises:** `ValueError` when the kitchen is larger than that, or that is too large.
        """
        if max(height, width) > _MAX_SIDE:
            raise LayoutError(_TOO_LARGE)
        rows, cols = height - self.fixtures.shape[0], width - self.fixtures.shape[1]
        if rows < 0 or cols < 0:
            raise ValueError(
                f"A kitchen of {self.fixtures.shape} cells does not fit into {(height, width)}."
            )
        edge = ((0, rows), (0, cols))
        cells = self.start.cells
        padded = Cell(
            thing=jnp.pad(cells.thing, edge),
            timer=jnp.pad(cells.timer, edge, constant_values=IDLE),
        )
        return Layout(
            fixtures=jnp.pad(self.fixtures, edge, constant_values=Fixture.WALL),
            start=World(padded, self.start.bodies, self.start.time),
            recipes=self.recipes,
        )

    def __str__(self) -> str:
        names = {fixture: character for character, fixture in CHARACTERS.items()}
        rows = [
            [names[Fixture(int(fixture))] for fixture in row] for row in np.asarray(self.fixtures)
        ]
        for number, (row, col) in enumerate(np.asarray(self.start.bodies.position), start=1):
            rows[row][col] = str(number) if number <= 9 else "+"
        return "\n".join("".join(row) for row in rows)


def empty_world(
    shape: tuple[int, ...],
    positions: Int[np.ndarray, "agents 2"],
    headings: Sequence[int] | None = None,
) -> World:
    """A world of empty-handed agents alone, facing north unless `headings` are given."""
    agents = len(positions)
    headings = [Heading.NORTH] * agents if headings is None else headings
    return World(
        cells=Cell(
            thing=jnp.full(shape, Item.NOTHING, jnp.uint8),
            timer=jnp.full(shape, IDLE, jnp.int16),
        ),
        bodies=Bodies(
            position=jnp.asarray(positions, jnp.int8),
            heading=jnp.asarray(headings, jnp.int8),
            held=Hand(jnp.full(agents, Item.NOTHING, jnp.uint8)),
        ),
        time=jnp.zeros((), jnp.int32),
    )


def _read_rows(rows: list[str]) -> tuple[np.ndarray, list[tuple[str, tuple[int, int]]]]:
    if len(rows) < 3 or len(rows[0]) < 3:
        raise LayoutError(
            "A layout needs at least 3 rows of 3 cells: a floor and a border around it."
        )
    if max(len(rows), len(rows[0])) > _MAX_SIDE:
        raise LayoutError(_TOO_LARGE)
    fixtures = np.zeros((len(rows), len(rows[0])), np.uint8)
    digits: list[tuple[str, tuple[int, int]]] = []
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LayoutError(
                f"The layout's rows are ragged: row {number + 1} has {len(row)} cells, row 1 has "
                f"{len(rows[0])}."
            )
        for col, character in enumerate(row):
            if character in "123456789":
                digits.append((character, (number, col)))
            elif character not in CHARACTERS:
                raise LayoutError(
                    f"The layout has an unknown character {character!r} in row {number + 1}, "
                    f"column {col + 1}; known are {' '.join(CHARACTERS).strip()}, blank and the "
                    "digits 1 to 9."
                )
            fixtures[number, col] = CHARACTERS.get(character, Fixture.FLOOR)
    border = np.ones_like(fixtures, bool)
    border[1:-1, 1:-1] = False
    if (gaps := np.argwhere(border & (fixtures == Fixture.FLOOR))).size:
        row, col = gaps[0] + 1
        raise LayoutError(
            f"The layout has no border at row {row}, column {col}: its outermost cells must not be "
            "floor."
        )
    return fixtures, digits


def _check_digits(digits: list[tuple[str, tuple[int, int]]]) -> np.ndarray:
    if not digits:
        raise LayoutError(
            "The layout has no start: put the digit 1 on the floor for the first cook."
        )
    for digit, count in Counter(digit for digit, _ in digits).items():
        if count > 1:
            raise LayoutError(
                f"The layout has {count} starts with the digit {digit}: each must be unique."
            )
    numbers = sorted(int(digit) for digit, _ in digits)
    for expected, number in enumerate(numbers, start=1):
        if number != expected:
            raise LayoutError(f"The layout has a start {number} but no start {expected}.")
    return np.asarray([position for _, position in sorted(digits)], np.int8)


def _check_starts(starts: Sequence[tuple[int, int]], fixtures: np.ndarray) -> np.ndarray:
    height, width = fixtures.shape
    if not starts:
        raise LayoutError("The layout has no start: give at least one `(row, col)`.")
    for row, col in starts:
        if not (0 <= row < height and 0 <= col < width and fixtures[row, col] == Fixture.FLOOR):
            raise LayoutError(f"The start {(row, col)} is not a floor cell of the layout.")
    if len(set(starts)) < len(starts):
        raise LayoutError("Two cooks cannot start in one cell: each start must be unique.")
    return np.asarray(starts, np.int8)
