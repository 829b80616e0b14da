"""The state of a grid world: cells, bodies and time.

Rules are written for one cell or one body, and mapped with `jax.vmap`. The tiles and everything
else that is constant during an episode are in `Layout`.
"""

from enum import IntEnum
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, Int16, Int32, Shaped, UInt8

from ..typing import PyTree


class Direction(IntEnum):
    """The direction that an agent faces."""

    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3


IDLE = -1
"""The timer of a cell in which nothing is running."""


@final
class Cell(eqx.Module):
    """The contents of a cell, or of all cells of a grid.

    - `object`: the code of the object in the cell; see `Kinds`.
    - `timer`: the number of steps left: 0 when the timer has run out, `IDLE` when it is not
        running. `None` in games without timers.
    - `extra`: further arrays of a game, with one entry per cell.
    """

    object: UInt8[Array, "*grid"]
    timer: Int16[Array, "*grid"] | None = None
    extra: PyTree[Shaped[Array, "..."]] = None

    @property
    def clock(self) -> Int16[Array, "*grid"]:
        """The timer, in a game that has timers.

        **Raises:** `ValueError` in a game without timers.
        """
        if self.timer is None:
            raise ValueError("There is no timer: give a kind of tile a `duration`.")
        return self.timer


@final
class Bodies(eqx.Module):
    """The bodies of the agents.

    - `position`: `(row, col)`, with row 0 at the top.
    - `direction`: the direction that each agent faces, as a `Direction`.
    - `held`: the code of the object that each agent holds.
    - `active`: which agents take part: they have not terminated, and are not away. An inactive
        agent does nothing, does not collide, and is not observed. `None` in games in which all
        agents are always active.
    - `away`: the number of steps after which an agent that is away comes back, and 0 for all other
        agents. `None` in games without `ComeBack`.
    - `said`: the number of the word that each agent said in the last step, counted from 1 in the
        order of the actions, and 0 for no word. `None` in games without `Say`.
    - `extra`: further arrays of a game, with one entry per agent.
    """

    position: Int8[Array, "*agents 2"]
    direction: Int8[Array, "*agents"]
    held: UInt8[Array, "*agents"]
    active: Bool[Array, "*agents"] | None = None
    extra: PyTree[Shaped[Array, "..."]] = None
    away: Int16[Array, "*agents"] | None = None
    said: UInt8[Array, "*agents"] | None = None

    @property
    def goes_on(self) -> Bool[Array, "*agents"]:
        """Which agents have not terminated: agents that are active or away."""
        if self.active is None:
            return jnp.ones_like(self.direction, bool)
        # Away agents are not active either, but their episode continues.
        return self.active if self.away is None else self.active | (self.away > 0)


@final
class World(eqx.Module):
    """The full state of an episode.

    - `cells`: the contents of all cells.
    - `bodies`: the bodies of all agents.
    - `time`: the number of steps since the reset.
    - `extra`: further arrays of a game.
    """

    cells: Cell
    bodies: Bodies
    time: Int32[Array, ""]
    extra: PyTree[Shaped[Array, "..."]] = None

    @property
    def num_agents(self) -> int:
        return self.bodies.direction.shape[-1]


def poses(world: World) -> Int8[Array, "agents 3"]:
    """The pose of each agent: `(row, col)`, and the direction that it faces."""
    bodies = world.bodies
    return jnp.concatenate([bodies.position, bodies.direction[:, None]], axis=-1)


def direction_delta(direction: Int8[Array, "*bodies"]) -> Int8[Array, "*bodies 2"]:
    """The `(row, col)` offset of one step in a direction; zero for an invalid direction."""
    # XLA fuses comparisons into the kernels around them, unlike a look-up in a table.
    south, north = direction == Direction.SOUTH, direction == Direction.NORTH
    east, west = direction == Direction.EAST, direction == Direction.WEST
    down = south.astype(jnp.int8) - north.astype(jnp.int8)
    right = east.astype(jnp.int8) - west.astype(jnp.int8)
    return jnp.stack([down, right], axis=-1)


def get_cell(grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"]) -> PyTree:
    """The cell at `position` of every array in `grid`."""
    return jax.tree.map(lambda x: x[position[0], position[1]], grid)


def cells_at(
    grid: Shaped[Array, "height width *rest"], position: Int[Array, "*cells 2"], outside: int
) -> Shaped[Array, "..."]:
    """The values of `grid` at `(row, col)` positions, and `outside` beyond its edge."""
    # Without `wrap_negative_indices=False`, -1 would read the opposite edge, as in NumPy.
    found = grid.at[position[..., 0], position[..., 1]]
    return found.get(mode="fill", fill_value=outside, wrap_negative_indices=False)


def set_cell(
    grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"], cell: PyTree
) -> PyTree[Shaped[Array, "height width ..."]]:
    """`grid` with the cell at `position` replaced, in every array."""
    return jax.tree.map(lambda x, new: x.at[position[0], position[1]].set(new), grid, cell)
