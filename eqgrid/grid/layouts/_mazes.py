"""Random mazes, and searches for cells that can be reached.

A maze has rooms of one cell on odd rows and columns, and doors between them. Searches are array
operations, so that many layouts can be searched at once.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, PRNGKeyArray

from ..._functions import sample_uniform


def next_to(cells: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
    """The cells that share an edge with at least one of `cells`."""
    wide = jnp.pad(cells, 1)
    return wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]


def count_next_to(cells: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """For each cell, how many of `cells` share an edge with it."""
    wide = jnp.pad(cells, 1).astype(jnp.int32)
    return wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]


def reach(free: Bool[Array, "height width"], start: Int[Array, "2"]) -> Bool[Array, "height width"]:
    """The cells that are reachable by steps in the four directions.

    **Arguments:**

    - `free`: which cells can be entered.
    - `start`: `(row, col)` of the first cell, which counts as reached even if it is not free.
    """
    # Each round adds the neighbours of all reached cells, until nothing changes. A queue would
    # visit fewer cells, but one by one, and in another order in each layout of a batch.
    here = jnp.zeros_like(free).at[start[0], start[1]].set(True)

    def grow(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = state
        further = reached | (next_to(reached) & free)
        return further, (further != reached).any()

    return jax.lax.while_loop(lambda state: state[1], grow, (here, jnp.asarray(True)))[0]


def sample_maze(
    key: PRNGKeyArray, height: int, width: int, loops: Float[Array, ""]
) -> Bool[Array, "height width"]:
    """Samples a maze in which all rooms are connected.

    It opens the doors of a random spanning tree (Prim's algorithm with random weights), and each of
    the other doors with the probability `loops`.

    **Arguments:**

    - `key`: the source of randomness.
    - `height`, `width`: the size of the grid including its border, at least 3. If a size is even,
        the last row or column before the border stays a wall.
    - `loops`: the probability with which each of the other doors is open. With 0, there is exactly
        one path between any two rooms.

    **Returns:** which cells are floor.
    """
    rows, cols = (height - 1) // 2, (width - 1) // 2
    # Each room has a door to the south (index 0) and a door to the east (index 1).
    weight, uniform = sample_uniform(key, (2, 2, rows, cols))
    # Doors out of the maze have an infinite weight, so that they stay closed.
    weight = weight.at[0, -1, :].set(jnp.inf).at[1, :, -1].set(jnp.inf)
    south, east = _spanning_tree(weight) | ((uniform < loops) & (weight < jnp.inf))
    floor = jnp.zeros((height, width), bool)
    floor = floor.at[1 : 2 * rows : 2, 1 : 2 * cols : 2].set(True)
    floor = floor.at[2 : 2 * rows : 2, 1 : 2 * cols : 2].set(south[:-1])
    return floor.at[1 : 2 * rows : 2, 2 : 2 * cols : 2].set(east[:, :-1])


def _spanning_tree(weight: Float32[Array, "2 rows cols"]) -> Bool[Array, "2 rows cols"]:
    """The doors of the spanning tree with the smallest total weight."""
    _, rows, cols = weight.shape

    def join(_: Int[Array, ""], state: tuple[Array, Array]) -> tuple[Array, Array]:
        joined, tree = state
        wide = jnp.pad(joined, ((0, 1), (0, 1)))
        # A door leads out of the tree if exactly one of its two rooms is in the tree.
        beyond = jnp.stack([wide[1:, :-1], wide[:-1, 1:]])
        lightest = jnp.argmin(jnp.where(joined[None] != beyond, weight, jnp.inf))
        is_east, row, col = jnp.unravel_index(lightest, weight.shape)
        tree = tree.at[is_east, row, col].set(True)
        joined = joined.at[row, col].set(True).at[row + 1 - is_east, col + is_east].set(True)
        return joined, tree

    # A tree of n rooms has n - 1 doors, and each round adds one.
    first = jnp.zeros((rows, cols), bool).at[0, 0].set(True)
    return jax.lax.fori_loop(0, rows * cols - 1, join, (first, jnp.zeros(weight.shape, bool)))[1]
