"""Marked cells by their number: without a loop over cells, and without sorting any."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32


def find_cell(
    in_rows: Int32[Array, " height"], marked: Bool[Array, "height width"], number: Int32[Array, ""]
) -> Int32[Array, "2"]:
    """`(row, col)` of the marked cell with this number, counted from 0, row by row. Where there are
    not so many, it is some cell, or the one after the last.

    **Arguments:**

    - `in_rows`: how many are marked in each row.
    - `marked`: which are.
    - `number`: which one to find.
    """
    row, number = _find(in_rows, number)
    col, _ = _find(marked[row].astype(jnp.int32), number)
    return jnp.stack([row, col])


def _find(
    counts: Int32[Array, " places"], number: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """In which place the thing with this number is, counted from 0 through all places, and which
    number it has there."""
    up_to = (counts[None, :] * np.tri(len(counts), dtype=np.int32)).sum(axis=1, dtype=jnp.int32)
    passed = up_to <= number
    before = jnp.where(passed, counts, 0).sum(dtype=jnp.int32)
    return passed.sum(dtype=jnp.int32), number - before
