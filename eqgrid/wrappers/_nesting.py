"""`Vectorize`, which turns one environment into a batch, and functions that search wrappers."""

import functools
from collections.abc import Iterator
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from .._checks import as_count, check_leading, check_state
from .._env import (
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapper,
    Environment,
    TimeStep,
    VectorEnvironment,
    unwrap,
    unwrap_state,
)
from .._env_checks import check_action, check_batch, check_single_env, step_env
from .._spaces import AbstractSpace
from ..typing import PyTree


def iter_wrappers(env: PyTree) -> Iterator[AbstractWrapper | AbstractVectorWrapper]:
    """Iterates over the wrappers around an environment, from the outermost to the innermost.

    It stops at `Vectorize`; continue with `vectorize.env` for the wrappers inside it. The leaves of
    `env` may be of any type, so it also works in the `where` of `eqx.tree_at`.
    """
    while isinstance(env, AbstractWrapper | AbstractVectorWrapper):
        yield env
        env = env.env


def contains_wrapper(env: PyTree, kind: type) -> bool:
    """Whether `env` is, or contains, a wrapper of this type; see `iter_wrappers`."""
    return any(isinstance(layer, kind) for layer in iter_wrappers(env))


@final
class Vectorize(AbstractVectorEnv):
    """Runs `num_envs` copies of an environment under one `eqx.filter_vmap`.

    It separates wrappers of a single environment (inside) from wrappers of a vector environment
    (outside). The copies share the parameters of `env`; their keys, states and timesteps get a
    leading `envs` axis. `AutoReset` is not required: an environment without it continues after
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

    **Raises:** `ValueError` for a vector environment, or if `num_envs` is not a positive integer;
    `TypeError` for another object.
    """

    env: Environment
    num_envs: int = eqx.field(static=True)

    def __init__(self, env: Environment | VectorEnvironment, num_envs: int):
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

    # With `filter_jit`, a program with several calls of `step` traces the environment only once.
    @eqx.filter_jit
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "envs agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        check_batch(self, state)
        check_action(self, action)
        keys = jax.random.split(key, self.num_envs)
        return eqx.filter_vmap(functools.partial(step_env, self.env))(keys, state, action)

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "envs agents ..."]]:
        check_batch(self, state)
        return eqx.filter_vmap(self.env.observe, axis_size=self.num_envs)(state)
