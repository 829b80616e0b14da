"""Empty rooms, rooms that walls or rivers divide, and four rooms."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, PRNGKeyArray

from ....grid import NOTHING, Direction, LayoutError, sample_cells
from .._kinds import BALL, COLOURS, GOAL, KEY, LAVA, LOCKED, WALL, door_code
from ._room import (
    AbstractSquareRoom,
    Drawn,
    Objects,
    check_side,
    join_others,
    nearest_to_corner,
    pick,
    pick_two,
    put,
    sample_directions,
    sample_number,
    walled,
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
        return Drawn(objects, *_place_agents(key, objects, num_agents, self.random_start))


@final
class DynamicObstaclesRoom(AbstractSquareRoom):
    """An empty room with blue balls that move (`DynamicObstaclesEnv`).

    **Arguments:**

    - `size`, `random_start`: as in `EmptyRoom`.
    - `obstacles`: the number of obstacles. As in the reference, there are only `size // 2` if the
        number is above `size / 2 + 1`.
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
        position, direction = _place_agents(agents_key, objects, num_agents, self.random_start)
        free = (objects == NOTHING).at[position[:, 0], position[:, 1]].set(False)
        places = sample_cells(obstacles_key, free, self.num_obstacles)
        objects = objects.at[places[:, 0], places[:, 1]].set(jnp.uint8(_BLUE_BALL))
        return Drawn(objects, position, direction, places)


def _place_agents(
    key: PRNGKeyArray, objects: Objects, num_agents: int, random_start: bool
) -> tuple[Int8[Array, "agents 2"], Int8[Array, " agents"]]:
    """The positions and directions of agents in an empty room."""
    free = objects == NOTHING
    if not random_start:
        east = jnp.full(num_agents, Direction.EAST, jnp.int8)
        return nearest_to_corner(free, num_agents), east
    cells_key, directions_key = jax.random.split(key)
    return sample_cells(cells_key, free, num_agents), sample_directions(directions_key, num_agents)


_YELLOW = COLOURS.index("yellow")


