"""What happens by itself, in every cell."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PyTree, UInt8

from ._step import AbstractPhase, Step
from ._world import Cell


class AbstractTick(eqx.Module):
    """A rule for one cell."""

    @abc.abstractmethod
    def __call__(self, params: PyTree, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        """The cell one step later.

        **Arguments:**

        - `params`: the parameters of the game.
        - `tile`, `cell`: what is built into the cell, and what it holds.
        """


@final
class Tick(AbstractPhase):
    """Applies every rule to every cell, in order."""

    rules: tuple[AbstractTick, ...]

    def __call__(self, step: Step) -> Step:
        cells = step.world.cells
        for rule in self.rules:
            everywhere = jax.vmap(jax.vmap(rule, (None, 0, 0)), (None, 0, 0))
            cells = everywhere(step.layout.params, step.layout.tiles, cells)
        return step.then(dataclasses.replace(step.world, cells=cells))
