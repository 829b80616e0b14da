"""Frames: what pages show of a state, of which only what has changed is sent."""

import base64
import threading
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from eqgrid.grid import Kinds, Layout, Look, PlacedWorld, World, look_png, looks
from eqgrid.typing import PyTree

from ._menu import Place
from ._messages import Frame

CELL_PIXELS = 128
"""The side of a cell in pixels; pages show it smaller."""


@final
class TileSheet:
    """The pictures of all cells that were shown so far, by their numbers.

    The picture of a cell depends on little (its `Look`), so each is drawn and sent once, and a
    world is a list of numbers.
    """

    def __init__(self) -> None:
        self._of_kinds: dict[int, tuple[Kinds, dict[Look, int]]] = {}
        self._files: list[str] = []
        self._drawing = threading.Lock()  # recorded games are drawn beside live ones

    def numbers(self, layout: Layout, world: World) -> list[int]:
        """The number of the picture of each cell of a world, in row-major order."""
        kinds = layout.kinds
        # By identity, since the hash of kinds goes through all of them.
        _, known = self._of_kinds.setdefault(id(kinds), (kinds, {}))
        return [
            known[look] if look in known else self._draw(kinds, look, known)
            for look in looks(layout, world)
        ]

    def picture(self, number: int) -> str:
        """The picture with this number, as a PNG in base64."""
        return self._files[number]

    def _draw(self, kinds: Kinds, look: Look, known: dict[Look, int]) -> int:
        with self._drawing:
            if look not in known:
                picture = look_png(kinds, look, CELL_PIXELS)
                self._files.append(base64.b64encode(picture).decode())
                known[look] = len(self._files) - 1
            return known[look]


@final
class Screen:
    """What one page shows already."""

    def __init__(self) -> None:
        self._cells: list[int] = []
        self._pictures: set[int] = set()

    def update(self, frame: Frame, tiles: TileSheet) -> Frame:
        """The part of a whole frame that the page does not show yet, and from now on does."""
        before = self._cells or [-1] * len(frame.cells)
        cells = [(i, new) for i, new in frame.cells if new != before[i]]
        unknown = {new for _, new in cells} - self._pictures
        self._pictures |= unknown
        self._cells = [number for _, number in frame.cells]
        pictures = {number: tiles.picture(number) for number in sorted(unknown)}
        return Frame(frame.step, cells, pictures, frame.scores, frame.places, frame.held)


def whole_frame(
    place: Place, state: PyTree, step: int, scores: Sequence[float], tiles: TileSheet
) -> Frame:
    """The whole frame of a state, without pictures.

    **Arguments:**

    - `place`: the world.
    - `state`: the state of the grid world, without wrappers.
    - `step`: the number of steps before it.
    - `scores`: the return of each agent before it.
    - `tiles`: the pictures of cells.
    """
    layout, world = _layout_and_world(place, state)
    cells = list(enumerate(tiles.numbers(layout, world)))
    bodies: Any = world.bodies
    width = layout.tiles.shape[1]
    places = [row * width + col for row, col in np.asarray(bodies.position).tolist()]
    held = [_name(layout.kinds, code) for code in np.asarray(bodies.held).tolist()]
    return Frame(step, cells, {}, [round(x, 4) for x in scores], places, held)


def _layout_and_world(place: Place, state: PyTree) -> tuple[Layout, World]:
    """The layout of a state, which may have been drawn for its episode, and its world."""
    if isinstance(state, PlacedWorld):
        return state.layout, state.world
    assert isinstance(state, World)
    return place.drawn_layout, state


def _name(kinds: Kinds, code: int) -> str:
    found = kinds.read(code)
    return "" if found is None else found[0].name.replace("_", " ")
