"""Reachability of cells, as array operations, so that many layouts are searched at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32


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
    here = jnp.zeros_like(free).at[start[0], start[1]].set(True)

    def grow(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = state
        further = reached | (next_to(reached) & free)
        return further, (further != reached).any()

    return jax.lax.while_loop(lambda state: state[1], grow, (here, jnp.asarray(True)))[0]
