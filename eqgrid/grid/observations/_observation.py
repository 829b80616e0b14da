"""The interface of observations, and a different observation for each agent.

`PerAgent` pads the observations of the agents to one shape.
"""

import abc
from collections.abc import Callable, Mapping
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, Shaped

from ...typing import PyTree
from .._layout import Layout
from .._world import World


class AbstractObservation(eqx.Module):
    """A function from the state to the observations of all agents."""

    @abc.abstractmethod
    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> PyTree[Shaped[Array, "agents ..."]]:
        """The observation of every agent; each array has a leading `agents` axis.

        **Arguments:**

        - `layout`: the tiles and parameters.
        - `world`: the state.
        - `steps_left`: the remaining steps of the episode.
        """


def choose_observation(
    observation: str | AbstractObservation,
    choices: Mapping[str, Callable[[], AbstractObservation]],
) -> AbstractObservation:
    """Returns the observation with this name, or the given observation itself.

    ```python
    from eqgrid.grid import Planes, choose_observation

    view = choose_observation("planes", {"planes": Planes})
    ```

    **Arguments:**

    - `observation`: a key of `choices`, or an observation, which is returned as it is.
    - `choices`: the observations of the world by name, as functions that build them.

    **Raises:** `ValueError` when there is no such observation.
    """
    if isinstance(observation, AbstractObservation):
        return observation
    if isinstance(observation, str) and observation in choices:
        return choices[observation]()
    *names, last = choices
    known = f"{', '.join(names)} or {last}" if names else last
    raise ValueError(f"There is no observation {observation!r:.60}: choose {known}.")


@final
class PerAgent(AbstractObservation):
    """A different observation for each agent, padded with zeros to one shape.

    Zeros are added at the end of every axis: further features of a vector, or further rows, columns
    and planes of an image. Do not combine it with `NormalizeObservation`, which has one mean and
    variance per number for all agents: normalise features yourself.

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
                f"PerAgent pads arrays of one dtype and number of axes, not {kinds}: give all "
                "agents features, or all of them planes."
            )
        shape = np.max([row.shape for row in rows], axis=0)
        return jnp.stack(
            [
                jnp.pad(row, [(0, int(n - m)) for n, m in zip(shape, row.shape, strict=True)])
                for row in rows
            ]
        )
