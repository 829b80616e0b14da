"""Selecting marked cells by index, without a loop over cells and without sorting."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32


def find_cell(
    in_rows: Int32[Array, " height"], marked: Bool[Array, "height width"], number: Int32[Array, ""]
) -> Int32[Array, "2"]:
    """`(row, col)` of the marked cell with a given index, in row-major order. If the index is too
    large, it is an arbitrary cell, or out of range.

    **Arguments:**

    - `in_rows`: the number of marked cells in each row.
    - `marked`: which cells are marked.
    - `number`: the index of the cell to find.
    """
    row, number = _find(in_rows, number)
    col, _ = _find(marked[row].astype(jnp.int32), number)
    return jnp.stack([row, col])


def _find(
    counts: Int32[Array, " places"], number: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The place that contains the item with a given index, counted through all places, and the
    index of the item within its place.
    """
    up_to = (counts[None, :] * np.tri(len(counts), dtype=np.int32)).sum(axis=1, dtype=jnp.int32)
    passed = up_to <= number
    before = jnp.where(passed, counts, 0).sum(dtype=jnp.int32)
    return passed.sum(dtype=jnp.int32), number - before
