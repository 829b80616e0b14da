"""Trained policies: an actor-critic with everything that it needs to act outside of training."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from eqgrid import (
    AbstractSpace,
    Discrete,
    Environment,
    NormalizeObservation,
    NormalizeReward,
    ObservationAndState,
    RunningMoments,
    VectorEnvironment,
    check_vector_env,
    contains_wrapper,
    is_batch,
    map_observation,
    split_mask,
)
from eqgrid.typing import PyTree

from ._checks import (
    check_acts,
    check_arrays,
    check_num_agents,
    check_observation,
    observation_of,
)
from ._heads import mask_logits
from ._policy import AbstractActor, ActorCritic
from ._team import (
    AbstractMultiAgentNetwork,
    AgentArrays,
    IndependentParameters,
    LocalObservation,
    Shapes,
)


@final
class Normalization(eqx.Module):
    """Normalises observations as `NormalizeObservation` does, with frozen moments.

    **Arguments:**

    - `moments`: the moments of each array of one agent's observation.
    - `epsilon`: added to the variance.
    - `clip`: the largest magnitude of a normalised number.
    """

    moments: PyTree[RunningMoments]
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]

    def __call__(self, observation: AgentArrays, *, local: bool) -> AgentArrays:
        """Normalises an observation of all agents.

        **Arguments:**

        - `observation`: the observation as the environment returns it.
        - `local`: whether the observation lacks the global state, which the moments include.

        **Returns:** the normalised observation, which is the input of the networks.
        """

        def normalize(
            x: Shaped[Array, "agents *shape"], moments: RunningMoments
        ) -> Float[Array, "agents *shape"]:
            per_agent = jax.vmap(moments.standardize, (0, None, None))
            return per_agent(x.astype(float), self.epsilon, self.clip)

        moments = self.moments.local if local else self.moments
        return map_observation(lambda seen: jax.tree.map(normalize, seen, moments), observation)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class _Shapes:
    """Shapes as the value of a static field, which must be hashable. The tree may contain dicts,
    which are not hashable; its leaves and structure are, but a structure cannot be pickled.
    """

    tree: Shapes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shapes) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(self.tree)
        return structure, *leaves


@final
class TrainedPolicy(AbstractActor):
    """A policy of all agents of one environment, with everything that it needs to act.

    `trained_policy` and `load_policy` return it. Its inputs are observations as the environment
    returns them: the policy normalises them itself if they were normalised in training.

    **Arguments:**

    - `actor_critic`: the parameters, which can be evaluated or trained further.
    - `action_space`: the action space of one agent.
    - `observation`: the shapes and dtypes of the observations of all agents.
    - `normalization`: normalises the observations; `None` if they were not normalised in training.
    """

    actor_critic: ActorCritic
    action_space: AbstractSpace
    normalization: Normalization | None
    _expected: _Shapes = eqx.field(static=True)

    def __init__(
        self,
        actor_critic: ActorCritic,
        action_space: AbstractSpace,
        observation: Shapes,
        normalization: Normalization | None = None,
    ):
        self.actor_critic = actor_critic
        self.action_space = action_space
        self.normalization = normalization
        self._expected = _Shapes(observation)

    @property
    def observation(self) -> Shapes:
        """The shapes and dtypes of the observations of all agents, before normalisation."""
        return self._expected.tree

    @property
    def num_agents(self) -> int:
        """The number of agents that the policy acts for."""
        return self.actor_critic.actor.num_agents

    def initial_carry(self) -> AgentArrays:
        """The carry of the actor at the start of an episode; `None` if it is feed-forward."""
        return self.actor_critic.actor.initial_carry()

    def act(
        self,
        observation: PyTree[Shaped[Array | np.ndarray, "agents ..."]],
        carry: AgentArrays,
        key: PRNGKeyArray | None,
        *,
        greedy: bool = False,
    ) -> tuple[Shaped[Array, "agents ..."], AgentArrays]:
        """Computes the actions of all agents. The first call compiles this function.

        **Arguments:**

        - `observation`: the observations of all agents, in JAX or NumPy arrays. A global state that
            only the critic uses may be left out. The mask of a `Masked` observation is needed.
        - `carry`: `initial_carry()` at the start of an episode, then the carry from the previous
            call.
        - `key`: the source of randomness; it may be `None` if `greedy`.
        - `greedy`: take the most probable actions instead of sampling them.

        **Returns:** the actions, and the next carry.

        **Raises:** `ValueError` when the observation or the carry does not fit, or when actions are
        sampled without a key.
        """
        if key is None and not greedy:
            raise ValueError(
                "act needs a key to sample actions: pass key=jax.random.key(0), or greedy=True."
            )
        return _act(self, observation, carry, key, greedy)

    def outputs(
        self, observation: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """Computes the outputs of the actor; the arguments and errors are as in `act`.

        **Returns:** the outputs that `actor_critic.head` turns into a distribution, such as one
        logit per action, with forbidden actions masked; and the next carry.
        """
        expected, hides_state = self._observation_of_actors()
        observation = _without_state(observation, expected)
        check_arrays("observation", observation, expected)
        observation, action_mask = split_mask(jax.tree.map(jnp.asarray, observation))
        initial = eqx.filter_eval_shape(self.initial_carry)
        check_arrays("carry (start with initial_carry())", carry, initial)
        if self.normalization is not None:
            observation = self.normalization(observation, local=hides_state)
        if hides_state:
            observation = ObservationAndState(observation, None)
        local = self.actor_critic.critic_input.local(observation)
        output, carry = self.actor_critic.actor(local, carry)
        return mask_logits(output, action_mask), carry

    def values(
        self, observation: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, " agents"], AgentArrays]:
        """Computes the critic's values of all agents.

        **Arguments:**

        - `observation`: the observations of all agents. They must include the global state if the
            critic uses it.
        - `carry`: `actor_critic.critic.initial_carry()` at the start of an episode, then the carry
            from the previous call.

        **Returns:** the values, in the units in which the critic was trained (with
        `PPO.normalize_values`, standardised returns), and the next carry.

        **Raises:** `ValueError` when the observation does not fit.
        """
        check_arrays("observation", observation, self.observation)
        unmasked, _ = split_mask(jax.tree.map(jnp.asarray, observation))
        if self.normalization is not None:
            unmasked = self.normalization(unmasked, local=False)
        value, carry = self.actor_critic.critic(self.actor_critic.critic_input(unmasked), carry)
        return value[:, 0], carry

    def check(self, env: Environment | VectorEnvironment) -> None:
        """Checks that the policy can act in an environment.

        **Arguments:**

        - `env`: one environment or many, without `NormalizeObservation`.

        **Raises:** `ValueError` that names the part that does not fit.
        """
        self._check_agents_and_actions(env)
        expected, _ = self._observation_of_actors()
        check_observation(_without_state(observation_of(env), expected), expected)

    def wrap(self, env: VectorEnvironment) -> VectorEnvironment:
        """Wraps environments so that `actor_critic` gets normalised observations, as in training.

        For example, `evaluate(policy.actor_critic, policy.wrap(env), key)`.

        **Arguments:**

        - `env`: many environments, without `NormalizeObservation`. If the global state was an input
            of the critic, the observations must include it.

        **Returns:** `env`, in a `NormalizeObservation` with frozen moments if the policy needs it.

        **Raises:** `ValueError` that names the part that does not fit.
        """
        env = check_vector_env(env, "policy.wrap(env)")
        self._check_agents_and_actions(env)
        check_observation(observation_of(env), self.observation)
        if self.normalization is None:
            return env
        epsilon, clip = self.normalization.epsilon, self.normalization.clip
        moments = self.normalization.moments
        return NormalizeObservation(env, epsilon, clip, moments=moments, frozen=True)

    def reorder(self, agents: Sequence[int]) -> "TrainedPolicy":
        """Permutes the parameters of the agents.

        **Arguments:**

        - `agents`: for every agent, the index of the agent whose parameters it gets. If all agents
            share their parameters, nothing changes.

        **Returns:** the policy with permuted parameters.

        **Raises:** `ValueError` unless every agent is named once.
        """
        if sorted(agents) != list(range(self.num_agents)):
            raise ValueError(
                f"reorder needs each agent from 0 to {self.num_agents - 1} once, but got "
                f"{list(agents)}."
            )
        order = jnp.asarray(agents)

        def reorder(network: AbstractMultiAgentNetwork) -> AbstractMultiAgentNetwork:
            if not isinstance(network, IndependentParameters):
                return network
            return jax.tree.map(lambda x: x[order] if eqx.is_array(x) else x, network)

        return eqx.tree_at(
            lambda p: (p.actor_critic.actor, p.actor_critic.critic), self, replace_fn=reorder
        )

    def _observation_of_actors(self) -> tuple[Shapes, bool]:
        """The shapes of the actors' observations, and whether they leave out the global state."""
        critic_input = self.actor_critic.critic_input
        unmasked, _ = split_mask(self.observation)
        has_state = isinstance(unmasked, ObservationAndState)
        if not has_state or isinstance(critic_input, LocalObservation):
            return self.observation, False
        # A critic input of a user is tried without the state: it raises if it needs the state.
        try:
            eqx.filter_eval_shape(
                lambda local: critic_input.local(ObservationAndState(local, None)), unmasked.local
            )
        except (AttributeError, TypeError, ValueError):
            return self.observation, False
        return _local(self.observation), True

    def _check_agents_and_actions(self, env: Environment | VectorEnvironment) -> None:
        if is_batch(env) and contains_wrapper(env, NormalizeObservation):
            raise ValueError(
                "A trained policy normalises observations itself, if needed: pass the environment "
                "without NormalizeObservation."
            )
        check_num_agents(self.num_agents, env)
        # Under `jit` or `vmap`, the values of the bounds of a `Box` are unknown.
        same = eqx.tree_equal(env.action_space, self.action_space)
        if not isinstance(same, Tracer) and not same:
            raise ValueError(
                f"The policy chooses among the actions {_actions(self.action_space)}, but those of "
                f"the environment are {_actions(env.action_space)}."
            )


