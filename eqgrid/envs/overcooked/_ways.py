"""Shortest ways of a cook to stations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32

from ...grid import next_to

FAR = 2**14
"""More steps than any way has. From a cell with so many, there is no way."""

STEPS = np.asarray([(-1, 0), (1, 0), (0, 1), (0, -1)], np.int32)
"""`(row, col)` of one step in each `Direction`."""


def count_steps(
    floor: Bool[Array, "height width"],
    targets: Bool[Array, "height width"],
    toll: Int32[Array, "height width"],
) -> Int32[Array, "height width"]:
    """How many moves it takes, from every cell, until a cook stands next to one of some cells.

    **Arguments:**

    - `floor`: where cooks walk.
    - `targets`: the cells that the cook wants to stand next to.
    - `toll`: how many moves more it costs to enter each cell.

    **Returns:** 0 next to a target, and at least `FAR` where there is no way, or no floor.
    """
    first = jnp.where(floor & next_to(targets), 0, FAR).astype(jnp.int32)

    def further(state: tuple[Array, Array]) -> tuple[Array, Array]:
        steps, _ = state
        near = functools.reduce(jnp.minimum, neighbours(steps + toll))
        closer = jnp.where(floor, jnp.minimum(steps, near + 1), FAR)
        return closer, (closer != steps).any()

    return jax.lax.while_loop(lambda state: state[1], further, (first, jnp.asarray(True)))[0]


def neighbours(numbers: Int32[Array, "height width"]) -> list[Int32[Array, "height width"]]:
    """For each direction, the number of the next cell in it; `FAR` outside of the grid."""
    wide = jnp.pad(numbers, 1, constant_values=FAR)
    return [wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2]]


def label_regions(floor: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """A number for every cell of the floor, equal where a cook can walk from one to the other; -1
    elsewhere.
    """
    height, width = floor.shape
    own = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
    first = jnp.where(floor, own, FAR)

    def spread(state: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = state
        lowest = functools.reduce(jnp.minimum, neighbours(labels), labels)
        lowest = jnp.where(floor, lowest, FAR)
        return lowest, (lowest != labels).any()

    labels, _ = jax.lax.while_loop(lambda state: state[1], spread, (first, jnp.asarray(True)))
    return jnp.where(floor, labels, -1)


def around(grid: Array, position: Int[Array, "2"]) -> Array:
    """What is in the four cells next to a position, by direction. The position is no border."""
    cells = position.astype(jnp.int32)[None] + STEPS
    return grid[cells[:, 0], cells[:, 1]]
