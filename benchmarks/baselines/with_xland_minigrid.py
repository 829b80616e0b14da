"""Rooms of MiniGrid in xland-minigrid, with its wrapper for automatic resets in the same step.

It has no action that does nothing, and takes the first one instead.
"""

# pyright: reportMissingImports=false

from typing import Any

import jax
import xminigrid
from xminigrid.wrappers import GymAutoResetWrapper

ROOMS = {
    "empty": "MiniGrid-Empty-8x8",
    "doorkey": "MiniGrid-DoorKey-8x8",
    "fourrooms": "MiniGrid-FourRooms",
}


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    env, settings = xminigrid.make(ROOMS[spec["options"]["layout"]])
    env = GymAutoResetWrapper(env)

    def reset(params: Any, keys: jax.Array) -> Any:
        return jax.vmap(env.reset, (None, 0))(settings, keys)

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        actions = actions[:, 0] % env.num_actions(settings)
        states = jax.vmap(env.step, (None, 0, 0))(settings, states, actions)
        return states.observation, states.reward, states

    return (), reset, step
