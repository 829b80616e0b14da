"""How arguments of both worlds are read."""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float32, Int, Int16, Real

from ...grid import as_number, is_finite

_LONGEST = 2**15 - 1


def as_steps(number: Int[ArrayLike, ""], smallest: int, what: str) -> Int16[Array, ""]:
    """A number of steps as an array leaf.

    **Raises:** `ValueError` when it is less than `smallest`, or does not fit into 16 bits.
    """
    needs = f"{what} needs a number of steps from {smallest} to {_LONGEST:,}"
    steps = as_number(number, int, lambda x: smallest <= x <= _LONGEST, needs)
    return steps.astype(jnp.int16)


def as_cost(number: Real[ArrayLike, ""], what: str) -> Float32[Array, ""]:
    """The reward for something that costs `number`.

    **Raises:** `ValueError` when it is not finite.
    """
    return -as_number(number, float, is_finite, f"{what} needs a finite cost").astype(jnp.float32)
