"""The ticks of OvercookedV2: changes in pots and buttons after the cooks have acted."""

import dataclasses
from typing import final

import jax.numpy as jnp

from ...grid import IDLE, AbstractTick, Cell, Spot
from ._contents import Tile


@final
class RunClocks(AbstractTick):
    """Reduces the remaining time of cooking soups and lit buttons by one step."""

    def __call__(self, spot: Spot) -> Cell:
        cell = spot.cell
        timer = cell.clock - (cell.clock > 0).astype(jnp.int16)
        out = (spot.tile == Tile.BUTTON) & (timer == 0)
        timer = jnp.where(out, jnp.asarray(IDLE, jnp.int16), timer)
        return dataclasses.replace(cell, timer=timer)
