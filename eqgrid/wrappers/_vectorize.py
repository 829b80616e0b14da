"""Vectorize: a batch of copies of one environment."""

from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from .._checks import as_count, check_leading, check_state, check_timestep
from .._env import AbstractEnv, AbstractVectorEnv, TimeStep, unwrap, unwrap_state
from .._spaces import AbstractSpace
from ..typing import PyTree
from ._nesting import check_single_env


@final
class Vectorize(AbstractVectorEnv):
    """Runs `num_envs` copies of an environment under one `eqx.filter_vmap`.

    It separates wrappers of a single environment (inside) from wrappers of a vector environment
    (outside). The copies share the parameters of `env`; their keys, states and timesteps get a
    leading `envs` axis. `AutoReset` is not required: an environment without it is stepped on after
    the end of its episode.

    ```python
    import jax

    from eqgrid import AutoReset, Vectorize, make

    envs = Vectorize(AutoReset(make("overcooked", observation="features")), 64)
    observation, state = envs.reset(jax.random.key(0))
    print(observation.shape)  # (64, 2, 97): envs, agents, features
    ```

    **Arguments:**

    - `env`: a single environment.
    - `num_envs`: the number of copies, at least 1.

    **Raises:** `ValueError` for a vector environment, or if `num_envs` is not a positive integer.
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
        check_leading((self.num_envs, self.num_agents), observation=observation)
        check_state(unwrap(self.env), unwrap_state(state))
        return observation, state

    @eqx.filter_jit  # so that a program with several calls of `step` traces the environment once
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "envs agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        leading = (self.num_envs, self.num_agents)
        check_leading(leading, action=action)
        keys = jax.random.split(key, self.num_envs)
        timestep, state = eqx.filter_vmap(self.env.step)(keys, state, action)
        check_timestep(leading, timestep)
        return timestep, state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return eqx.filter_vmap(self.env.observe, axis_size=self.num_envs)(state)
