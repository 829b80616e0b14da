"""The environment protocol: what every environment and every wrapper implements."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, final, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from ._spaces import AbstractSpace
from .typing import PyTree


@final
class TimeStep(eqx.Module):
    """The result of one step of an environment; vector environments add a leading `envs` axis.

    The return of an episode is, for each agent, the sum of its rewards up to and including the step
    in which it terminates. Learning, `LogEpisodes`, `play`, evaluations and adapters ignore later
    rewards, raw or shaped, until the next episode starts. Code that sums rewards keeps `acts_next`
    of the previous step (all true when an episode starts), and passes it to `counted_reward`.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import make

    env = make("overcooked", layout="cramped")
    observation, state = env.reset(jax.random.key(0))
    timestep, state = env.step(jax.random.key(1), state, jnp.array([3, 5]))  # west; interact
    print(timestep.reward, timestep.terminated)  # [0. 0.] [False False]
    print(bool(timestep.done), sorted(timestep.info))  # False ['events', 'shaped_reward']
    ```

    **Arguments:**

    - `observation`: the observation for the next action; every array leads with `agents`.
    - `reward`: one number per agent.
    - `terminated`: whether each agent's task is over, so that the value of the following steps is
        0. It stays true until the episode ends: all agents have terminated, or the episode is
        truncated.
    - `truncated`: whether the episode was cut, as by a time limit; the following steps still have
        a value.
    - `info`: further arrays; the keys are the same in every step.
    - `final_observation`: the observation after the action, before any reset. It differs from
        `observation` only where the environment was reset, and defaults to the same array.
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
        """Whether the episode is over: truncated, or terminated for every agent."""
        return self.truncated | self.terminated.all(axis=-1)

    @property
    def acts_next(self) -> Bool[Array, "*envs agents"]:
        """Which agents act in the next step: agents that have not terminated, or all agents if a
        new episode starts. The observations and rewards of the other agents are meaningless, and
        must not be learned from.
        """
        return ~self.terminated | self.done[..., None]

    def counted_reward(self, active: Bool[Array, "*envs agents"]) -> Float[Array, "*envs agents"]:
        """The part of the reward that counts towards the return.

        **Arguments:**

        - `active`: which agents had not terminated before this step: `acts_next` of the previous
            step.

        **Returns:** the reward of the active agents, and 0 for the other agents.
        """
        return jnp.where(active, self.reward, jnp.zeros_like(self.reward))


@runtime_checkable
class Environment(Protocol):
    """A single environment: any `eqx.Module` with these methods and fields, of any class.

    Wrappers, learners and adapters accept it. `AbstractEnv` is a base class for environments, and
    describes the methods, but no class has to inherit from it. `step` may return any object with
    the fields `observation`, `reward`, `terminated`, `truncated` and `info` of a `TimeStep`, such
    as a NamedTuple: `step_env` converts it.
    """

    @property
    def num_agents(self) -> int:
        """The number of agents."""
        ...

    @property
    def action_space(self) -> Any:
        """The action space of one agent: `Discrete`, `MultiDiscrete` or `Box`."""
        ...

    def reset(self, key: PRNGKeyArray, /) -> tuple[PyTree, PyTree]:
        """Starts an episode, and returns the first observation and the state."""
        ...

    def step(self, key: PRNGKeyArray, state: PyTree, action: Any, /) -> tuple[Any, PyTree]:
        """Advances by one action of every agent, and returns a `TimeStep` and the next state."""
        ...

    def observe(self, state: PyTree, /) -> PyTree:
        """The observation of `state`."""
        ...


@runtime_checkable
class VectorEnvironment(Environment, Protocol):
    """A batch of environments: an `Environment` whose arrays have a leading `envs` axis, with the
    number of environments in `num_envs`. This field distinguishes it from a single environment.
    """

    @property
    def num_envs(self) -> int:
        """The number of environments."""
        ...


def is_batch(env: object) -> TypeGuard[VectorEnvironment]:
    """Whether an environment is a batch: it has the field `num_envs`."""
    return hasattr(env, "num_envs")


class AbstractEnv(eqx.Module):
    """A single environment. Observations, actions and rewards lead with an `agents` axis.

    The shape and dtype of an observation come from `eqx.filter_eval_shape(env.reset, key)`.

    ```python
    from typing import final

    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Float, Int, PRNGKeyArray

    from eqgrid import AbstractEnv, Discrete, TimeStep, check_env


    @final
    class Sum(AbstractEnv):
        # Each agent adds 0 or 1 to a sum, and gets the change of the sum as its reward
        num_agents: int = eqx.field(static=True, default=2)
        action_space: Discrete = Discrete(2)

        def reset(self, key: PRNGKeyArray) -> tuple[Float[Array, "agents 1"], Int[Array, ""]]:
            state = jnp.zeros((), jnp.int32)
            return self.observe(state), state

        def step(
            self, key: PRNGKeyArray, state: Int[Array, ""], action: Int[Array, " agents"]
        ) -> tuple[TimeStep, Int[Array, ""]]:
            state = state + action.sum(dtype=jnp.int32)
            return TimeStep(
                observation=self.observe(state),
                reward=jnp.full(self.num_agents, action.sum(), jnp.float32),
                terminated=jnp.full(self.num_agents, state >= 10),
                truncated=jnp.asarray(False),
                info={},
            ), state

        def observe(self, state: Int[Array, ""]) -> Float[Array, "agents 1"]:
            return jnp.full((self.num_agents, 1), state, jnp.float32)


    check_env(Sum())
    ```
    """

    # Type checkers treat an AbstractVar as an argument of `__init__`, whose type subclasses must
    # not narrow.
    if TYPE_CHECKING:
        num_agents: int = eqx.field(init=False)
        action_space: Any = eqx.field(init=False)
    else:
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
        """Advances by one action of every agent. It never resets the environment.

        **Arguments:**

        - `key`: the source of randomness.
        - `state`: the state returned by `reset` or the last `step`.
        - `action`: one action per agent; any action for an agent that has terminated. A compiled
            program cannot raise an error for an action outside `action_space`, so each environment
            documents what happens: the agent of a `GridWorld` does nothing, an `MjxEnv` clips the
            action, and an adapter passes it to the other library.

        **Returns:** the result of the step, and the next state.
        """

    @abc.abstractmethod
    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        """The observation of `state`: the same as `reset` or `step` returned with this state."""


class AbstractWrapper(AbstractEnv):
    """An environment that wraps another environment, `env`, and forwards to it explicitly.

    A wrapper with a state of its own returns an `AbstractWrapperState` that contains the inner
    state. A wrapper without one returns the inner state itself.
    """

    if TYPE_CHECKING:
        env: Environment = eqx.field(init=False)
    else:
        env: eqx.AbstractVar[Environment]

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents

    @property
    def action_space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.action_space


class AbstractVectorEnv(eqx.Module):
    """A batch of environments: `AbstractEnv` with a leading `envs` axis on every array.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import AbstractVectorEnv, AutoReset, Vectorize, make

    envs: AbstractVectorEnv = Vectorize(AutoReset(make("overcooked")), num_envs=8)
    observation, state = envs.reset(jax.random.key(0))
    action = jnp.zeros((envs.num_envs, envs.num_agents), jnp.int32)
    timestep, state = envs.step(jax.random.key(1), state, action)
    print(timestep.reward.shape)  # (8, 2)
    ```
    """

    if TYPE_CHECKING:
        num_envs: int = eqx.field(init=False)
        num_agents: int = eqx.field(init=False)
        action_space: Any = eqx.field(init=False)
    else:
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
        """The observation of `state`: the same as `reset` or `step` returned with this state."""


class AbstractVectorWrapper(AbstractVectorEnv):
    """A vector environment that wraps another vector environment, `env`, and forwards to it."""

    if TYPE_CHECKING:
        env: VectorEnvironment = eqx.field(init=False)
    else:
        env: eqx.AbstractVar[VectorEnvironment]

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
    """The state of a wrapper of single or vector environments. It contains the inner state."""

    if TYPE_CHECKING:
        env_state: PyTree = eqx.field(init=False)
    else:
        env_state: eqx.AbstractVar[PyTree]


def unwrap(env: Environment | VectorEnvironment) -> Environment | VectorEnvironment:
    """The innermost environment of a stack of wrappers.

    `Vectorize` does not count as a wrapper: it is the innermost vector environment, and
    `unwrap(vectorize.env)` gives the innermost single environment.
    """
    while isinstance(env, AbstractWrapper | AbstractVectorWrapper):
        env = env.env
    return env


_Env = TypeVar("_Env", bound=Environment)


def replace_innermost(env: _Env, change: Callable[[Any], Any]) -> _Env:
    """The same stack of wrappers around another environment.

    ```python
    from eqgrid import TimeLimit, make, replace_innermost
    from eqgrid.grid import WithState

    world = TimeLimit(make("overcooked"), 50)
    shown = replace_innermost(world, lambda x: x.with_observation(WithState(x.observation)))
    ```

    **Arguments:**

    - `env`: a single environment, in any number of wrappers.
    - `change`: returns the new innermost environment, given the old one.
    """
    if not isinstance(env, AbstractWrapper):
        return change(env)
    return eqx.tree_at(lambda wrapper: wrapper.env, env, replace_innermost(env.env, change))


def unwrap_state(state: PyTree) -> PyTree:
    """The state of the innermost environment of a stack of wrappers."""
    while isinstance(state, AbstractWrapperState):
        state = state.env_state
    return state
