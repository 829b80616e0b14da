"""Ticks: changes that happen in every cell without an action of an agent."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PyTree, UInt8

from ._step import AbstractPhase, Step
from ._world import Cell


class AbstractTick(eqx.Module):
    """A rule that updates one cell in every step, such as a timer that counts down."""

    @abc.abstractmethod
    def __call__(self, params: PyTree, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        """The cell after the step.

        **Arguments:**

        - `params`: the parameters of the game.
        - `tile`, `cell`: the kind of tile of the cell, and its contents.
        """


@final
class Tick(AbstractPhase):
    """The phase that applies every rule to every cell, in order."""

    rules: tuple[AbstractTick, ...]

    def __call__(self, step: Step) -> Step:
        cells = step.world.cells
        for rule in self.rules:
            everywhere = jax.vmap(jax.vmap(rule, (None, 0, 0)), (None, 0, 0))
            cells = everywhere(step.layout.params, step.layout.tiles, cells)
        return step.then(dataclasses.replace(step.world, cells=cells))
