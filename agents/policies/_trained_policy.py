"""A policy that is ready to act: parameters, frozen moments, and the shapes of observations."""

import functools
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Shaped

from eqgrid import (
    AbstractEnv,
    AbstractSpace,
    AbstractVectorEnv,
    Discrete,
    NormalizeObservation,
    NormalizeReward,
    ObservationAndState,
    RunningMoments,
    contains_wrapper,
    map_observation,
    split_mask,
)

from ._heads import mask_logits
from ._policy import ActorCritic
from ._team import AbstractMultiAgentNetwork, IndependentParameters
from ._types import AgentArrays, Shapes
from ._views import GlobalState


@final
class Normalization(eqx.Module):
    """What `NormalizeObservation` does to an observation, with moments that stay as they are.

    **Arguments:**

    - `moments`: one set for each array of the observation, of one agent's shape.
    - `epsilon`: added to the variance.
    - `clip`: the largest magnitude.
    """

    moments: PyTree[RunningMoments]
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]

    def __call__(self, observation: AgentArrays, *, local: bool) -> AgentArrays:
        """Normalises an observation of all agents.

        **Arguments:**

        - `observation`: as the environment shows it.
        - `local`: whether the observation lacks the state of the world that the moments have.

        **Returns:** what the networks read.
        """
        moments = self.moments.local if local else self.moments
        return map_observation(
            lambda seen: jax.tree.map(self._normalize, seen, moments), observation
        )

    def _normalize(
        self, x: Shaped[Array, "agents *shape"], moments: RunningMoments
    ) -> Float[Array, "agents *shape"]:
        standardized = jax.vmap(moments.standardize, (0, None))(x.astype(float), self.epsilon)
        return jnp.clip(standardized, -self.clip, self.clip)


