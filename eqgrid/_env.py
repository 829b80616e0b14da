"""The protocol: what every environment and every wrapper offers."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from ._spaces import AbstractSpace


@final
class TimeStep(eqx.Module):
    """What one step of an environment tells its agents. From many environments, everything leads
    with an `envs` axis.

    The return of an episode is, for each agent, the sum of its rewards up to the step in which its
    task ends, that step included. What it is paid after that, raw or shaped, until the next episode
    begins, counts nowhere: not in learning, in `LogEpisodes`, `play` or evaluations, nor through an
    adapter. Whoever adds up rewards keeps `acts_next` of the step before, which is true for
    everybody when an episode starts, and calls `earned` with it.

    **Arguments:**

    - `observation`: what to act on next; every array leads with `agents`.
    - `reward`: one number per agent.
    - `terminated`: this agent's task is over; the value of what follows is 0. It stays true until
        the episode is over, which it is when all agents' tasks are, or when it is cut.
    - `truncated`: the episode was cut (by a time limit); the value of what follows is not 0.
    - `info`: further arrays; the keys never change from step to step.
    - `final_observation`: what the action led to, before any reset. It differs from `observation`
        only where something reset the environment, and is the same array unless given.
    """

    observation: PyTree[Shaped[Array, "..."]]
    reward: Float[Array, "*envs agents"]
    terminated: Bool[Array, "*envs agents"]
    truncated: Bool[Array, "*envs"]
    info: dict[str, Shaped[Array, "..."]]
    final_observation: PyTree[Shaped[Array, "..."]]

    def __init__(
        self,
        observation: PyTree[Shaped[Array, "..."]],
        reward: Float[Array, "*envs agents"],
        terminated: Bool[Array, "*envs agents"],
        truncated: Bool[Array, "*envs"],
        info: dict[str, Shaped[Array, "..."]],
        final_observation: PyTree[Shaped[Array, "..."]] | None = None,
    ):
        self.observation = observation
        self.reward = reward
        self.terminated = terminated
        self.truncated = truncated
        self.info = info
        self.final_observation = observation if final_observation is None else final_observation

    @property
    def done(self) -> Bool[Array, "*envs"]:
        """Whether the episode is over: it was cut, or every agent's task is over."""
        return self.truncated | self.terminated.all(axis=-1)

    @property
    def acts_next(self) -> Bool[Array, "*envs agents"]:
        """Whose task goes on, or begins anew with the next episode. What the others are shown and
        paid until then means nothing, and nobody should learn from it.
        """
        return ~self.terminated | self.done[..., None]

    def earned(self, active: Bool[Array, "*envs agents"]) -> Float[Array, "*envs agents"]:
        """The part of the reward that counts.

        **Arguments:**

        - `active`: whose task was not over before this step: `acts_next` of the step before it.

        **Returns:** the reward of those, and 0 for the others.
        """
        return jnp.where(active, self.reward, jnp.zeros_like(self.reward))


class AbstractEnv(eqx.Module):
    """One environment, unbatched. Everything an agent sees or does leads with an `agents` axis.

    The shape and dtype of an observation come from `eqx.filter_eval_shape(env.reset, key)`.
    """

    num_agents: eqx.AbstractVar[int]
    action_space: eqx.AbstractVar[AbstractSpace]

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        """Starts an episode.

        **Returns:** the first observation, and the state.
        """

    @abc.abstractmethod
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        """Advances by one action of every agent. Never resets by itself.

        **Arguments:**

        - `key`: the source of randomness.
        - `state`: where the episode stands.
        - `action`: of every agent. A compiled program cannot refuse an action that is not in
            `action_space`, so each environment says what it then does. In a `GridWorld` an agent
            with such a number does nothing; an `MjxEnv` clips; an adapter asks the other library.
            An agent whose task is over may be given any action.

        **Returns:** what happened, and the next state.
        """

    @abc.abstractmethod
    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        """What the agents see in `state`; exactly the observation that came with it."""


class AbstractWrapper(AbstractEnv):
    """An environment that holds another one in `env` and forwards to it by hand.

    A wrapper with a state of its own keeps it in an `AbstractWrapperState`; one without passes the
    inner state on as it is.
    """

    env: eqx.AbstractVar[AbstractEnv]

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents

    @property
    def action_space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.action_space


class AbstractVectorEnv(eqx.Module):
    """Many environments side by side: `AbstractEnv` with a leading `envs` axis on everything."""

    num_envs: eqx.AbstractVar[int]
    num_agents: eqx.AbstractVar[int]
    action_space: eqx.AbstractVar[AbstractSpace]

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], PyTree]:
        """Starts one episode in every environment."""

    @abc.abstractmethod
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "envs agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        """Advances every environment by one action of every agent."""

    @abc.abstractmethod
    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "envs agents ..."]]:
        """What the agents see in `state`; exactly the observation that came with it."""


class AbstractVectorWrapper(AbstractVectorEnv):
    """A vector environment that holds another one in `env` and forwards to it by hand."""

    env: eqx.AbstractVar[AbstractVectorEnv]

    @property
    def num_envs(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_envs

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents

    @property
    def action_space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.action_space


class AbstractWrapperState(eqx.Module):
    """What a wrapper (of either level) remembers, around the state of what it wraps."""

    env_state: eqx.AbstractVar[PyTree]


def unwrap(env: AbstractEnv | AbstractVectorEnv) -> AbstractEnv | AbstractVectorEnv:
    """The environment at the core of a stack of wrappers.

    `Vectorize` is no wrapper but the core of its level; go on with `unwrap(core.env)`.
    """
    while isinstance(env, AbstractWrapper | AbstractVectorWrapper):
        env = env.env
    return env


def unwrap_state(state: PyTree) -> PyTree:
    """The state of the environment at the core of a stack of wrappers."""
    while isinstance(state, AbstractWrapperState):
        state = state.env_state
    return state
