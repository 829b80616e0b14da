"""AppendAgentId: adds each agent's index to its observation."""

import dataclasses
import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, Shaped

from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, TimeStep
from .._observed import map_observation, split_mask
from .._types import PyTree
from ._append_vector import append_vector
from ._nesting import check_single_env, contains_wrapper


@final
class AppendAgentId(AbstractWrapper):
    """Appends the one-hot index of each agent to the last axis of its observation.

    `agents features` becomes `agents features+agents`; an image `agents height width channels` gets
    one constant plane per agent. The dtype stays the same. If the observation has several arrays,
    each of them is extended.

    ```python
    from eqgrid import AppendAgentId, make

    env = AppendAgentId(make("overcooked", observation="features"))
    ```

    **Arguments:**

    - `env`: a single environment; every array of its observation has an axis after `agents`.

    **Raises:** `ValueError` for a wrong nesting, or when an array of the observation has no axis
    after `agents`.
    """

    env: AbstractEnv

    def __init__(self, env: AbstractEnv | AbstractVectorEnv):
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
        return _append(observation), state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        timestep, state = self.env.step(key, state, action)
        timestep = dataclasses.replace(
            timestep,
            observation=_append(timestep.observation),
            final_observation=_append(timestep.final_observation),
        )
        return timestep, state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return _append(self.env.observe(state))


def _append(
    observation: PyTree[Shaped[Array, "agents ..."]],
) -> PyTree[Shaped[Array, "agents ..."]]:
    return map_observation(functools.partial(jax.tree.map, _append_leaf), observation)


def _append_leaf(
    leaf: Shaped[Array, "agents *middle features"],
) -> Shaped[Array, "agents *middle features+agents"]:
    identity = jnp.eye(leaf.shape[0], dtype=leaf.dtype)
    return jax.vmap(append_vector)(leaf, identity)
