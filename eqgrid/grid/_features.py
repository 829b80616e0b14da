"""What an agent sees as a short vector of named numbers, put together from parts."""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, Integer, Shaped

from ._kinds import NOTHING, Kinds
from ._layout import Layout, is_free
from ._observation import AbstractObservation
from ._world import Bodies, Cell, Direction, World, direction_delta

DISTANCE_UNIT = 5
"""Cells per unit of a distance or a position. The same in every layout, so that a number means the
same in every layout."""

_DIRECTIONS = tuple(direction.name.lower() for direction in Direction)
_NOWHERE = np.iinfo(np.int32).max


@final
class Sight(eqx.Module):
    """What a part may look at, from where one agent stands.

    - `agent`: the number of the agent that sees.
    - `layout`, `cells`: what is built and what lies where.
    - `bodies`: all agents, with the one that sees first.
    - `here`: its `(row, col)`.
    - `deltas`: `(row, col)` of the others from there.
    - `nearness`: the distance to every cell, and below it the cell's number: so no two are alike,
        and the smallest tells which cell it is.
    - `steps_left`: of the episode.
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
        """`(row, col)` of the faced cell."""
        return self.here + direction_delta(self.bodies.direction[0]).astype(jnp.int32)

    def at(
        self,
        grid: Shaped[Array, "height width *rest"],
        position: Int32[Array, "*cells 2"],
        outside: int,
    ) -> Shaped[Array, "..."]:
        """What `grid` has at positions, and `outside` beyond its edge."""
        found = grid.at[position[..., 0], position[..., 1]]
        return found.get(mode="fill", fill_value=outside, wrap_negative_indices=False)

    def occupied(self, delta: Int32[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
        """Whether another agent stands at `(row, col)` from here."""
        deltas = jnp.broadcast_to(self.deltas, (*delta.shape[:-1], *self.deltas.shape))
        return (delta[..., None, :] == deltas).all(axis=-1).any(axis=-1)

    def nearest(
        self, places: Bool[Array, "*what height width"], count: int = 1
    ) -> tuple[Bool[Array, "*what count"], Int32[Array, "*what count 2"]]:
        """Whether there are so many of these cells, and where the nearest ones are."""
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
        """Whether something exists, and its `(row, col)` from here in units of distance."""
        delta = in_cells(place - jnp.broadcast_to(self.here, place.shape))
        delta = jnp.where(exists[..., None], delta, 0.0)
        return jnp.concatenate([exists.astype(jnp.float32)[..., None], delta], axis=-1)


class AbstractFeature(eqx.Module):
    """A few named numbers."""

    @abc.abstractmethod
    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        """The name of each number, in their order."""

    @abc.abstractmethod
    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        """The numbers that one agent sees."""


@final
class Features(AbstractObservation):
    """A short vector for every agent, with itself in the middle.

    Distances are in units of `DISTANCE_UNIT` cells; other units are those of the parts. "Nearest"
    is by Manhattan distance, through walls; of equally near cells the first one counts, row by row
    from the top left. What does not exist is all zeros.

    **Arguments:**

    - `parts`: what the vector is joined from, in this order.
    """

    parts: tuple[AbstractFeature, ...]

    def names(self, layout: Layout) -> tuple[str, ...]:
        """The name of every number in the vector, in its order; no two are alike."""
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
    """A distance in units of `DISTANCE_UNIT`."""
    return distance.astype(jnp.float32) / DISTANCE_UNIT


def one_hot(index: Integer[Array, "*shape"], count: int) -> Float32[Array, "*shape kinds"]:
    """1 at the index, 0 elsewhere; nothing but zeros for what is no index."""
    return jax.nn.one_hot(index, count, dtype=jnp.float32)


def which_kind(kinds: Kinds, code: Integer[Array, "*shape"]) -> Integer[Array, "*shape"]:
    """0 for nothing, else the position of the kind of an object, counted from 1."""
    if all(kind.variants == 1 for kind in kinds.objects[:-1]):
        return jnp.minimum(code, len(kinds.objects))
    numbers = [i for i, kind in enumerate(kinds.objects, start=1) for _ in range(kind.variants)]
    return jnp.asarray(np.asarray([0, *numbers], np.uint8))[code]


def prefixed(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names with a prefix before each."""
    return tuple(f"{prefix}_{name}" for name in names)


def _object_names(kinds: Kinds) -> tuple[str, ...]:
    return ("nothing", *(kind.name for kind in kinds.objects))


@final
class OwnPosition(AbstractFeature):
    """Where the agent stands."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("own_row", "own_col")

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return in_cells(sight.here)


@final
class OwnDirection(AbstractFeature):
    """Where the agent faces."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_direction", _DIRECTIONS)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return one_hot(sight.bodies.direction[0], len(Direction))


@final
class OwnHeld(AbstractFeature):
    """Which kind of object the agent holds."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_held", _object_names(kinds))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        return one_hot(which_kind(kinds, sight.bodies.held[0]), len(kinds.objects) + 1)


@final
class Around(AbstractFeature):
    """For each direction: whether the agent can go there, and whether another one is there."""

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
    """Which kind of tile the agent faces."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("faced", [kind.name for kind in kinds.tiles])

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        return one_hot(sight.at(sight.layout.tiles, sight.faced, kinds.wall), kinds.num_tiles)


@final
class FacedObject(AbstractFeature):
    """Which kind of object lies in the faced cell."""

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
    """For each of some kinds of tiles: whether there is one, and which way the nearest one is.

    **Arguments:**

    - `kinds`: the names of the kinds.
    - `count`: how many of each are shown, nearest first.
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
    """For each of some kinds of objects, in any variant: whether one lies anywhere, and which way
    the nearest one is.

    **Arguments:**

    - `kinds`: the names of the kinds.
    - `count`: how many of each are shown, nearest first.
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
    """Where every other agent is, where it faces, and which kind of object it holds."""

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
