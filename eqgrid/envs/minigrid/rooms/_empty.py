"""An empty room with a goal in the lower right corner, with obstacles that move or without."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int8, PRNGKeyArray

from ....grid import NOTHING, Direction, LayoutError, draw_cells
from .._kinds import BALL
from ._room import (
    AbstractSquareRoom,
    Drawn,
    Objects,
    check_side,
    draw_directions,
    nearest_to_corner,
    with_goal,
)

_BLUE_BALL = BALL + 2


@final
class EmptyRoom(AbstractSquareRoom):
    """An empty room (`EmptyEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns, walls included.
    - `random_start`: whether agents start anywhere, instead of in the upper left corner, facing
        right.
    """

    size: int = eqx.field(static=True, default=8)
    random_start: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_side(self.size, 4, "The size of an empty room")

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def most_agents(self) -> int:
        return (self.size - 2) ** 2 - 1

    @property
    def see_through(self) -> bool:
        return True

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        objects = with_goal(self.size)
        return Drawn(objects, *_place(key, objects, num_agents, self.random_start))


@final
class DynamicObstaclesRoom(AbstractSquareRoom):
    """An empty room with blue balls that move (`DynamicObstaclesEnv`).

    **Arguments:**

    - `size`, `random_start`: as in `EmptyRoom`.
    - `obstacles`: the number of obstacles. If it is more than `size / 2 + 1`, there are `size // 2`
        of them, as in the reference.
    """

    size: int = eqx.field(static=True, default=8)
    obstacles: int = eqx.field(static=True, default=4)
    random_start: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_side(self.size, 5, "The size of a room with obstacles")
        if self.obstacles < 1:
            raise LayoutError(f"A room with obstacles has at least 1, not {self.obstacles}.")

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def most_agents(self) -> int:
        return (self.size - 2) ** 2 - 1 - self.num_obstacles

    @property
    def see_through(self) -> bool:
        return True

    @property
    def num_obstacles(self) -> int:
        return self.obstacles if self.obstacles <= self.size / 2 + 1 else self.size // 2

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        agents_key, obstacles_key = jax.random.split(key)
        objects = with_goal(self.size)
        position, direction = _place(agents_key, objects, num_agents, self.random_start)
        free = (objects == NOTHING).at[position[:, 0], position[:, 1]].set(False)
        places = draw_cells(obstacles_key, free, self.num_obstacles)
        objects = objects.at[places[:, 0], places[:, 1]].set(jnp.uint8(_BLUE_BALL))
        return Drawn(objects, position, direction, places)


def _place(
    key: PRNGKeyArray, objects: Objects, num_agents: int, at_random: bool
) -> tuple[Int8[Array, "agents 2"], Int8[Array, " agents"]]:
    free = objects == NOTHING
    if not at_random:
        east = jnp.full(num_agents, Direction.EAST, jnp.int8)
        return nearest_to_corner(free, num_agents), east
    cells_key, directions_key = jax.random.split(key)
    return draw_cells(cells_key, free, num_agents), draw_directions(directions_key, num_agents)
