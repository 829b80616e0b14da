"""What happens in pots and buttons by itself, in every step after the cooks have acted."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from ...grid import IDLE, AbstractTick, Cell
from ._contents import Tile
from ._orders import Menu


@final
class RunClocks(AbstractTick):
    """A soup comes one step closer to being ready, and the light of a button to going out."""

    def __call__(self, params: Menu, tile: UInt8[Array, ""], cell: Cell) -> Cell:
        timer = cell.clock - (cell.clock > 0).astype(jnp.int16)
        out = (tile == Tile.BUTTON) & (timer == 0)
        timer = jnp.where(out, jnp.asarray(IDLE, jnp.int16), timer)
        return dataclasses.replace(cell, timer=timer)
