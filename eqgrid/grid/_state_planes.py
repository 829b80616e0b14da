"""The whole state of any game, for critics that are told everything in training."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree, Shaped

from .._observed import ObservationAndState
from ._layout import Layout
from ._observation import AbstractObservation, Planes
from ._world import World

STEPS_UNIT = 100
"""Steps per unit of the plane that tells how many are left."""


@final
class StatePlanes(AbstractObservation):
    """All that there is to know about a world, as planes: `[agents, row, col, plane]`.

    First come the planes that any game has (see `plane_names`), in which an agent finds itself and
    the others. Then one plane for each of the others, in cyclic order, which marks where it is.
    Then all else that the game keeps: for each cell, for each agent (oneself first) and for the
    world, the last two equal in all cells; and the steps that are left, in units of `STEPS_UNIT`.
    """

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents height width planes"]:
        planes = Planes()(layout, world, steps_left).astype(jnp.float32)
        agents, shape = world.num_agents, layout.tiles.shape
        order = (np.arange(agents)[:, None] + np.arange(agents)[None, :]) % agents
        position = world.bodies.position
        here = jnp.zeros((agents, *shape), jnp.float32)
        here = here.at[jnp.arange(agents), position[:, 0], position[:, 1]].set(1.0)
        if world.bodies.active is not None:
            here *= world.bodies.active.astype(jnp.float32)[:, None, None]
        others = jnp.moveaxis(here[order[:, 1:]], 1, -1)
        of_cells = _numbers(world.cells.extra, shape)[None]
        of_agents = _numbers(world.bodies.extra, (agents,))[order].reshape(agents, -1)
        of_world = _numbers((world.extra, steps_left.astype(jnp.float32) / STEPS_UNIT), ())
        constant = jnp.concatenate(
            [of_agents, jnp.broadcast_to(of_world, (agents, of_world.size))], axis=-1
        )
        parts = [
            planes,
            others,
            jnp.broadcast_to(of_cells, (agents, *of_cells.shape[1:])),
            jnp.broadcast_to(constant[:, None, None], (agents, *shape, constant.shape[-1])),
        ]
        return jnp.concatenate(parts, axis=-1)


def _numbers(extra: PyTree, places: tuple[int, ...]) -> Float32[Array, "*places numbers"]:
    """Every number of some arrays that lead with `places`. Keys are no numbers."""
    leaves: list[Shaped[Array, "..."]] = [
        leaf
        for leaf in jax.tree.leaves(extra)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    flat = [leaf.reshape(*places, -1).astype(jnp.float32) for leaf in leaves]
    return jnp.concatenate([jnp.zeros((*places, 0), jnp.float32), *flat], axis=-1)


@final
class WithState(AbstractObservation):
    """What agents see, with the state of the world beside it for their critics.

    **Arguments:**

    - `local`: what every agent sees.
    - `state`: what its critic is shown; `StatePlanes()` unless given.
    """

    local: AbstractObservation
    state: AbstractObservation = StatePlanes()

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> ObservationAndState:
        return ObservationAndState(
            self.local(layout, world, steps_left), self.state(layout, world, steps_left)
        )
