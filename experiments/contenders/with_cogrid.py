"""CoGrid's JAX backend, with a reset where an episode ends, as it has none of its own."""

from typing import Any

import jax
import jax.numpy as jnp
from cogrid.envs import registry  # pyright: ignore[reportMissingImports]

LAYOUTS = {
    "cramped": "CrampedRoom",
    "asymmetric": "AsymmetricAdvantages",
    "ring": "CoordinationRing",
    "forced": "ForcedCoordination",
    "circuit": "CounterCircuit",
}


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = registry.make(f"Overcooked-{LAYOUTS[spec['layout']]}-V0", backend="jax")
    env.reset(seed=0)

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.jax_reset)(keys)[1]

    def one_step(key: jax.Array, state: Any, action: jax.Array) -> Any:
        actions = {agent: action[i] for i, agent in enumerate(env.possible_agents)}
        observation, stepped, reward, _, truncated, _ = env.jax_step(key, state, actions)
        fresh_observation, fresh, _ = env.jax_reset(key)
        over = truncated[env.possible_agents[0]]
        observation, state = jax.tree.map(
            lambda new, old: jnp.where(over, new, old),
            (fresh_observation, fresh),
            (observation, stepped),
        )
        return observation, reward, state

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        return jax.vmap(one_step)(keys, states, actions)

    return (), reset, step
