"""Observations as feature vectors: short vectors of named numbers, composed of parts."""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Integer

from .._kinds import NOTHING, Kinds
from .._layout import Layout
from .._starts import is_free
from .._world import Direction, World, direction_delta
from ._observation import AbstractObservation
from ._planes import STEPS_UNIT
from ._sight import Sight, check_radius, for_each_agent, in_cells

_DIRECTIONS = tuple(direction.name.lower() for direction in Direction)


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

    ```python
    from eqgrid import make
    from eqgrid.grid import Around, Features, Others, OwnPosition

    env = make("goals").with_observation(Features((OwnPosition(), Around(), Others())))
    print(env.observation.names(env.layout)[:2])  # ('own_row', 'own_col')
    ```

    **Arguments:**

    - `parts`: the parts that are concatenated to the vector, in this order.
    - `radius`: the range of sight in cells: the agent sees a square window with `2 * radius + 1`
        cells per side, centred on it. See `Sight.within`. By default it is the whole grid.

    **Raises:** `ValueError` when the radius is below 1.
    """

    parts: tuple[AbstractFeature, ...]
    radius: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_radius(self.radius)

    def names(self, layout: Layout) -> tuple[str, ...]:
        """The name of every number in the vector, in order; all names differ."""
        return tuple(
            name for part in self.parts for name in part.names(layout.kinds, layout.num_agents)
        )

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents features"]:
        return for_each_agent(self._see, layout, world, steps_left)

    def _see(self, sight: Sight) -> Float32[Array, " features"]:
        seen = sight if self.radius is None else sight.within(self.radius)
        return jnp.concatenate([part(seen) for part in self.parts])


def one_hot(index: Integer[Array, "*shape"], count: int) -> Float32[Array, "*shape kinds"]:
    """One-hot encoding; all zeros for an index out of range."""
    return jax.nn.one_hot(index, count, dtype=jnp.float32)


def which_kind(kinds: Kinds, code: Integer[Array, "*shape"]) -> Integer[Array, "*shape"]:
    """The kind of each object code: 0 for no object, else its index in `kinds.objects` plus 1."""
    # The last kind has the largest codes, so the minimum maps all its variants to one number.
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
    """The agent's own `(row, col)`, in units of `DISTANCE_UNIT` cells.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, OwnPosition

    env = make("goals").with_observation(Features((OwnPosition(),)))
    observation, state = env.reset(jax.random.key(0))
    print(observation.shape, env.observation.names(env.layout))  # (2, 2) ('own_row', 'own_col')
    ```
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("own_row", "own_col")

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return in_cells(sight.here)


@final
class OwnDirection(AbstractFeature):
    """The direction that the agent faces, one-hot.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, OwnDirection

    env = make("rescue", layout="small").with_observation(Features((OwnDirection(),)))
    observation, state = env.reset(jax.random.key(0))
    print(observation[0])  # [1. 0. 0. 0.]: north
    ```
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_direction", _DIRECTIONS)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return one_hot(sight.bodies.direction[0], len(Direction))


@final
class OwnHeld(AbstractFeature):
    """The kind of object that the agent holds, one-hot; the first entry stands for none.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, OwnHeld

    env = make("rescue", layout="small").with_observation(Features((OwnHeld(),)))
    observation, state = env.reset(jax.random.key(0))
    print(env.observation.names(env.layout)[:2], observation[0, :2])
    # ('own_held_nothing', 'own_held_green_victim') [1. 0.]
    ```
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return prefixed("own_held", _object_names(kinds))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        kinds = sight.layout.kinds
        return one_hot(which_kind(kinds, sight.bodies.held[0]), len(kinds.objects) + 1)


@final
class Around(AbstractFeature):
    """For each direction: whether the next cell is free, and whether another active agent stands
    there.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Around, Features

    env = make("goals").with_observation(Features((Around(),)))
    observation, state = env.reset(jax.random.key(0))
    print(env.observation.names(env.layout)[:2])  # ('north_free', 'north_agent')
    ```
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return tuple(name for x in _DIRECTIONS for name in prefixed(x, ("free", "agent")))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        deltas = direction_delta(jnp.arange(len(Direction), dtype=jnp.int8)).astype(jnp.int32)
        agent = sight.occupied(deltas)
        place = sight.here[None] + deltas
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
    """Whether another active agent stands in the faced cell."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("faced_agent",)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return sight.occupied(sight.faced - sight.here).astype(jnp.float32)[None]


@final
class NearestTiles(AbstractFeature):
    """For each given kind of tile: whether it exists, and the offset to the nearest one.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, NearestTiles

    exits = Features((NearestTiles(("exit",)),))
    env = make("rescue", layout="small").with_observation(exits)
    observation, state = env.reset(jax.random.key(0))
    print(env.observation.names(env.layout))  # ('exit_exists', 'exit_row', 'exit_col')
    ```

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
    """For each given kind of object: whether an object of this kind lies in a cell, and the offset
    to the nearest one. The variant does not matter.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, NearestObjects

    keys = Features((NearestObjects(("purple_key",)),))
    env = make("rescue", layout="small").with_observation(keys)
    observation, state = env.reset(jax.random.key(0))
    print(env.observation.names(env.layout)[0])  # purple_key_exists
    ```

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
    agent, in cyclic order after the observer. All are 0 for an agent that is not active.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import Features, Others

    env = make("goals").with_observation(Features((Others(),)))
    observation, state = env.reset(jax.random.key(0))
    print(env.observation.names(env.layout)[:2])  # ('other_1_row', 'other_1_col')
    ```
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


@final
class Heard(AbstractFeature):
    """The word that every other agent said in the last step, one-hot, in cyclic order after the
    observer; all zeros for an agent that said nothing, or is not active.

    **Arguments:**

    - `words`: the words of the game's `Say` actions, in the order of the actions.

    **Raises:** `ValueError`, in the first observation, when the game has no `Say` actions.
    """

    words: tuple[str, ...] = eqx.field(static=True)

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return tuple(
            x for k in range(1, num_agents) for x in prefixed(f"other_{k}_says", self.words)
        )

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        bodies = sight.bodies
        if bodies.said is None:
            raise ValueError("Agents cannot say anything in this world: give it `Say` actions.")
        words = one_hot(bodies.said[1:].astype(jnp.int32) - 1, len(self.words))
        if bodies.active is not None:
            words = jnp.where(bodies.active[1:, None], words, 0.0)
        return words.reshape(-1)


@final
class OwnAway(AbstractFeature):
    """The number of steps until the agent comes back, in units of `STEPS_UNIT` steps; 0 if it is
    not away. See `send_away`.

    **Raises:** `ValueError`, in the first observation, when the world has no phase `ComeBack`.
    """

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("own_away",)

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        if sight.bodies.away is None:
            raise ValueError("Agents are never away in this world: give it the phase `ComeBack`.")
        return sight.bodies.away[:1].astype(jnp.float32) / STEPS_UNIT