@final
class TrainedPolicy(eqx.Module):
    """How the agents of one environment act, with all that is needed for it.

    Made by `trained_policy` or `load_policy`. It reads observations as the environment shows them:
    where they were normalised in training, it does that itself.

    **Arguments:**

    - `actor_critic`: the parameters, to evaluate and to go on training.
    - `action_space`: the actions of one agent.
    - `observation`: the shapes and dtypes of an observation of all agents.
    - `normalization`: what is done to an observation first, if anything.
    """

    actor_critic: ActorCritic
    action_space: AbstractSpace
    normalization: Normalization | None
    _expected: tuple[Any, ...] = eqx.field(static=True)

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
        # A dict has no hash, which a static field needs; its leaves and structure have one.
        leaves, structure = jax.tree.flatten(observation)
        self._expected = (structure, *leaves)

    @property
    def observation(self) -> Shapes:
        """The shapes and dtypes of an observation of all agents, before it is normalised."""
        structure, *leaves = self._expected
        return jax.tree.unflatten(structure, leaves)

    @property
    def num_agents(self) -> int:
        """For how many agents the policy acts."""
        return self.actor_critic.actor.num_agents

    def initial_carry(self) -> AgentArrays:
        """What the actors remember when an episode starts; `None` when they remember nothing."""
        return self.actor_critic.actor.initial_carry()

    def act(
        self,
        observation: PyTree[Shaped[Array | np.ndarray, "agents ..."]],
        carry: AgentArrays,
        key: PRNGKeyArray | None,
        *,
        greedy: bool = False,
    ) -> tuple[Shaped[Array, "agents ..."], AgentArrays]:
        """Chooses the action of every agent. It is compiled at the first call.

        **Arguments:**

        - `observation`: what every agent sees, in JAX or NumPy arrays. The state of the world that
            critics were shown may be left out; the mask of a `Masked` observation may not.
        - `carry`: what the agents remember: `initial_carry()` at the start of an episode, and what
            the last call returned in all other steps.
        - `key`: the source of randomness; `None` will do for a greedy choice.
        - `greedy`: take the most probable action, instead of drawing one.

        **Returns:** the actions, and what the agents remember next.

        **Raises:** `ValueError` when the observation or the carry does not fit, or no key is given.
        """
        if key is None and not greedy:
            raise ValueError("act draws actions with a key: pass key=jax.random.key(0), or greedy.")
        return _act(self, observation, carry, key, greedy)

    def outputs(
        self, observation: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """What actions are chosen by; the arguments and errors are those of `act`.

        **Returns:** for every agent the numbers that `actor_critic.head` makes a distribution of,
        such as one logit per action, the lowest one where it is forbidden; and what the agents
        remember next.
        """
        expected, _ = self._shown_to_actors()
        _check_arrays("observation", _without_state(observation, expected), expected)
        seen, action_mask = split_mask(jax.tree.map(jnp.asarray, observation))
        output, carry = self.unmasked_outputs(seen, carry)
        return mask_logits(output, action_mask), carry

    def unmasked_outputs(
        self, seen: AgentArrays, carry: AgentArrays
    ) -> tuple[Float[Array, "agents out"], AgentArrays]:
        """What `outputs` gives before any mask: `seen` is an observation without one."""
        expected, hides_state = self._shown_to_actors()
        expected, _ = split_mask(expected)
        observation = _without_state(seen, expected)
        _check_arrays("observation", observation, expected)
        initial = eqx.filter_eval_shape(self.initial_carry)
        _check_arrays("carry (start with initial_carry())", carry, initial)
        if self.normalization is not None:
            observation = self.normalization(observation, local=hides_state)
        return self.actor_critic.actor(observation, carry)

    def check(self, env: AbstractEnv | AbstractVectorEnv) -> None:
        """Lets an environment through in which the policy can act, one or many of them.

        **Arguments:**

        - `env`: the environment, as it was before any `NormalizeObservation`.

        **Raises:** `ValueError` with one sentence that says what does not fit.
        """
        self._check_agents_and_actions(env)
        expected, _ = self._shown_to_actors()
        _check_shown(_without_state(_observation_of(env), expected), expected)

    def wrap(self, env: AbstractVectorEnv) -> AbstractVectorEnv:
        """The environments as `actor_critic` must be shown them, with frozen moments around them if
        it has any: `evaluate(policy.actor_critic, policy.wrap(env), key)`.

        **Arguments:**

        - `env`: many environments, before any `NormalizeObservation`. Where the critics were shown
            the state of the world, it must show it, too.

        **Returns:** `env`, with a `NormalizeObservation` around it if the policy needs one.

        **Raises:** `ValueError` with one sentence that says what does not fit.
        """
        self._check_agents_and_actions(env)
        _check_shown(_observation_of(env), self.observation)
        if self.normalization is None:
            return env
        epsilon, clip = self.normalization.epsilon, self.normalization.clip
        moments = self.normalization.moments
        return NormalizeObservation(env, epsilon, clip, moments=moments, frozen=True)

    def reorder(self, agents: Sequence[int]) -> "TrainedPolicy":
        """The same policy with its parameters handed to other agents.

        **Arguments:**

        - `agents`: for every agent, whose parameters it has from now on. Where all agents share
            their parameters, nothing changes.

        **Raises:** `ValueError` unless every agent is named once.
        """
        if sorted(agents) != list(range(self.num_agents)):
            raise ValueError(
                f"reorder needs each agent from 0 to {self.num_agents - 1} once, but got "
                f"{list(agents)}."
            )
        return eqx.tree_at(
            lambda p: (p.actor_critic.actor, p.actor_critic.critic),
            self,
            replace_fn=functools.partial(_reorder, jnp.asarray(agents)),
        )

    def _shown_to_actors(self) -> tuple[Shapes, bool]:
        """What actors read, and whether that leaves out the state of the world."""
        if isinstance(self.actor_critic.view, GlobalState):
            return _local(self.observation), True
        return self.observation, False

    def _check_agents_and_actions(self, env: AbstractEnv | AbstractVectorEnv) -> None:
        if isinstance(env, AbstractVectorEnv) and contains_wrapper(env, NormalizeObservation):
            raise ValueError(
                "A trained policy normalises observations itself, if it was trained so: give it "
                "the environment without NormalizeObservation."
            )
        if env.num_agents != self.num_agents:
            raise ValueError(
                f"The policy acts for {_count(self.num_agents, 'agent')}, but the environment has "
                f"{env.num_agents}."
            )
        if not eqx.tree_equal(env.action_space, self.action_space):
            raise ValueError(
                f"The policy chooses among the actions {_space(self.action_space)}, but those of "
                f"the environment are {_space(env.action_space)}."
            )


def trained_policy(
    policy: ActorCritic, env: AbstractVectorEnv, env_state: PyTree = None
) -> TrainedPolicy:
    """Puts together all that a policy needs to act elsewhere.

    **Arguments:**

    - `policy`: the parameters, such as `run.state.policy`. They are copied, so that training may
        go on.
    - `env`: the environments that it was trained in.
    - `env_state`: their state, such as `run.state.runner.env_state`, for the moments in it. It is
        read only where observations are normalised and the moments are not frozen.

    **Returns:** the policy, ready to act.

    **Raises:** `ValueError` when the moments are missing, or when there is a wrapper around
    `NormalizeObservation` other than `NormalizeReward`, since it may change observations.
    """
    whole = assemble(policy, env, env_state)
    return jax.tree.map(lambda x: jnp.copy(x) if eqx.is_array(x) else x, whole)


def assemble(policy: ActorCritic, env: AbstractVectorEnv, env_state: PyTree) -> TrainedPolicy:
    """The result of `trained_policy`, with the given arrays in place of copies."""
    if not contains_wrapper(env, NormalizeObservation):
        return TrainedPolicy(policy, env.action_space, _observation_of(env))
    while not isinstance(env, NormalizeObservation):
        if not isinstance(env, NormalizeReward):
            name = type(env).__name__
            raise ValueError(
                f"There is a {name} around NormalizeObservation, and a trained policy cannot "
                f"repeat what it does to observations: use NormalizeObservation({name}(...))."
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
    return TrainedPolicy(policy, env.action_space, _observation_of(env.env), normalization)


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
    """The actions of all agents, from the numbers that `TrainedPolicy.outputs` gives."""
    head, space = policy.actor_critic.head, policy.action_space
    distribution = head.distribution(output)
    if greedy or key is None:
        return head.action(head.most_probable(distribution), space)
    noise = head.noise(key, space, (policy.num_agents,))
    return head.action(head.choose(distribution, noise), space)


def _observation_of(env: AbstractEnv | AbstractVectorEnv) -> Shapes:
    """The shapes and dtypes of what all agents of one environment see."""
    shown, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    skipped = 1 if isinstance(env, AbstractVectorEnv) else 0
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[skipped:], x.dtype), shown)


