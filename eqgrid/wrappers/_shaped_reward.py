"""A linear schedule, and two wrappers that apply schedules: `Scheduled` and `ShapedReward`."""

import dataclasses
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, Real, Shaped

from .._checks import as_number, is_finite
from .._env import (
    AbstractWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
)
from .._env_checks import check_own_state, check_single_env, info_entry, step_env
from ..typing import PyTree
from ._nesting import iter_wrappers


@final
class LinearSchedule(eqx.Module):
    """A schedule that changes linearly from `start` to `end` in `steps` steps, and stays at `end`.

    Its numbers are array leaves: changing them does not recompile a program, and `eqx.filter_vmap`
    can map over a batch of schedules. An optax schedule is a closure over its numbers, so changing
    them recompiles.

    ```python
    import jax.numpy as jnp

    from eqgrid import LinearSchedule

    schedule = LinearSchedule(1.0, 0.0, 1000)
    print(schedule(jnp.asarray(250)))  # 0.75
    ```

    **Arguments:**

    - `start`: the value at a count of 0.
    - `end`: the value from a count of `steps` on.
    - `steps`: the length of the change, above 0. `ShapedReward` counts the steps of one
        environment.

    **Raises:** `ValueError` when a number is not finite, or `steps` is not above 0. Traced numbers
    are not checked.
    """

    start: Float[Array, ""]
    end: Float[Array, ""]
    steps: Float[Array, ""]

    def __init__(
        self, start: Real[ArrayLike, ""], end: Real[ArrayLike, ""], steps: Real[ArrayLike, ""]
    ):
        needs = "LinearSchedule needs a finite start and a finite end"
        self.start, self.end = (as_number(x, float, is_finite, needs) for x in (start, end))
        needs = "LinearSchedule needs a finite number of steps above 0"
        self.steps = as_number(steps, float, lambda x: x > 0 and is_finite(x), needs)

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        share = jnp.minimum(count / self.steps, 1)
        return share * self.end + (1 - share) * self.start


