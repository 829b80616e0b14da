"""How one of many cells is found by its rank, and how distinct ranks are drawn."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PRNGKeyArray


def find_marked(
    marked: Bool[Array, "height width"], rank: Int32[Array, ""]
) -> tuple[Int32[Array, "2"], Int32[Array, ""]]:
    """Finds a marked cell by its rank among them, row by row.

    **Arguments:**

    - `marked`: the cells to choose from.
    - `rank`: from 0.

    **Returns:** its `(row, col)`, with a row below the grid where there are too few; and how many
    marked cells there are.
    """
    in_row = marked.sum(axis=1, dtype=jnp.int32)
    up_to = jnp.cumsum(in_row, dtype=jnp.int32)
    row = (up_to <= rank).sum(dtype=jnp.int32)
    before = jnp.where(up_to <= rank, in_row, 0).sum(dtype=jnp.int32)
    so_far = jnp.cumsum(marked[row], dtype=jnp.int32)
    col = (so_far <= rank - before).sum(dtype=jnp.int32)
    return jnp.stack([row, col]), up_to[-1]


def draw_distinct(key: PRNGKeyArray, count: int, total: Int32[Array, ""]) -> Int32[Array, " count"]:
    """Draws different numbers below `total`, uniformly among all ordered choices.

    These are the first cards of a shuffle by swaps (Fisher and Yates): each place swaps with one
    that is not before it. Following the swaps backwards says which card lies there, so the pack
    itself is not needed.

    **Arguments:**

    - `count`: how many, at most `total`.
    - `total`: how many there are to choose from.
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
