"""Vectorize: many environments side by side."""

from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

from .._checks import as_count, check_action_shape, check_state
from .._env import AbstractEnv, AbstractVectorEnv, TimeStep, unwrap, unwrap_state
from .._spaces import AbstractSpace
from ._nesting import check_single_env


@final
class Vectorize(AbstractVectorEnv):
    """Runs `num_envs` copies of an environment under one `eqx.filter_vmap`.

    It stands between wrappers of one environment and wrappers of many. The copies share the
    parameters of `env`; their keys, states and timesteps get a leading `envs` axis. It does not
    demand `AutoReset`: an environment without one goes on past the end of its episode.

    **Arguments:**

    - `env`: one environment.
    - `num_envs`: how many copies, at least 1.

    **Raises:** `ValueError` for many environments, or for what is no number of copies.
    """

    env: AbstractEnv
    num_envs: int = eqx.field(static=True)

    def __init__(self, env: AbstractEnv | AbstractVectorEnv, num_envs: int):
        self.env = check_single_env(env, "Vectorize(env, num_envs)")
        self.num_envs = as_count(num_envs, "Vectorize needs at least 1 environment")

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents

    @property
    def action_space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], PyTree]:
        keys = jax.random.split(key, self.num_envs)
        observation, state = eqx.filter_vmap(self.env.reset)(keys)
        check_state(unwrap(self.env), unwrap_state(state))
        return observation, state

    @eqx.filter_jit  # so that a program with several steps in it traces the environment once
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "envs agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        check_action_shape(action, (self.num_envs, self.num_agents))
        keys = jax.random.split(key, self.num_envs)
        return eqx.filter_vmap(self.env.step)(keys, state, action)

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return eqx.filter_vmap(self.env.observe, axis_size=self.num_envs)(state)
