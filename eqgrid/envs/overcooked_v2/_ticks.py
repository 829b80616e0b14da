"""The ticks of OvercookedV2: changes in pots and buttons after the cooks have acted."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from ...grid import IDLE, AbstractTick, Cell
from ._contents import Tile
from ._orders import Menu


@final
class RunClocks(AbstractTick):
    """Reduces the remaining time of cooking soups and lit buttons by one step."""

    def __call__(self, params: Menu, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        timer = cell.clock - (cell.clock > 0).astype(jnp.int16)
        out = (tile == Tile.BUTTON) & (timer == 0)
        timer = jnp.where(out, jnp.asarray(IDLE, jnp.int16), timer)
        return dataclasses.replace(cell, timer=timer)
