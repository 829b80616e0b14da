"""Feature-vector observations: short vectors of named numbers, composed of parts."""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Integer, Shaped

from ._kinds import NOTHING, Kinds
from ._observation import AbstractObservation
from ._world import Bodies, Cell, Direction, World, direction_delta
from .layouts._layout import Layout, is_free

DISTANCE_UNIT = 5
"""Cells per unit of distance or position. It is the same in every layout, so that features keep
their scale between layouts.
"""

_DIRECTIONS = tuple(direction.name.lower() for direction in Direction)
_NOWHERE = np.iinfo(np.int32).max


@final
class Sight(eqx.Module):
    """The input of a feature: the world relative to one agent, the observer.

    - `agent`: the index of the observer.
    - `layout`, `cells`: the tiles of the grid, and the objects and timers in its cells.
    - `bodies`: the bodies of all agents, with the observer's first.
    - `here`: the observer's `(row, col)`.
    - `deltas`: `(row, col)` of each other agent minus `here`.
    - `nearness`: for each cell, its Manhattan distance times the number of cells, plus its index in
        row-major order; all values differ, and the smallest one identifies the nearest cell.
    - `steps_left`: the remaining steps of the episode.
    """

    agent: Int32[Array, ""]
    layout: Layout
    cells: Cell
    bodies: Bodies
    here: Int32[Array, "2"]
    deltas: Int32[Array, "others 2"]
    nearness: Int32[Array, "height width"]
    steps_left: Int32[Array, ""]

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
        found = grid.at[position[..., 0], position[..., 1]]
        return found.get(mode="fill", fill_value=outside, wrap_negative_indices=False)

    def occupied(self, delta: Int32[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
        """Whether another agent stands at each `(row, col)` offset from the observer."""
        deltas = jnp.broadcast_to(self.deltas, (*delta.shape[:-1], *self.deltas.shape))
        return (delta[..., None, :] == deltas).all(axis=-1).any(axis=-1)

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
        left = jnp.where(places, jnp.broadcast_to(self.nearness, places.shape), _NOWHERE)
        found = []
        for _ in range(count):
            found.append(left.min(axis=(-2, -1)))
            left = jnp.where(left == found[-1][..., None, None], _NOWHERE, left)
        nearest = jnp.stack(found, axis=-1)
        number = nearest % (height * width)
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


class AbstractFeature(eqx.Module):
    """A part of a feature vector: a few named numbers."""

    @abc.abstractmethod
    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        """The name of each number, in order."""

    @abc.abstractmethod
    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        """The numbers for the observer of `sight`."""


@final
class Features(AbstractObservation):
    """A feature vector for every agent, relative to that agent.

    Distances are in units of `DISTANCE_UNIT` cells; each part documents its other units. "Nearest"
    means by Manhattan distance, regardless of walls; ties go to the first cell in row-major order.
    The features of something that does not exist are 0.

    **Arguments:**

    - `parts`: the parts that are concatenated to the vector, in this order.
    """

    parts: tuple[AbstractFeature, ...]

    def names(self, layout: Layout) -> tuple[str, ...]:
        """The name of every number in the vector, in order; all names differ."""
        return tuple(
            name for part in self.parts for name in part.names(layout.kinds, layout.num_agents)
        )

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents features"]:
        count = world.num_agents
        own_first = (np.arange(count)[:, None] + np.arange(count)[None, :]) % count
        bodies = jax.tree.map(lambda leaf: leaf[own_first], world.bodies)
        view = jax.vmap(_see, in_axes=(None, None, None, 0, 0, None))
        agents = jnp.arange(count, dtype=jnp.int32)
        return view(self.parts, layout, world.cells, agents, bodies, steps_left)


def _see(
    parts: tuple[AbstractFeature, ...],
    layout: Layout,
    cells: Cell,
    agent: Int32[Array, ""],
    bodies: Bodies,
    steps_left: Int32[Array, ""],
) -> Float32[Array, " features"]:
    position = bodies.position.astype(jnp.int32)
    here = position[0]
    nearness = _nearness(layout.tiles.shape, here)
    deltas = position[1:] - here[None]
    sight = Sight(agent, layout, cells, bodies, here, deltas, nearness, steps_left)
    return jnp.concatenate([part(sight) for part in parts])


def _nearness(shape: tuple[int, ...], here: Int32[Array, "2"]) -> Int32[Array, "height width"]:
    height, width = shape
    rows, cols = jnp.arange(height, dtype=jnp.int32), jnp.arange(width, dtype=jnp.int32)
    distance = jnp.abs(rows - here[0])[:, None] + jnp.abs(cols - here[1])[None, :]
    return distance * (height * width) + rows[:, None] * width + cols[None, :]


def in_cells(distance: Int32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Converts a distance in cells to units of `DISTANCE_UNIT` cells."""
    return distance.astype(jnp.float32) / DISTANCE_UNIT


def one_hot(index: Integer[Array, "*shape"], count: int) -> Float32[Array, "*shape kinds"]:
    """One-hot encoding; all zeros for an index out of range."""
    return jax.nn.one_hot(index, count, dtype=jnp.float32)


def which_kind(kinds: Kinds, code: Integer[Array, "*shape"]) -> Integer[Array, "*shape"]:
    """The kind of each object code: 0 for no object, else its index in `kinds.objects` plus 1."""
    if all(kind.variants == 1 for kind in kinds.objects[:-1]):
        return jnp.minimum(code, len(kinds.objects))
    numbers = [i for i, kind in enumerate(kinds.objects, start=1) for _ in range(kind.variants)]
    return jnp.asarray(np.asarray([0, *numbers], np.uint8))[code]


def prefixed(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    """Adds `prefix` and an underscore in front of each name."""
    return tuple(f"{prefix}_{name}" for name in names)


def _object_names(kinds: Kinds) -> tuple[str, ...]:
    return ("nothing", *(kind.name for kind in kinds.objects))


@final
class OwnPosition(AbstractFeature):
    """The agent's own `(row, col)`, in units of `DISTANCE_UNIT` cells."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("own_row", "own_col")

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return in_cells(sight.here)


@final
class OwnDirection(AbstractFeature):
    """The direction that the agent faces, one-hot."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_direction", _DIRECTIONS)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return one_hot(sight.bodies.direction[0], len(Direction))


@final
class OwnHeld(AbstractFeature):
    """The kind of object that the agent holds, one-hot; the first entry stands for none."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_held", _object_names(kinds))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        return one_hot(which_kind(kinds, sight.bodies.held[0]), len(kinds.objects) + 1)


@final
class Around(AbstractFeature):
    """For each direction: whether the next cell is free, and whether another agent stands there."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return tuple(name for way in _DIRECTIONS for name in prefixed(way, ("free", "agent")))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        ways = direction_delta(jnp.arange(len(Direction), dtype=jnp.int8)).astype(jnp.int32)
        agent = sight.occupied(ways)
        place = sight.here[None] + ways
        layout = sight.layout
        tile = sight.at(layout.tiles, place, layout.kinds.wall)
        free = is_free(layout.kinds, tile, sight.at(sight.cells.object, place, NOTHING))
        return jnp.stack([free & ~agent, agent], axis=-1).reshape(-1).astype(jnp.float32)


@final
class FacedTile(AbstractFeature):
    """The kind of tile that the agent faces, one-hot."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("faced", [kind.name for kind in kinds.tiles])

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        return one_hot(sight.at(sight.layout.tiles, sight.faced, kinds.wall), kinds.num_tiles)


@final
class FacedObject(AbstractFeature):
    """The kind of object in the faced cell, one-hot; the first entry stands for none."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("faced", _object_names(kinds))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        code = sight.at(sight.cells.object, sight.faced, NOTHING)
        return one_hot(which_kind(kinds, code), len(kinds.objects) + 1)


@final
class FacedAgent(AbstractFeature):
    """Whether another agent stands in the faced cell."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("faced_agent",)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return sight.occupied(sight.faced - sight.here).astype(jnp.float32)[None]


@final
class NearestTiles(AbstractFeature):
    """For each of some kinds of tiles: whether there is one, and the offset to the nearest one.

    **Arguments:**

    - `kinds`: the names of the kinds.
    - `count`: the number of tiles of each kind, nearest first.
    """

    kinds: tuple[str, ...] = eqx.field(static=True)
    count: int = eqx.field(static=True, default=1)

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return _nearest_names(self.kinds, self.count)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        tiles, kinds = sight.layout.tiles, sight.layout.kinds
        places = jnp.stack([tiles == kinds.tile(name) for name in self.kinds])
        return sight.way_to(*sight.nearest(places, self.count)).reshape(-1)


@final
class NearestObjects(AbstractFeature):
    """For each of some kinds of objects: whether one lies in any cell, and the offset to the
    nearest one. All variants of a kind count as one.

    **Arguments:**

    - `kinds`: the names of the kinds.
    - `count`: the number of objects of each kind, nearest first.
    """

    kinds: tuple[str, ...] = eqx.field(static=True)
    count: int = eqx.field(static=True, default=1)

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return _nearest_names(self.kinds, self.count)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        which = which_kind(kinds, sight.cells.object)
        order = [kind.name for kind in kinds.objects]
        places = jnp.stack([which == order.index(name) + 1 for name in self.kinds])
        return sight.way_to(*sight.nearest(places, self.count)).reshape(-1)


def _nearest_names(kinds: tuple[str, ...], count: int) -> tuple[str, ...]:
    each = [name if count == 1 else f"{name}_{k + 1}" for name in kinds for k in range(count)]
    return tuple(x for name in each for x in prefixed(name, ("exists", "row", "col")))


@final
class Others(AbstractFeature):
    """The offset, the direction (one-hot) and the held kind of object (one-hot) of every other
    agent, in cyclic order after the observer. All are 0 for an agent that has terminated.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        directions = prefixed("direction", _DIRECTIONS)
        one = ("row", "col", *directions, *prefixed("held", _object_names(kinds)))
        return tuple(x for k in range(1, num_agents) for x in prefixed(f"other_{k}", one))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        bodies, kinds = sight.bodies, sight.layout.kinds
        direction = one_hot(bodies.direction[1:], len(Direction))
        held = one_hot(which_kind(kinds, bodies.held[1:]), len(kinds.objects) + 1)
        each = jnp.concatenate([in_cells(sight.deltas), direction, held], axis=-1)
        if bodies.active is not None:
            each = jnp.where(bodies.active[1:, None], each, 0.0)
        return each.reshape(-1)
