"""Randomly generated mazes in which every agent can reach every flag."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._checks import as_probability, check_whole
from ...grid import (
    AbstractGenerator,
    Layout,
    LayoutError,
    check_generator,
    count_next_to,
    draw_maze,
    empty_world,
    reach,
)
from ._goals import KINDS


@final
class GeneratedMazes(AbstractGenerator):
    """Generates mazes of fixed size.

    A maze is kept if all of its floor is connected, if there is room for all agents and flags, and
    if there is a crossing at which two agents can pass each other.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    loops: Float[Array, ""]
    example: Layout

    def __init__(
        self, height: int = 9, width: int = 9, *, num_agents: int = 2, loops: float | int = 0.3
    ):
        """**Arguments:**

        - `height`, `width`: rows and columns of the grid, walls included; preferably odd.
        - `num_agents`: the number of agents.
        - `loops`: the probability that each further door is open; with 0 there is exactly one path
            between any two rooms.

        **Raises:** `ValueError` (its subclass `LayoutError` for most arguments) when an argument is
        invalid, or no usable maze is found.
        """
        check_whole(height=height, width=width, num_agents=num_agents)
        if not (5 <= height <= 127 and 5 <= width <= 127):
            raise LayoutError(f"A maze has 5 to 127 rows and columns, not {height} and {width}.")
        if num_agents < 1:
            raise LayoutError(f"A maze needs at least 1 agent, not {num_agents}.")
        self.height, self.width, self.num_agents = height, width, num_agents
        self.loops = as_probability(loops)
        start = empty_world(KINDS, (height, width), np.zeros((num_agents, 2), np.int8))
        self.example = Layout(jnp.zeros((height, width), jnp.uint8), start, None, KINDS)
        self.example = check_generator(self, "ask for larger mazes or fewer agents")

    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        maze_key, start_key = jax.random.split(key)
        floor = draw_maze(maze_key, self.height, self.width, self.loops)
        score = jnp.where(floor, jax.random.uniform(start_key, floor.shape), -1.0)
        _, cells = jax.lax.top_k(score.reshape(-1), self.num_agents)
        position = jnp.stack(jnp.divmod(cells, self.width), axis=-1).astype(jnp.int8)
        start = self.example.start
        bodies = dataclasses.replace(start.bodies, position=position)
        tiles = jnp.where(floor, jnp.uint8(0), jnp.uint8(KINDS.wall))
        layout = Layout(tiles, dataclasses.replace(start, bodies=bodies), None, KINDS)
        return layout, self._is_usable(floor)

    def _is_usable(self, floor: Bool[Array, "height width"]) -> Bool[Array, ""]:
        first = jnp.stack(jnp.unravel_index(jnp.argmax(floor), floor.shape))
        connected = (reach(floor, first) == floor).all()
        room = floor.sum() >= 2 * self.num_agents + 2
        return connected & room & (floor & (count_next_to(floor) >= 3)).any()
