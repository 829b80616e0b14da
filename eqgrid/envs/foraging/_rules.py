"""The rules of lbforaging: collisions, joint loading of food, rewards and the end of an episode."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float32, Int8, Int32, Real

from ..._checks import as_number, is_finite
from ...grid import (
    NOTHING,
    AbstractCollision,
    AbstractEnding,
    AbstractEvents,
    AbstractPhase,
    AbstractReward,
    Direction,
    Step,
    Use,
    direction_delta,
)


@final
class LoneClaim(AbstractCollision):
    """An agent moves into a cell if no other agent claims the cell. If several agents claim a cell,
    all of them stay where they are. An agent that does not want to move claims its own cell.

    Two agents may therefore swap cells. With three or more agents, an agent may enter the cell of
    an agent whose move failed. Both agents then share the cell until one of them leaves.

    Source: `ForagingEnv.step` of lbforaging.
    """

    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        rivals = (new[:, None] == new[None, :]).all(axis=-1)
        rivals &= jnp.asarray(~np.eye(len(new), dtype=bool))
        if active is not None:
            rivals &= active[:, None] & active[None, :]
        return jnp.where(rivals.any(axis=1)[:, None], old, new)


LOAD = Use("load")
"""The action of an agent that loads the food next to it."""


@final
class Attempts(eqx.Module):
    """The attempts of all agents to load food in a step.

    - `food`: the level of the food that each agent tries to load; 0 if the agent does not load, or
        if there is no food next to it.
    - `position`: `(row, col)` of this food.
    - `strength`: the sum of the levels of all agents that try to load this food.
    """

    food: Int32[Array, " agents"]
    position: Int8[Array, "agents 2"]
    strength: Int32[Array, " agents"]

    @property
    def succeed(self) -> Bool[Array, " agents"]:
        """Which agents load food in this step."""
        return (self.food > 0) & (self.strength >= self.food)

    @property
    def fail(self) -> Bool[Array, " agents"]:
        """Which agents try to load food, but are too weak."""
        return (self.food > 0) & (self.strength < self.food)


def find_attempts(step: Step) -> Attempts:
    """Finds all attempts to load food in the world before the step; loading agents do not move.

    Foods are so far apart that an agent is never next to two foods; otherwise it would load the
    first food in the order of `Direction`.

    Source: the end of `ForagingEnv.step` of lbforaging.
    """
    bodies, objects = step.before.bodies, step.before.cells.object
    deltas = direction_delta(jnp.arange(len(Direction), dtype=jnp.int8))
    beside = bodies.position[:, None] + deltas[None]
    levels = objects[beside[..., 0], beside[..., 1]].astype(jnp.int32)
    food, position = levels[:, 0], beside[:, 0]
    for direction in range(1, len(Direction)):
        nothing_yet = food == NOTHING
        food = jnp.where(nothing_yet, levels[:, direction], food)
        position = jnp.where(nothing_yet[:, None], beside[:, direction], position)
    food = jnp.where(step.uses(LOAD), food, 0)
    together = (position[:, None] == position[None, :]).all(axis=-1) & (food > 0)[None, :]
    strength = jnp.where(together, bodies.extra[None, :], 0).sum(axis=1, dtype=jnp.int32)
    return Attempts(food, position, strength)


_NOWHERE = 127  # a row outside every grid, where writes are dropped


@final
class Load(AbstractPhase):
    """Removes food if the levels of the agents that load it sum up to at least its level."""

    def __call__(self, step: Step) -> Step:
        attempts, cells = find_attempts(step), step.world.cells
        row = jnp.where(attempts.succeed, attempts.position[:, 0], jnp.int8(_NOWHERE))
        objects = cells.object.at[row, attempts.position[:, 1]].set(NOTHING, mode="drop")
        cells = dataclasses.replace(cells, object=objects)
        return step.then(dataclasses.replace(step.world, cells=cells))


@final
class LoadEvents(AbstractEvents):
    """Which agents load food, and which agents try to load food but are too weak."""

    names: tuple[str, ...] = eqx.field(static=True, default=("load", "failed_load"))

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        attempts = find_attempts(step)
        return attempts.succeed, attempts.fail


@final
class LoadReward(AbstractReward):
    """Divides the level of loaded food among the agents that load it, in proportion to their
    levels.

    Source: the end of `ForagingEnv.step` of lbforaging.

    **Arguments:**

    - `penalty`: the cost of an attempt to load food for which the agents are too weak.
    - `normalize`: whether rewards are divided by the sum of the levels of all food at the start, so
        that all food of the episode is worth 1. Otherwise an agent gets its own level times the
        level of the food.

    **Raises:** `ValueError` when the penalty is negative or not finite.
    """

    penalty: Float32[Array, ""]
    normalize: bool = eqx.field(static=True)

    def __init__(self, penalty: Real[ArrayLike, ""] = 0.0, normalize: bool = True):
        needs = "The penalty is what an agent loses: give a finite number of at least 0"
        lost = as_number(penalty, float, lambda x: x >= 0 and is_finite(x), needs)
        self.penalty = lost.astype(jnp.float32)
        self.normalize = normalize

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        attempts = find_attempts(step)
        reward = (step.before.bodies.extra * attempts.food).astype(jnp.float32)
        if self.normalize:
            # `World.extra` is the sum of the levels of all food at the start.
            divisor = attempts.strength * step.before.extra
            reward /= jnp.maximum(divisor, 1).astype(jnp.float32)
        penalty = jnp.where(attempts.fail, -self.penalty, 0.0)
        return jnp.where(attempts.succeed, reward, penalty)


@final
class NothingLeft(AbstractEnding):
    """All agents terminate when no food is left."""

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        left = (step.world.cells.object != NOTHING).any()
        return jnp.broadcast_to(~left, (step.world.num_agents,))
