"""The ticks of Overcooked: changes in pots at the end of every step."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from ...grid import IDLE, AbstractTick, Cell
from ._contents import MAX_INGREDIENTS, Tile, soup_size
from ._recipes import Recipes, look_up


@final
class StartWhenFull(AbstractTick):
    """Starts pots with three ingredients, in the `classic` dynamics."""

    def __call__(self, params: Recipes, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        full = soup_size(cell.object) == MAX_INGREDIENTS
        starts = (tile == Tile.POT) & full & (cell.clock == IDLE)
        timer = jnp.where(starts, look_up(params.cook_time, cell.object), cell.clock)
        return dataclasses.replace(cell, timer=timer)


@final
class Cook(AbstractTick):
    """Reduces the remaining time of soups that are cooking by one step."""

    def __call__(self, params: Recipes, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        cooking = cell.clock > 0
        return dataclasses.replace(cell, timer=cell.clock - cooking.astype(jnp.int16))
