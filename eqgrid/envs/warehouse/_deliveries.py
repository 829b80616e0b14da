"""What happens at the goals: requested shelves are delivered, and others are requested."""

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
    """Which shelf is requested in place of a delivered one."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        """The rank of the next shelf at each goal, should something be delivered there.

        **Arguments:**

        - `key`: for what is random.
        - `num_goals`: how many ranks are asked for.
        - `num_free`: how many shelves are not requested. Those that stand come first, row by row,
            then those that are carried, robot by robot.
        """


@final
class UniformRequestDraw(AbstractRequestDraw):
    """Every shelf that is not requested is equally likely."""

    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        return jax.random.randint(key, (num_goals,), 0, num_free, jnp.int32)


@final
class Deliver(AbstractPhase):
    """A requested shelf that a robot carries on a goal is delivered, and another shelf is requested
    in its place at once. The goals come one after the other: what becomes requested by a delivery
    at the first one may be delivered at the second one in the same step.

    A robot that delivers is marked as one that has (`Bodies.extra`).

    Source: `Warehouse.step` of `rware` 2.0.0.

    **Arguments:**

    - `draw`: which shelf is requested next.
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
            row = jnp.where(happens, place[0], objects.shape[0])  # no such row: nothing is written
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
    """Which of the marked robots has this rank among them."""
    return marked & (jnp.cumsum(marked, dtype=jnp.int32) == rank + 1)
