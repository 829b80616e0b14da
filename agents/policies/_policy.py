"""The interface of actors, and the actor and critic of all agents of an environment."""

import abc
import functools
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid import VectorEnvironment, check_vector_env, split_mask
from eqgrid.typing import PyTree

from ._heads import (
    AbstractActionHead,
    ActionDistribution,
    CategoricalHead,
    check_mask,
    head_for,
    mask_logits,
)
from ._networks import MLP, AbstractNetwork
from ._team import (
    AbstractCriticInput,
    AbstractMultiAgentNetwork,
    AgentArrays,
    AgentArraysOverTime,
    IndependentParameters,
    LocalObservation,
    Shapes,
    SharedParameters,
)

_ACTOR_SCALE = 0.01
_CRITIC_SCALE = 0.01


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


@final
class ActorCritic(eqx.Module):
    """The actor, the critic and the action head of all agents of one environment.

    The carry is the pair `(actor's carry, critic's carry)`, or `None` if both are feed-forward.

    **Arguments:**

    - `actor`: computes the output of every agent, from which `head` builds a distribution.
    - `critic`: the network that predicts one value for every agent.
    - `critic_input`: selects the inputs of the critic and of the actor from the observations.
    - `head`: turns the actor's outputs into actions; a `CategoricalHead` unless given.
    """

    actor: AbstractMultiAgentNetwork
    critic: AbstractMultiAgentNetwork
    critic_input: AbstractCriticInput
    head: AbstractActionHead = CategoricalHead()

    def initial_carry(self) -> AgentArrays:
        """The carry at the start of an episode; `None` if actor and critic are feed-forward."""
        return _join_carry(self.actor.initial_carry(), self.critic.initial_carry())

    @property
    def recurrent(self) -> bool:
        """Whether the actor or the critic has a carry."""
        return _remembers(self.actor) or _remembers(self.critic)

    @property
    def has_recurrent_critic(self) -> bool:
        """Whether the critic has a carry."""
        return _remembers(self.critic)

    def __call__(
        self, observation: AgentArrays, carry: AgentArrays
    ) -> tuple[ActionDistribution, Float[Array, " agents"], AgentArrays]:
        """Computes the action distributions and the values of all agents in one step.

        **Arguments:**

        - `observation`: the observations of all agents. If they are `Masked`, the mask is not an
            input of the networks, and forbidden actions have probability 0.
        - `carry`: the carry before this step.

        **Returns:** the distribution of the agents' choices, their values, and the next carry.
        """
        actor_carry, critic_carry = _split_carry(carry)
        unmasked, action_mask = split_mask(observation)
        output, actor_carry = self.actor(self.critic_input.local(unmasked), actor_carry)
        value, critic_carry = self.critic(self.critic_input(unmasked), critic_carry)
        output = mask_logits(output, action_mask)
        return self.head.distribution(output), value[:, 0], _join_carry(actor_carry, critic_carry)

    def unroll(
        self, observation: AgentArraysOverTime, carry: AgentArrays, start: Bool[Array, " time"]
    ) -> tuple[ActionDistribution, Float[Array, "time agents"]]:
        """Computes the action distributions and the values of all agents in consecutive steps.

        **Arguments:**

        - `observation`: the observations of all agents in all steps.
        - `carry`: the carry before the first step.
        - `start`: whether an episode starts with the step; the carry is reset there.

        **Returns:** the distributions of the agents' choices, and their values.
        """
        actor_carry, critic_carry = _split_carry(carry)
        unmasked, action_mask = split_mask(observation)
        output = self.actor.unroll(jax.vmap(self.critic_input.local)(unmasked), actor_carry, start)
        value = self.critic.unroll(jax.vmap(self.critic_input)(unmasked), critic_carry, start)
        output = jax.vmap(mask_logits)(output, action_mask)
        return jax.vmap(self.head.distribution)(output), value[..., 0]

    def value(self, observation: AgentArrays, carry: AgentArrays) -> Float[Array, " agents"]:
        """Computes the critic's values alone; the arguments are as in `__call__`.

        **Returns:** the expected discounted return of every agent; with `PPO.normalize_values`, in
        standardised units.
        """
        unmasked, _ = split_mask(observation)
        value, _ = self.critic(self.critic_input(unmasked), _split_carry(carry)[1])
        return value[:, 0]


