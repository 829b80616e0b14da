"""Four rooms with a gap in each wall between them."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ....grid import NOTHING
from .._kinds import GOAL, WALL
from ._room import (
    AbstractSquareRoom,
    Drawn,
    check_side,
    draw_cell,
    draw_directions,
    draw_number,
    join_others,
    put,
    walled,
)


@final
class FourRooms(AbstractSquareRoom):
    """Four rooms; agents and the goal are anywhere (`FourRoomsEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns, walls included; odd. It is 19 in the reference.
    """

    size: int = eqx.field(static=True, default=19)

    def __check_init__(self):
        check_side(self.size, 5, "The size of four rooms", odd=True)

    @property
    def max_steps(self) -> int:
        return 100

    @property
    def most_agents(self) -> int:
        return 4 * (self.size // 2 - 1) ** 2 + 4 - 1

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        gaps_key, first_key, turn_key, goal_key, others_key = jax.random.split(key, 5)
        middle = self.size // 2
        walls = walled(self.shape)
        walls[middle, :] = walls[:, middle] = WALL
        objects = jnp.asarray(walls)
        keys = jax.random.split(gaps_key, 4)
        for number, first in enumerate((1, middle + 1)):
            along = [draw_number(keys[2 * number + i], first, first + middle - 1) for i in (0, 1)]
            objects = put(objects, NOTHING, along[0], middle)
            objects = put(objects, NOTHING, middle, along[1])
        free = objects == NOTHING
        place = draw_cell(first_key, free)
        goal = draw_cell(goal_key, free.at[place[0], place[1]].set(False))
        objects = put(objects, GOAL, *goal)
        turned = draw_directions(turn_key, 1)[0]
        poses = join_others(others_key, objects == NOTHING, place, turned, num_agents)
        return Drawn(objects, *poses)
