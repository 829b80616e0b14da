"""A partner for every agent, as a team that can be evaluated."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    AbstractVectorEnv,
    NormalizeObservation,
    PyTree,
    act_as_team,
    contains_wrapper,
)

from ._types import AgentArrays


@final
class PartnerTeam(eqx.Module):
    """One partner for each agent, for `evaluate` and `record_episodes`.

    They may be scripts, policies that observe the game in their own way, or whatever else reads the
    state. Whether they are greedy is up to themselves.

    **Arguments:**

    - `partners`: the partner of every agent, in the order of the agents.
    """

    partners: tuple[AbstractPartner, ...]

    def __init__(self, partners: Sequence[AbstractPartner]):
        self.partners = tuple(partners)

    def initial_carry(self) -> tuple[PyTree[Shaped[Array, "..."]], ...]:
        """The memory of every partner at the start of an episode."""
        return tuple(partner.initial_carry() for partner in self.partners)

    def act(
        self,
        observation: AgentArrays,
        state: PyTree,
        carry: tuple[PyTree[Shaped[Array, "..."]], ...],
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "agents ..."], tuple[PyTree[Shaped[Array, "..."]], ...]]:
        """Computes the actions of all agents.

        **Arguments:**

        - `observation`: the observations of all agents.
        - `state`: the state of the innermost environment.
        - `carry`: the memory of every partner before this step.
        - `key`: the source of randomness.

        **Returns:** the actions, and the next memory of every partner.
        """
        keys = jax.random.split(key, len(self.partners))
        return act_as_team(self.partners, observation, state, carry, list(keys))

    def check(self, env: AbstractEnv | AbstractVectorEnv) -> None:
        """Checks that there is one partner for each agent, who observes what the world shows.

        **Raises:** `ValueError` that names what does not fit.
        """
        if env.num_agents != len(self.partners):
            raise ValueError(
                f"A team of {len(self.partners)} partners cannot act for {env.num_agents} agents: "
                f"give one for each agent."
            )
        if isinstance(env, AbstractVectorEnv) and contains_wrapper(env, NormalizeObservation):
            raise ValueError(
                "Partners observe what the world shows: pass the environment without "
                "NormalizeObservation."
            )
