"""The inputs of actors and critics. They are the only difference between IPPO and MAPPO."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped

from eqgrid import ObservationAndState

from ._types import AgentArrays


class AbstractCriticInput(eqx.Module):
    """From what the agents see to what their critics see."""

    @abc.abstractmethod
    def local(self, observation: AgentArrays) -> AgentArrays:
        """What the actors are shown of an observation."""

    @abc.abstractmethod
    def __call__(self, observation: AgentArrays) -> AgentArrays:
        """Builds the critics' inputs.

        **Arguments:**

        - `observation`: what every agent of one environment sees.

        **Returns:** what the critic of every agent sees.
        """


@final
class LocalObservation(AbstractCriticInput):
    """A critic sees what its agent sees: IPPO (de Witt et al. 2020)."""

    def local(self, observation: AgentArrays) -> AgentArrays:
        return observation

    def __call__(self, observation: AgentArrays) -> AgentArrays:
        return observation


@final
class JointObservation(AbstractCriticInput):
    """A critic sees what every agent sees, its own agent first: MAPPO (Yu et al. 2022).

    The other agents follow in cyclic order (the next index first). Observations are joined along
    their last axis: the features of a vector, the channels of an image.
    """

    def local(self, observation: AgentArrays) -> AgentArrays:
        return observation

    def __call__(self, observation: AgentArrays) -> AgentArrays:
        return jax.tree.map(_join, observation)


@final
class GlobalState(AbstractCriticInput):
    """A critic is shown the state of the world, which no actor sees: MAPPO with a global state (Yu
    et al. 2022).

    The observation must be an `ObservationAndState`; see `eqgrid.grid.WithState`.
    """

    def local(self, observation: ObservationAndState) -> AgentArrays:
        return observation.local

    def __call__(self, observation: ObservationAndState) -> AgentArrays:
        return observation.state


def _join(x: Shaped[Array, "agents ..."]) -> Shaped[Array, "agents ..."]:
    featured = x[:, None] if x.ndim == 1 else x
    return jnp.concatenate([jnp.roll(featured, -i, axis=0) for i in range(x.shape[0])], axis=-1)
