"""The ticks of Overcooked: changes in pots at the end of every step."""

import dataclasses
from typing import final

import jax.numpy as jnp

from ...grid import IDLE, AbstractTick, Cell, Spot
from ._contents import MAX_INGREDIENTS, Tile, soup_size
from ._recipes import look_up


@final
class StartWhenFull(AbstractTick):
    """Starts pots with three ingredients, in the `classic` dynamics."""

    def __call__(self, spot: Spot) -> Cell:
        cell, recipes = spot.cell, spot.params
        full = soup_size(cell.object) == MAX_INGREDIENTS
        starts = (spot.tile == Tile.POT) & full & (cell.clock == IDLE)
        timer = jnp.where(starts, look_up(recipes.cook_time, cell.object), cell.clock)
        return dataclasses.replace(cell, timer=timer)


@final
class Cook(AbstractTick):
    """Reduces the remaining time of soups that are cooking by one step."""

    def __call__(self, spot: Spot) -> Cell:
        cell = spot.cell
        cooking = cell.clock > 0
        return dataclasses.replace(cell, timer=cell.clock - cooking.astype(jnp.int16))
