"""Random changes to the initial state of a layout, and searches for free cells."""

import abc
import dataclasses
from collections.abc import Iterable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Int8, PRNGKeyArray, Real, UInt8

from .._checks import as_probability, is_known
from ._kinds import NOTHING, Kinds
from ._layout import Layout, LayoutError
from ._world import Bodies, Direction, World


class AbstractStart(eqx.Module):
    """A random change to one part of the initial state."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        """The world with this part sampled again."""


class AbstractCheckedStart(AbstractStart):
    """A change that cannot be made in every layout."""

    @abc.abstractmethod
    def check(self, layout: Layout) -> None:
        """Checks a layout when a world is built with it.

        **Arguments:**

        - `layout`: the layout, or a batch of layouts. Its arrays may be traced; then there is
            nothing to check.

        **Raises:** `LayoutError` when this change cannot be made in the layout.
        """


@final
class RandomPositions(AbstractCheckedStart):
    r"""Places the agents in distinct floor cells without objects, uniformly at random.

    ```python
    import jax

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    room = grid.GridWorld(
        grid.Layout.parse("#####\n#1 2#\n#   #\n#####", kinds),
        actions=(*grid.MOVES, grid.Stay()),
        phases=(grid.Go(grid.LocalCollision()),),
        reward=grid.WeightedEventReward({}, ()),
        starts=(grid.RandomPositions(),),
    )
    _, state = room.reset(jax.random.key(0))
    print(state.bodies.position.shape)  # (2, 2): the row and the column of each agent
    ```
    """

    def check(self, layout: Layout) -> None:
        check_room(bare_floor(layout, layout.start), layout.num_agents, "agents")

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        position = sample_cells(key, bare_floor(layout, world), world.num_agents)
        bodies = dataclasses.replace(world.bodies, position=position)
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomDirections(AbstractStart):
    """Turns every agent to one of the four directions, uniformly at random."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        # A scaled uniform number, since `randint` uses twice as many random bits.
        uniform = jax.random.uniform(key, (world.num_agents,))
        direction = jnp.floor(uniform * len(Direction)).astype(jnp.int8)
        bodies = dataclasses.replace(world.bodies, direction=direction)
        return dataclasses.replace(world, bodies=bodies)


@final
class WithProbability(AbstractCheckedStart):
    """Applies other changes in a random share of the episodes.

    **Arguments:**

    - `probability`: the probability that the changes are applied in an episode.
    - `starts`: the changes, applied in this order.
    """

    probability: Float[Array, ""]
    starts: tuple[AbstractStart, ...]

    def __init__(self, probability: Real[ArrayLike, ""], starts: tuple[AbstractStart, ...]):
        self.probability = as_probability(probability)
        self.starts = starts

    def check(self, layout: Layout) -> None:
        check_starts(self.starts, layout)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        changes_key, starts_key = jax.random.split(key)
        changes = jax.random.uniform(changes_key) < self.probability
        # Both worlds are computed, as a `cond` under `vmap` would do.
        changed = apply_starts(self.starts, starts_key, layout, world)
        return jax.tree.map(lambda new, old: jnp.where(changes, new, old), changed, world)


def apply_starts(
    starts: tuple[AbstractStart, ...], key: PRNGKeyArray, layout: Layout, world: World
) -> World:
    """Applies all changes in order, each with its own key."""
    # Without changes, the key is not split, so that no program is compiled for it.
    keys = jax.random.split(key, len(starts)) if starts else ()
    for start, start_key in zip(starts, keys, strict=True):
        world = start(start_key, layout, world)
    return world


def check_starts(starts: Iterable[AbstractStart], layout: Layout) -> None:
    """Checks that all changes can be made in a layout.

    **Raises:** `LayoutError` when one of them cannot.
    """
    for start in starts:
        if isinstance(start, AbstractCheckedStart):
            start.check(layout)


