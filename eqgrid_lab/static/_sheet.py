"""All pictures that a world can show, found without playing it."""

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

from ..base import UsageError

CELL_PIXELS = 96
"""The side of a cell in pixels; pages show it at other sizes."""
_COLUMNS = 16
_LARGEST, _MEAN = 48, 1.0
"""How much the colours of pictures may differ, of 255, that are put together from parts: edges
that were smoothed apart differ a little from edges that were smoothed together."""


@final
class Sheet(msgspec.Struct, frozen=True):
    """The pictures of a world, and which of them, one over the other, show what.

    - `side`, `columns`: the side of a picture in pixels, and the number of pictures in a row of the
        file.
    - `codes`: the number of object codes.
    - `tiles`: for each cell in row-major order, its entry in `looks`.
    - `looks`: for each kind of bare cell, the pictures by `lying + codes * (timer + 1)`.
    - `agents`: for each agent, the pictures by `direction + 4 * (held + codes * extra)`, in which
        `extra` reads the agent's truth values as binary digits, the first one first.
    - `marks`: the pictures over a cell by its mark.
    """

    side: int
    columns: int
    codes: int
    tiles: list[int]
    looks: list[dict[int, list[int]]]
    agents: list[dict[int, int]]
    marks: dict[int, int]


@final
@dataclasses.dataclass
class _Pictures:
    """Distinct pictures, by their numbers."""

    numbers: dict[bytes, int] = dataclasses.field(default_factory=dict)

    def add(self, picture: UInt8[np.ndarray, "cell cell channels"]) -> int:
        """The number of a picture, which is new if there is no equal one."""
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

    What a picture can show is the product of its parts: a bare cell with any object and any time on
    its timer, and over it any agent with any object. No game has to be played to find them, and
    none can be missing.

    **Arguments:**

    - `layout`: the layout of the world, in NumPy arrays.
    - `extra`: the `Bodies.extra` of a state.

    **Returns:** the sheet, and the image with its pictures.

    **Raises:** `UsageError` when the number of pictures cannot be known.
    """
    kinds, bare, pictures = layout.kinds, bare_looks(layout), _Pictures()
    if kinds.overlay is not None:
        raise UsageError("A page without a server cannot draw the marks over cells of this world.")
    distinct = list(dict.fromkeys(bare))
    sheet = Sheet(
        CELL_PIXELS,
        _COLUMNS,
        kinds.num_codes,
        [distinct.index(look) for look in bare],
        [_cell_pictures(layout, look, pictures) for look in distinct],
        _agent_pictures(kinds, len(layout.start.bodies.position), extra, pictures),
        {},
    )
    return sheet, pictures.as_image()


def _cell_pictures(layout: Layout, bare: Look, pictures: _Pictures) -> dict[int, list[int]]:
    """The pictures of one bare cell with all objects and all times."""
    kinds, found = layout.kinds, {}
    kind = kinds.tiles[bare.tile]
    under = draw_look(kinds, bare, CELL_PIXELS)
    patches: dict[int, list[UInt8[np.ndarray, "cell cell 4"]]] = {}
    for lying in range(kinds.num_codes):
        look = bare._replace(lying=lying)
        whole, layers = draw_look(kinds, look, CELL_PIXELS), [under]
        if lying != NOTHING:
            over = draw_over_look(kinds, look, CELL_PIXELS)
            layers = [under, over] if _close(_put_over(under, over), whole) else [whole]
        found[lying] = [pictures.add(layer) for layer in layers]
        last = IDLE if kind.duration is None else int(kind.duration(layout.params, lying))
        for timer in range(last + 1):
            look = bare._replace(lying=lying, timer=timer, duration=last if timer > 0 else 0)
            timed, known = draw_look(kinds, look, CELL_PIXELS), patches.setdefault(timer, [])
            fitting = (x for x in known if _close(_put_over(whole, x), timed))
            patch = next(fitting, None)
            if patch is None:
                # The pixels that differ, as a picture to put over the first one.
                differs = (whole != timed).any(axis=-1, keepdims=True)
                patch = np.concatenate([timed * differs, differs * np.uint8(255)], axis=-1)
                patch = patch.astype(np.uint8)
                known.append(patch)
            layers = [*found[lying], pictures.add(patch)]
            found[lying + kinds.num_codes * (timer + 1)] = layers
    return found


def _agent_pictures(
    kinds: Kinds, agents: int, extra: PyTree, pictures: _Pictures
) -> list[dict[int, int]]:
    """The pictures of each agent with all objects that it can hold."""
    codes = kinds.num_codes
    read = {code: kinds.read(code) for code in range(1, codes)}
    carried = [NOTHING, *(code for code, kind in read.items() if kind and kind[0].carryable)]
    floor = Look(0, NOTHING, IDLE, 0, 0, (True, True, True, True), 0.5, None)
    found: list[dict[int, int]] = [{} for _ in range(agents)]
    for number, direction, held in itertools.product(range(agents), Direction, carried):
        look = AgentLook(number + 1, int(direction), held, agents > 2)
        for index, values in _extras(kinds, floor, look, extra):
            shown = floor._replace(agent=look._replace(extra=values))
            picture = pictures.add(draw_over_look(kinds, shown, CELL_PIXELS))
            found[number][direction + 4 * (held + codes * index)] = picture
    return found


def _extras(
    kinds: Kinds, floor: Look, look: AgentLook, extra: PyTree
) -> Iterator[tuple[int, tuple[bool, ...]]]:
    """The further numbers of an agent that its picture can show, with their index.

    **Raises:** `UsageError` when they are not truth values, and the picture shows them.
    """
    leaves = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(extra)]
    size = sum(leaf.shape[1] for leaf in leaves)
    if all(leaf.dtype == bool for leaf in leaves):
        yield from enumerate(itertools.product((False, True), repeat=size))
        return
    try:
        draw_over_look(kinds, floor._replace(agent=look._replace(extra=(_Unread(),) * size)), 16)
    except _Read:
        raise UsageError(
            "A page without a server cannot draw the agents of this world, whose pictures "
            "contain numbers without a known range."
        ) from None
    yield 0, ()


class _Read(Exception):
    """A number of an agent is read."""


@final
class _Unread:
    """Stands for a number that a picture does not show."""

    def _read(self, *_: object) -> NoReturn:
        raise _Read

    __int__ = __index__ = __bool__ = __float__ = __str__ = __format__ = __eq__ = __hash__ = _read
    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __lt__ = __gt__ = __le__ = __ge__ = _read


def _put_over(
    under: UInt8[np.ndarray, "cell cell 3"], over: UInt8[np.ndarray, "cell cell 4"]
) -> UInt8[np.ndarray, "cell cell 3"]:
    """One picture over another, as a canvas puts them."""
    share = over[..., 3:] / np.float32(255)
    return (under * (1 - share) + over[..., :3] * share).round().astype(np.uint8)


def _close(one: UInt8[np.ndarray, "*shape"], other: UInt8[np.ndarray, "*shape"]) -> bool:
    difference = np.abs(one.astype(int) - other.astype(int))
    return bool(difference.max() <= _LARGEST and difference.mean() <= _MEAN)
