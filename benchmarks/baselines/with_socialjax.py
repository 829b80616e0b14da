"""SocialJax's commons, as its users run them: `vmap(env.step)`, which resets automatically."""

# pyright: reportMissingImports=false

from typing import Any

import jax
import socialjax

WORLDS = {"harvest": "harvest_common_open", "cleanup": "clean_up"}


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = socialjax.make(WORLDS[spec["world"]], num_agents=spec["num_agents"])

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.reset)(keys)[1]

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        chosen = [actions[:, agent] for agent in env.agents]
        observations, states, rewards, _, _ = jax.vmap(env.step)(keys, states, chosen)
        return observations, rewards, states

    return (), reset, step
