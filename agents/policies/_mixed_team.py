"""Teams of several trained policies, for cross-play."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._mixed_head import MixedHead
from ._policy import ActorCritic
from ._team import AbstractMultiAgentNetwork
from ._trained_policy import TrainedPolicy
from ._types import AgentArrays
from ._views import LocalObservation


def mixed_team(policies: Sequence[TrainedPolicy]) -> ActorCritic:
    """Combines trained policies into one policy for all agents, for cross-play.

    Its inputs are observations as the environment returns them: each policy normalises them itself.
    An agent acts as the same agent of its policy would if all agents had that policy. The values
    are all 0, so the team can be evaluated, but not trained.

    **Arguments:**

    - `policies`: the policy of every agent, in the order of the agents. One policy may act for
        several agents.

    **Returns:** a policy for `evaluate` and `collect_rollout`.

    **Raises:** `ValueError` when a policy was trained with another number of agents than there are
    policies, or when their action spaces, or the shapes of their raw actions, differ.
    """
    for policy in policies:
        if policy.num_agents != len(policies):
            raise ValueError(
                f"A team of {len(policies)} needs policies that were trained with as many agents, "
                f"but one was trained with {policy.num_agents}."
            )
        if not eqx.tree_equal(policy.action_space, policies[0].action_space):
            raise ValueError("The policies of one team need the same actions, but they differ.")
    unique = list({id(policy): policy for policy in policies}.values())
    numbers = {id(policy): number for number, policy in enumerate(unique)}
    seats = tuple(numbers[id(policy)] for policy in policies)
    actor = _MixedActor(num_agents=len(seats), policies=tuple(unique), seats=seats)
    critic = _NoCritic(num_agents=len(seats))
    heads = [policy.actor_critic.head for policy in policies]
    if all(eqx.tree_equal(head, heads[0]) for head in heads):
        return ActorCritic(actor, critic, LocalObservation(), heads[0])
    head = MixedHead(heads, policies[0].action_space)
    return ActorCritic(actor, critic, LocalObservation(), head)


@final
class _MixedActor(AbstractMultiAgentNetwork):
    """The outputs of every agent's policy; `seats` holds the index of each agent's policy."""

    num_agents: int = eqx.field(static=True)
    policies: tuple[TrainedPolicy, ...]
    seats: tuple[int, ...] = eqx.field(static=True)

    def initial_carry(self) -> AgentArrays:
        return tuple(policy.initial_carry() for policy in self.policies)

    def __call__(
        self, x: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        players = zip(self.policies, carry, strict=True)
        outputs = [policy.unmasked_outputs(x, c) for policy, c in players]
        chosen_by = jnp.stack([outputs[who][0][seat] for seat, who in enumerate(self.seats)])
        return chosen_by, tuple(carry for _, carry in outputs)


@final
class _NoCritic(AbstractMultiAgentNetwork):
    """A critic whose values are all 0."""

    num_agents: int = eqx.field(static=True)

    def initial_carry(self) -> None:
        return None

    def __call__(self, x: AgentArrays, carry: None) -> tuple[Float[Array, "agents out"], None]:
        return jnp.zeros((self.num_agents, 1)), carry
