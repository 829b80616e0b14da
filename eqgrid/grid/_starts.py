"""Random initial states: a tuple of small changes to the default initial state of a layout."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Real

from .._checks import as_probability
from ._cells import bare_floor, check_room, draw_cells
from ._layout import Layout
from ._world import Direction, World


class AbstractStart(eqx.Module):
    """A random change to one part of the initial state."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        """The world with this part sampled anew."""

    def check(self, layout: Layout) -> None:
        """Checks a layout when a world is built with it. By default, every layout is accepted.

        **Arguments:**

        - `layout`: the layout, or a batch of layouts. Its arrays may be traced; then there is
            nothing to check.

        **Raises:** `LayoutError` when this change cannot be made in the layout.
        """


def apply_starts(
    starts: tuple[AbstractStart, ...], key: PRNGKeyArray, layout: Layout, world: World
) -> World:
    """Applies all changes in order, each with its own key."""
    # Without starts, the key is not split, so that nothing is compiled for it.
    keys = jax.random.split(key, len(starts)) if starts else ()
    for start, start_key in zip(starts, keys, strict=True):
        world = start(start_key, layout, world)
    return world


@final
class WithProbability(AbstractStart):
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
        for start in self.starts:
            start.check(layout)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        changes_key, starts_key = jax.random.split(key)
        changes = jax.random.uniform(changes_key) < self.probability
        changed = apply_starts(self.starts, starts_key, layout, world)
        return jax.tree.map(lambda new, old: jnp.where(changes, new, old), changed, world)


@final
class RandomPositions(AbstractStart):
    """Places the agents in distinct floor cells without objects, uniformly at random."""

    def check(self, layout: Layout) -> None:
        check_room(bare_floor(layout, layout.start), layout.num_agents, "agents")

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        position = draw_cells(key, bare_floor(layout, world), world.num_agents)
        bodies = dataclasses.replace(world.bodies, position=position)
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomDirections(AbstractStart):
    """Turns every agent to one of the four directions, uniformly at random."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        uniform = jax.random.uniform(key, (world.num_agents,))
        direction = jnp.floor(uniform * len(Direction)).astype(jnp.int8)
        bodies = dataclasses.replace(world.bodies, direction=direction)
        return dataclasses.replace(world, bodies=bodies)
