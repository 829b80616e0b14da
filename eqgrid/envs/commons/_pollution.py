"""How pollution appears in the river."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float32, Int, Int16, Real

from ...grid import AbstractPhase, Step, as_probability
from ._kinds import POLLUTION, RIVER
from ._options import as_steps
from ._state import with_cells


@final
class Pollute(AbstractPhase):
    """The phase of `Cleanup` in which a clean cell of the river is polluted, which is drawn
    uniformly among all of them.

    Source: `DirtSpawner` of Melting Pot (`lua/levels/clean_up/components.lua`).

    **Arguments:**

    - `probability`: the probability per step.
    - `delay`: the number of steps at the beginning of an episode in which nothing is polluted.

    **Raises:** `ValueError` when a number is out of range.
    """

    probability: Float32[Array, ""]
    delay: Int16[Array, ""]

    def __init__(self, probability: Real[ArrayLike, ""], delay: Int[ArrayLike, ""]):
        needs = "Pollution needs a probability from 0 to 1"
        self.probability = as_probability(probability, needs).astype(jnp.float32)
        self.delay = as_steps(delay, 0, "The delay of pollution")

    def __call__(self, step: Step) -> Step:
        world, objects = step.world, step.world.cells.object
        clean = (step.layout.tiles == RIVER) & (objects != POLLUTION)
        happens, which = jax.random.uniform(step.key, (2,))
        happens = (happens < self.probability) & (world.time >= self.delay.astype(jnp.int32))
        rank = jnp.cumsum(clean.reshape(-1), dtype=jnp.int32).reshape(clean.shape)
        drawn = (which * rank[-1, -1].astype(jnp.float32)).astype(jnp.int32) + 1
        here = clean & (rank == drawn) & happens
        objects = jnp.where(here, np.uint8(POLLUTION), objects)
        return step.then(with_cells(world, object=objects))
