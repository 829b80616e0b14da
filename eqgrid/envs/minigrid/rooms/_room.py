"""The interface of rooms, and functions that place objects and agents in a grid."""

import abc
import dataclasses
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int8, Int32, Integer, PRNGKeyArray, UInt8

from ...._functions import sample_uniform
from ....grid import (
    NOTHING,
    AbstractCheckedStart,
    Direction,
    Layout,
    LayoutError,
    World,
    cells_at,
    direction_delta,
    sample_cells,
)
from .._kinds import GOAL, WALL

Objects: TypeAlias = UInt8[Array, "height width"]
"""The code of the object in each cell."""

Whole: TypeAlias = int | Integer[Array, ""]
"""A whole number, which may be traced."""

LARGEST = 127
"""The largest number of rows and of columns of a grid."""


@final
class Drawn(eqx.Module):
    """A sampled start of an episode.

    - `objects`: the code of the object in each cell.
    - `position`, `direction`: the positions and directions of the agents.
    - `extra`: the value of `World.extra`: the positions of the obstacles, if there are any.
    """

    objects: UInt8[Array, "height width"]
    position: Int8[Array, "agents 2"]
    direction: Int8[Array, "agents"]
    extra: Int8[Array, "obstacles 2"] | None = None


class AbstractRoom(AbstractCheckedStart):
    """A room of MiniGrid, sampled again in every episode."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of the grid."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """The length of an episode in the reference, in steps."""

    @property
    @abc.abstractmethod
    def most_agents(self) -> int:
        """The largest number of agents that always fit into the room."""

    @property
    def see_through(self) -> bool:
        """Whether the reference lets the agent see through walls in this room."""
        return False

    @property
    def num_obstacles(self) -> int | None:
        """The number of obstacles that move; `None` in rooms without obstacles."""
        return None

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        """Samples the start of an episode. The first agent is placed as in the reference."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        drawn = self.draw(key, world.num_agents)
        return dataclasses.replace(
            world,
            cells=dataclasses.replace(world.cells, object=drawn.objects),
            bodies=dataclasses.replace(
                world.bodies, position=drawn.position, direction=drawn.direction
            ),
            extra=drawn.extra,
        )

    def check(self, layout: Layout) -> None:
        if layout.num_agents > self.most_agents:
            raise LayoutError(
                f"This room has space for {self.most_agents} agents at most, not "
                f"{layout.num_agents}."
            )


class AbstractSquareRoom(AbstractRoom):
    """A square room."""

    size: eqx.AbstractVar[int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size


def check_side(size: int, least: int, what: str, *, odd: bool = False) -> None:
    """**Raises:** `LayoutError` when a size is too small or too large, or not odd if it must be."""
    if not least <= size <= LARGEST or (odd and size % 2 == 0):
        kind = "an odd number from" if odd else "from"
        raise LayoutError(f"{what} is {kind} {least} to {LARGEST}, not {size}.")


def walled(shape: tuple[int, int]) -> np.ndarray:
    """A grid of objects with a wall around it."""
    objects = np.full(shape, WALL, np.uint8)
    objects[1:-1, 1:-1] = NOTHING
    return objects


def with_goal(size: int) -> Objects:
    """A square grid of objects with a wall around it, and a goal in the lower right corner."""
    return put(jnp.asarray(walled((size, size))), GOAL, size - 2, size - 2)


def put(objects: Objects, code: Whole, row: Whole, col: Whole) -> Objects:
    """The grid of objects with the object `code` in one cell."""
    return objects.at[row, col].set(jnp.asarray(code).astype(jnp.uint8))


def sample_cell(key: PRNGKeyArray, free: Bool[Array, "height width"]) -> Int8[Array, "2"]:
    """One of the free cells, uniformly at random."""
    return sample_cells(key, free, 1)[0]


def sample_directions(key: PRNGKeyArray, count: int) -> Int8[Array, " agents"]:
    """Directions, uniformly at random."""
    return jax.random.randint(key, (count,), 0, len(Direction), jnp.int8)


def sample_number(key: PRNGKeyArray, low: Whole, high: Whole) -> Int32[Array, ""]:
    """An integer that is uniform in [low, high)."""
    return jax.random.randint(key, (), low, high, jnp.int32)


def pick(share: Float32[Array, ""], count: Whole) -> Int32[Array, ""]:
    """Maps `share`, which is uniform in [0, 1), to an integer that is uniform in [0, count)."""
    count = jnp.asarray(count, jnp.int32)
    return jnp.minimum((share * count.astype(jnp.float32)).astype(jnp.int32), count - 1)


def pick_two(
    shares: Float32[Array, "2"], count: Whole
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Two different integers in [0, count); see `pick`."""
    first, second = pick(shares[0], count), pick(shares[1], count - 1)
    return first, second + (second >= first).astype(jnp.int32)


def sample_pose(
    key: PRNGKeyArray, objects: Objects, free: Bool[Array, "height width"]
) -> tuple[Int8[Array, "2"], Int8[Array, ""]]:
    """A free cell and a direction, uniformly at random among pairs in which the agent faces a wall
    or nothing (`RoomGrid.place_agent`).
    """
    height, width = free.shape
    row, col = np.indices((height, width), np.int8)
    cells = jnp.asarray(np.stack([row, col], axis=-1))
    valid = []
    for direction in Direction:
        ahead = cells_at(objects, cells + direction_delta(jnp.int8(direction))[None, None], WALL)
        valid.append(free & ((ahead == NOTHING) | (ahead == WALL)))
    # The valid pair with the highest random score.
    score = sample_uniform(key, (len(Direction), height, width))
    best = jnp.argmax(jnp.where(jnp.stack(valid), score, -1.0))
    direction, row, col = jnp.unravel_index(best, (len(Direction), height, width))
    return jnp.stack([row, col]).astype(jnp.int8), direction.astype(jnp.int8)


def nearest_to_corner(free: Bool[Array, "height width"], count: int) -> Int8[Array, "agents 2"]:
    """The free cells with the fewest steps to the upper left corner. Ties go to the upper cell."""
    height, width = free.shape
    row, col = np.indices((height, width))
    # The number of steps is `row + col`; of two cells with equal numbers, the upper one comes
    # first.
    distance = jnp.asarray((row + col) * height + row, jnp.int32)
    _, cells = jax.lax.top_k(jnp.where(free, -distance, -(2**30)).reshape(-1), count)
    return jnp.stack(jnp.divmod(cells, width), axis=-1).astype(jnp.int8)


def join_others(
    key: PRNGKeyArray,
    free: Bool[Array, "height width"],
    first: Int8[Array, "2"],
    direction: Int8[Array, ""],
    num_agents: int,
) -> tuple[Int8[Array, "agents 2"], Int8[Array, " agents"]]:
    """The positions and directions of all agents: `first` and `direction` for the first agent, and
    random free cells and directions for the others.
    """
    if num_agents == 1:
        return first[None], direction[None]
    cells_key, directions_key = jax.random.split(key)
    free = free.at[first[0], first[1]].set(False)
    others = sample_cells(cells_key, free, num_agents - 1)
    directions = sample_directions(directions_key, num_agents - 1)
    return jnp.concatenate([first[None], others]), jnp.concatenate([direction[None], directions])
