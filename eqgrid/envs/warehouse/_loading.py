"""Picking shelves up, and putting them down."""

import dataclasses
from typing import final

import jax.numpy as jnp

from ...grid import AbstractPhase, Step
from ._kinds import Load, Tile


@final
class ToggleLoad(AbstractPhase):
    """The phase in which a robot without a shelf picks up the one in its cell, and a robot with a
    shelf puts it down if it is on a rack; the latter is then no longer marked in `Bodies.extra` as
    having delivered.

    Source: `Warehouse.step` of `rware` 2.0.0.
    """

    def __call__(self, step: Step) -> Step:
        cells, bodies = step.world.cells, step.world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        here, toggles = cells.object[row, col], step.uses()
        is_empty = bodies.held == Load.NOTHING
        takes = toggles & is_empty & (here != Load.NOTHING)
        puts = toggles & ~is_empty & (step.layout.tiles[row, col] == Tile.RACK)
        swaps = takes | puts  # one of the two sides is empty
        objects = cells.object.at[row, col].set(jnp.where(swaps, bodies.held, here))
        bodies = dataclasses.replace(
            bodies, held=jnp.where(swaps, here, bodies.held), extra=bodies.extra & ~puts
        )
        cells = dataclasses.replace(cells, object=objects)
        return step.then(dataclasses.replace(step.world, cells=cells, bodies=bodies))
