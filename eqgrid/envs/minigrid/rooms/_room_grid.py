"""Grids of rooms with doors between them, as in `RoomGrid` of minigrid 3.2."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from ....grid import NOTHING, LayoutError
from .._kinds import BALL, CLOSED, COLOURS, KEY, LOCKED, WALL, door_code
from ._room import (
    AbstractRoom,
    Drawn,
    check_side,
    join_others,
    put,
    sample_cell,
    sample_number,
    sample_pose,
)


@final
class UnlockRoom(AbstractRoom):
    """Two rooms with a locked door between them. Agents and a key are in the left room
    (`UnlockEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns of a room, walls included. It is 6 in the reference.
    """

    size: int = eqx.field(static=True, default=6)

    def __check_init__(self):
        check_side(self.size, 4, "The size of a room with a door to unlock")
        check_side(self.shape[1], 7, "The width of two rooms")

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, 2 * self.size - 1

    @property
    def max_steps(self) -> int:
        return 8 * self.size**2

    @property
    def most_agents(self) -> int:
        return (self.size - 2) ** 2 - 1

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        door_key, colour_key, key_key, pose_key, others_key = jax.random.split(key, 5)
        objects = jnp.asarray(_rooms(self.size, 1, 2))
        left = jnp.asarray(_inside(self.shape, self.size, 0, 0))
        colour = sample_number(colour_key, 0, len(COLOURS))
        door = sample_number(door_key, 1, self.size - 1)
        objects = put(objects, door_code(colour, LOCKED), door, self.size - 1)
        objects = put(objects, KEY + colour, *sample_cell(key_key, left))
        free = left & (objects == NOTHING)
        first, direction = sample_pose(pose_key, objects, free)
        return Drawn(objects, *join_others(others_key, free, first, direction, num_agents))


@final
class KeyCorridorRoom(AbstractRoom):
    """A corridor with rooms on both sides. A ball is behind a locked door on the right, and the key
    to the door is in a room on the left (`KeyCorridorEnv`).

    Rooms are numbered from top to bottom: from 0 to `rows - 1` on the left, and then from `rows`
    to `2 * rows - 1` on the right. The corridor has the number `2 * rows`.

    **Arguments:**

    - `size`: the number of rows and of columns of a room, walls included.
    - `rows`: the number of rooms on each side.
    """

    size: int = eqx.field(static=True, default=6)
    rows: int = eqx.field(static=True, default=3)

    def __check_init__(self):
        check_side(self.size, 3, "The size of the rooms of a corridor")
        if self.rows < 1:
            raise LayoutError(f"A corridor has at least 1 row of rooms, not {self.rows}.")
        check_side(max(self.shape), 7, "The longest side of a corridor with its rooms")

    @property
    def shape(self) -> tuple[int, int]:
        return (self.size - 1) * self.rows + 1, (self.size - 1) * 3 + 1

    @property
    def max_steps(self) -> int:
        return 30 * self.size**2

    @property
    def most_agents(self) -> int:
        return (self.size - 2) * (self.shape[0] - 2)

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        keys = jax.random.split(key, 10)
        side, rows = self.size - 1, self.rows
        objects, corridor = self._corridor()
        objects, colour = jnp.asarray(objects), sample_number(keys[0], 0, len(COLOURS))
        ball_row, key_row = (sample_number(x, 0, rows) for x in keys[1:3])
        # The doors, of which the door to the room of the ball is locked.
        offset = jax.random.randint(keys[3], (len(self._walls()),), 1, side, jnp.int32)
        locked_wall = rows + ball_row  # a wall to the corridor has the number of its room as index
        doors = self._door_cells(offset)
        objects = put(objects, door_code(colour, LOCKED), *doors[locked_wall])
        # The ball and the key.
        inside = np.stack(
            [_inside(self.shape, self.size, row, col) for col in (0, 2) for row in range(rows)]
        )
        ball = sample_cell(keys[4], jnp.asarray(inside)[rows + ball_row])
        objects = put(objects, BALL + sample_number(keys[5], 0, len(COLOURS)), *ball)
        objects = put(objects, KEY + colour, *sample_cell(keys[6], jnp.asarray(inside)[key_row]))
        # The first agent starts in the middle row of rooms, other agents anywhere in the corridor.
        middle = np.zeros(self.shape, bool)
        top = (rows // 2) * side
        middle[top : top + self.size] = True
        first, direction = sample_pose(keys[7], objects, jnp.asarray(middle & corridor))
        objects = self._connect(keys[8], objects, doors, locked_wall)
        poses = join_others(keys[9], jnp.asarray(corridor), first, direction, num_agents)
        return Drawn(objects, *poses)

    def _corridor(self) -> tuple[np.ndarray, np.ndarray]:
        """A grid of objects with all walls, and the cells of the corridor."""
        objects, side = _rooms(self.size, self.rows, 3), self.size - 1
        corridor = np.zeros(self.shape, bool)
        corridor[1:-1, side + 1 : 2 * side] = True
        objects[corridor] = NOTHING
        return objects, corridor

    def _walls(self) -> list[tuple[int, int]]:
        """The numbers of the rooms on both sides of each wall that can have a door. The first walls
        are between each room and the corridor, so they have the number of the room as their index.
        """
        rows, corridor = self.rows, 2 * self.rows
        beside = [(room, corridor) for room in range(2 * rows)]
        below = [(room, room + 1) for room in range(rows - 1)]
        return [*beside, *below, *((a + rows, b + rows) for a, b in below)]

    def _door_cells(self, offset: Int[Array, " walls"]) -> Int[Array, "walls 2"]:
        """The cell of the door in each wall, `offset` cells after the first cell of the wall."""
        side, rows = self.size - 1, self.rows
        corners, directions = [], []
        for room, other in self._walls():
            col, row = divmod(room, rows)
            top, left = row * side, 2 * col * side
            if other == 2 * rows:  # a vertical wall to the corridor
                corners.append((top, side if col == 0 else 2 * side))
                directions.append((1, 0))
            else:  # a horizontal wall to the room below
                corners.append((top + side, left))
                directions.append((0, 1))
        corner, direction = np.asarray(corners, np.int32), np.asarray(directions, np.int32)
        return jnp.asarray(corner) + jnp.asarray(direction) * offset[:, None]

    def _connect(
        self,
        key: PRNGKeyArray,
        objects: Array,
        doors: Int[Array, "walls 2"],
        locked_wall: Int[Array, ""],
    ) -> Array:
        """Adds closed doors to random walls until all rooms are connected, but none to the locked
        room (`RoomGrid.connect_all`).
        """
        walls = np.asarray(self._walls(), np.int32)
        order_key, colours_key = jax.random.split(key)
        order = jax.random.permutation(order_key, len(walls))
        colours = jax.random.randint(colours_key, (len(walls),), 0, len(COLOURS), jnp.int32)
        ends = jnp.asarray(walls)
        locked_room = ends[locked_wall, 0]

        def add(
            state: tuple[Array, Array], candidate: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], None]:
            (objects, group), (wall, colour) = state, candidate
            a, b = ends[wall, 0], ends[wall, 1]
            adds = (group != group[0]).any() & (a != locked_room) & (b != locked_room)
            row, col = doors[wall, 0], doors[wall, 1]
            code = jnp.where(adds, door_code(colour, CLOSED), objects[row, col])
            joined = jnp.where(group == group[b], group[a], group)
            return (put(objects, code, row, col), jnp.where(adds, joined, group)), None

        # Rooms of one group are connected. At first, only the locked door connects two rooms.
        group = jnp.arange(2 * self.rows + 1, dtype=jnp.int32)
        group = jnp.where(group == locked_room, 2 * self.rows, group)
        (objects, _), _ = jax.lax.scan(add, (objects, group), (order, colours))
        return objects


def _rooms(size: int, rows: int, cols: int) -> np.ndarray:
    """A grid of objects with walls around `rows` by `cols` rooms."""
    objects = np.full(((size - 1) * rows + 1, (size - 1) * cols + 1), NOTHING, np.uint8)
    objects[:: size - 1] = objects[:, :: size - 1] = WALL
    return objects


def _inside(shape: tuple[int, int], size: int, row: int, col: int) -> Bool[np.ndarray, "rows cols"]:
    """The cells inside one room."""
    inside = np.zeros(shape, bool)
    top, left = row * (size - 1) + 1, col * (size - 1) + 1
    inside[top : top + size - 2, left : left + size - 2] = True
    return inside
