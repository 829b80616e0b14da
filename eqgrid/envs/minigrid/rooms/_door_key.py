"""A room that a wall with a locked door splits."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from ....grid import NOTHING, Direction
from .._kinds import COLOURS, KEY, LOCKED, WALL, door_code
from ._room import (
    AbstractSquareRoom,
    Drawn,
    check_side,
    join_others,
    pick,
    pick_two,
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
        shares_key, others_key = jax.random.split(key)
        shares = jax.random.uniform(shares_key, (5,))
        size, height = self.size, self.size - 2
        split = 2 + pick(shares[0], size - 4)
        left = height * (split - 1)  # the number of cells left of the wall, column by column
        first, place = (
            1 + jnp.stack([number % height, number // height])
            for number in pick_two(shares[1:3], left)
        )
        objects = with_goal(size)
        objects = objects.at[:, split].set(jnp.uint8(WALL))
        objects = put(objects, door_code(_YELLOW, LOCKED), 1 + pick(shares[3], size - 3), split)
        objects = put(objects, KEY + _YELLOW, *place)
        turned = pick(shares[4], len(Direction)).astype(jnp.int8)
        free = (objects == NOTHING) & (jnp.arange(size, dtype=jnp.int32) < split)[None, :]
        first = first.astype(jnp.int8)
        return Drawn(objects, *join_others(others_key, free, first, turned, num_agents))
