"""Sight: the world relative to one agent, the input of features and of layers of planes."""

import dataclasses
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Shaped

from ..._checks import check_whole
from ...typing import PyTree
from .._kinds import NOTHING
from .._layout import Layout
from .._world import IDLE, Bodies, Cell, World, cells_at, direction_delta

DISTANCE_UNIT = 5
"""The number of cells per unit of distance or position. It is the same in all layouts, so that
features have the same scale in all of them.
"""

_NOWHERE = np.iinfo(np.int32).max


@final
class Sight(eqx.Module):
    """The input of a feature: the world relative to one agent, the observer.

    - `agent`: the index of the observer.
    - `layout`: the tiles of the grid, and the parameters of the game.
    - `world`: the whole state, including its time and the game's arrays in `extra`. Its bodies are
        in the order of the agents.
    - `bodies`: the bodies of all agents, with the observer's first.
    - `here`: the observer's `(row, col)`.
    - `deltas`: `(row, col)` of each other agent minus `here`.
    - `nearness`: for each cell, its Manhattan distance times the number of cells, plus its index in
        row-major order. All values differ, and the smallest one is the nearest cell's.
    - `steps_left`: the remaining steps of the episode.
    """

    agent: Int32[Array, ""]
    layout: Layout
    world: World
    bodies: Bodies
    here: Int32[Array, "2"]
    deltas: Int32[Array, "others 2"]
    nearness: Int32[Array, "height width"]
    steps_left: Int32[Array, ""]

    @property
    def cells(self) -> Cell:
        """The contents of the cells of the world."""
        return self.world.cells

    @property
    def faced(self) -> Int32[Array, "2"]:
        """`(row, col)` of the cell that the observer faces."""
        return self.here + direction_delta(self.bodies.direction[0]).astype(jnp.int32)

    def at(
        self,
        grid: Shaped[Array, "height width *rest"],
        position: Int32[Array, "*cells 2"],
        outside: int,
    ) -> Shaped[Array, "..."]:
        """The values of `grid` at `(row, col)` positions, and `outside` beyond its edge."""
        return cells_at(grid, position, outside)

    def occupied(self, delta: Int32[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
        """Whether another active agent stands at each `(row, col)` offset from the observer."""
        deltas = jnp.broadcast_to(self.deltas, (*delta.shape[:-1], *self.deltas.shape))
        there = (delta[..., None, :] == deltas).all(axis=-1)
        if self.bodies.active is not None:
            there &= jnp.broadcast_to(self.bodies.active[1:], there.shape)
        return there.any(axis=-1)

    def within(self, radius: int) -> "Sight":
        """Limits the sight to a square window, `2 * radius + 1` cells wide and centred on the
        observer. Cells beyond the window become empty walls, and agents beyond it inactive. A
        game's arrays in `extra` stay the same.
        """
        rows, cols = (jnp.arange(size, dtype=jnp.int32) for size in self.layout.tiles.shape)
        near = (jnp.abs(rows - self.here[0]) <= radius)[:, None]
        near = near & (jnp.abs(cols - self.here[1]) <= radius)[None]
        wall = jnp.asarray(self.layout.kinds.wall, jnp.uint8)
        layout = eqx.tree_at(
            lambda x: x.tiles, self.layout, jnp.where(near, self.layout.tiles, wall)
        )
        cells, timer = self.cells, self.cells.timer
        objects = jnp.where(near, cells.object, jnp.asarray(NOTHING, jnp.uint8))
        if timer is not None:
            timer = jnp.where(near, timer, jnp.asarray(IDLE, jnp.int16))
        cells = dataclasses.replace(cells, object=objects, timer=timer)
        visible = jnp.concatenate(
            [jnp.ones(1, bool), (jnp.abs(self.deltas) <= radius).all(axis=-1)]
        )
        active = self.bodies.active
        bodies = dataclasses.replace(
            self.bodies, active=visible if active is None else visible & active
        )
        world = dataclasses.replace(self.world, cells=cells)
        return dataclasses.replace(self, layout=layout, world=world, bodies=bodies)

    def nearest(
        self, places: Bool[Array, "*what height width"], count: int = 1
    ) -> tuple[Bool[Array, "*what count"], Int32[Array, "*what count 2"]]:
        """The nearest cells that are marked in `places`.

        **Arguments:**

        - `places`: one or more boolean grids.
        - `count`: the number of cells to find, nearest first.

        **Returns:** for each of the `count` cells, whether it exists, and its `(row, col)`.
        """
        height, width = places.shape[-2:]
        remaining = jnp.where(places, jnp.broadcast_to(self.nearness, places.shape), _NOWHERE)
        # Repeated minima, because a sort of all cells takes longer.
        found = []
        for _ in range(count):
            found.append(remaining.min(axis=(-2, -1)))
            remaining = jnp.where(remaining == found[-1][..., None, None], _NOWHERE, remaining)
        nearest = jnp.stack(found, axis=-1)
        number = nearest % (height * width)  # the index of the cell, see `nearness`
        return nearest < _NOWHERE, jnp.stack([number // width, number % width], axis=-1)

    def way_to(
        self, exists: Bool[Array, "*found"], place: Int32[Array, "*found 2"]
    ) -> Float32[Array, "*found 3"]:
        """For each place, whether it exists (1 or 0), and its `(row, col)` offset from the observer
        in units of `DISTANCE_UNIT` cells; the offset is 0 where it does not exist.
        """
        delta = in_cells(place - jnp.broadcast_to(self.here, place.shape))
        delta = jnp.where(exists[..., None], delta, 0.0)
        return jnp.concatenate([exists.astype(jnp.float32)[..., None], delta], axis=-1)


def for_each_agent(
    function: Callable[[Sight], PyTree], layout: Layout, world: World, steps_left: Int32[Array, ""]
) -> PyTree:
    """Applies a function of `Sight` for every agent. The results have a leading `agents` axis."""
    count = world.num_agents
    # For each agent, the bodies are permuted: its own comes first, and the others follow in cyclic
    # order. A feature then finds the observer at index 0.
    own_first = (np.arange(count)[:, None] + np.arange(count)[None, :]) % count
    bodies = jax.tree.map(lambda leaf: leaf[own_first], world.bodies)

    def for_one(agent: Int32[Array, ""], bodies: Bodies) -> PyTree:
        position = bodies.position.astype(jnp.int32)
        here = position[0]
        height, width = layout.tiles.shape
        rows, cols = jnp.arange(height, dtype=jnp.int32), jnp.arange(width, dtype=jnp.int32)
        distance = jnp.abs(rows - here[0])[:, None] + jnp.abs(cols - here[1])[None, :]
        # The index breaks ties between cells at the same distance, so that every machine finds the
        # same nearest cell.
        nearness = distance * (height * width) + rows[:, None] * width + cols[None, :]
        deltas = position[1:] - here[None]
        return function(Sight(agent, layout, world, bodies, here, deltas, nearness, steps_left))

    return jax.vmap(for_one)(jnp.arange(count, dtype=jnp.int32), bodies)


def check_radius(radius: int | None) -> None:
    """Checks a range of sight.

    **Raises:** `ValueError` when it is neither `None` nor a whole number of at least 1 cell.
    """
    if radius is None:
        return
    check_whole(radius=radius)
    if radius < 1:
        raise ValueError(f"A window needs a radius of at least 1 cell, not {radius}.")


def in_cells(distance: Int32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Converts a distance in cells to units of `DISTANCE_UNIT` cells."""
    return distance.astype(jnp.float32) / DISTANCE_UNIT
