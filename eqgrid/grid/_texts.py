"""The texts of layouts: one character for each cell."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from ._kinds import AGENT_CHARACTERS, Kinds

MAX_SIDE = 127  # positions are int8
TOO_LARGE = f"A layout has at most {MAX_SIDE} rows and {MAX_SIDE} columns."

Marks: TypeAlias = list[tuple[str, tuple[int, int]]]
"""The marks of the agents' starts, and the `(row, col)` of each."""


class LayoutError(ValueError):
    """A layout that cannot be used; the message gives the reason and the place."""


def read_rows(
    rows: list[str], kinds: Kinds, legend: Mapping[str, str]
) -> tuple[np.ndarray, np.ndarray, Marks]:
    """The tiles, the objects and the marks of a text.

    **Arguments:**

    - `rows`: the rows of the text.
    - `kinds`: the kinds of the game.
    - `legend`: further characters; see `Layout.parse`.

    **Raises:** `LayoutError` when the text or the legend cannot be used.
    """
    if len(rows) < 3 or len(rows[0]) < 3:
        raise LayoutError(
            "A layout needs at least 3 rows of 3 cells: a floor and a border around it."
        )
    if max(len(rows), len(rows[0])) > MAX_SIDE:
        raise LayoutError(TOO_LARGE)
    numbers, codes = _characters(kinds)
    _check_legend(legend, numbers, codes)
    tiles, objects = np.zeros((2, len(rows), len(rows[0])), np.uint8)
    marks: Marks = []
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LayoutError(
                f"The layout's rows are ragged: row {number + 1} has {len(row)} cells, row 1 has "
                f"{len(rows[0])}."
            )
        for col, character in enumerate(row):
            for part in legend.get(character, character):
                if part in AGENT_CHARACTERS:
                    marks.append((part, (number, col)))
                elif part in numbers:
                    tiles[number, col] = numbers[part]
                elif part in codes:
                    objects[number, col] = codes[part]
                else:
                    known = [char for char in (*numbers, *codes, *legend) if char.strip()]
                    raise LayoutError(
                        f"The layout has an unknown character {character!r} in row {number + 1}, "
                        f"column {col + 1}; known are {' '.join(known)}, blank, 1 to 9 and a to z."
                    )
    _check_border(tiles, kinds)
    return tiles, objects, marks


def _characters(kinds: Kinds) -> tuple[dict[str, int], dict[str, int]]:
    """The number of the tile, and the code of the object, that each character stands for."""
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
        for variant in reversed(range(kind.variants)):  # the first one counts, if all have one
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


def _check_border(tiles: np.ndarray, kinds: Kinds) -> None:
    border = np.ones_like(tiles, bool)
    border[1:-1, 1:-1] = False
    if (gaps := np.argwhere(border & np.isin(tiles, kinds.walkable))).size:
        row, col = gaps[0] + 1
        raise LayoutError(
            f"The layout has no border at row {row}, column {col}: its outermost cells must not be "
            "floor."
        )
