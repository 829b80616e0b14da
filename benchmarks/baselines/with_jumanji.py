"""jumanji's LevelBasedForaging and RobotWarehouse, with jumanji's wrapper for automatic resets.

Of its observations, only `agents_view` is returned, and not the action mask, which these worlds do
not have in eqgrid.
"""

# pyright: reportMissingImports=false

from typing import Any

import jax
from jumanji.environments.routing.lbf import generator as field_generators
from jumanji.environments.routing.lbf.env import LevelBasedForaging
from jumanji.environments.routing.robot_warehouse import generator as warehouse_generators
from jumanji.environments.routing.robot_warehouse.env import RobotWarehouse
from jumanji.wrappers import VmapAutoResetWrapper

SIZES = {"tiny": (1, 3)}
"""Rows and columns of blocks of shelves."""


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    choose = {"foraging": _foraging, "warehouse": _warehouse}
    env = VmapAutoResetWrapper(choose[spec["world"]](**spec["options"]))

    def reset(params: Any, keys: jax.Array) -> Any:
        return env.reset(keys)[0]

    def step(params: Any, keys: jax.Array, states: Any, actions: jax.Array) -> Any:
        states, timesteps = env.step(states, actions)
        return timesteps.observation.agents_view, timesteps.reward, states

    return (), reset, step


def _foraging(size: int, num_agents: int, num_food: int, horizon: int, observation: str) -> Any:
    generator = field_generators.RandomGenerator(
        grid_size=size, fov=size, num_agents=num_agents, num_food=num_food, max_agent_level=2
    )
    return LevelBasedForaging(generator, time_limit=horizon, grid_observation=observation == "grid")


def _warehouse(
    size: str, num_agents: int, num_requests: int, sensor_range: int, horizon: int
) -> Any:
    rows, columns = SIZES[size]
    generator = warehouse_generators.RandomGenerator(
        shelf_rows=rows,
        shelf_columns=columns,
        column_height=8,
        num_agents=num_agents,
        sensor_range=sensor_range,
        request_queue_size=num_requests,
    )
    return RobotWarehouse(generator, time_limit=horizon)
