"""Four rooms with a gap in each wall between them."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, PRNGKeyArray

from ....grid import NOTHING, Direction
from .._kinds import GOAL, WALL
from ._room import AbstractSquareRoom, Drawn, check_side, join_others, pick, pick_two, put, walled


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
        shares_key, others_key = jax.random.split(key)
        shares = jax.random.uniform(shares_key, (7,))
        middle = self.size // 2
        side = middle - 1  # of each room
        walls = walled(self.shape)
        walls[middle, :] = walls[:, middle] = WALL
        begins = np.asarray([1, 1, middle + 1, middle + 1], np.int32)
        along = begins + jax.vmap(pick, (0, None))(shares[:4], side)
        down = np.asarray([True, False, True, False])
        gaps = jnp.stack([jnp.where(down, along, middle), jnp.where(down, middle, along)], axis=1)
        objects = jnp.asarray(walls).at[gaps[:, 0], gaps[:, 1]].set(jnp.uint8(NOTHING))
        place, goal = (
            self._cell(number, gaps) for number in pick_two(shares[4:6], 4 * side**2 + 4)
        )
        objects = put(objects, GOAL, *goal)
        turned = pick(shares[6], len(Direction)).astype(jnp.int8)
        free, place = objects == NOTHING, place.astype(jnp.int8)
        return Drawn(objects, *join_others(others_key, free, place, turned, num_agents))

    def _cell(self, number: Int32[Array, ""], gaps: Int32[Array, "4 2"]) -> Int32[Array, "2"]:
        """The cells by number: first those of the rooms, and then the gaps."""
        side = self.size // 2 - 1
        room, inside = jnp.divmod(number, side**2)
        corner = 1 + jnp.stack(jnp.divmod(room, 2)) * (side + 1)
        gap = gaps[jnp.clip(number - 4 * side**2, 0, 3)]
        return jnp.where(room < 4, corner + jnp.stack(jnp.divmod(inside, side)), gap)