def trained_policy(
    policy: ActorCritic, env: VectorEnvironment, env_state: PyTree = None
) -> TrainedPolicy:
    """Combines a policy with everything that it needs to act outside of training.

    ```python
    import jax

    from agents import actor_critic, load_policy, save_policy, trained_policy
    from eqgrid import AutoReset, Vectorize, make

    env = Vectorize(AutoReset(make("goals")), num_envs=1)
    policy = trained_policy(actor_critic(env, jax.random.key(0)), env)
    save_policy("policy.safetensors", policy)
    policy = load_policy("policy.safetensors")
    ```

    **Arguments:**

    - `policy`: the parameters, such as `run.state.policy`. They are copied, so that training can
        continue with the originals.
    - `env`: the environments of the training.
    - `env_state`: their state, such as `run.state.runner.env_state`, which contains the moments of
        observations. It is needed only if `env` normalises observations with moments that are not
        frozen.

    **Returns:** the policy with its action space, the shapes of its observations and their moments.

    **Raises:** `ValueError` when the moments are missing, or when there is a wrapper around
    `NormalizeObservation` other than `NormalizeReward`, since it may change observations.
    """
    env = check_vector_env(env, "trained_policy(policy, env)")
    check_acts(policy, env, eqx.filter_eval_shape(env.reset, jax.random.key(0))[0])
    assembled = _assemble(policy, env, env_state)
    return jax.tree.map(lambda x: jnp.copy(x) if eqx.is_array(x) else x, assembled)


