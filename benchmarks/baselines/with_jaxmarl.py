"""JaxMARL's Overcooked, as its users run it: `vmap(env.step)`, which resets automatically."""

# pyright: reportMissingImports=false

from typing import Any

import jax
import jaxmarl
from jaxmarl.environments.overcooked import overcooked_layouts

LAYOUTS = {
    "cramped": "cramped_room",
    "asymmetric": "asymm_advantages",
    "ring": "coord_ring",
    "forced": "forced_coord",
    "circuit": "counter_circuit",
}


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    layout = LAYOUTS[spec["options"]["layout"]]
    return wrap(jaxmarl.make("overcooked", layout=overcooked_layouts[layout]))


def wrap(env: Any) -> tuple[Any, Any, Any]:
    """A JaxMARL environment as `(params, reset, step)` of a batch."""

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.reset)(keys)[1]

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        named = {agent: actions[:, i] for i, agent in enumerate(env.agents)}
        observations, states, rewards, _, _ = jax.vmap(env.step)(keys, states, named)
        return observations, rewards, states

    return (), reset, step
