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

    First come the default planes (see `plane_names`), which show an agent itself and the others.
    Then there is one plane per other agent, in cyclic order, that marks its position. Then come all
    further numbers of the game: of each cell, of each agent (the agent itself first;
    after its `extra`, when it comes back and what it said, in games that have this), and of
    the world; the last two are constant planes. The last plane is the number of
    remaining steps, in units of `STEPS_UNIT`.
    """

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents height width planes"]:
        planes = Planes()(layout, world, steps_left).astype(jnp.float32)
        agents, shape = world.num_agents, layout.tiles.shape
        order = (np.arange(agents)[:, None] + np.arange(agents)[None, :]) % agents
        position = world.bodies.position
        here = jnp.zeros((agents, *shape), jnp.float32)
        # One plane for each agent, which every observer then takes in its own order.
        here = here.at[jnp.arange(agents), position[:, 0], position[:, 1]].set(1.0)
        if world.bodies.active is not None:
            here *= world.bodies.active.astype(jnp.float32)[:, None, None]
        others = jnp.moveaxis(here[order[:, 1:]], 1, -1)
        of_cells = _numbers(world.cells.extra, shape)[None]
        bodies = world.bodies
        of_agents = _numbers((bodies.extra, bodies.away, bodies.said), (agents,))[order].reshape(
            agents, -1
        )
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
    """All numbers of the arrays in `extra`, which lead with `places`; PRNG keys are left out."""
    leaves: list[Shaped[Array, "..."]] = [
        leaf
        for leaf in jax.tree.leaves(extra)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    ]
    flat = [leaf.reshape(*places, -1).astype(jnp.float32) for leaf in leaves]
    return jnp.concatenate([jnp.zeros((*places, 0), jnp.float32), *flat], axis=-1)


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
