"""TimeLimit: truncates an episode after a number of steps."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray, Shaped

from .._checks import MAX_STEPS, as_number
from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, AbstractWrapperState, TimeStep
from ..typing import PyTree
from ._auto_reset import AbstractAutoReset
from ._log_episodes import LogEpisodes
from ._nesting import check_single_env, contains_wrapper


@final
class StepCountState(AbstractWrapperState):
    """The number of steps in this episode so far, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class TimeLimit(AbstractWrapper):
    """Truncates an episode after `limit` steps.

    It sets `truncated` on that step, and does not change it before. A time limit belongs to the
    experiment, not to the task, so the state after it still has a value (Pardo et al. 2018, "Time
    Limits in Reinforcement Learning"). If an agent terminates on the same step, both `terminated`
    and `truncated` are true; `terminated` takes precedence, and the learner does not bootstrap. If
    one limit is nested in another, the shorter one applies.

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

    env: AbstractEnv
    limit: Int[Array, ""]

    def __init__(self, env: AbstractEnv | AbstractVectorEnv, limit: Int[ArrayLike, ""]):
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
        timestep, env_state = self.env.step(key, state.env_state, action)
        count = state.count + 1
        timestep = dataclasses.replace(
            timestep, truncated=timestep.truncated | (count >= self.limit)
        )
        return timestep, StepCountState(env_state=env_state, count=count)

    def observe(self, state: StepCountState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state.env_state)
