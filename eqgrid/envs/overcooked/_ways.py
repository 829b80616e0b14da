"""Directions and shortest paths of cooks in a kitchen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Shaped

from ...grid import Direction, next_to

FAR = 2**14
"""Infinity for path lengths: more steps than the largest layout has cells."""

STEPS = np.asarray([(-1, 0), (1, 0), (0, 1), (0, -1)], np.int32)
"""The `(row, col)` offset of one step in each `Direction`."""

ORIENTATIONS = {
    (0, -1): Direction.NORTH,
    (0, 1): Direction.SOUTH,
    (1, 0): Direction.EAST,
    (-1, 0): Direction.WEST,
}
"""Each `Direction` by its orientation in Overcooked-AI, which is a `(col, row)` offset."""


def count_steps(
    floor: Bool[Array, "height width"],
    targets: Bool[Array, "height width"],
    toll: Int32[Array, "height width"],
) -> Int32[Array, "height width"]:
    """The length of the shortest path from every cell to a cell next to a target.

    **Arguments:**

    - `floor`: the cells that cooks can walk on.
    - `targets`: the cells that the cook wants to stand next to.
    - `toll`: the extra cost of entering each cell, in moves.

    **Returns:** the number of moves plus extra costs; 0 next to a target, and at least `FAR` for
    cells that have no path or are not floor.
    """
    first = jnp.where(floor & next_to(targets), 0, FAR).astype(jnp.int32)
    # `spread` follows paths backwards from the targets, so it leaves the cells that a cook enters.
    return spread(floor, first, toll + 1)


def spread(
    floor: Bool[Array, "height width"],
    first: Int[Array, "height width"],
    cost: Int[Array, "*grid"],
) -> Int[Array, "height width"]:
    """The smallest length of a path to each floor cell, by the Bellman-Ford algorithm.

    A path starts in any cell with the number in `first`, and adds the `cost` of each cell that it
    leaves.

    **Arguments:**

    - `floor`: the cells that cooks can walk on.
    - `first`: the length at the start of a path in each cell; `FAR` where no path starts.
    - `cost`: the cost of leaving a cell: one number, or one for each cell.

    **Returns:** the smallest lengths; at least `FAR` where no path arrives, and outside the floor.
    """

    def relax(state: tuple[Array, Array]) -> tuple[Array, Array]:
        lengths, _ = state
        wide = jnp.pad(lengths + cost, 1, constant_values=FAR)
        near = (wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2])
        lower = jnp.where(floor, functools.reduce(jnp.minimum, near, lengths), FAR)
        return lower, (lower != lengths).any()

    return jax.lax.while_loop(lambda state: state[1], relax, (first, jnp.asarray(True)))[0]


@jax.jit
def label_regions(floor: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """Labels the connected regions of the floor: equal integers for connected cells, and -1 for
    cells that are not floor.
    """
    height, width = floor.shape
    number = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
    # Paths cost nothing here, so each cell gets the smallest number of a cell in its region.
    labels = spread(floor, jnp.where(floor, number, FAR), jnp.zeros((), jnp.int32))
    return jnp.where(floor, labels, -1)


def around(
    grid: Shaped[Array, "height width"], position: Int[Array, "2"]
) -> Shaped[Array, " directions"]:
    """The values of the four cells next to a position, by direction. The position must not be at
    the edge of the grid.
    """
    cells = position.astype(jnp.int32)[None] + STEPS
    return grid[cells[:, 0], cells[:, 1]]
