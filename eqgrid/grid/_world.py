"""What the state of a world is made of: cells, bodies and the time.

A grid is a vmapped cell: write a rule for one cell or one body, and map it. What never changes
during an episode (what is built where) is no state: it lives in `Layout`.
"""

from enum import IntEnum
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, Int16, Int32, PyTree, Shaped, UInt8


class Direction(IntEnum):
    """Where a body faces."""

    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3


IDLE = -1
"""The timer of a cell in which nothing goes on."""


@final
class Cell(eqx.Module):
    """What one cell holds.

    - `object`: the code of what lies here; see `Kinds`.
    - `timer`: steps that are left of what goes on here, `IDLE` where nothing does, 0 where it is
        done; `None` in games without clocks.
    - `extra`: what else a game keeps for each cell.
    """

    object: UInt8[Array, "*grid"]
    timer: Int16[Array, "*grid"] | None = None
    extra: PyTree[Shaped[Array, "..."]] = None

    @property
    def clock(self) -> Int16[Array, "*grid"]:
        """The timer of a game with clocks.

        **Raises:** `ValueError` in games without.
        """
        if self.timer is None:
            raise ValueError("There is no timer: give a kind of tile a `duration`.")
        return self.timer


@final
class Bodies(eqx.Module):
    """The bodies of the agents.

    - `position`: `(row, col)`, with row 0 at the top.
    - `direction`: where each faces, as `Direction`s.
    - `held`: the code of what each holds.
    - `active`: whether each agent's task still goes on; `None` in games in which all end together.
        Who is not active does nothing, is in nobody's way, and is not seen.
    - `extra`: what else a game keeps for each agent.
    """

    position: Int8[Array, "*agents 2"]
    direction: Int8[Array, "*agents"]
    held: UInt8[Array, "*agents"]
    active: Bool[Array, "*agents"] | None = None
    extra: PyTree[Shaped[Array, "..."]] = None


@final
class World(eqx.Module):
    """The whole state of an episode.

    - `time`: steps since the reset.
    - `extra`: what else a game keeps.
    """

    cells: Cell
    bodies: Bodies
    time: Int32[Array, ""]
    extra: PyTree[Shaped[Array, "..."]] = None

    @property
    def num_agents(self) -> int:
        return self.bodies.direction.shape[-1]


def direction_delta(direction: Int8[Array, "*bodies"]) -> Int8[Array, "*bodies 2"]:
    """One step `(row, col)` in a direction, and none for what is no direction."""
    south, north = direction == Direction.SOUTH, direction == Direction.NORTH
    east, west = direction == Direction.EAST, direction == Direction.WEST
    down = south.astype(jnp.int8) - north.astype(jnp.int8)
    right = east.astype(jnp.int8) - west.astype(jnp.int8)
    return jnp.stack([down, right], axis=-1)


def get_cell(grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"]) -> PyTree:
    """The cell at `position` of every array in `grid`."""
    return jax.tree.map(lambda x: x[position[0], position[1]], grid)


def set_cell(
    grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"], cell: PyTree
) -> PyTree[Shaped[Array, "height width ..."]]:
    """`grid` with the cell at `position` replaced, in every array."""
    return jax.tree.map(lambda x, new: x.at[position[0], position[1]].set(new), grid, cell)
