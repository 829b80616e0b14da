"""Obstacles that move at random, as in `DynamicObstaclesEnv` of minigrid 3.2."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, PRNGKeyArray, UInt8

from ...grid import NOTHING, AbstractPhase, Step, cells_at, occupied_cells
from ._kinds import WALL

_AROUND = np.asarray([(row, col) for row in (-1, 0, 1) for col in (-1, 0, 1)], np.int8)
STAYS = 4
"""The number of the middle one of the nine cells around an obstacle, which is its own."""


class AbstractObstacleDraw(eqx.Module):
    """The distribution of where an obstacle moves."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        """The number of the cell to which an obstacle moves.

        **Arguments:**

        - `key`: the source of randomness.
        - `number`: the number of the obstacle.
        - `free`: which of the nine cells around the obstacle, row by row, are free.
        """


@final
class UniformObstacleDraw(AbstractObstacleDraw):
    """Moves obstacles to one of the free cells around them, uniformly at random; an obstacle
    without one stays.

    The reference gives up after 101 draws among all nine cells, so that there an obstacle with a
    single free cell stays in 7 of a million steps.
    """

    def __call__(
        self, key: PRNGKeyArray, number: Int[Array, ""], free: Bool[Array, "9"]
    ) -> Int[Array, ""]:
        score = jnp.where(free, jax.random.uniform(key, free.shape), -1.0)
        return jnp.where(free.any(), jnp.argmax(score), STAYS)


@final
class MoveObstacles(AbstractPhase):
    """Moves obstacles, one after the other, to cells around them without objects and agents. The
    positions of the obstacles are in `World.extra`.

    **Arguments:**

    - `draw`: the distribution of where they move.
    """

    draw: AbstractObstacleDraw

    def __call__(self, step: Step) -> Step:
        world = step.world
        places: Int8[Array, "obstacles 2"] = world.extra
        numbers = jnp.arange(len(places), dtype=jnp.int32)
        keys = jax.random.split(step.key, len(places))
        taken = occupied_cells(world)

        def move(
            objects: UInt8[Array, "height width"], told: tuple[Array, Array, Array]
        ) -> tuple[Array, Array]:
            key, number, old = told
            around = old[None] + jnp.asarray(_AROUND)
            free = (cells_at(objects, around, WALL) == NOTHING) & ~cells_at(taken, around, True)
            new = around[self.draw(key, number, free)]
            code = objects[old[0], old[1]]
            objects = objects.at[old[0], old[1]].set(jnp.uint8(NOTHING))
            return objects.at[new[0], new[1]].set(code), new

        objects, moved = jax.lax.scan(move, world.cells.object, (keys, numbers, places))
        cells = dataclasses.replace(world.cells, object=objects)
        return step.then(dataclasses.replace(world, cells=cells, extra=moved))
