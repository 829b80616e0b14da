"""Wrappers for the end of an episode: `TimeLimit` ends it, and `AutoReset` starts the next one."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray, Shaped

from .._checks import MAX_STEPS, as_number, check_leading, check_state
from .._env import (
    AbstractWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
    unwrap,
    unwrap_state,
)
from .._env_checks import check_own_state, check_single_env, step_env
from .._functions import batched_cond, select
from ..typing import PyTree
from ._log_episodes import LogEpisodes
from ._nesting import contains_wrapper
from ._shaped_reward import Scheduled, ShapedReward


class AbstractAutoReset(AbstractWrapper):
    """A wrapper whose `step` resets the environment on the same step on which an episode ends.

    No other environment or wrapper resets by itself. On the last step of an episode, `observation`
    is the first observation of the next episode, and the returned state belongs to the next
    episode. `final_observation` is the last observation of the episode that ended, and all other
    fields of the timestep belong to that episode, too. On all other steps, `step` returns the
    result of the inner environment.

    Other wrappers, rollouts, evaluations and adapters treat all subclasses like `AutoReset`.
    """


@final
class AutoReset(AbstractAutoReset):
    """Resets the environment on the same step on which an episode ends.

    `observation` is computed from the state after the reset, so under `jit` the final observation
    costs nothing if it is not used. The state is the state of the inner environment.

    By default, every step computes a reset and selects it where an episode ends, because `vmap`
    computes both branches anyway. With `lazy`, only steps in which an episode of the batch ends
    compute resets.

    ```python
    from eqgrid import AutoReset, LogEpisodes, make

    env = AutoReset(LogEpisodes(make("overcooked")))
    ```

    **Arguments:**

    - `env`: a single environment, including all wrappers whose state must be reset with an episode.
    - `lazy`: whether to skip resets that are not needed. This is faster if resets are expensive, as
        with random initial states, and episodes end at the same time. The results are the same,
        but a lazy step does not support reverse-mode differentiation.

    **Raises:** `ValueError` for a wrong nesting.
    """

    env: Environment
    lazy: bool = eqx.field(static=True)

    def __init__(self, env: Environment | VectorEnvironment, lazy: bool = False):
        self.lazy = lazy
        self.env = check_single_env(env, "AutoReset(env)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError("One AutoReset is enough: AutoReset(env).")
        for kind, more in ((ShapedReward, ""), (Scheduled, "where, ")):
            if contains_wrapper(self.env, kind):
                raise ValueError(
                    f"{kind.__name__} must be outside AutoReset, which would restart its schedule "
                    f"with every episode: {kind.__name__}(AutoReset(env), {more}schedule)."
                )

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, state = self.env.reset(key)
        check_leading((self.num_agents,), observation=observation)
        check_state(unwrap(self.env), unwrap_state(state))
        return observation, state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        step_key, reset_key = jax.random.split(key)
        timestep, stepped = step_env(self.env, step_key, state, action)
        choose = batched_cond if self.lazy else select
        arrays = choose(
            timestep.done,
            lambda env, key, stepped: eqx.filter(env.reset(key)[1], eqx.is_array_like),
            lambda env, key, stepped: eqx.filter(stepped, eqx.is_array_like),
            self.env,
            reset_key,
            stepped,
        )
        state = eqx.combine(arrays, stepped)  # other leaves, such as functions, never change
        observation = self.env.observe(state)
        check_leading((self.num_agents,), observation=observation)
        return dataclasses.replace(timestep, observation=observation), state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state)


@final
class StepCountState(AbstractWrapperState):
    """The number of steps in this episode so far, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class TimeLimit(AbstractWrapper):
    """Truncates an episode after `limit` steps.

    It sets `truncated` on that step. A time limit belongs to the experiment, not to the task, so
    the state after it still has a value (Pardo et al. 2018, "Time Limits in Reinforcement
    Learning"). If an agent terminates on the same step, both `terminated` and `truncated` are true:
    `terminated` takes precedence, and the learner does not bootstrap. Of two nested limits, the
    shorter limit applies.

    ```python
    from eqgrid import TimeLimit, make

    env = TimeLimit(make("goals"), 20)
    ```

    **Arguments:**

    - `env`: a single environment, not yet inside `AutoReset` or `LogEpisodes`.
    - `limit`: the number of steps, at least 1. It is an array leaf, so that Modules with different
        limits can be batched.

    **Raises:** `ValueError` for a wrong nesting or a limit below 1. A traced limit is not checked.
    """

    env: Environment
    limit: Int[Array, ""]

    def __init__(self, env: Environment | VectorEnvironment, limit: Int[ArrayLike, ""]):
        self.env = check_single_env(env, "TimeLimit(env, limit)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError(
                "TimeLimit must be inside AutoReset, which would miss the truncation: "
                "AutoReset(TimeLimit(env, limit))."
            )
        if contains_wrapper(self.env, LogEpisodes):
            raise ValueError(
                "TimeLimit must be inside LogEpisodes, which would miss the truncation: "
                "LogEpisodes(TimeLimit(env, limit))."
            )
        needs = f"TimeLimit needs a limit from 1 to {MAX_STEPS:,} steps"
        self.limit = as_number(limit, int, lambda x: 1 <= x <= MAX_STEPS, needs)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, env_state = self.env.reset(key)
        return observation, StepCountState(env_state=env_state, count=jnp.zeros((), dtype=int))

    def step(
        self, key: PRNGKeyArray, state: StepCountState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, StepCountState]:
        check_own_state(self, StepCountState, state, count=())
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        count = state.count + 1
        timestep = dataclasses.replace(
            timestep, truncated=timestep.truncated | (count >= self.limit)
        )
        return timestep, StepCountState(env_state=env_state, count=count)

    def observe(self, state: StepCountState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, StepCountState, state, count=())
        return self.env.observe(state.env_state)