def is_free(
    kinds: Kinds, tile: UInt8[Array, "*cells"], code: UInt8[Array, "*cells"]
) -> Bool[Array, "*cells"]:
    """Whether agents can enter cells: the tile is walkable, and the object in it is not solid.

    **Arguments:**

    - `kinds`: the kinds of the game.
    - `tile`, `code`: the kind of tile of each cell, and the code of the object in it.
    """
    # A game has few walkable tiles, so comparisons are cheaper than a look-up. Objects need a
    # look-up only in games with solid objects.
    free = tile == kinds.walkable[0]
    for number in kinds.walkable[1:]:
        free |= tile == number
    if kinds.solid_codes.any():
        free &= ~jnp.asarray(kinds.solid_codes)[code]
    return free


def free_cells(layout: Layout, world: World) -> Bool[Array, "height width"]:
    """The cells that an agent could enter now: walkable tiles without a solid object and without
    an active agent.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.grid import free_cells

    env = make("goals", num_agents=2)
    _, state = env.reset(jax.random.key(0))
    print(int(free_cells(env.layout, state).sum()))  # 40
    ```
    """
    return is_free(layout.kinds, layout.tiles, world.cells.object) & ~occupied_cells(world)


def bare_floor(layout: Layout, world: World) -> Bool[Array, "*batch height width"]:
    """The cells of the floor, the first kind of tile, in which no object lies. Agents may stand
    there.
    """
    floor = layout.tiles == 0
    return floor & (world.cells.object == NOTHING) if layout.kinds.objects else floor


def occupied_cells(world: World) -> Bool[Array, "height width"]:
    """The cells in which an active agent stands."""
    position, active = world.bodies.position, world.bodies.active
    stands = jnp.ones(world.num_agents, bool) if active is None else active
    nowhere = jnp.zeros(world.cells.object.shape, bool)
    # `max`, because a terminated agent may share a cell with an active agent.
    return nowhere.at[position[:, 0], position[:, 1]].max(stands)


def stands_at(bodies: Bodies, position: Int[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
    """Whether an active agent stands at each `(row, col)`."""
    places = bodies.position.astype(position.dtype)
    places = jnp.broadcast_to(places, (*position.shape[:-1], *places.shape))
    here = (position[..., None, :] == places).all(axis=-1)
    if bodies.active is not None:
        here &= jnp.broadcast_to(bodies.active, here.shape)
    return here.any(axis=-1)


def sample_cells(
    key: PRNGKeyArray, places: Bool[Array, "height width"], count: int
) -> Int8[Array, "count 2"]:
    """Samples distinct cells, uniformly at random.

    **Arguments:**

    - `key`: the source of randomness.
    - `places`: the cells from which to sample. If there are fewer than `count` of them, the last
        cells of the result are other cells, because compiled programs cannot raise an error.
        `check_room` rejects such layouts when a world is built.
    - `count`: the number of cells.

    **Returns:** `(row, col)` of each cell.
    """
    height, width = places.shape
    # The places with the highest random scores are a sample without replacement. All other cells
    # score less. Only the best few scores are needed, so `top_k` replaces a sort.
    score = jnp.where(places.reshape(-1), jax.random.uniform(key, (height * width,)), -1.0)
    _, cells = jax.lax.top_k(score, count)
    return jnp.stack(jnp.divmod(cells, width), axis=-1).astype(jnp.int8)


def check_room(places: Bool[Array, "*batch height width"], count: int, what: str) -> None:
    """Checks that there are enough cells in which to place something; see
    `AbstractCheckedStart`.

    **Arguments:**

    - `places`: the cells from which to sample. A traced array is not checked.
    - `count`: the number of cells that are needed.
    - `what`: what is placed there, such as `"agents"`.

    **Raises:** `LayoutError` when there are fewer cells than needed.
    """
    if not is_known(places):
        return
    room = int(np.asarray(places).sum(axis=(-2, -1)).min())
    if room < count:
        raise LayoutError(
            f"The layout has {room} free cells, which is too few to place {count} {what} at random."
        )
