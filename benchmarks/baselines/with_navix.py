"""NAVIX's rooms of MiniGrid: `vmap(env.step)`, which resets automatically, as its users run it."""

# pyright: reportMissingImports=false

from typing import Any

import jax
import navix

ROOMS = {
    "empty": "Navix-Empty-8x8-v0",
    "doorkey": "Navix-DoorKey-8x8-v0",
    "fourrooms": "Navix-FourRooms-v0",
}


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env = navix.make(
        ROOMS[spec["options"]["layout"]],
        observation_fn=navix.observations.symbolic_first_person,
    )

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.reset)(keys)

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        states = jax.vmap(env.step)(states, actions[:, 0])
        return states.observation, states.reward, states

    return (), reset, step
