"""Which cells can be walked to, in arrays, so that thousands of layouts are searched at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32


def next_to(cells: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
    """The cells that share an edge with some of these."""
    wide = jnp.pad(cells, 1)
    return wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]


def count_next_to(cells: Bool[Array, "height width"]) -> Int32[Array, "height width"]:
    """How many of these cells share an edge with each cell."""
    wide = jnp.pad(cells, 1).astype(jnp.int32)
    return wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]


def reach(free: Bool[Array, "height width"], start: Int[Array, "2"]) -> Bool[Array, "height width"]:
    """All cells that can be walked to, step by step in the four directions.

    **Arguments:**

    - `free`: the cells that can be entered.
    - `start`: `(row, col)` where the walk begins, which is reached even if it is not free.
    """
    here = jnp.zeros_like(free).at[start[0], start[1]].set(True)

    def grow(state: tuple[Array, Array]) -> tuple[Array, Array]:
        reached, _ = state
        further = reached | (next_to(reached) & free)
        return further, (further != reached).any()

    return jax.lax.while_loop(lambda state: state[1], grow, (here, jnp.asarray(True)))[0]
