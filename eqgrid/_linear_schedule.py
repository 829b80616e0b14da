"""LinearSchedule: a number that goes from one value to another."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Real

from ._checks import as_number, is_finite


@final
class LinearSchedule(eqx.Module):
    """A number that changes linearly with a count, and then stays.

    The closures that optax's schedules are have their numbers inside, so a program that was
    compiled with one is compiled anew with another. Here they are leaves: other numbers compile
    nothing anew, and under `eqx.filter_vmap` a batch of schedules is a sweep.

    **Arguments:**

    - `start`: the value at a count of 0.
    - `end`: the value from a count of `steps` on.
    - `steps`: how long the change takes, above 0; in the steps of one environment where it is the
        schedule of `ShapedReward`.

    **Raises:** `ValueError` when a number is not finite, or `steps` not above 0. Numbers that are
    being traced are not looked at.
    """

    start: Float[Array, ""]
    end: Float[Array, ""]
    steps: Float[Array, ""]

    def __init__(
        self, start: Real[ArrayLike, ""], end: Real[ArrayLike, ""], steps: Real[ArrayLike, ""]
    ):
        needs = "LinearSchedule needs a finite start and a finite end"
        self.start, self.end = (as_number(x, float, is_finite, needs) for x in (start, end))
        needs = "LinearSchedule needs a finite number of steps above 0"
        self.steps = as_number(steps, float, lambda x: x > 0 and is_finite(x), needs)

    def __call__(self, count: Int[Array, ""]) -> Float[Array, ""]:
        share = jnp.minimum(count / self.steps, 1)
        return share * self.end + (1 - share) * self.start
