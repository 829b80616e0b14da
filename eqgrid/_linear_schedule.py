"""LinearSchedule: a linear change from one value to another."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int, Real

from ._checks import as_number, is_finite


@final
class LinearSchedule(eqx.Module):
    """A schedule that changes linearly from `start` to `end` in `steps` steps, and then stays.

    An optax schedule is a closure over its numbers, so other numbers recompile the program. Here
    they are array leaves: changing them does not recompile, and `eqx.filter_vmap` over a batch of
    schedules is a sweep.

    ```python
    import jax.numpy as jnp

    from eqgrid import LinearSchedule

    schedule = LinearSchedule(1.0, 0.0, 1000)
    print(schedule(jnp.asarray(250)))  # 0.75
    ```

    **Arguments:**

    - `start`: the value at a count of 0.
    - `end`: the value from a count of `steps` on.
    - `steps`: the length of the change, above 0; counted in steps of one environment where the
        schedule is that of `ShapedReward`.

    **Raises:** `ValueError` when a number is not finite, or `steps` is not above 0. Traced numbers
    are not checked.
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
