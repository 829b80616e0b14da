"""LinearSchedule: a number that goes from one value to another."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@final
class LinearSchedule(eqx.Module):
    """A number that changes linearly with a count, and then stays.

    The closures that optax's schedules are have their numbers inside, so a program that was
    compiled with one is compiled anew with another. Here they are leaves: other numbers compile
    nothing anew, and vectors of them are a sweep under `eqx.filter_vmap`.

    **Arguments:**

    - `start`: the value at a count of 0.
    - `end`: the value from a count of `steps` on.
    - `steps`: how long the change takes, above 0; in the steps of one environment where it is the
        schedule of `ShapedReward`.
    """

    start: Float[Array, "..."]
    end: Float[Array, "..."]
    steps: Float[Array, "..."]

    def __init__(
        self,
        start: int | float | Float[Array, "..."],
        end: int | float | Float[Array, "..."],
        steps: int | float | Float[Array, "..."],
    ):
        self.start, self.end, self.steps = (jnp.asarray(x, float) for x in (start, end, steps))

    def __call__(self, count: Int[Array, ""]) -> Float[Array, "..."]:
        share = jnp.minimum(count / self.steps, 1)
        return share * self.end + (1 - share) * self.start
