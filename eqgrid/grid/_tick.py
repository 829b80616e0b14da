"""Ticks: changes that happen in every cell without an action of an agent."""

import abc
import dataclasses
from collections.abc import Callable
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
    - `beside`: the tiles and contents of the cells to the north, south, east and west, of which
        `next_tiles` and `next_cells` are made.
    - `step_key`, `rule`, `number`: the key of the phase, and the numbers of the rule and of the
        cell, from which `key` is made.
    """

    params: Any
    tile: UInt8[Array, ""]
    cell: Cell
    beside: tuple[tuple[UInt8[Array, ""], Cell], ...]
    step_key: PRNGKeyArray
    rule: int = eqx.field(static=True)
    number: Int32[Array, ""]

    @property
    def next_tiles(self) -> UInt8[Array, "4"]:
        """The kinds of tiles to the north, south, east and west; a wall beyond the edge."""
        return jnp.stack([tile for tile, _ in self.beside])

    @property
    def next_cells(self) -> Cell:
        """The contents of the cells to the north, south, east and west, along a leading axis;
        nothing beyond the edge.
        """
        return jax.tree.map(lambda *x: jnp.stack(x), *[cell for _, cell in self.beside])

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
        for number, rule in enumerate(self.rules):
            update = _spot_by_spot(rule, number, step)
            beside = tuple(zip(next_tiles, _neighbours_of_cells(cells), strict=True))
            cells = jax.vmap(jax.vmap(update))(tiles, cells, beside, numbers)
        return step.then(dataclasses.replace(step.world, cells=cells))


def _spot_by_spot(rule: AbstractTick, rule_number: int, step: Step) -> Callable[..., Cell]:
    """The rule as a function of the parts of a `Spot` that differ between cells."""

    # Not a functools.partial, of which jax would write down all arguments whenever it traces.
    def update(
        tile: UInt8[Array, ""],
        cell: Cell,
        beside: tuple[tuple[UInt8[Array, ""], Cell], ...],
        number: Int32[Array, ""],
    ) -> Cell:
        return rule(Spot(step.layout.params, tile, cell, beside, step.key, rule_number, number))

    return update


def _neighbours_of_cells(cells: Cell) -> list[Cell]:
    """For each direction, the contents of the cells that lie there."""
    objects = _neighbours(cells.object, NOTHING)
    timers = [None] * 4 if cells.timer is None else _neighbours(cells.timer, IDLE)
    leaves, structure = jax.tree.flatten(cells.extra)
    shifted = [_neighbours(leaf, 0) for leaf in leaves]
    extras = [jax.tree.unflatten(structure, [x[i] for x in shifted]) for i in range(4)]
    return [Cell(*parts) for parts in zip(objects, timers, extras, strict=True)]


def _neighbours(
    grid: Shaped[Array, "height width *rest"], outside: int
) -> list[Shaped[Array, "height width *rest"]]:
    """For each direction, the values of the cells that lie there."""
    if jnp.issubdtype(grid.dtype, jax.dtypes.prng_key):
        numbers, kind = jax.random.key_data(grid), jax.random.key_impl(grid)
        return [jax.random.wrap_key_data(x, impl=kind) for x in _neighbours(numbers, outside)]
    edges = [(1, 1, 0), (1, 1, 0), *[(0, 0, 0)] * (grid.ndim - 2)]
    padded = jax.lax.pad(grid, np.asarray(outside, grid.dtype), edges)
    corners = {
        Direction.NORTH: (0, 1),
        Direction.SOUTH: (2, 1),
        Direction.EAST: (1, 2),
        Direction.WEST: (1, 0),
    }
    # Slices of lax are traced faster than indices, and most rules do not look at neighbours.
    height, width, *rest = grid.shape
    return [
        jax.lax.slice(padded, (row, col, *[0] * len(rest)), (row + height, col + width, *rest))
        for row, col in (corners[direction] for direction in Direction)
    ]
