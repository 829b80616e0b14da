"""A room that a wall with a locked door splits."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ....grid import NOTHING
from .._kinds import COLOURS, KEY, LOCKED, WALL, door_code
from ._room import (
    AbstractSquareRoom,
    Drawn,
    check_side,
    draw_cell,
    draw_directions,
    draw_number,
    join_others,
    put,
    with_goal,
)

_YELLOW = COLOURS.index("yellow")


@final
class DoorKeyRoom(AbstractSquareRoom):
    """Agents and a yellow key are left of a wall with a locked door, and the goal is right of it
    (`DoorKeyEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns, walls included.
    """

    size: int = eqx.field(static=True, default=8)

    def __check_init__(self):
        check_side(self.size, 5, "The size of a room with a door and a key")

    @property
    def max_steps(self) -> int:
        return 10 * self.size**2

    @property
    def most_agents(self) -> int:
        return self.size - 3  # the left part may be one column, of which the key takes a cell

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        split_key, place_key, turn_key, door_key, key_key, others_key = jax.random.split(key, 6)
        size = self.size
        objects = with_goal(size)
        split = draw_number(split_key, 2, size - 2)
        objects = objects.at[:, split].set(jnp.uint8(WALL))
        left = (objects == NOTHING) & (jnp.arange(size, dtype=jnp.int32) < split)[None, :]
        first = draw_cell(place_key, left)
        door = draw_number(door_key, 1, size - 2)
        objects = put(objects, door_code(_YELLOW, LOCKED), door, split)
        key_cell = draw_cell(key_key, left.at[first[0], first[1]].set(False))
        objects = put(objects, KEY + _YELLOW, *key_cell)
        turned = draw_directions(turn_key, 1)[0]
        left = left & (objects == NOTHING)
        return Drawn(objects, *join_others(others_key, left, first, turned, num_agents))