@final
class DoorKeyRoom(AbstractSquareRoom):
    """A wall with a locked yellow door. Agents and the yellow key are on its left, and the goal is
    on its right (`DoorKeyEnv`).

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
        return self.size - 3  # if the left part is one column, without the cell of the key

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        shares_key, others_key = jax.random.split(key)
        shares = jax.random.uniform(shares_key, (5,))
        size, height = self.size, self.size - 2
        wall_col = 2 + pick(shares[0], size - 4)
        # The cells left of the wall are numbered column by column.
        num_left = height * (wall_col - 1)
        first, key_cell = (
            1 + jnp.stack([number % height, number // height])
            for number in pick_two(shares[1:3], num_left)
        )
        objects = with_goal(size)
        objects = objects.at[:, wall_col].set(jnp.uint8(WALL))
        objects = put(objects, door_code(_YELLOW, LOCKED), 1 + pick(shares[3], size - 3), wall_col)
        objects = put(objects, KEY + _YELLOW, *key_cell)
        direction = pick(shares[4], len(Direction)).astype(jnp.int8)
        free = (objects == NOTHING) & (jnp.arange(size, dtype=jnp.int32) < wall_col)[None, :]
        first = first.astype(jnp.int8)
        return Drawn(objects, *join_others(others_key, free, first, direction, num_agents))


_FAR = 2**20  # larger than any row or column


@final
class CrossingRoom(AbstractSquareRoom):
    """Agents start in the upper left corner, and the goal is in the lower right corner. Between
    them are horizontal and vertical rivers, each of which can be crossed in one cell
    (`CrossingEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns, walls included; odd.
    - `crossings`: the number of rivers.
    - `lava`: whether rivers consist of lava; otherwise they are walls.
    """

    size: int = eqx.field(static=True, default=9)
    crossings: int = eqx.field(static=True, default=1)
    lava: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_side(self.size, 5, "The size of a room with crossings", odd=True)
        most = 2 * len(self._lines)
        if not 1 <= self.crossings <= most:
            raise LayoutError(
                f"A room of size {self.size} has from 1 to {most} crossings, not {self.crossings}."
            )

    @property
    def _lines(self) -> range:
        """The rows, or the columns, in which a river may be."""
        return range(2, self.size - 2, 2)

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def most_agents(self) -> int:
        inner = self.size - 2
        # Rivers cover most cells if as many as possible are parallel, since they do not overlap.
        parallel = min(self.crossings, len(self._lines))
        free = inner**2 - parallel * inner
        free -= (self.crossings - parallel) * (inner - parallel)
        return free + self.crossings - 1  # with the crossings, without the goal

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        rivers_key, path_key, gaps_key = jax.random.split(key, 3)
        lines = np.asarray(self._lines, np.int32)
        order = jax.random.permutation(rivers_key, 2 * len(lines))
        chosen = jnp.zeros(2 * len(lines), bool).at[order[: self.crossings]].set(True)
        in_row, in_col = chosen[len(lines) :], chosen[: len(lines)]
        objects = with_goal(self.size)
        inner = np.zeros(self.shape, bool)
        inner[1:-1, 1:-1] = True
        river = jnp.zeros(self.size, bool).at[lines].set(in_row)[:, None]
        river = river | jnp.zeros(self.size, bool).at[lines].set(in_col)[None, :]
        code = jnp.uint8(LAVA if self.lava else WALL)
        objects = jnp.where(river & jnp.asarray(inner), code, objects)
        # A path to the goal crosses each vertical river to the right, and each horizontal river
        # down, in random order.
        rightwards = jax.random.permutation(path_key, self.crossings) < in_col.sum()
        gaps = self._gaps(gaps_key, self._limits(in_row), self._limits(in_col), rightwards)
        objects = objects.at[gaps[:, 0], gaps[:, 1]].set(jnp.uint8(NOTHING))
        position = nearest_to_corner(objects == NOTHING, num_agents)
        return Drawn(objects, position, jnp.full(num_agents, Direction.EAST, jnp.int8))

    def _limits(self, chosen: Bool[Array, " lines"]) -> Int32[Array, " limits"]:
        """The rows, or the columns, of the first wall, the rivers and the last wall, in order. The
        remaining entries are `_FAR`.
        """
        lines = jnp.asarray(np.asarray(self._lines, np.int32))
        rivers = jnp.sort(jnp.where(chosen, lines, _FAR))
        limits = jnp.concatenate([jnp.zeros(1, jnp.int32), rivers, jnp.full(1, _FAR, jnp.int32)])
        return limits.at[1 + chosen.sum()].set(self.size - 1)

    def _gaps(
        self,
        key: PRNGKeyArray,
        rows: Int32[Array, " limits"],
        cols: Int32[Array, " limits"],
        rightwards: Bool[Array, " crossings"],
    ) -> Int32[Array, "crossings 2"]:
        """The cell of each crossing along a path.

        `rows` and `cols` divide the room into parts. Each crossing leads from the current part to
        the next part, to the right or down, and is at a random place of their common border.
        """

        def cross(
            part: tuple[Array, Array], crossing: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], Array]:
            (row, col), (key, right) = part, crossing
            low = jnp.where(right, rows[row], cols[col])
            high = jnp.where(right, rows[row + 1], cols[col + 1])
            along = sample_number(key, low + 1, high)
            gap_row = jnp.where(right, along, rows[row + 1])
            gap_col = jnp.where(right, cols[col + 1], along)
            down = (~right).astype(jnp.int32)
            return (row + down, col + 1 - down), jnp.stack([gap_row, gap_col])

        first = (jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return jax.lax.scan(cross, first, (jax.random.split(key, self.crossings), rightwards))[1]


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
        side = middle - 1  # the side of each room, without walls
        walls = walled(self.shape)
        walls[middle, :] = walls[:, middle] = WALL
        # One gap in each wall: in the upper, the left, the lower and the right part of the cross.
        starts = np.asarray([1, 1, middle + 1, middle + 1], np.int32)
        along = starts + jax.vmap(pick, (0, None))(shares[:4], side)
        vertical = np.asarray([True, False, True, False])
        gaps = jnp.stack(
            [jnp.where(vertical, along, middle), jnp.where(vertical, middle, along)], axis=1
        )
        objects = jnp.asarray(walls).at[gaps[:, 0], gaps[:, 1]].set(jnp.uint8(NOTHING))
        first, goal = (
            self._cell(number, gaps) for number in pick_two(shares[4:6], 4 * side**2 + 4)
        )
        objects = put(objects, GOAL, *goal)
        direction = pick(shares[6], len(Direction)).astype(jnp.int8)
        free, first = objects == NOTHING, first.astype(jnp.int8)
        return Drawn(objects, *join_others(others_key, free, first, direction, num_agents))

    def _cell(self, number: Int32[Array, ""], gaps: Int32[Array, "4 2"]) -> Int32[Array, "2"]:
        """The free cell with a number: first come the cells of the rooms, and then the gaps."""
        side = self.size // 2 - 1
        room, inside = jnp.divmod(number, side**2)
        corner = 1 + jnp.stack(jnp.divmod(room, 2)) * (side + 1)
        gap = gaps[jnp.clip(number - 4 * side**2, 0, 3)]
        return jnp.where(room < 4, corner + jnp.stack(jnp.divmod(inside, side)), gap)