def _assemble(policy: ActorCritic, env: VectorEnvironment, env_state: PyTree) -> TrainedPolicy:
    """As `trained_policy`, but with the given arrays instead of copies of them."""
    if not contains_wrapper(env, NormalizeObservation):
        return TrainedPolicy(policy, env.action_space, observation_of(env))
    while not isinstance(env, NormalizeObservation):
        if not isinstance(env, NormalizeReward):
            name = type(env).__name__
            raise ValueError(
                f"There is a {name} around NormalizeObservation, which may change observations, "
                f"and a trained policy cannot repeat this: use NormalizeObservation({name}(...))."
            )
        env = env.env
    if not env.frozen:
        if env_state is None:
            raise ValueError(
                "The observations are normalised, with moments that are in the state of the "
                "environments: pass env_state, such as run.state.runner.env_state."
            )
        env = env.freeze(env_state)
    normalization = Normalization(env.moments, env.epsilon, env.clip)
    return TrainedPolicy(policy, env.action_space, observation_of(env.env), normalization)


@eqx.filter_jit
def _act(
    policy: TrainedPolicy,
    observation: AgentArrays,
    carry: AgentArrays,
    key: PRNGKeyArray | None,
    greedy: bool,
) -> tuple[Shaped[Array, "agents ..."], AgentArrays]:
    output, carry = policy.outputs(observation, carry)
    return choose_actions(policy, output, key, greedy), carry


def choose_actions(
    policy: TrainedPolicy,
    output: Float[Array, "agents out"],
    key: PRNGKeyArray | None,
    greedy: bool,
) -> Shaped[Array, "agents ..."]:
    """The actions of all agents, from the actor's outputs that `TrainedPolicy.outputs` returns."""
    head, space = policy.actor_critic.head, policy.action_space
    distribution = head.distribution(output)
    if greedy or key is None:
        return head.action(head.most_probable(distribution), space)
    noise = head.noise(key, space, (policy.num_agents,))
    return head.action(head.sample(distribution, noise), space)


def _without_state(observation: PyTree, expected: PyTree) -> PyTree:
    """The observation without the global state, unless the expected one has it."""
    has_state = isinstance(split_mask(expected)[0], ObservationAndState)
    return observation if has_state else _local(observation)


def _local(observation: PyTree) -> PyTree:
    """The observation without the global state."""
    return jax.tree.map(
        lambda x: x.local if isinstance(x, ObservationAndState) else x,
        observation,
        is_leaf=lambda x: isinstance(x, ObservationAndState),
    )


def _actions(space: AbstractSpace) -> str:
    return f"0 to {space.n - 1}" if isinstance(space, Discrete) else f"of a {type(space).__name__}"
