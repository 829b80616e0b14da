"""The adapters to and from gymnax, for environments with one agent."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from gymnax.environments import environment, spaces
from gymnax.wrappers.purerl import GymnaxWrapper
from jaxtyping import Array, ArrayLike, Bool, Int, PRNGKeyArray, Shaped

from .._env import AbstractEnv, Environment, TimeStep, unwrap
from .._env_checks import step_env
from .._spaces import AbstractSpace, Box, Discrete
from ..typing import PyTree
from ._foreign import (
    ForeignState,
    check_episodes,
    check_stackable,
    entries_by_agent,
    implicit_promotion,
    observation_spec,
    strongly_typed,
    typed_key,
)

_HAS_TRUNCATION = hasattr(environment.Environment, "is_truncated")
"""Whether gymnax distinguishes truncation from termination, which it does since version 1.0."""

_NO_LIMIT = 10**9  # steps


@final
class GymnaxState(eqx.Module):
    """The state of a `GymnaxEnv`, with the fields that gymnax expects.

    - `world`: the state of the wrapped environment.
    - `time`: the number of steps since the reset.
    - `terminated`, `truncated`: whether the wrapped environment has terminated, or was truncated,
        in this state; `is_truncated` also applies `max_steps_in_episode`.
    """

    world: PyTree
    time: Int[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@final
class GymnaxEnv(environment.Environment):
    """An environment of eqgrid as a gymnax environment, made by `to_gymnax`."""

    def __init__(self, env: Environment):
        super().__init__()
        self.env, self._per_agent = env, entries_by_agent(env)
        spec = observation_spec(env, "gymnax")
        if spec.masked:
            raise ValueError(
                f"The observations of {type(unwrap(env)).__name__} have an action mask, but gymnax "
                "has no convention for action masks: use to_gymnasium or to_jaxnasium."
            )
        self._observation_space = spaces.Box(spec.low, spec.high, spec.shape, spec.dtype)
        space = env.action_space
        if isinstance(space, Discrete):
            self._action_space = spaces.Discrete(space.n)
        elif isinstance(space, Box):
            self._action_space = spaces.Box(space.low, space.high, space.low.shape)
        else:
            raise ValueError(f"gymnax has no {type(space).__name__}: use Discrete or Box actions.")

    @property
    def default_params(self) -> environment.EnvParams:
        """Parameters without a time limit, so that only the time limit of the wrapped environment
        applies. `replace(max_steps_in_episode=...)` adds a limit.
        """
        return environment.EnvParams(max_steps_in_episode=_NO_LIMIT)

    def reset_env(
        self, key: PRNGKeyArray, params: environment.EnvParams
    ) -> tuple[Shaped[Array, "..."], GymnaxState]:
        observation, world = self.env.reset(typed_key(key))
        never = jnp.array(False)
        return observation[0], GymnaxState(world, jnp.array(0), never, never)

    def step_env(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        key: PRNGKeyArray,
        state: GymnaxState,
        action: ArrayLike,
        params: environment.EnvParams,
    ) -> tuple[Shaped[Array, "..."], GymnaxState, Array, Array, dict[str, PyTree]]:
        """One step, without a reset. Before gymnax 1.0, `done` is also true for truncation."""
        action = jnp.asarray(action)[None]
        timestep, world = step_env(self.env, typed_key(key), state.world, action)
        terminated = timestep.terminated[0]
        state = GymnaxState(world, state.time + 1, terminated, timestep.truncated)
        info = {name: x[0] if name in self._per_agent else x for name, x in timestep.info.items()}
        info["discount"] = 1.0 - terminated.astype(float)
        done = self.is_terminal(state, params)
        return timestep.observation[0], state, timestep.reward[0], done, info

    def get_obs(
        self, state: GymnaxState, params: PyTree = None, key: PRNGKeyArray | None = None
    ) -> Shaped[Array, "..."]:
        return self.env.observe(state.world)[0]

    def is_truncated(self, state: GymnaxState, params: environment.EnvParams) -> Bool[Array, ""]:
        return state.truncated | (state.time >= params.max_steps_in_episode)

    def is_terminated(self, state: GymnaxState, params: environment.EnvParams) -> Bool[Array, ""]:
        return state.terminated

    def is_terminal(self, state: GymnaxState, params: environment.EnvParams) -> Bool[Array, ""]:
        """Whether the episode has terminated or, before gymnax 1.0, was truncated."""
        if _HAS_TRUNCATION:
            return state.terminated
        return state.terminated | self.is_truncated(state, params)

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def num_actions(self) -> int:
        """The number of discrete actions, or the number of entries of a continuous action."""
        space = self._action_space
        return space.n if isinstance(space, spaces.Discrete) else math.prod(space.shape)

    def action_space(self, params: environment.EnvParams | None = None) -> spaces.Space:
        return self._action_space

    def observation_space(self, params: environment.EnvParams | None = None) -> spaces.Box:
        return self._observation_space


def to_gymnax(env: object) -> GymnaxEnv:
    """Converts an environment with one agent to a gymnax environment.

    As usual in gymnax, `step` resets automatically. `info` has the entries of `TimeStep.info`, and
    the entry `discount` of gymnax's own environments.

    **Arguments:**

    - `env`: a single environment, with any wrappers except `AutoReset`. Its observation must be
        one array.

    **Raises:** `ValueError` when there are several agents, when gymnax does not support the
    observation or the action space, or when there is an action mask, for which gymnax has no
    convention; `TypeError` when `env` is not an environment.

    !!! example

        ```python
        env = to_gymnax(eqgrid.make("goals", num_agents=1))
        observation, state = env.reset(jax.random.key(0), env.default_params)
        ```
    """
    env = check_episodes(env, "to_gymnax(env)")
    if env.num_agents != 1:
        raise ValueError(
            f"gymnax has one agent, but {type(env).__name__} has {env.num_agents}: use to_jaxmarl "
            "or to_jaxnasium."
        )
    return GymnaxEnv(env)


@final
class FromGymnax(AbstractEnv):
    """A gymnax environment as an `AbstractEnv`, made by `from_gymnax`."""

    env: environment.Environment = eqx.field(static=True)
    params: PyTree
    action_space: AbstractSpace
    num_agents: int = eqx.field(static=True)

    def __init__(self, env: environment.Environment, params: PyTree):
        self.env, self.params, self.num_agents = env, params, 1
        self.action_space = _to_eqgrid_space(env.action_space(params))
        with implicit_promotion():
            seen, _ = eqx.filter_eval_shape(env.reset_env, jax.random.key(0), params)
        check_stackable([seen], env.name, pad=False)

    def reset(self, key: PRNGKeyArray) -> tuple[Shaped[Array, "1 ..."], ForeignState]:
        with implicit_promotion():
            observation, world = self.env.reset_env(key, self.params)
        return observation[None], ForeignState(strongly_typed(world), observation[None])

    def step(
        self, key: PRNGKeyArray, state: ForeignState, action: Shaped[Array, "1 ..."]
    ) -> tuple[TimeStep, ForeignState]:
        with implicit_promotion():
            observation, world, reward, done, _ = self.env.step_env(
                key, state.world, action[0], self.params
            )
            done = jnp.asarray(done, bool).reshape(1)
            if _HAS_TRUNCATION:
                terminated, truncated = done, self.env.is_truncated(world, self.params)
            else:
                terminated = done & self._ends_with_longer_limit(key, state, action)
                truncated = (done & ~terminated).all()
        timestep = TimeStep(
            observation[None],
            jnp.asarray(reward, jnp.float32).reshape(1),
            terminated,
            jnp.asarray(truncated, bool).reshape(()),
            {},
        )
        return timestep, ForeignState(strongly_typed(world), observation[None])

    def observe(self, state: ForeignState) -> Shaped[Array, "1 ..."]:
        return state.observation

    def _ends_with_longer_limit(
        self, key: PRNGKeyArray, state: ForeignState, action: Shaped[Array, "1 ..."]
    ) -> Bool[Array, "1"]:
        """Whether the same step would also end an episode with a longer time limit. If so, the step
        terminates the episode. The compiler merges this second computation of the step with the
        first one.
        """
        limit = getattr(self.params, "max_steps_in_episode", None)
        if limit is None:
            return jnp.array([True])
        longer = self.params.replace(max_steps_in_episode=limit + 1)
        _, _, _, done, _ = self.env.step_env(key, state.world, action[0], longer)
        return jnp.asarray(done, bool).reshape(1)


def from_gymnax(env: object, params: PyTree | None = None) -> FromGymnax:
    """Converts a gymnax environment to an `AbstractEnv`.

    The adapter calls `step_env`, which does not reset. An episode that reaches
    `max_steps_in_episode` is truncated instead of terminated. `info` is empty.

    Before version 1.0, gymnax does not distinguish truncation from termination. The adapter then
    computes each step a second time with a longer time limit: an episode that is still done has
    terminated.

    **Arguments:**

    - `env`, `params`: the environment and its parameters, such as `*gymnax.make("CartPole-v1")`.
        `params` defaults to the parameters of the environment. Each call of `gymnax.make` returns a
        new environment, which JAX compiles again, so reuse one object.

    **Raises:** `ValueError` when `env` is a gymnax wrapper, or when its observation or action space
    is not supported; `TypeError` when it is not a gymnax environment.

    !!! example

        ```python
        env = from_gymnax(*gymnax.make("CartPole-v1"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    if isinstance(env, GymnaxWrapper):
        raise ValueError(
            f"from_gymnax needs an environment without wrappers, but got a {type(env).__name__}: "
            "leave the wrapper out, and use the wrappers of eqgrid."
        )
    if not isinstance(env, environment.Environment):
        raise TypeError(
            f"from_gymnax needs an environment of gymnax, but got a {type(env).__name__}."
        )
    return FromGymnax(env, env.default_params if params is None else params)


def _to_eqgrid_space(space: object) -> AbstractSpace:
    """**Raises:** `ValueError` unless the space is `Discrete` or a bounded `Box`."""
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        return Box(space.low, space.high, tuple(space.shape))
    raise ValueError(f"Actions of a {type(space).__name__} are not supported: use Discrete or Box.")
