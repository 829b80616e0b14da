"""The interface of actors, which act for all agents of an environment, and types of arrays."""

import abc
from typing import TypeAlias

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from eqgrid.typing import PyTree

Arrays: TypeAlias = PyTree[Shaped[Array, "..."]]
"""Arrays of any shape, such as the observation or the carry of one agent."""

ArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time ..."]]
"""`Arrays` of consecutive steps."""

AgentArrays: TypeAlias = PyTree[Shaped[Array, "agents ..."]]
"""Arrays of all agents of one environment."""

AgentArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time agents ..."]]
"""`AgentArrays` of consecutive steps."""

EnvArrays: TypeAlias = PyTree[Shaped[Array, "envs agents ..."]]
"""Arrays of all agents of all environments."""

Shapes: TypeAlias = PyTree[jax.ShapeDtypeStruct]
"""Shapes and dtypes of arrays."""


class AbstractActor(eqx.Module):
    """Acts for all agents of one environment: a `TrainedPolicy`, or an actor of your own, such as a
    Q-network with epsilon-greedy exploration.

    `evaluate` and `record_episodes` accept any actor, and map `act` over the environments.
    """

    @abc.abstractmethod
    def initial_carry(self) -> AgentArrays:
        """The carry at the start of an episode; `None` for an actor without memory."""

    @abc.abstractmethod
    def act(
        self,
        observation: AgentArrays,
        carry: AgentArrays,
        key: PRNGKeyArray | None,
        *,
        greedy: bool = False,
    ) -> tuple[Shaped[Array, "agents ..."], AgentArrays]:
        """Computes the actions of all agents.

        **Arguments:**

        - `observation`: the observations of all agents.
        - `carry`: the carry before this step.
        - `key`: the source of randomness; it may be `None` if `greedy`.
        - `greedy`: take the best actions instead of exploring or sampling.

        **Returns:** the actions, and the next carry.
        """
