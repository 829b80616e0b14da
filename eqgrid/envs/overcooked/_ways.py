"""Shortest ways of cooks in a kitchen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, Shaped

from ...grid import next_to

FAR = 2**14
"""More steps than any way has, as it is more than the cells of the largest layout."""

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
    return spread(floor, first, toll + 1)


def spread(
    floor: Bool[Array, "height width"],
    first: Int[Array, "height width"],
    cost: Int[Array, "*grid"],
) -> Int[Array, "height width"]:
    """The lowest number that gets to each cell of the floor by walking, step by step.

    **Arguments:**

    - `floor`: where cooks walk.
    - `first`: the number that each cell begins with; `FAR` where there is none.
    - `cost`: what is added when a cell is left.

    **Returns:** at least `FAR` where no number gets to, or no floor is.
    """

    def further(state: tuple[Array, Array]) -> tuple[Array, Array]:
        numbers, _ = state
        wide = jnp.pad(numbers + cost, 1, constant_values=FAR)
        near = (wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, 2:], wide[1:-1, :-2])
        lower = jnp.where(floor, functools.reduce(jnp.minimum, near, numbers), FAR)
        return lower, (lower != numbers).any()

    return jax.lax.while_loop(lambda state: state[1], further, (first, jnp.asarray(True)))[0]


def label_regions(floor: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """A number for every cell of the floor, equal where a cook can walk from one to the other; -1
    elsewhere.
    """
    height, width = floor.shape
    own = jnp.arange(height * width, dtype=jnp.int32).reshape(height, width)
    labels = spread(floor, jnp.where(floor, own, FAR), jnp.zeros((), jnp.int32))
    return jnp.where(floor, labels, -1)


def around(
    grid: Shaped[Array, "height width"], position: Int[Array, "2"]
) -> Shaped[Array, " directions"]:
    """What is in the four cells next to a position, by direction. The position is no border."""
    cells = position.astype(jnp.int32)[None] + STEPS
    return grid[cells[:, 0], cells[:, 1]]
