"""Random initial states of the warehouse."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PRNGKeyArray

from ...grid import AbstractStart, Layout, World
from ._choosing import draw_distinct, find_marked
from ._kinds import Load, Tile


@final
class RandomCells(AbstractStart):
    """Places the robots in distinct cells that are not walls, uniformly at random. They may
    start under a shelf or on a goal.
    """

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        cells = _draw_cells(key, layout.tiles != Tile.WALL, world.num_agents)
        bodies = dataclasses.replace(world.bodies, position=cells.astype(jnp.int8))
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomRequests(AbstractStart):
    """Requests shelves uniformly at random among standing ones, in place of earlier requests.

    **Arguments:**

    - `count`: the number of requested shelves.
    """

    count: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        stands = world.cells.object != Load.NOTHING
        chosen = _draw_cells(key, stands, self.count)
        objects = jnp.where(stands, jnp.uint8(Load.SHELF), jnp.uint8(Load.NOTHING))
        objects = objects.at[chosen[:, 0], chosen[:, 1]].set(jnp.uint8(Load.REQUESTED))
        cells = dataclasses.replace(world.cells, object=objects)
        return dataclasses.replace(world, cells=cells)


def _draw_cells(
    key: PRNGKeyArray, marked: Bool[Array, "height width"], count: int
) -> Int32[Array, "count 2"]:
    ranks = draw_distinct(key, count, marked.sum(dtype=jnp.int32))
    return jax.vmap(find_marked, (None, 0))(marked, ranks)[0]
