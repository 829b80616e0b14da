"""Wrappers that append the agent's index or the remaining time to observations."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, PRNGKeyArray, Shaped

from .._checks import MAX_STEPS, as_number
from .._env import AbstractWrapper, Environment, TimeStep, VectorEnvironment
from .._env_checks import check_own_state, check_single_env, step_env
from .._spaces import map_observation, split_mask
from ..typing import PyTree
from ._episode_ends import AbstractAutoReset, StepCountState
from ._nesting import contains_wrapper


def append_vector(
    x: Shaped[Array, "*leading features"], vector: Shaped[Array, " more"]
) -> Shaped[Array, "*leading features+more"]:
    """Appends a vector to the last axis of an array, broadcast over all other axes."""
    repeated = jnp.broadcast_to(vector, (*x.shape[:-1], *vector.shape))
    return jnp.concatenate([x, repeated], axis=-1)


@final
class AppendAgentId(AbstractWrapper):
    """Appends the one-hot index of each agent to the last axis of its observation.

    `agents features` becomes `agents features+agents`, and an image `agents height width channels`
    gets one constant plane per agent. The dtype stays the same. If the observation has several
    arrays, the wrapper extends each of them.

    ```python
    from eqgrid import AppendAgentId, make

    env = AppendAgentId(make("overcooked", observation="features"))
    ```

    **Arguments:**

    - `env`: a single environment; every array of its observation has an axis after `agents`.

    **Raises:** `ValueError` for a wrong nesting, or when an array of the observation has no axis
    after `agents`.
    """

    env: Environment

    def __init__(self, env: Environment | VectorEnvironment):
        self.env = check_single_env(env, "AppendAgentId(env)")
        if contains_wrapper(self.env, AppendAgentId):
            raise ValueError("One AppendAgentId is enough: AppendAgentId(env).")
        observation, _ = eqx.filter_eval_shape(self.env.reset, jax.random.key(0))
        if any(len(leaf.shape) < 2 for leaf in jax.tree.leaves(split_mask(observation)[0])):
            raise ValueError(
                "AppendAgentId needs an axis after `agents` to append to, but an array of this "
                "observation has one number per agent: return it as `agents 1`."
            )

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, state = self.env.reset(key)
        return _append_agent_id(observation), state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        timestep, state = step_env(self.env, key, state, action)
        timestep = dataclasses.replace(
            timestep,
            observation=_append_agent_id(timestep.observation),
            final_observation=_append_agent_id(timestep.final_observation),
        )
        return timestep, state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return _append_agent_id(self.env.observe(state))


def _append_agent_id(
    observation: PyTree[Shaped[Array, "agents ..."]],
) -> PyTree[Shaped[Array, "agents ..."]]:
    def append(x: Shaped[Array, "agents ..."]) -> Shaped[Array, "agents ..."]:
        return jax.vmap(append_vector)(x, jnp.eye(len(x), dtype=x.dtype))

    return map_observation(lambda seen: jax.tree.map(append, seen), observation)


@final
class AppendTimeLeft(AbstractWrapper):
    """Appends the fraction of the episode that is left to the last axis of each observation.

    Values and policies can then depend on the remaining time (Pardo et al. 2018, "Time Limits in
    Reinforcement Learning"). The fraction falls linearly from 1 at the reset to 0 after `horizon`
    steps, and stays 0. `agents features` becomes `agents features+1`.

    ```python
    from eqgrid import AppendTimeLeft, make

    env = AppendTimeLeft(make("overcooked", observation="features", horizon=400), 400)
    ```

    **Arguments:**

    - `env`: a single environment, not yet inside `AutoReset`, whose observation has only
        floating-point arrays, each with an axis after `agents`.
    - `horizon`: the number of steps of an episode, at least 1. It is an array leaf, so that Modules
        with different horizons can be batched.

    **Raises:** `ValueError` for a wrong nesting, a horizon below 1, or any other observation. A
    traced horizon is not checked.
    """

    env: Environment
    horizon: Int[Array, ""]

    def __init__(self, env: Environment | VectorEnvironment, horizon: Int[ArrayLike, ""]):
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
        state = StepCountState(env_state=env_state, count=jnp.zeros((), dtype=int))
        return self._append(observation, state.count), state

    def step(
        self, key: PRNGKeyArray, state: StepCountState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, StepCountState]:
        check_own_state(self, StepCountState, state, count=())
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        count = state.count + 1
        timestep = dataclasses.replace(
            timestep,
            observation=self._append(timestep.observation, count),
            final_observation=self._append(timestep.final_observation, count),
        )
        return timestep, StepCountState(env_state=env_state, count=count)

    def observe(self, state: StepCountState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, StepCountState, state, count=())
        return self._append(self.env.observe(state.env_state), state.count)

    def _append(
        self, observation: PyTree[Shaped[Array, "agents ..."]], count: Int[Array, ""]
    ) -> PyTree[Shaped[Array, "agents ..."]]:
        left = jnp.maximum(self.horizon - count, 0) / self.horizon
        return map_observation(
            lambda seen: jax.tree.map(lambda x: append_vector(x, left.astype(x.dtype)[None]), seen),
            observation,
        )
