"""PerAgent: agents with different observations, padded to one shape."""

from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Shaped

from .._layout import Layout
from .._world import World
from ._observation import AbstractObservation


@final
class PerAgent(AbstractObservation):
    """A different observation for each agent, padded with zeros to one shape.

    A shorter axis of an observation is padded at its end: further features of a vector, or further
    rows, columns and planes of an image. `NormalizeObservation` has one mean and variance for each
    number, which agents with different observations then share: normalise features yourself.

    **Arguments:**

    - `observations`: the observation of each agent, in the order of the agents. Each must be one
        array, with the same number of axes and the same dtype as the others.

    **Raises:** `ValueError`, in the first step, when there is not one observation for each agent,
    or when they cannot be padded to one shape.
    """

    observations: tuple[AbstractObservation, ...]

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Shaped[Array, "agents ..."]:
        if len(self.observations) != world.num_agents:
            raise ValueError(
                f"PerAgent needs an observation for each of the {world.num_agents} agents, but has "
                f"{len(self.observations)}."
            )
        rows = [
            observation(layout, world, steps_left)[agent]
            for agent, observation in enumerate(self.observations)
        ]
        if len({(row.ndim, row.dtype) for row in rows}) > 1:
            kinds = ", ".join(f"{row.dtype}{list(row.shape)}" for row in rows)
            raise ValueError(
                f"PerAgent pads arrays of one dtype with equally many axes, not {kinds}: give all "
                "agents features, or all of them planes."
            )
        shape = np.max([row.shape for row in rows], axis=0)
        return jnp.stack(
            [
                jnp.pad(row, [(0, int(n - m)) for n, m in zip(shape, row.shape, strict=True)])
                for row in rows
            ]
        )
