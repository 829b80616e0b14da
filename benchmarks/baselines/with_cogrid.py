"""CoGrid's JAX backend, which does not reset itself: the `step` here resets it.

Its resets are expensive, so they are computed only in steps in which an episode ends.
"""

# pyright: reportMissingImports=false

from typing import Any

import jax
import jax.numpy as jnp
from cogrid.envs import registry

NAMES = {
    "cramped": "Overcooked-CrampedRoom-V0",
    "asymmetric": "Overcooked-AsymmetricAdvantages-V0",
    "ring": "Overcooked-CoordinationRing-V0",
    "forced": "Overcooked-ForcedCoordination-V0",
    "circuit": "Overcooked-CounterCircuit-V0",
    "grounded_coord_simple": "OvercookedV2-GroundedCoordSimple-V0",
    "small": "SearchRescue-Test-V0",  # its only site
}
"""The name in CoGrid of each layout of eqgrid."""


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = registry.make(NAMES[spec["options"]["layout"]], backend="jax")
    env.reset(seed=0)

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.jax_reset)(keys)[1]

    def one_step(key: jax.Array, state: Any, action: jax.Array) -> Any:
        actions = {agent: action[i] for i, agent in enumerate(env.possible_agents)}
        observation, stepped, reward, _, truncated, _ = env.jax_step(key, state, actions)
        return (observation, stepped), reward, truncated[env.possible_agents[0]]

    def start_over(key: jax.Array, over: jax.Array, ended: Any) -> Any:
        fresh = env.jax_reset(key)[:2]
        return jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, ended)

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        stepped, reward, over = jax.vmap(one_step)(keys, states, actions)
        observation, states = jax.lax.cond(
            over.any(),
            jax.vmap(start_over),
            lambda keys, over, stepped: stepped,
            keys,
            over,
            stepped,
        )
        return observation, reward, states

    return (), reset, step