@final
class ScheduledState(AbstractWrapperState):
    """The number of steps since the wrapper's `reset`, over all episodes, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class Scheduled(AbstractWrapper):
    """Sets a number of the inner environment, such as the share of episodes with a partner, to
    `schedule(count)`.

    `count` is the number of steps of one environment over all its episodes, including the current
    step. A batch of `n` environments takes `n` steps while `count` rises by 1. `count` must not
    restart with an episode, so place this wrapper outside `AutoReset`.

    ```python
    from eqgrid import AutoReset, LinearSchedule, RandomPartner, OneOf, Scheduled, WithPartner, make

    world = make("overcooked")
    one = AutoReset(WithPartner(world, OneOf([RandomPartner(world.action_space)])))
    env = Scheduled(one, lambda env: env.env.share, LinearSchedule(0.0, 1.0, 10_000))
    ```

    **Arguments:**

    - `env`: a single environment.
    - `where`: a function that picks the number, a scalar array, out of `env`, as in
        `equinox.tree_at`. Environments with the same function share compiled programs, and a
        module-level function can be pickled.
    - `schedule`: the number as a function of `count` (an Int scalar), for example a
        `LinearSchedule`.

    **Raises:** `ValueError` for a wrong nesting, or if `where` picks no scalar array; `TypeError`
    if `env` is no environment.
    """

    env: Environment
    where: Callable[[PyTree], PyTree] = eqx.field(static=True)
    schedule: Callable[[Int[Array, ""]], ArrayLike]

    def __init__(
        self,
        env: Environment | VectorEnvironment,
        where: Callable[[PyTree], PyTree],
        schedule: Callable[[Int[Array, ""]], ArrayLike],
    ):
        self.env = check_single_env(env, "Scheduled(env, where, schedule)")
        number = where(self.env)
        if not isinstance(number, jax.Array) or number.shape != ():
            raise ValueError(
                "Scheduled needs a function that picks a scalar array out of the environment, but "
                f"it returns {number!r:.60}."
            )
        self.where, self.schedule = where, schedule

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        count = jnp.zeros((), dtype=int)
        observation, env_state = self._scheduled_env(count).reset(key)
        return observation, ScheduledState(env_state=env_state, count=count)

    def step(
        self, key: PRNGKeyArray, state: ScheduledState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, ScheduledState]:
        check_own_state(self, ScheduledState, state, count=())
        count = state.count + 1
        env = self._scheduled_env(count)
        timestep, env_state = step_env(env, key, state.env_state, action)
        return timestep, ScheduledState(env_state=env_state, count=count)

    def observe(self, state: ScheduledState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, ScheduledState, state, count=())
        return self._scheduled_env(state.count).observe(state.env_state)

    def _scheduled_env(self, count: Int[Array, ""]) -> Environment:
        """The environment with the number that the schedule sets after `count` steps."""
        # A schedule is user code; optax's own schedules mix integers and floats.
        with jax.numpy_dtype_promotion("standard"):
            number = jnp.asarray(self.schedule(count), dtype=self.where(self.env).dtype)
        return eqx.tree_at(self.where, self.env, number)


@final
class ShapedRewardState(AbstractWrapperState):
    """The number of steps since the wrapper's `reset`, over all episodes, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class ShapedReward(AbstractWrapper):
    """Adds a weighted shaping reward: `reward + schedule(count) * info[key]`.

    `count` is the number of earlier steps of one environment over all its episodes. A batch of `n`
    environments takes `n` steps while `count` rises by 1. `count` must not restart with an episode,
    so place this wrapper outside `AutoReset`. It also goes outside `LogEpisodes`, which logs the
    raw reward.

    ```python
    from eqgrid import AutoReset, LinearSchedule, LogEpisodes, ShapedReward, make

    one = AutoReset(LogEpisodes(make("overcooked")))
    env = ShapedReward(one, LinearSchedule(1.0, 0.0, 10_000))
    ```

    **Arguments:**

    - `env`: a single environment whose `info[key]` is a Float of shape `agents`.
    - `schedule`: a constant weight, or the weight as a function of `count` (an Int scalar), for
        example a `LinearSchedule` or any optax schedule.
    - `key`: the entry of `info` with the shaping reward.

    **Raises:** `ValueError` for a wrong nesting, if `info[key]` is missing or has another shape or
    dtype, or if `schedule` is neither callable nor a finite number; `TypeError` if `env` is no
    environment.
    """

    env: Environment
    schedule: Callable[[Int[Array, ""]], ArrayLike]
    key: str = eqx.field(static=True)

    def __init__(
        self,
        env: Environment | VectorEnvironment,
        schedule: Callable[[Int[Array, ""]], ArrayLike] | Real[ArrayLike, ""],
        key: str = "shaped_reward",
    ):
        self.env = check_single_env(env, "ShapedReward(env, schedule)")
        if any(
            isinstance(layer, ShapedReward) and layer.key == key for layer in iter_wrappers(env)
        ):
            raise ValueError(
                f"This environment already has a ShapedReward for info[{key!r}]. Use only one: "
                "ShapedReward(env, schedule)."
            )
        entry = info_entry(self.env, key, "ShapedReward")
        if entry.shape != (env.num_agents,) or not jnp.issubdtype(entry.dtype, jnp.floating):
            raise ValueError(
                f"ShapedReward needs one float per agent in info[{key!r}], "
                f"but finds {entry.dtype} of shape {entry.shape}."
            )
        if not callable(schedule):
            needs = "ShapedReward needs a schedule, or a finite number"
            schedule = _Constant(as_number(schedule, float, is_finite, needs))
        self.schedule = schedule
        self.key = key

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, env_state = self.env.reset(key)
        return observation, ShapedRewardState(env_state=env_state, count=jnp.zeros((), dtype=int))

    def step(
        self, key: PRNGKeyArray, state: ShapedRewardState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, ShapedRewardState]:
        check_own_state(self, ShapedRewardState, state, count=())
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        # A schedule is user code; optax's own schedules mix integers and floats.
        with jax.numpy_dtype_promotion("standard"):
            weight = jnp.asarray(self.schedule(state.count), dtype=timestep.reward.dtype)
        reward = timestep.reward + weight * timestep.info[self.key].astype(timestep.reward.dtype)
        timestep = dataclasses.replace(timestep, reward=reward)
        return timestep, ShapedRewardState(env_state=env_state, count=state.count + 1)

    def observe(self, state: ShapedRewardState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, ShapedRewardState, state, count=())
        return self.env.observe(state.env_state)


@final
class _Constant(eqx.Module):
    weight: Float[Array, ""]

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        return self.weight
