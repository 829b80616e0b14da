"""MuJoCo's bodies, which act at random."""

from typing import Any

import jax
from with_eqgrid import batch

from agents.runs.worlds._bodies import BodyWorld
from eqgrid import AutoReset, LogEpisodes


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = AutoReset(LogEpisodes(BodyWorld(model=spec["world"]).build(train=True)))
    params, reset, step = batch([env], num_envs)

    def draw(key: jax.Array) -> jax.Array:
        return jax.vmap(env.action_space.sample)(jax.random.split(key, env.num_agents))

    def step_at_random(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        """The numbers that were drawn beforehand are no actions of a body: it draws its own."""
        keys, action_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        return step(params, keys, states, jax.vmap(draw)(action_keys))

    return params, reset, step_at_random
