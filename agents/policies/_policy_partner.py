"""Partners that act by a trained policy."""

from typing import final

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray, Shaped

from eqgrid import AbstractPartner, Seen

from ._trained_policy import TrainedPolicy, choose_actions
from ._types import AgentArrays


@final
class PolicyPartner(AbstractPartner):
    """Acts by a trained policy, as the agent in the same seat would if all agents had that policy.

    **Arguments:**

    - `policy`: the policy, such as `load_policy` returns. Its inputs are observations before any
        `NormalizeObservation`.
    - `greedy`: take the most probable action instead of sampling one.
    """

    policy: TrainedPolicy
    greedy: bool = eqx.field(static=True, default=False)

    def initial_carry(self) -> AgentArrays:
        """The policy's carry of all agents; only that of the partner's seat affects its actions."""
        return self.policy.initial_carry()

    def __call__(
        self, seen: Seen, carry: AgentArrays, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], AgentArrays]:
        output, carry = self.policy.outputs(seen.observation, carry)
        return choose_actions(self.policy, output, key, self.greedy)[seen.seat], carry
