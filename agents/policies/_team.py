"""Inputs of actors and critics, and networks of all agents with shared or independent parameters.

IPPO and MAPPO differ only in the inputs of their critics.
"""

import abc
import functools
from collections.abc import Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from eqgrid import ObservationAndState
from eqgrid.typing import PyTree

from ._networks import AbstractNetwork, unroll_network

AgentArrays: TypeAlias = PyTree[Shaped[Array, "agents ..."]]
"""Arrays of all agents of one environment."""

AgentArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time agents ..."]]
"""`AgentArrays` of consecutive steps."""

EnvArrays: TypeAlias = PyTree[Shaped[Array, "envs agents ..."]]
"""Arrays of all agents of all environments."""

Shapes: TypeAlias = PyTree[jax.ShapeDtypeStruct]
"""Shapes and dtypes of arrays."""


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
        def join(x: Shaped[Array, "agents ..."]) -> Shaped[Array, "agents ..."]:
            x = x[:, None] if x.ndim == 1 else x
            return jnp.concatenate([jnp.roll(x, -i, axis=0) for i in range(x.shape[0])], axis=-1)

        return jax.tree.map(join, observation)


@final
class GlobalState(AbstractCriticInput):
    """Every critic gets the global state, and no actor does: MAPPO with a global state (Yu et al.
    2022).

    The observation must be an `ObservationAndState`, such as from `eqgrid.grid.WithState`.
    """

    def local(self, observation: ObservationAndState) -> AgentArrays:
        return observation.local

    def __call__(self, observation: ObservationAndState) -> AgentArrays:
        return observation.state


class AbstractMultiAgentNetwork(eqx.Module):
    """The network of all agents of one environment, for one step."""

    num_agents: eqx.AbstractVar[int]

    @abc.abstractmethod
    def initial_carry(self) -> AgentArrays:
        """The carry of all agents at the start of an episode; `None` for feed-forward networks."""

    @abc.abstractmethod
    def __call__(
        self, x: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """Computes the outputs of all agents in one step.

        **Arguments:**

        - `x`: one input per agent.
        - `carry`: the carry of all agents before this step.

        **Returns:** one output per agent, and the next carry.
        """

    @abc.abstractmethod
    def unroll(
        self, x: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        """Computes the outputs of all agents in a sequence of steps.

        **Arguments:**

        - `x`: the inputs of all agents in all steps.
        - `carry`: the carry of all agents before the first step.
        - `start`: whether an episode starts with the step; the carry is reset there.

        **Returns:** the outputs of all agents in all steps.
        """


@final
class SharedParameters(AbstractMultiAgentNetwork):
    """All agents use one network, each with its own input and carry.

    **Arguments:**

    - `network`: the network of every agent.
    - `num_agents`: the number of agents.

    **Raises:** `ValueError` when the number of agents is not positive.
    """

    network: AbstractNetwork
    num_agents: int = eqx.field(static=True)

    def __check_init__(self):
        if self.num_agents < 1:
            raise ValueError(
                f"A team needs at least 1 agent, but got num_agents={self.num_agents}."
            )

    def initial_carry(self) -> AgentArrays:
        return jax.tree.map(
            lambda x: jnp.broadcast_to(x, (self.num_agents, *x.shape)), self.network.initial_carry()
        )

    def __call__(
        self, x: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        return jax.vmap(self.network)(x, carry)

    def unroll(
        self, x: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        unroll = functools.partial(unroll_network, self.network)
        return jax.vmap(unroll, in_axes=(1, 0, None), out_axes=1)(x, carry, start)


@final
class IndependentParameters(AbstractMultiAgentNetwork):
    """Every agent has its own parameters.

    **Arguments:**

    - `networks`: one network per agent; all of them are equal except for their parameters. They are
        stored as one Module whose arrays have a leading axis of the agents.

    **Raises:** `ValueError` when there is no network.
    """

    networks: AbstractNetwork
    num_agents: int = eqx.field(static=True)

    def __init__(self, networks: Sequence[AbstractNetwork]):
        if len(networks) == 0:
            raise ValueError("A team needs at least 1 agent, but got no network.")
        arrays, rest = zip(*(eqx.partition(n, eqx.is_array) for n in networks), strict=True)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
        self.networks = eqx.combine(stacked, rest[0])
        self.num_agents = len(networks)

    def initial_carry(self) -> AgentArrays:
        return eqx.filter_vmap(type(self.networks).initial_carry)(self.networks)

    def __call__(
        self, x: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        return eqx.filter_vmap(type(self.networks).__call__)(self.networks, x, carry)

    def unroll(
        self, x: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        axes = (eqx.if_array(0), 1, 0, None)
        unroll = eqx.filter_vmap(unroll_network, in_axes=axes, out_axes=1)
        return unroll(self.networks, x, carry, start)
