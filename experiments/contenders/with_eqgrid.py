"""eqgrid, with the wrappers that a rollout needs."""

from typing import Any

import equinox as eqx
import jax

from eqgrid import AutoReset
from eqgrid.envs import make


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = AutoReset(make("overcooked", layout=spec["layout"], observation=spec["observation"]))
    arrays, rest = eqx.partition(env, eqx.is_array)

    def reset(params: Any, keys: jax.Array) -> Any:
        env = eqx.combine(params, rest)
        return eqx.filter_vmap(env.reset)(keys)[1]

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        env = eqx.combine(params, rest)
        timestep, states = eqx.filter_vmap(env.step)(keys, states, actions)
        return timestep.observation, timestep.reward, states

    return arrays, reset, step
