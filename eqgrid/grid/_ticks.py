"""What happens by itself, in every cell, at the end of every step."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt8

from ._layout import Layout
from ._recipes import Recipes, look_up
from ._world import IDLE, MAX_INGREDIENTS, Cell, Fixture, World, soup_size


class AbstractTick(eqx.Module):
    """A rule for one cell."""

    @abc.abstractmethod
    def __call__(self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell) -> Cell:
        """The cell one step later."""


@final
class StartWhenFull(AbstractTick):
    """A pot with three ingredients starts by itself: what makes `classic` dynamics classic."""

    def __call__(self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell) -> Cell:
        full = soup_size(cell.thing) == MAX_INGREDIENTS
        starts = (fixture == Fixture.POT) & full & (cell.timer == IDLE)
        timer = jnp.where(starts, look_up(recipes.cook_time, cell.thing), cell.timer)
        return Cell(cell.thing, timer)


@final
class Cook(AbstractTick):
    """A soup that cooks comes one step closer to being ready."""

    def __call__(self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell) -> Cell:
        cooking = cell.timer > 0
        return Cell(cell.thing, cell.timer - cooking.astype(jnp.int16))


def tick(ticks: tuple[AbstractTick, ...], layout: Layout, world: World) -> World:
    """Applies every rule to every cell, in order, and advances the time by one step."""
    cells = world.cells
    for rule in ticks:
        everywhere = jax.vmap(jax.vmap(rule, (None, 0, 0)), (None, 0, 0))
        cells = everywhere(layout.recipes, layout.fixtures, cells)
    return World(cells, world.bodies, world.time + 1)
