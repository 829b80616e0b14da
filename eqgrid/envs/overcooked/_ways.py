"""Shortest paths of cooks in a kitchen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Shaped

from ...grid import next_to

FAR = 2**14
"""Infinity for path lengths: more steps than the largest layout has cells."""

STEPS = np.asarray([(-1, 0), (1, 0), (0, 1), (0, -1)], np.int32)
"""The `(row, col)` offset of one step in each `Direction`."""


def count_steps(
    floor: Bool[Array, "height width"],
    targets: Bool[Array, "height width"],
    toll: Int32[Array, "height width"],
) -> Int32[Array, "height width"]:
    """The length of the shortest path from every cell to a cell next to a target.

    **Arguments:**

    - `floor`: the cells that cooks can walk on.
    - `targets`: the cells that the cook wants to stand next to.
    - `toll`: the extra cost of each cell, in moves.

    **Returns:** the number of moves plus extra costs; 0 next to a target, and at least `FAR` for
    cells that have no path or are not floor.
    """
    first = jnp.where(floor & next_to(targets), 0, FAR).astype(jnp.int32)
    return spread(floor, first, toll + 1)


def spread(
    floor: Bool[Array, "height width"],
    first: Int[Array, "height width"],
    cost: Int[Array, "*grid"],
) -> Int[Array, "height width"]:
    """The smallest number that reaches each floor cell along paths, by the Bellman-Ford algorithm.

    **Arguments:**

    - `floor`: the cells that cooks can walk on.
    - `first`: the initial number of each cell; `FAR` where there is none.
    - `cost`: the amount that is added when a path leaves each cell.

    **Returns:** the smallest numbers; at least `FAR` where none arrives, and outside the floor.
    """

    def further(state: tuple[Array, Array]) -> tuple[Array, Array]:
        numbers, _ = state
        wide = jnp.pad(numbers + cost, 1, constant_values=FAR)
        near = (wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2])
        lower = jnp.where(floor, functools.reduce(jnp.minimum, near, numbers), FAR)
        return lower, (lower != numbers).any()

    return jax.lax.while_loop(lambda state: state[1], further, (first, jnp.asarray(True)))[0]


def label_regions(floor: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """Labels the connected regions of the floor: equal integers for connected cells, and -1 for
    cells that are not floor.
    """
    height, width = floor.shape
    own = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
    labels = spread(floor, jnp.where(floor, own, FAR), jnp.zeros((), jnp.int32))
    return jnp.where(floor, labels, -1)


def around(
    grid: Shaped[Array, "height width"], position: Int[Array, "2"]
) -> Shaped[Array, " directions"]:
    """The values of the four cells next to a position, by direction; it must not be at the edge."""
    cells = position.astype(jnp.int32)[None] + STEPS
    return grid[cells[:, 0], cells[:, 1]]