def _without_state(observation: PyTree, expected: PyTree) -> PyTree:
    """The observation as actors may be shown it, where they were not shown the state."""
    has_state = isinstance(split_mask(expected)[0], ObservationAndState)
    return observation if has_state else _local(observation)


def _local(observation: PyTree) -> PyTree:
    """The observation without the state of the world."""
    return jax.tree.map(
        lambda x: x.local if isinstance(x, ObservationAndState) else x,
        observation,
        is_leaf=lambda x: isinstance(x, ObservationAndState),
    )


def _reorder(
    agents: Int[Array, " agents"], network: AbstractMultiAgentNetwork
) -> AbstractMultiAgentNetwork:
    if not isinstance(network, IndependentParameters):
        return network
    return jax.tree.map(lambda x: x[agents] if eqx.is_array(x) else x, network)


def _check_arrays(what: str, given: PyTree, expected: Shapes) -> None:
    """Compares shapes, and dtypes as JAX will have them: NumPy's 64 bits become 32."""
    arrays = all(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(given))
    if not arrays or _named(given) != _named(expected):
        there = _text(given) if arrays else f"something that is no array: {given!r:.60}"
        raise ValueError(
            f"The policy needs the {what} {_text(expected)}, all agents in one array, but got "
            f"{there}."
        )


def _check_shown(shown: Shapes, expected: Shapes) -> None:
    if _named(shown) != _named(expected):
        raise ValueError(
            f"The policy reads observations {_text(expected)}, but the environment shows "
            f"{_text(shown)}: it needs the kind of observation, and a layout of the size, that it "
            f"was trained with."
        )


def _named(tree: PyTree) -> dict[str, str]:
    return {
        jax.tree_util.keystr(where): f"{jax.dtypes.canonicalize_dtype(x.dtype)}{list(x.shape)}"
        for where, x in jax.tree_util.tree_leaves_with_path(tree)
    }


def _text(tree: PyTree) -> str:
    named = [f"{name} {what}".strip() for name, what in _named(tree).items()]
    return " and ".join(named) or "nothing"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _space(space: AbstractSpace) -> str:
    return f"0 to {space.n - 1}" if isinstance(space, Discrete) else f"of a {type(space).__name__}"
