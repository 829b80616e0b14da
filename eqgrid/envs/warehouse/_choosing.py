"""Selecting marked cells by rank, and sampling distinct ranks."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PRNGKeyArray


def find_marked(
    marked: Bool[Array, "height width"], rank: Int32[Array, ""]
) -> tuple[Int32[Array, "2"], Int32[Array, ""]]:
    """Finds a marked cell by its rank among all marked cells in row-major order.

    **Arguments:**

    - `marked`: the cells to choose from.
    - `rank`: the rank of the cell, counted from 0.

    **Returns:** its `(row, col)`, with a row below the grid if there are too few marked cells; and
    the number of marked cells.
    """
    in_row = marked.sum(axis=1, dtype=jnp.int32)
    up_to = jnp.cumsum(in_row, dtype=jnp.int32)
    row = (up_to <= rank).sum(dtype=jnp.int32)
    before = jnp.where(up_to <= rank, in_row, 0).sum(dtype=jnp.int32)
    so_far = jnp.cumsum(marked[row], dtype=jnp.int32)
    col = (so_far <= rank - before).sum(dtype=jnp.int32)
    return jnp.stack([row, col]), up_to[-1]


def draw_distinct(key: PRNGKeyArray, count: int, total: Int32[Array, ""]) -> Int32[Array, " count"]:
    """Samples distinct integers below `total`, uniformly among all ordered choices.

    They are the first `count` entries of a Fisher-Yates shuffle: each position is swapped with one
    that is not before it. The entry at a position is found by following the swaps backwards, so the
    array of all `total` entries is not needed.

    **Arguments:**

    - `key`: the source of randomness.
    - `count`: the number of integers, at most `total`.
    - `total`: the upper bound, which is excluded.
    """
    places = jnp.arange(count, dtype=jnp.int32)
    swaps = jax.random.randint(key, (count,), places, total, jnp.int32)
    drawn = []
    for i in range(count):
        card = swaps[i]
        for j in reversed(range(i)):
            card = jnp.where(card == swaps[j], jnp.int32(j), card)
        drawn.append(card)
    return jnp.stack(drawn)
