"""Draws all pictures that a world can show, without playing games in it."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NoReturn, final

import jax
import msgspec
import numpy as np
from jaxtyping import UInt8

from eqgrid.grid import (
    IDLE,
    NOTHING,
    AgentLook,
    Direction,
    Kinds,
    Layout,
    Look,
    bare_looks,
    draw_look,
    draw_over_look,
)
from eqgrid.typing import PyTree
from eqgrid_lab.base import UsageError

CELL_PIXELS = 96
"""The side of a cell in pixels; pages show it at other sizes."""
_COLUMNS = 16
_MAX_DIFFERENCE, _MEAN_DIFFERENCE = 48, 1.0
"""The maximum and the mean difference of colours (0 to 255) between a picture and an overlay of its
layers. They differ slightly at edges, since the edges of each layer were smoothed separately.
"""


@final
class Sheet(msgspec.Struct, frozen=True):
    """The index of the pictures of a world. Pictures are numbered in the rows of the image file.

    - `side`, `columns`: the side of a picture in pixels, and the number of pictures in a row of the
        file.
    - `codes`: the number of object codes.
    - `tiles`: for each cell in row-major order, the index of its bare cell in `looks`.
    - `looks`: for each kind of bare cell, a list of pictures to draw over each other, by
        `lying + codes * (timer + 1)`. Without a timer, the key is `lying`.
    - `agents`: for each seat of a person and each agent, the picture of the agent for this person
        by `direction + 4 * (held + codes * extra)`. `extra` is the number whose binary digits are
        the agent's Boolean values, the highest digit first.
    """

    side: int
    columns: int
    codes: int
    tiles: list[int]
    looks: list[dict[int, list[int]]]
    agents: list[list[dict[int, int]]]


@final
@dataclasses.dataclass
class _Pictures:
    """Distinct pictures and their numbers."""

    numbers: dict[bytes, int] = dataclasses.field(default_factory=dict)

    def add(self, picture: UInt8[np.ndarray, "cell cell channels"]) -> int:
        """The number of a picture. Equal pictures have the same number."""
        if picture.shape[-1] == 3:
            picture = np.concatenate([picture, np.full_like(picture[..., :1], 255)], axis=-1)
        return self.numbers.setdefault(picture.tobytes(), len(self.numbers))

    def as_image(self) -> UInt8[np.ndarray, "pixel_rows pixel_cols 4"]:
        """All pictures in rows of `_COLUMNS`."""
        shape = (CELL_PIXELS, CELL_PIXELS, 4)
        found = [np.frombuffer(x, np.uint8).reshape(shape) for x in self.numbers]
        found += [np.zeros(shape, np.uint8)] * (-len(found) % _COLUMNS)
        rows = [
            np.concatenate(found[i : i + _COLUMNS], axis=1) for i in range(0, len(found), _COLUMNS)
        ]
        return np.concatenate(rows)


def draw_sheet(
    layout: Layout, extra: PyTree
) -> tuple[Sheet, UInt8[np.ndarray, "pixel_rows pixel_cols 4"]]:
    """Draws all pictures that a world can show.

    The pictures of cells combine each bare cell with each object and each time on its timer. The
    pictures of agents, which are drawn over cells, combine each agent with each object that it can
    hold. So no picture can be missing.

    **Arguments:**

    - `layout`: the layout of the world, in NumPy arrays.
    - `extra`: the `Bodies.extra` of a state.

    **Returns:** the sheet, and the image with the pictures.

    **Raises:** `UsageError` when the world has marks over cells, or agents with an unlimited number
    of pictures.
    """
    kinds, bare, pictures = layout.kinds, bare_looks(layout), _Pictures()
    if kinds.overlay is not None:
        raise UsageError("A page without a server cannot draw the marks over cells of this world.")
    distinct = list(dict.fromkeys(bare))
    sheet = Sheet(
        side=CELL_PIXELS,
        columns=_COLUMNS,
        codes=kinds.num_codes,
        tiles=[distinct.index(look) for look in bare],
        looks=[_cell_pictures(layout, look, pictures) for look in distinct],
        agents=_agent_pictures(kinds, len(layout.start.bodies.position), extra, pictures),
    )
    return sheet, pictures.as_image()


def _cell_pictures(layout: Layout, bare: Look, pictures: _Pictures) -> dict[int, list[int]]:
    """Draws one bare cell with all objects and all times. **Returns:** an entry of `Sheet.looks`.

    To keep the number of pictures small, an object is a layer over the bare cell if both layers
    look like the whole picture, and a timer is a layer that is reused for all objects that it fits.
    """
    kinds, found = layout.kinds, {}
    kind = kinds.tiles[bare.tile]
    under = draw_look(kinds, bare, CELL_PIXELS)
    patches: dict[int, list[UInt8[np.ndarray, "cell cell 4"]]] = {}
    for lying in range(kinds.num_codes):
        look = bare._replace(lying=lying)
        whole, layers = draw_look(kinds, look, CELL_PIXELS), [under]
        if lying != NOTHING:
            over = draw_over_look(kinds, look, CELL_PIXELS)
            layers = [under, over] if _are_close(_overlay(under, over), whole) else [whole]
        found[lying] = [pictures.add(layer) for layer in layers]
        last = IDLE if kind.duration is None else int(kind.duration(layout.params, lying))
        for timer in range(last + 1):
            look = bare._replace(lying=lying, timer=timer, duration=last if timer > 0 else 0)
            timed, known = draw_look(kinds, look, CELL_PIXELS), patches.setdefault(timer, [])
            fitting = (x for x in known if _are_close(_overlay(whole, x), timed))
            patch = next(fitting, None)
            if patch is None:
                # A layer of the pixels that differ from the picture without a timer.
                differs = (whole != timed).any(axis=-1, keepdims=True)
                patch = np.concatenate([timed * differs, differs * np.uint8(255)], axis=-1)
                patch = patch.astype(np.uint8)
                known.append(patch)
            layers = [*found[lying], pictures.add(patch)]
            found[lying + kinds.num_codes * (timer + 1)] = layers
    return found


def _agent_pictures(
    kinds: Kinds, agents: int, extra: PyTree, pictures: _Pictures
) -> list[list[dict[int, int]]]:
    """Draws each agent with all objects that it can hold. **Returns:** `Sheet.agents`."""
    codes = kinds.num_codes
    read = {code: kinds.read(code) for code in range(1, codes)}
    carried = [NOTHING, *(code for code, kind in read.items() if kind and kind[0].carryable)]
    floor = Look(0, NOTHING, IDLE, 0, 0, (True, True, True, True), 0.5, None)
    found: list[list[dict[int, int]]] = [[{} for _ in range(agents)] for _ in range(agents)]
    every = itertools.product(range(agents), range(agents), Direction, carried)
    for seat, number, direction, held in every:
        look = AgentLook(number + 1, int(direction), held, agents > 2)
        for index, values in _extras(kinds, floor, look, extra):
            shown = floor._replace(agent=look._replace(extra=values)).seen_by(seat, kinds)
            picture = pictures.add(draw_over_look(kinds, shown, CELL_PIXELS))
            found[seat][number][direction + 4 * (held + codes * index)] = picture
    return found


def _extras(
    kinds: Kinds, floor: Look, look: AgentLook, extra: PyTree
) -> Iterator[tuple[int, tuple[bool, ...]]]:
    """All values of the extra state of an agent that its picture can show, with their index.

    **Raises:** `UsageError` when the picture shows the extra state, and it is not Boolean.
    """
    leaves = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(extra)]
    size = sum(leaf.shape[1] for leaf in leaves)
    if all(leaf.dtype == bool for leaf in leaves):
        yield from enumerate(itertools.product((False, True), repeat=size))
        return
    try:
        draw_over_look(kinds, floor._replace(agent=look._replace(extra=(_Sentinel(),) * size)), 16)
    except _WasRead:
        raise UsageError(
            "A page without a server cannot draw the agents of this world, whose pictures "
            "contain numbers without a known range."
        ) from None
    yield 0, ()


class _WasRead(Exception):
    """Raised when a picture shows a `_Sentinel`."""


@final
class _Sentinel:
    """A placeholder for a number that a picture should not show. Each use raises `_WasRead`."""

    def _read(self, *_: object) -> NoReturn:
        raise _WasRead

    __int__ = __index__ = __bool__ = __float__ = __str__ = __format__ = __eq__ = __hash__ = _read
    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __lt__ = __gt__ = __le__ = __ge__ = _read


def _overlay(
    under: UInt8[np.ndarray, "cell cell 3"], over: UInt8[np.ndarray, "cell cell 4"]
) -> UInt8[np.ndarray, "cell cell 3"]:
    """A picture drawn over another picture, as the canvas of a browser does."""
    share = over[..., 3:] / np.float32(255)
    return (under * (1 - share) + over[..., :3] * share).round().astype(np.uint8)


def _are_close(one: UInt8[np.ndarray, "*shape"], other: UInt8[np.ndarray, "*shape"]) -> bool:
    difference = np.abs(one.astype(int) - other.astype(int))
    return bool(difference.max() <= _MAX_DIFFERENCE and difference.mean() <= _MEAN_DIFFERENCE)
