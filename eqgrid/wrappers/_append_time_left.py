"""AppendTimeLeft: adds the remaining time of the episode to each observation."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray, Shaped

from .._checks import MAX_STEPS, as_number
from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, AbstractWrapperState, TimeStep
from .._observed import map_observation, split_mask
from .._types import PyTree
from ._append_vector import append_vector
from ._auto_reset import AbstractAutoReset
from ._nesting import check_single_env, contains_wrapper


@final
class AppendTimeLeftState(AbstractWrapperState):
    """The number of steps in this episode so far, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class AppendTimeLeft(AbstractWrapper):
    """Appends the fraction of the episode that is left to the last axis of each observation.

    It falls linearly from 1 at the reset to 0 after `horizon` steps, and stays there, so that
    values and policies can depend on the remaining time (Pardo et al. 2018, "Time Limits in
    Reinforcement Learning"). `agents features` becomes `agents features+1`.

    ```python
    from eqgrid import AppendTimeLeft, make

    env = AppendTimeLeft(make("overcooked", observation="features", horizon=400), 400)
    ```

    **Arguments:**

    - `env`: a single environment, not yet inside `AutoReset`, whose observation has only
        floating-point arrays, each with an axis after `agents`.
    - `horizon`: the number of steps of an episode, at least 1. It is an array leaf, so that Modules
        with different horizons can be batched.

    **Raises:** `ValueError` for a wrong nesting, a horizon below 1, or another observation. A
    traced horizon is not checked.
    """

    env: AbstractEnv
    horizon: Int[Array, ""]

    def __init__(self, env: AbstractEnv | AbstractVectorEnv, horizon: Int[ArrayLike, ""]):
        self.env = check_single_env(env, "AppendTimeLeft(env, horizon)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError(
                "AppendTimeLeft must be inside AutoReset, which restarts its count: "
                "AutoReset(AppendTimeLeft(env, horizon))."
            )
        observation, _ = eqx.filter_eval_shape(self.env.reset, jax.random.key(0))
        for leaf in jax.tree.leaves(split_mask(observation)[0]):
            if len(leaf.shape) < 2 or not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise ValueError(
                    "AppendTimeLeft needs observations of floating-point numbers, with an axis "
                    f"after `agents`, but one array is {leaf.dtype}{list(leaf.shape)}."
                )
        needs = f"AppendTimeLeft needs a horizon from 1 to {MAX_STEPS:,} steps"
        self.horizon = as_number(horizon, int, lambda x: 1 <= x <= MAX_STEPS, needs)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, env_state = self.env.reset(key)
        state = AppendTimeLeftState(env_state=env_state, count=jnp.zeros((), dtype=int))
        return self._append(observation, state.count), state

    def step(
        self, key: PRNGKeyArray, state: AppendTimeLeftState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, AppendTimeLeftState]:
        timestep, env_state = self.env.step(key, state.env_state, action)
        count = state.count + 1
        timestep = dataclasses.replace(
            timestep,
            observation=self._append(timestep.observation, count),
            final_observation=self._append(timestep.final_observation, count),
        )
        return timestep, AppendTimeLeftState(env_state=env_state, count=count)

    def observe(self, state: AppendTimeLeftState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self._append(self.env.observe(state.env_state), state.count)

    def _append(
        self, observation: PyTree[Shaped[Array, "agents ..."]], count: Int[Array, ""]
    ) -> PyTree[Shaped[Array, "agents ..."]]:
        left = jnp.maximum(self.horizon - count, 0) / self.horizon
        return map_observation(
            lambda seen: jax.tree.map(lambda x: append_vector(x, left.astype(x.dtype)[None]), seen),
            observation,
        )
