"""From one agent's network to that of all agents: one set of parameters, or one per agent."""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._networks import AbstractNetwork, unroll
from ._types import AgentArrays, AgentArraysOverTime


class AbstractMultiAgentNetwork(eqx.Module):
    """What all agents of one environment compute in one step."""

    num_agents: eqx.AbstractVar[int]

    @abc.abstractmethod
    def initial_carry(self) -> AgentArrays:
        """What the agents remember when an episode starts; `None` when they remember nothing."""

    @abc.abstractmethod
    def __call__(
        self, x: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """Reads one input per agent.

        **Returns:** one output per agent, and what they remember next.
        """

    def unroll(
        self, x: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        """Reads a sequence of inputs, and forgets where an episode starts."""
        return unroll(self, self.initial_carry(), x, carry, start)


@final
class SharedParameters(AbstractMultiAgentNetwork):
    """All agents use one network, each with its own input and carry.

    **Arguments:**

    - `network`: the network of every agent.
    - `num_agents`: how many agents there are.

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
        return jax.vmap(self.network.unroll, in_axes=(1, 0, None), out_axes=1)(x, carry, start)


@final
class IndependentParameters(AbstractMultiAgentNetwork):
    """Every agent has parameters of its own.

    **Arguments:**

    - `networks`: one network per agent, equal in all but their parameters; kept as one Module whose
        array leaves lead with the agents axis.

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
        mapped = eqx.filter_vmap(type(self.networks).unroll, in_axes=axes, out_axes=1)
        return mapped(self.networks, x, carry, start)
