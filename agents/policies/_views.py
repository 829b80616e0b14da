"""The inputs of actors and critics. They are the only difference between IPPO and MAPPO."""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped

from eqgrid import ObservationAndState

from ._actor import AgentArrays


class AbstractCriticInput(eqx.Module):
    """Selects the inputs of the actors and of the critics from the agents' observations."""

    @abc.abstractmethod
    def local(self, observation: AgentArrays) -> AgentArrays:
        """Selects the actors' inputs from the observations of all agents of one environment."""

    @abc.abstractmethod
    def __call__(self, observation: AgentArrays) -> AgentArrays:
        """Builds the critics' inputs.

        **Arguments:**

        - `observation`: the observations of all agents of one environment.

        **Returns:** the input of every agent's critic.
        """


@final
class LocalObservation(AbstractCriticInput):
    """Every critic gets the observation of its own agent: IPPO (de Witt et al. 2020)."""

    def local(self, observation: AgentArrays) -> AgentArrays:
        return observation

    def __call__(self, observation: AgentArrays) -> AgentArrays:
        return observation


@final
class JointObservation(AbstractCriticInput):
    """Every critic gets the observations of all agents: MAPPO (Yu et al. 2022).

    The critic's own agent comes first; the others follow in cyclic order (the next index first).
    Observations are concatenated along their last axis: the features of a vector, the channels of
    an image.
    """

    def local(self, observation: AgentArrays) -> AgentArrays:
        return observation

    def __call__(self, observation: AgentArrays) -> AgentArrays:
        return jax.tree.map(_join, observation)


@final
class GlobalState(AbstractCriticInput):
    """Every critic gets the global state, which no actor gets: MAPPO with a global state (Yu et al.
    2022).

    The observation must be an `ObservationAndState`; see `eqgrid.grid.WithState`.
    """

    def local(self, observation: ObservationAndState) -> AgentArrays:
        return observation.local

    def __call__(self, observation: ObservationAndState) -> AgentArrays:
        return observation.state


def _join(x: Shaped[Array, "agents ..."]) -> Shaped[Array, "agents ..."]:
    featured = x[:, None] if x.ndim == 1 else x
    return jnp.concatenate([jnp.roll(featured, -i, axis=0) for i in range(x.shape[0])], axis=-1)
