"""Ticks: changes that happen in every cell without an action of an agent."""

import abc
import dataclasses
import functools
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PRNGKeyArray, Shaped, UInt8

from ._kinds import NOTHING
from ._step import AbstractPhase, Step
from ._world import IDLE, Cell, Direction


@final
class Spot(eqx.Module):
    """The input of a tick rule: one cell, and the four cells beside it, before the rule.

    - `params`: the parameters of the game.
    - `tile`, `cell`: the kind of tile of the cell, and its contents.
    - `next_tiles`, `next_cells`: the same of the cells to the north, south, east and west, along a
        leading axis. Beyond the edge of the grid there is a wall without contents.
    - `step_key`, `rule`, `number`: the key of the phase, and the numbers of the rule and of the
        cell, from which `key` is made.
    """

    params: Any
    tile: UInt8[Array, ""]
    cell: Cell
    next_tiles: UInt8[Array, "4"]
    next_cells: Cell
    step_key: PRNGKeyArray
    rule: int = eqx.field(static=True)
    number: Int32[Array, ""]

    @property
    def key(self) -> PRNGKeyArray:
        """The random key of this cell for this rule in this step."""
        return jax.random.fold_in(jax.random.fold_in(self.step_key, self.rule), self.number)


class AbstractTick(eqx.Module):
    """A rule that updates one cell in every step, such as a timer that counts down."""

    @abc.abstractmethod
    def __call__(self, spot: Spot) -> Cell:
        """The cell after the step. What a rule does not use of `spot` costs nothing."""


@final
class Tick(AbstractPhase):
    """The phase that applies every rule to every cell, in order. All cells change at once: a rule
    sees the neighbours of a cell as they were before the rule.
    """

    rules: tuple[AbstractTick, ...]

    def __call__(self, step: Step) -> Step:
        tiles, cells = step.layout.tiles, step.world.cells
        numbers = jnp.asarray(np.arange(tiles.size, dtype=np.int32).reshape(tiles.shape))
        next_tiles = _neighbours(tiles, step.layout.kinds.wall)
        axes = (0, 0, 1, 1, 0)
        for number, rule in enumerate(self.rules):
            update = functools.partial(_update, rule, number, step)
            everywhere = jax.vmap(jax.vmap(update, axes), axes)
            cells = everywhere(tiles, cells, next_tiles, _neighbours_of_cells(cells), numbers)
        return step.then(dataclasses.replace(step.world, cells=cells))


def _update(
    rule: AbstractTick,
    rule_number: int,
    step: Step,
    tile: UInt8[Array, ""],
    cell: Cell,
    next_tiles: UInt8[Array, "4"],
    next_cells: Cell,
    number: Int32[Array, ""],
) -> Cell:
    params, key = step.layout.params, step.key
    return rule(Spot(params, tile, cell, next_tiles, next_cells, key, rule_number, number))


def _neighbours_of_cells(cells: Cell) -> Cell:
    timer = cells.timer
    return Cell(
        _neighbours(cells.object, NOTHING),
        None if timer is None else _neighbours(timer, IDLE),
        jax.tree.map(lambda x: _neighbours(x, 0), cells.extra),
    )


def _neighbours(
    grid: Shaped[Array, "height width *rest"], outside: int
) -> Shaped[Array, "4 height width *rest"]:
    """For each cell, the cells to the north, south, east and west."""
    height, width = grid.shape[:2]
    rest = [(0, 0, 0)] * (grid.ndim - 2)
    padded = jax.lax.pad(grid, jnp.asarray(outside, grid.dtype), [(1, 1, 0), (1, 1, 0), *rest])
    corners = {
        Direction.NORTH: (0, 1),
        Direction.SOUTH: (2, 1),
        Direction.EAST: (1, 2),
        Direction.WEST: (1, 0),
    }
    return jnp.stack(
        [padded[row : row + height, col : col + width] for row, col in corners.values()]
    )
