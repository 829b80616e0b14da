"""A chain of rooms, each with a door to the next one."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PRNGKeyArray, UInt8

from ....grid import NOTHING, LayoutError, sample_cells
from .._kinds import CLOSED, COLOURS, GOAL, WALL, door_code
from ._room import AbstractRoom, Drawn, put, sample_cell, sample_directions

_SIDE = 25  # the rows and columns of the grid
_SMALLEST = 4  # the fewest rows and columns of a room, walls included
_MAX_TRIES = 8  # for each room
_RIGHT, _DOWN, _LEFT, _UP = range(4)  # the walls of a room


@final
class _Chain(eqx.Module):
    """A chain of rooms under construction.

    - `count`: the number of rooms that are placed.
    - `tried`: the number of failed tries to place the next room.
    - `top`: `(row, col)` of the upper left corner of each room.
    - `size`: the rows and columns of each room, walls included.
    - `entry`: `(row, col)` of the entrance door of each room.
    - `wall`: the wall of each room with its entrance door.
    """

    key: PRNGKeyArray
    count: Int32[Array, ""]
    tried: Int32[Array, ""]
    top: Int32[Array, "rooms 2"]
    size: Int32[Array, "rooms 2"]
    entry: Int32[Array, "rooms 2"]
    wall: Int32[Array, " rooms"]


@final
class MultiRoom(AbstractRoom):
    """A chain of rooms in a grid of 25 by 25 cells, with closed doors between them. Agents start in
    the first room, and the goal is in the last room (`MultiRoomEnv`).

    Agents that do not fit into the first room start in the next rooms.

    **Arguments:**

    - `size`: the largest number of rows and of columns of a room, walls included.
    - `rooms`: the number of rooms.
    """

    size: int = eqx.field(static=True, default=10)
    rooms: int = eqx.field(static=True, default=6)

    def __check_init__(self):
        if not _SMALLEST <= self.size <= 12:
            raise LayoutError(f"The largest size of a room is from 4 to 12, not {self.size}.")
        if not 1 <= self.rooms <= 8:
            raise LayoutError(f"A chain has from 1 to 8 rooms, not {self.rooms}.")

    @property
    def shape(self) -> tuple[int, int]:
        return _SIDE, _SIDE

    @property
    def max_steps(self) -> int:
        return 20 * self.rooms

    @property
    def most_agents(self) -> int:
        return (_SMALLEST - 2) ** 2 * self.rooms - 1

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        chain_key, colours_key, first_key, turns_key, goal_key, others_key = jax.random.split(
            key, 6
        )
        chain = self._build_chain(chain_key)
        objects, room_at = self._walls_and_doors(chain, colours_key)
        inside = (room_at >= 0) & (objects == NOTHING)
        first = sample_cell(first_key, inside & (room_at == 0))
        free = inside.at[first[0], first[1]].set(False)
        goal = sample_cell(goal_key, free & (room_at == self.rooms - 1))
        objects = put(objects, GOAL, *goal)
        free, position = free & (objects == NOTHING), first[None]
        if num_agents > 1:
            others = self._first_cells(others_key, free, room_at, num_agents - 1)
            position = jnp.concatenate([position, others])
        return Drawn(objects, position, sample_directions(turns_key, num_agents))

    def _first_cells(
        self,
        key: PRNGKeyArray,
        free: Bool[Array, "25 25"],
        room_at: Int32[Array, "25 25"],
        count: int,
    ) -> Array:
        """Random free cells of the first room, and then of the next rooms if more are needed."""
        order = sample_cells(key, free, _SIDE**2)
        rooms = room_at[order[:, 0], order[:, 1]]
        rooms = jnp.where(free[order[:, 0], order[:, 1]], rooms, self.rooms)
        return order[jnp.argsort(rooms, stable=True)[:count]]

    def _build_chain(self, key: PRNGKeyArray) -> _Chain:
        """Builds a chain of all rooms, and starts again if a room does not fit in 8 tries."""
        zero = jnp.zeros((), jnp.int32)
        pairs = jnp.zeros((self.rooms, 2), jnp.int32)
        walls = jnp.full(self.rooms, _LEFT, jnp.int32)
        first = _Chain(key, zero, zero, pairs, pairs, pairs, walls)
        return jax.lax.while_loop(lambda chain: chain.count < self.rooms, self._try_room, first)

    def _try_room(self, chain: _Chain) -> _Chain:
        """Tries to place the next room."""
        key, size_key, uniform_key = jax.random.split(chain.key, 3)
        number, previous = chain.count, jnp.maximum(chain.count - 1, 0)
        size = jax.random.randint(size_key, (2,), _SMALLEST, self.size + 1, jnp.int32)
        uniform = jax.random.uniform(uniform_key, (5,))
        door, wall = _exit(chain, previous, uniform[:2])
        anywhere = jnp.floor(uniform[2:4] * (_SIDE - 2)).astype(jnp.int32)
        is_first = number == 0
        door = jnp.where(is_first, anywhere, door)
        wall = jnp.where(is_first, _LEFT, wall)
        top = jnp.where(is_first, door, _corner(door, wall, size, uniform[4]))
        fits = (top >= 0).all() & (top[1] + size[1] <= _SIDE) & (top[0] + size[0] < _SIDE)
        # The room may only overlap with the previous room, with which it shares a wall.
        apart = ((top + size)[None] < chain.top) | (chain.top + chain.size <= top[None])
        earlier = jnp.arange(self.rooms, dtype=jnp.int32) < previous
        fits = fits & (apart.any(axis=1) | ~earlier).all()
        tried = jnp.where(fits, 0, chain.tried + 1)
        gives_up = ~fits & (is_first | (tried == _MAX_TRIES))
        count = jnp.where(gives_up, 0, number + fits.astype(jnp.int32))
        # The next try overwrites a room that does not fit, since `count` stays the same.
        return _Chain(
            key,
            count,
            jnp.where(gives_up, 0, tried),
            chain.top.at[number].set(top),
            chain.size.at[number].set(size),
            chain.entry.at[number].set(door),
            chain.wall.at[number].set(wall),
        )

    def _walls_and_doors(
        self, chain: _Chain, key: PRNGKeyArray
    ) -> tuple[UInt8[Array, "25 25"], Int32[Array, "25 25"]]:
        """The walls and doors of a chain, and the index of the room of each cell, which is -1
        outside all rooms.
        """
        objects = jnp.full((_SIDE, _SIDE), NOTHING, jnp.uint8)
        room_at = jnp.full((_SIDE, _SIDE), -1, jnp.int32)
        cells = jnp.asarray(np.moveaxis(np.indices((_SIDE, _SIDE), np.int32), 0, -1))
        uniform = jax.random.uniform(key, (self.rooms,))
        colour = jnp.int32(len(COLOURS))
        for room in range(self.rooms):
            top, end = chain.top[room], chain.top[room] + chain.size[room]
            within = ((cells >= top[None, None]) & (cells < end[None, None])).all(axis=-1)
            edge = within & ((cells == top[None, None]) | (cells == end[None, None] - 1)).any(
                axis=-1
            )
            objects = jnp.where(edge, jnp.uint8(WALL), objects)
            room_at = jnp.where(within & ~edge, room, room_at)
            if room > 0:
                # The first door has any colour; each next door, any colour but the previous one.
                choices = jnp.where(colour == len(COLOURS), len(COLOURS), len(COLOURS) - 1)
                choice = jnp.floor(uniform[room] * choices.astype(jnp.float32)).astype(jnp.int32)
                colour = choice + (choice >= colour).astype(jnp.int32)
                objects = put(objects, door_code(colour, CLOSED), *chain.entry[room])
        return objects, room_at


def _exit(
    chain: _Chain, room: Int32[Array, ""], uniform: Array
) -> tuple[Int32[Array, "2"], Int32[Array, ""]]:
    """The cell of a door out of a room, in a wall without its entrance door; and the wall of the
    next room that contains this cell.
    """
    wall = jnp.floor(uniform[0] * 3).astype(jnp.int32)
    wall = wall + (wall >= chain.wall[room]).astype(jnp.int32)
    (top, left), size = chain.top[room], chain.size[room]
    rows, cols = size[0], size[1]
    is_side = (wall == _RIGHT) | (wall == _LEFT)
    length = jnp.where(is_side, rows, cols) - 2
    along = 1 + jnp.floor(uniform[1] * length.astype(jnp.float32)).astype(jnp.int32)
    row = jnp.where(is_side, top + along, jnp.where(wall == _DOWN, top + rows - 1, top))
    col = jnp.where(is_side, jnp.where(wall == _RIGHT, left + cols - 1, left), left + along)
    return jnp.stack([row, col]), (wall + 2) % 4


def _corner(
    door: Int32[Array, "2"], wall: Int32[Array, ""], size: Int32[Array, "2"], uniform: Array
) -> Int32[Array, "2"]:
    """The upper left corner of a room whose door is in the given wall."""
    # The number of cells of the wall before the door, so that the door is not in a corner.
    before = 1 + jnp.floor(uniform * (size - 2).astype(jnp.float32)).astype(jnp.int32)
    row = jnp.where(wall == _DOWN, door[0] - size[0] + 1, door[0] - before[0])
    row = jnp.where(wall == _UP, door[0], row)
    col = jnp.where(wall == _RIGHT, door[1] - size[1] + 1, door[1] - before[1])
    col = jnp.where(wall == _LEFT, door[1], col)
    return jnp.stack([row, col])