def actor_critic(
    env: VectorEnvironment,
    key: PRNGKeyArray,
    *,
    network: Callable[..., AbstractNetwork] = MLP,
    critic_input: AbstractCriticInput | None = None,
    head: Callable[[Any], AbstractActionHead] = head_for,
    shared: bool = True,
) -> ActorCritic:
    """Builds an actor and a critic with random parameters for an environment.

    ```python
    import jax

    from agents import GRU, actor_critic
    from eqgrid import AutoReset, Vectorize, make

    envs = Vectorize(AutoReset(make("overcooked", observation="features")), 16)
    policy = actor_critic(envs, jax.random.key(0), network=GRU)
    ```

    **Arguments:**

    - `env`: the environments; only the number of agents, the shapes of their observations and the
        action space are used.
    - `key`: the source of randomness of the parameters.
    - `network`: builds the network of one agent, such as `MLP`, `CNN`, or
        `functools.partial(MLP, width=128)`; called as
        `network(in_shape, out_size, final_scale=..., key=...)` for the actor and for the critic.
        `in_shape` is the shape of one agent's input, or a PyTree of shapes if the input is a
        PyTree of arrays.
    - `critic_input`: selects the critic's input; `LocalObservation()` unless given.
    - `head`: builds the action head from the action space of one agent; `head_for` by default.
        Arrays of floats in a head are trained, too.
    - `shared`: whether all agents use the same parameters.

    **Returns:** the policy of the agents of one environment.

    **Raises:** `ValueError` when `head_for` has no head for the action space, when an action mask
    does not fit the space, or when a network does not fit its inputs or outputs.
    """
    env = check_vector_env(env, "actor_critic(env, key)")
    action_head = head(env.action_space)
    critic_input = LocalObservation() if critic_input is None else critic_input
    batch, _ = eqx.filter_eval_shape(env.reset, key)
    check_mask(env.action_space, batch)
    unmasked, _ = split_mask(batch)
    observation = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), unmasked)
    critic_observation = eqx.filter_eval_shape(critic_input, observation)
    actor_observation = eqx.filter_eval_shape(critic_input.local, observation)
    actor_key, critic_key = jax.random.split(key)
    out_size = action_head.out_size(env.action_space)
    build = functools.partial(_build_network, network, env.num_agents, shared)
    actor = build("actor", actor_observation, out_size, _ACTOR_SCALE, actor_key)
    critic = build("critic", critic_observation, 1, _CRITIC_SCALE, critic_key)
    return ActorCritic(actor, critic, critic_input, action_head)


def _build_network(
    network: Callable[..., AbstractNetwork],
    num_agents: int,
    shared: bool,
    role: str,
    x: Shapes,
    out_size: int,
    final_scale: float,
    key: PRNGKeyArray,
) -> AbstractMultiAgentNetwork:
    """Builds the actor or the critic of all agents, for inputs with the shapes of `x`."""
    in_shape = jax.tree.map(lambda leaf: leaf.shape[1:], x)
    keys = (key,) if shared else jax.random.split(key, num_agents)
    networks = [network(in_shape, out_size, final_scale=final_scale, key=k) for k in keys]
    if shared:
        team = SharedParameters(network=networks[0], num_agents=num_agents)
    else:
        team = IndependentParameters(networks)
    # A network of a user may return something that does not fit.
    name = type(networks[0]).__name__
    carry = eqx.filter_eval_shape(team.initial_carry)
    result = eqx.filter_eval_shape(team, x, carry)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(
            f"The network {name} must return a pair, its output and the next carry (None without "
            "one), but does not."
        )
    output, next_carry = result
    found = getattr(output, "shape", (None,))
    if found != (num_agents, out_size):
        raise ValueError(
            f"The network {name} of the {role} must have an output of shape {(out_size,)}, its "
            f"out_size, but its output has {found[1:]}."
        )
    if _shapes_and_dtypes(next_carry) != _shapes_and_dtypes(carry):
        raise ValueError(
            f"The next carry that the network {name} returns must have the structure, shapes and "
            "dtypes of its initial_carry(), but differs."
        )
    return team


def _shapes_and_dtypes(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)


def _remembers(team: AbstractMultiAgentNetwork) -> bool:
    return bool(jax.tree.leaves(eqx.filter_eval_shape(team.initial_carry)))


def _split_carry(carry: PyTree) -> tuple[PyTree, PyTree]:
    return (None, None) if carry is None else carry


def _join_carry(actor: PyTree, critic: PyTree) -> tuple[PyTree, PyTree] | None:
    return None if actor is None and critic is None else (actor, critic)
