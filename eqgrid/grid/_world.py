"""What a world is made of: cells, bodies and the time.

A grid is a vmapped cell: write a rule for one cell, one hand or one body, and map it. What never
changes during an episode (where the counters and pots stand) is no state: it lives in `Layout`.
"""

from enum import IntEnum
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, Int16, Int32, PyTree, Shaped, UInt8


class Fixture(IntEnum):
    """What is built into a cell. `WALL` is solid and does nothing: it pads a kitchen."""

    FLOOR = 0
    COUNTER = 1
    POT = 2
    ONION_DISPENSER = 3
    TOMATO_DISPENSER = 4
    DISH_DISPENSER = 5
    SERVING = 6
    WALL = 7


class Item(IntEnum):
    """What lies in a cell or in a hand. A pot that holds any ingredient holds a `SOUP`."""

    NOTHING = 0
    ONION = 1
    TOMATO = 2
    DISH = 3
    SOUP = 4


class Ingredient(IntEnum):
    """The position of an ingredient in a multiset of `contents`."""

    ONION = 0
    TOMATO = 1


class Heading(IntEnum):
    """Where a body faces; also the four move actions."""

    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3


class Action(IntEnum):
    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3
    STAY = 4
    INTERACT = 5


IDLE = -1
"""The timer of a cell in which nothing has started to cook."""


@final
class Hand(eqx.Module):
    """What one body holds.

    - `item`: an `Item`.
    - `contents`: how many of each `Ingredient` a held soup is made of, else zeros.
    """

    item: UInt8[Array, "*bodies"]
    contents: UInt8[Array, "*bodies ingredients"]


@final
class Cell(eqx.Module):
    """What one cell holds.

    - `item`: an `Item`.
    - `contents`: how many of each `Ingredient` a soup here is made of, else zeros.
    - `timer`: steps until the soup in this pot is ready: `IDLE` before it is started, 0 when ready.
        Everything that is no pot is `IDLE`.
    """

    item: UInt8[Array, "*grid"]
    contents: UInt8[Array, "*grid ingredients"]
    timer: Int16[Array, "*grid"]


@final
class Bodies(eqx.Module):
    """Where the agents are, as `(row, col)` with row 0 at the top, and their `Heading`s."""

    position: Int8[Array, "agents 2"]
    heading: Int8[Array, " agents"]
    held: Hand


@final
class World(eqx.Module):
    """The whole state of an episode; `time` counts steps since the reset."""

    cells: Cell
    bodies: Bodies
    time: Int32[Array, ""]

    @property
    def num_agents(self) -> int:
        return self.bodies.heading.shape[-1]


def heading_delta(heading: Int8[Array, "*bodies"]) -> Int8[Array, "*bodies 2"]:
    """One step `(row, col)` in the direction of a heading, and none for what is no heading."""
    down = (heading == Heading.SOUTH).astype(jnp.int8) - (heading == Heading.NORTH).astype(jnp.int8)
    right = (heading == Heading.EAST).astype(jnp.int8) - (heading == Heading.WEST).astype(jnp.int8)
    return jnp.stack([down, right], axis=-1)


def cell_mask(shape: tuple[int, ...], position: Int[Array, "2"]) -> Bool[Array, "height width"]:
    """True in the one cell at `position`."""
    row = jnp.arange(shape[0], dtype=position.dtype) == position[0]
    col = jnp.arange(shape[1], dtype=position.dtype) == position[1]
    return row[:, None] & col[None, :]


def get_cell(grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"]) -> PyTree:
    """The cell at `position` of every array in `grid`."""
    return jax.tree.map(lambda x: x[position[0], position[1]], grid)


def set_cell(
    grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"], cell: PyTree
) -> PyTree[Shaped[Array, "height width ..."]]:
    """`grid` with the cell at `position` replaced, in every array."""
    return jax.tree.map(lambda x, new: x.at[position[0], position[1]].set(new), grid, cell)
