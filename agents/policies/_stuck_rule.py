"""The rule by which models of people leave a place in which they are stuck."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from eqgrid import AbstractPartner, Discrete, Seen
from eqgrid.typing import PyTree

from ._actor import AgentArrays
from ._heads import CategoricalHead
from ._partners import PolicyPartner


@final
class StuckMemory(eqx.Module):
    """The memory of a partner with the rule.

    - `own`: the memory of the partner itself.
    - `poses`: its poses before each of its last actions, the oldest first.
    - `actions`: its last actions.
    - `count`: the number of actions in this episode.
    """

    own: AgentArrays
    poses: Int[Array, "steps 3"]
    actions: Int[Array, " steps"]
    count: Int[Array, ""]


@final
class StuckRule(AbstractPartner):
    """A policy's partner that tries something else where it is stuck.

    It is stuck if its pose is the one that it had before each of its last `steps` actions, and it
    has taken more actions than that in this episode. These actions then get probability 0, and the
    probabilities of the others are scaled to a sum of 1. This is the rule that Carroll et al.
    (2019, "On the Utility of Learning about Humans for Human-AI Coordination") use in all games
    with models of people, as in `ImitationAgentFromPolicy` of their code. If the other actions are
    all masked, nothing changes.

    **Arguments:**

    - `partner`: the partner, whose policy chooses among more actions than `steps`.
    - `poses`: the pose of every agent in a state of the innermost environment, as three integers;
        for a grid world, `eqgrid.grid.poses`.
    - `steps`: the number of actions after which it is stuck.

    **Raises:** `ValueError` when the policy chooses among too few actions, or has another head than
    `CategoricalHead`, or when `steps` is below 1.
    """

    partner: PolicyPartner
    poses: Callable[[PyTree], Any] = eqx.field(static=True)
    steps: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        space, head = self.partner.policy.action_space, self.partner.policy.actor_critic.head
        if self.steps < 1:
            raise ValueError(f"StuckRule needs at least 1 step, but got steps={self.steps}.")
        if not isinstance(space, Discrete) or not isinstance(head, CategoricalHead):
            raise ValueError("StuckRule needs a policy whose head is a CategoricalHead.")
        if space.n <= self.steps:
            raise ValueError(
                f"StuckRule excludes up to {self.steps} actions, so a policy needs more than that, "
                f"but it chooses among {space.n}: lower steps."
            )

    def initial_carry(self) -> StuckMemory:
        return StuckMemory(
            own=self.partner.initial_carry(),
            poses=jnp.zeros((self.steps, 3), int),
            actions=jnp.zeros(self.steps, int),
            count=jnp.zeros((), int),
        )

    def __call__(
        self, seen: Seen, carry: StuckMemory, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], StuckMemory]:
        output, own = self.partner.outputs(seen, carry.own)
        pose = jnp.asarray(self.poses(seen.state))[seen.seat].astype(int)
        stuck = (carry.count > self.steps) & (carry.poses == pose[None]).all()
        tried = (jnp.arange(output.shape[-1])[:, None] == carry.actions[None]).any(axis=1)
        least = jnp.finfo(output.dtype).min
        others = jnp.where(tried[None], least, output)
        leaves_some = (others[seen.seat] > least).any()
        output = jnp.where(stuck & leaves_some, others, output)
        action = self.partner.choose(output, seen.seat, key)
        carry = StuckMemory(
            own,
            jnp.concatenate([carry.poses[1:], pose[None]]),
            jnp.concatenate([carry.actions[1:], action[None].astype(int)]),
            carry.count + 1,
        )
        return action, carry
