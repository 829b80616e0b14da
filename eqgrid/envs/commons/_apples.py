"""Apples: how they are eaten, and how they grow in the two worlds."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float32, Real, UInt8

from ...grid import NOTHING, AbstractPhase, Step, as_probability, check_whole, is_known
from ._kinds import APPLE, ORCHARD, POLLUTION, RIVER
from ._state import Tally, is_active, retallied, with_cells

_WIDEST = 8
"""The largest radius in which apples are counted, so that a count fits into 8 bits."""


@final
class Eat(AbstractPhase):
    """The phase in which agents eat the apples in their cells. It fires for those that eat one, and
    counts in the `Tally` the apples and the steps in which agents are not away.
    """

    def __call__(self, step: Step) -> Step:
        world = step.world
        active, (row, col) = is_active(world), world.bodies.position.T
        objects = world.cells.object
        eats = (objects[row, col] == APPLE) & active
        eaten = jnp.where(eats, jnp.uint8(NOTHING), objects[row, col])
        tally: Tally = world.extra
        now = eats.astype(jnp.int32)
        world = retallied(
            with_cells(world, object=objects.at[row, col].min(eaten)),
            apples=tally.apples + now,
            apple_steps=tally.apple_steps + now * (world.time + 1),
            present=tally.present + active.astype(jnp.int32),
        )
        return step.then(world, Eat, eats)


@final
class Regrow(AbstractPhase):
    """The phase of `Harvest` in which apples grow again in cells of the orchard without one, each
    with a probability that depends on how many apples are near.

    Source: `DensityRegrow` of Melting Pot (`lua/levels/commons_harvest/components.lua`), where the
    apples are also counted as they were before the step, and an apple that grows under an agent is
    eaten at once; the idea is that of Janssen et al. (2010) and Perolat et al. (2017).

    **Arguments:**

    - `probabilities`: the probability per step for 0, 1, 2... apples; the last one is for more.
    - `radius`: how far apples are counted, in cells: to a Euclidean distance of `radius`.

    **Raises:** `ValueError` when a number is out of range.
    """

    probabilities: Float32[Array, " counts"]
    radius: int = eqx.field(static=True)

    def __init__(self, probabilities: Sequence[Real[ArrayLike, ""]], radius: int = 2):
        check_whole(radius=radius)
        if not 1 <= radius <= _WIDEST or not len(probabilities):
            raise ValueError(
                f"Apples grow near others: give probabilities, and a radius from 1 to {_WIDEST}."
            )
        needs = "The probabilities of regrowth must be from 0 to 1"
        chances = [as_probability(x, needs).astype(jnp.float32) for x in probabilities]
        self.probabilities, self.radius = jnp.stack(chances), radius

    def __call__(self, step: Step) -> Step:
        before = step.before.cells.object == APPLE
        near = count_near(before, self.radius)
        most = jnp.uint8(min(len(self.probabilities) - 1, 255))
        probability = self.probabilities[jnp.minimum(near, most)]
        return _grow(step, ~before, probability)


@final
class GrowByCleanWater(AbstractPhase):
    """The phase of `Cleanup` in which apples grow in cells of the orchard without one. The
    probability falls linearly with the share of the river that is polluted.

    Source: `AppleGrow` of Melting Pot (`lua/levels/clean_up/components.lua`), after Hughes et al.
    (2018).

    **Arguments:**

    - `rate`: the largest probability per step.
    - `depletion`: the polluted share from which on nothing grows.
    - `restoration`: the polluted share up to which apples grow at the largest rate; less than
        `depletion`.

    **Raises:** `ValueError` when a number is out of range.
    """

    rate: Float32[Array, ""]
    depletion: Float32[Array, ""]
    restoration: Float32[Array, ""]

    def __init__(
        self,
        rate: Real[ArrayLike, ""],
        depletion: Real[ArrayLike, ""],
        restoration: Real[ArrayLike, ""],
    ):
        needs = "Cleanup needs a growth rate and thresholds from 0 to 1"
        numbers = (as_probability(x, needs) for x in (rate, depletion, restoration))
        self.rate, self.depletion, self.restoration = (x.astype(jnp.float32) for x in numbers)
        if is_known(depletion, restoration) and np.asarray(depletion) <= np.asarray(restoration):
            raise ValueError(
                f"Cleanup needs a threshold of depletion above that of restoration, but got "
                f"{depletion!r:.60} and {restoration!r:.60}."
            )

    def __call__(self, step: Step) -> Step:
        before = step.before.cells.object
        share = polluted_share(step.layout.tiles, before)
        growth = (self.depletion - share) / (self.depletion - self.restoration)
        probability = self.rate * jnp.clip(growth, 0.0, 1.0)
        return _grow(step, before != APPLE, jnp.broadcast_to(probability, before.shape))


def polluted_share(
    tiles: UInt8[Array, "height width"], objects: UInt8[Array, "height width"]
) -> Float32[Array, ""]:
    """The share of the cells of the river that are polluted."""
    river = (tiles == RIVER).sum(dtype=jnp.int32)
    return (objects == POLLUTION).sum(dtype=jnp.int32) / jnp.maximum(river, 1)


def count_near(marked: Bool[Array, "height width"], radius: int) -> UInt8[Array, "height width"]:
    """For each cell, how many other marked cells are at most `radius` away (Euclidean distance)."""
    height, width = marked.shape
    padded = jnp.pad(marked.astype(jnp.uint8), radius)
    reach = range(-radius, radius + 1)
    count = jnp.zeros(marked.shape, jnp.uint8)
    for down in reach:
        for right in reach:
            if 0 < down**2 + right**2 <= radius**2:
                row, col = radius + down, radius + right
                count += padded[row : row + height, col : col + width]
    return count


def _grow(
    step: Step, bare: Bool[Array, "height width"], probability: Float32[Array, "height width"]
) -> Step:
    """Lets apples grow in the cells of the orchard that are bare."""
    objects = step.world.cells.object
    grows = jax.random.uniform(step.key, objects.shape) < probability
    grows &= (step.layout.tiles == ORCHARD) & bare
    return step.then(with_cells(step.world, object=jnp.where(grows, jnp.uint8(APPLE), objects)))
