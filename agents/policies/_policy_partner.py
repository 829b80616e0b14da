"""A trained policy as a partner."""

from typing import final

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray, Shaped

from eqgrid import AbstractPartner, Seen

from ._trained_policy import TrainedPolicy, choose_actions
from ._types import AgentArrays


@final
class PolicyPartner(AbstractPartner):
    """Acts as a trained policy does in the same seat of a team of its own.

    **Arguments:**

    - `policy`: such as `load_policy` gives. It reads observations before any
        `NormalizeObservation`.
    - `greedy`: take the most probable action, instead of drawing one.
    """

    policy: TrainedPolicy
    greedy: bool = eqx.field(static=True, default=False)

    def initial_carry(self) -> AgentArrays:
        """The policy remembers something for every agent; only what its seat remembers counts."""
        return self.policy.initial_carry()

    def __call__(
        self, seen: Seen, carry: AgentArrays, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], AgentArrays]:
        output, carry = self.policy.outputs(seen.observation, carry)
        return choose_actions(self.policy, output, key, self.greedy)[seen.seat], carry
