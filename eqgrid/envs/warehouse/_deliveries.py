"""Deliveries at the goals, and the requests that replace them."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, PRNGKeyArray

from ...grid import AbstractPhase, Step
from ._choosing import find_marked
from ._kinds import Load


class AbstractRequestDraw(eqx.Module):
    """The distribution of the shelf that is requested in place of a delivered one."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        """For each goal, the rank of the shelf to request next if there is a delivery.

        **Arguments:**

        - `key`: the source of randomness.
        - `num_goals`: the number of goals.
        - `num_free`: the number of shelves that are not requested. Ranks count standing shelves
            first, in row-major order, and then carried ones, in the order of the robots.
        """


@final
class UniformRequestDraw(AbstractRequestDraw):
    """Samples uniformly from all shelves that are not requested."""

    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        return jax.random.randint(key, (num_goals,), 0, num_free, jnp.int32)


@final
class Deliver(AbstractPhase):
    """The phase in which requested shelves are delivered by robots that carry them on a goal; each
    of them is at once replaced by a request for another shelf. Goals are processed one after the
    other: a shelf that is requested after a delivery at the first goal may be delivered at the
    second one in the same step.

    Robots that deliver are marked in `Bodies.extra`.

    Source: `Warehouse.step` of `rware` 2.0.0.

    **Arguments:**

    - `draw`: the distribution of the next requested shelf.
    """

    draw: AbstractRequestDraw

    def __call__(self, step: Step) -> Step:
        goals = step.layout.params
        cells, bodies = step.world.cells, step.world.bodies
        objects, held = cells.object, bodies.held
        free, carried = objects == Load.SHELF, held == Load.SHELF
        num_free = free.sum(dtype=jnp.int32) + carried.sum(dtype=jnp.int32)
        ranks = self.draw(step.key, len(goals), num_free)
        delivers = jnp.zeros(held.shape, bool)
        for goal, rank in zip(goals, ranks, strict=True):
            there = (bodies.position == goal[None]).all(axis=1) & (held == Load.REQUESTED)
            happens = there.any()
            place, standing = find_marked(objects == Load.SHELF, rank)
            row = jnp.where(happens, place[0], objects.shape[0])  # writes to this row are dropped
            objects = objects.at[row, place[1]].set(jnp.uint8(Load.REQUESTED), mode="drop")
            becomes = happens & _is_ranked(held == Load.SHELF, rank - standing)
            held = jnp.where(becomes, jnp.uint8(Load.REQUESTED), held)
            held = jnp.where(there, jnp.uint8(Load.SHELF), held)
            delivers |= there
        bodies = dataclasses.replace(bodies, held=held, extra=bodies.extra | delivers)
        cells = dataclasses.replace(cells, object=objects)
        world = dataclasses.replace(step.world, cells=cells, bodies=bodies)
        return step.then(world, Deliver, delivers)


def _is_ranked(marked: Bool[Array, " agents"], rank: Int32[Array, ""]) -> Bool[Array, " agents"]:
    """Which of the marked robots has this rank among the marked ones."""
    return marked & (jnp.cumsum(marked, dtype=jnp.int32) == rank + 1)
