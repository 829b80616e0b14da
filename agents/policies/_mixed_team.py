"""Teams of several trained policies, for cross-play."""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid import AbstractSpace

from ._heads import AbstractActionHead
from ._networks import unroll
from ._policy import ActorCritic
from ._team import AbstractMultiAgentNetwork, AgentArrays, AgentArraysOverTime, LocalObservation
from ._trained_policy import TrainedPolicy


def mixed_team(policies: Sequence[TrainedPolicy]) -> ActorCritic:
    """Combines trained policies into one policy for all agents, for cross-play.

    Its inputs are observations as the environment returns them: each policy normalises them itself.
    Each agent acts as if all agents had its own policy. All values are 0, so the team can be
    evaluated, but not trained.

    ```python
    import jax

    from agents import evaluate, load_policy, mixed_team
    from agents.files import shipped
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    policy = load_policy(shipped("policies/cramped.safetensors"))
    world = make("overcooked", layout="cramped", observation="features", horizon=50)
    env = Vectorize(AutoReset(LogEpisodes(world)), num_envs=2)
    evaluation = evaluate(mixed_team([policy, policy]), env, jax.random.key(0))
    ```

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
                f"A team of {len(policies)} needs policies for {len(policies)} agents, "
                f"but one was trained with {policy.num_agents}."
            )
        if not eqx.tree_equal(policy.action_space, policies[0].action_space):
            raise ValueError("The policies of one team need the same actions, but they differ.")
    # A policy that acts for several agents is stored and computed once.
    unique = list({id(policy): policy for policy in policies}.values())
    index = {id(policy): i for i, policy in enumerate(unique)}
    seats = tuple(index[id(policy)] for policy in policies)
    actor = _MixedActor(num_agents=len(seats), policies=tuple(unique), seats=seats)
    critic = _NoCritic(num_agents=len(seats))
    heads = [policy.actor_critic.head for policy in policies]
    same_head = all(eqx.tree_equal(head, heads[0]) for head in heads)
    head = heads[0] if same_head else MixedHead(heads, policies[0].action_space)
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
        # Each policy computes the outputs of all agents, of which its own agents use theirs.
        pairs = zip(self.policies, carry, strict=True)
        outputs = [policy.unmasked_outputs(x, own_carry) for policy, own_carry in pairs]
        output = jnp.stack([outputs[i][0][agent] for agent, i in enumerate(self.seats)])
        return output, tuple(carry for _, carry in outputs)

    def unroll(
        self, x: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        return unroll(self, self.initial_carry(), x, carry, start)


@final
class _NoCritic(AbstractMultiAgentNetwork):
    """A critic whose values are all 0."""

    num_agents: int = eqx.field(static=True)

    def initial_carry(self) -> None:
        return None

    def __call__(self, x: AgentArrays, carry: None) -> tuple[Float[Array, "agents out"], None]:
        return jnp.zeros((self.num_agents, 1)), carry

    def unroll(
        self, x: AgentArraysOverTime, carry: None, start: Bool[Array, " time"]
    ) -> Float[Array, "time agents out"]:
        return jnp.zeros((len(start), self.num_agents, 1))


@final
class MixedDistribution(eqx.Module):
    """The distributions of all agents of a `MixedHead`.

    - `parts`: the distribution of each agent, with an axis of agents of length 1.
    - `raw_ndim`: the number of axes of one agent's raw action.
    """

    parts: tuple[Any, ...]
    raw_ndim: int = eqx.field(static=True)

    def log_prob(self, value: Shaped[Array, "..."], /) -> Float[Array, "*batch agents"]:
        """The log-probability, or the log-density, of the agents' raw actions."""
        values = _split(value, self.raw_ndim)
        each = [jnp.asarray(x.log_prob(v)) for x, v in zip(self.parts, values, strict=True)]
        return _join(each, 0)


@final
class MixedHead(AbstractActionHead):
    """The heads of all agents of a team, which may differ.

    **Arguments:**

    - `heads`: the head of every agent.
    - `space`: the action space of one agent.

    **Raises:** `ValueError` when the heads need different numbers of outputs, random numbers with
    different shapes, or raw actions with different shapes.
    """

    heads: tuple[AbstractActionHead, ...]
    noise_ndim: int = eqx.field(static=True)
    raw_ndim: int = eqx.field(static=True)

    def __init__(self, heads: Sequence[AbstractActionHead], space: AbstractSpace):
        self.heads = tuple(heads)

        def example(head: AbstractActionHead) -> tuple[Array, Array, Array]:
            output = jnp.zeros((1, head.out_size(space)))
            noise = head.noise(jax.random.key(0), space, (1,))
            return output, noise, head.sample(head.distribution(output), noise)

        shapes = [eqx.filter_eval_shape(example, head) for head in heads]
        if any(x != shapes[0] for x in shapes):
            raise ValueError(
                "The action heads of one team need equal numbers of outputs and random numbers, "
                "and raw actions of one shape, but they differ."
            )
        _, noise, raw_action = shapes[0]
        self.noise_ndim, self.raw_ndim = len(noise.shape) - 1, len(raw_action.shape) - 1

    def out_size(self, space: Any) -> int:
        return self.heads[0].out_size(space)

    def distribution(self, output: Float[Array, "agents out"]) -> MixedDistribution:
        rows = zip(self.heads, output[:, None], strict=True)
        return MixedDistribution(tuple(head.distribution(row) for head, row in rows), self.raw_ndim)

    def noise(self, key: PRNGKeyArray, space: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        keys = zip(self.heads, jax.random.split(key, len(self.heads)), strict=True)
        each = [head.noise(own_key, space, (*shape[:-1], 1)) for head, own_key in keys]
        return _join(each, self.noise_ndim)

    def sample(
        self, distribution: MixedDistribution, noise: Float[Array, "..."]
    ) -> Shaped[Array, "..."]:
        rows = zip(self.heads, distribution.parts, _split(noise, self.noise_ndim), strict=True)
        return _join([head.sample(part, row) for head, part, row in rows], self.raw_ndim)

    def most_probable(self, distribution: MixedDistribution) -> Shaped[Array, "..."]:
        parts = zip(self.heads, distribution.parts, strict=True)
        return _join([head.most_probable(part) for head, part in parts], self.raw_ndim)

    def action(self, raw_action: Shaped[Array, "..."], space: Any) -> Shaped[Array, "..."]:
        rows = zip(self.heads, _split(raw_action, self.raw_ndim), strict=True)
        each = [head.action(row, space) for head, row in rows]
        # Actions may have another number of axes than raw actions, but the same axis of agents.
        return jnp.concatenate(each, axis=raw_action.ndim - self.raw_ndim - 1)

    def entropy(self, distribution: MixedDistribution) -> Float[Array, "*batch agents"]:
        parts = zip(self.heads, distribution.parts, strict=True)
        return _join([head.entropy(part) for head, part in parts], 0)


def _split(array: Shaped[Array, "..."], ndim: int) -> list[Shaped[Array, "..."]]:
    """Splits an array by agents; `ndim` axes come after the axis of the agents."""
    axis = array.ndim - ndim - 1
    return jnp.split(array, array.shape[axis], axis=axis)


def _join(arrays: Sequence[Shaped[Array, "..."]], ndim: int) -> Shaped[Array, "..."]:
    """The inverse of `_split`."""
    return jnp.concatenate(arrays, axis=arrays[0].ndim - ndim - 1)
