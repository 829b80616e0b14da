"""The kinds of MiniGrid, and the numbers by which it encodes them.

As in MiniGrid, walls are objects like all others: every cell is floor, and a room is a grid of
object codes. The numbers are those of `minigrid/core/constants.py`, version 3.2.
"""

import itertools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, UInt8

from ...grid import Direction, Kind, Kinds
from . import _sprites as sprites

COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
"""The colours of doors, keys, balls and boxes, by MiniGrid's number."""

STATES = ("open", "closed", "locked")
"""The states of a door, by MiniGrid's number."""

_DOORS = tuple(itertools.product(COLOURS, STATES))
_SHUT = tuple(state != "open" for _, state in _DOORS)


def _thing(name: str, char: str, sprite: Callable[..., None]) -> Kind:
    """Something that agents carry, in any colour."""
    return Kind(
        name,
        char,
        solid=True,
        opaque=False,
        carryable=True,
        variants=len(COLOURS),
        sprite=sprite,
    )


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True, sprite=sprites.draw_floor),
        Kind("outside", "X", solid=True, sprite=sprites.draw_outside),
    ),
    objects=(
        Kind("wall", "#", solid=True, sprite=sprites.draw_wall),
        Kind("goal", "G", sprite=sprites.draw_goal),
        Kind("lava", "V", sprite=sprites.draw_lava),
        Kind("door", "D", solid=_SHUT, variants=len(_DOORS), sprite=sprites.draw_door),
        _thing("key", "K", sprites.draw_key),
        _thing("ball", "A", sprites.draw_ball),
        _thing("box", "B", sprites.draw_box),
    ),
    agent_sprite=sprites.draw_agent,
)
"""The kinds of all rooms. The variant of a key, a ball or a box is its colour, and that of a door
is `3 * colour + state`. The tile `outside` is only seen beyond the edge of the grid.
"""

WALL, GOAL, LAVA = KINDS.code("wall"), KINDS.code("goal"), KINDS.code("lava")
DOOR, KEY, BALL, BOX = (KINDS.code(name) for name in ("door", "key", "ball", "box"))
OPEN, CLOSED, LOCKED = range(3)


def door_code(colour: Int[ArrayLike, ""], state: Int[ArrayLike, ""]) -> UInt8[Array, ""]:
    """The code of a door of a colour, by their numbers, in a state."""
    return jnp.asarray(DOOR + len(STATES) * colour + state).astype(jnp.uint8)


UNSEEN, EMPTY, AGENT = (0, 0, 0), (1, 0, 0), 10
WALL_SYMBOL = (2, 5, 0)
_SYMBOLS = {"key": 5, "ball": 6, "box": 7}


def _symbols() -> UInt8[np.ndarray, "codes 3"]:
    doors = [(4, colour, state) for colour in range(len(COLOURS)) for state in range(len(STATES))]
    things = [(number, colour, 0) for number in _SYMBOLS.values() for colour in range(len(COLOURS))]
    return np.asarray([EMPTY, WALL_SYMBOL, (8, 1, 0), (9, 0, 0), *doors, *things], np.uint8)


SYMBOLS = _symbols()
"""For each object code, MiniGrid's numbers of the object, its colour and its state."""

DIRECTION_SYMBOLS = np.zeros(4, np.uint8)
"""For each `Direction`, MiniGrid's number: right, down, left and up are 0 to 3."""
DIRECTION_SYMBOLS[[Direction.EAST, Direction.SOUTH, Direction.WEST, Direction.NORTH]] = range(4)
