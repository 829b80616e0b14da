"""MuJoCo bodies with random actions."""

from typing import Any

import jax
from with_eqgrid import batch

from eqgrid_lab import world_settings
from eqgrid import AutoReset, LogEpisodes


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = AutoReset(LogEpisodes(world_settings("body", model=spec["world"]).build(train=True)))
    params, reset, step = batch([env], num_envs)

    def draw(key: jax.Array) -> jax.Array:
        return jax.vmap(env.action_space.sample)(jax.random.split(key, env.num_agents))

    def step_at_random(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        """Samples actions of the body, since the integers in `actions` are not in its space."""
        keys, action_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        return step(params, keys, states, jax.vmap(draw)(action_keys))

    return params, reset, step_at_random
