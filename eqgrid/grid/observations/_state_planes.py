"""The full state of any game as planes, for centralised critics in training."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Shaped

from ..._spaces import ObservationAndState
from ...typing import PyTree
from .._layout import Layout
from .._world import World
from ._observation import AbstractObservation
from ._planes import Planes

STEPS_UNIT = 100
"""Steps per unit in the plane of the remaining steps."""


@final
class StatePlanes(AbstractObservation):
    """The full state of a world as planes: `agents height width planes`, as float32.

    The planes of an agent are, in this order:

    - the default planes; see `plane_names`.
    - for each other agent, in cyclic order, a plane that marks its position.
    - the game's further numbers of each cell, from `Cell.extra`.
    - constant planes with the further numbers of each agent, the agent itself first: `Bodies.extra`
        and, in games that have them, `Bodies.away` and `Bodies.said`.
    - constant planes with the game's further numbers of the world, from `World.extra`, and with
        the number of remaining steps, in units of `STEPS_UNIT`.
    """

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents height width planes"]:
        planes = Planes()(layout, world, steps_left).astype(jnp.float32)
        agents, shape = world.num_agents, layout.tiles.shape
        # For each observer, the agents in cyclic order, itself first.
        order = (np.arange(agents)[:, None] + np.arange(agents)[None, :]) % agents
        bodies = world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        places = jnp.zeros((agents, *shape), jnp.float32)
        places = places.at[jnp.arange(agents), row, col].set(1.0)
        if bodies.active is not None:
            places *= bodies.active.astype(jnp.float32)[:, None, None]
        others = jnp.moveaxis(places[order[:, 1:]], 1, -1)
        of_cells = _numbers(world.cells.extra, shape)[None]
        of_agents = _numbers((bodies.extra, bodies.away, bodies.said), (agents,))
        of_agents = of_agents[order].reshape(agents, -1)
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


def _numbers(extra: PyTree, leading: tuple[int, ...]) -> Float32[Array, "*leading numbers"]:
    """All numbers of the arrays in `extra`, which have the leading axes. PRNG keys are left out."""
    leaves: list[Shaped[Array, "..."]] = [
        leaf
        for leaf in jax.tree.leaves(extra)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    flat = [leaf.reshape(*leading, -1).astype(jnp.float32) for leaf in leaves]
    # The array without numbers is for games without `extra`: `concatenate` needs an array.
    return jnp.concatenate([jnp.zeros((*leading, 0), jnp.float32), *flat], axis=-1)


@final
class WithState(AbstractObservation):
    """The agents' observations, together with the state for their critics.

    **Arguments:**

    - `local`: the observation of each agent.
    - `state`: the input of its critic; `StatePlanes()` by default.
    """

    local: AbstractObservation
    state: AbstractObservation = StatePlanes()

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> ObservationAndState:
        return ObservationAndState(
            self.local(layout, world, steps_left), self.state(layout, world, steps_left)
        )
