"""How an episode starts: where agents and food are, and their levels."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray, UInt8

from ...grid import NOTHING, AbstractStart, Layout, World
from ._kinds import FLOOR
from ._places import find_cell

_LOWEST = 3
"""The level of food goes up to what so many of the weakest agents can load together."""

_APART = 3
"""How many steps lie between two foods, at least."""

_EDGE = 2
"""How many rows and columns at each side of the grid, with its walls, have no food."""


@final
class Levels(eqx.Module):
    """Between which levels agents and food are drawn, uniformly, both bounds included.

    - `min_agent`, `max_agent`: of agents.
    - `min_food`, `max_food`: of food. Where `max_food` is 0, food goes up to the sum of the levels
        of the three weakest agents, which is the sum of all for two or three of them.
    - `coop`: all food has the highest level.
    """

    min_agent: Int32[Array, ""]
    max_agent: Int32[Array, ""]
    min_food: Int32[Array, ""]
    max_food: Int32[Array, ""]
    coop: Bool[Array, ""]


@final
class Spawn(AbstractStart):
    """Puts agents of random levels anywhere in the field, and then food of random levels.

    Food neither lies in the outermost cells of the field nor where an agent stands, and two foods
    are at least three steps apart, so that no agent is ever beside two of them. Each is put,
    uniformly, into one of the cells that are left; where none is, there is less food.

    Source: `spawn_players` and `spawn_food` of lbforaging. It tries cells at random, until the
    food is placed or it has tried 1000, which comes to the same unless it runs out of tries.

    **Arguments:**

    - `num_food`: how many foods there are.
    """

    num_food: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        levels: Levels = layout.params
        agents = world.num_agents
        drawn = jax.random.uniform(key, (2 * (agents + self.num_food),), jnp.float32)
        of_agents, of_food = drawn[: 2 * agents], drawn[2 * agents :]
        agent_levels = _between(of_agents[agents:], levels.min_agent, levels.max_agent)
        highest = jnp.where(levels.max_food == 0, _sum_of_lowest(agent_levels), levels.max_food)
        lowest = jnp.where(levels.coop, highest, levels.min_food)
        food_levels = _between(of_food[self.num_food :], lowest, highest)

        floor = layout.tiles == FLOOR
        position = _draw_distinct(of_agents[:agents], floor)
        objects = self._place(of_food[: self.num_food], food_levels, floor, position)
        return World(
            cells=dataclasses.replace(world.cells, object=objects),
            bodies=dataclasses.replace(
                world.bodies, position=position.astype(jnp.int8), extra=agent_levels
            ),
            time=world.time,
            extra=objects.sum(dtype=jnp.int32),
        )

    def _place(
        self,
        drawn: Float32[Array, " food"],
        levels: Int32[Array, " food"],
        floor: Bool[Array, "height width"],
        position: Int32[Array, "agents 2"],
    ) -> UInt8[Array, "height width"]:
        """The objects: food one after the other, in what is left of the cells within the field."""
        free = _within(floor)[_EDGE:-_EDGE, _EDGE:-_EDGE]
        for here in position:
            free &= _steps_from(here - _EDGE, free.shape) > 0
        objects = jnp.full(floor.shape, NOTHING, jnp.uint8)
        for number, level in zip(drawn, levels, strict=True):
            here, exists = _draw_cell(number, free)
            free &= _steps_from(here, free.shape) >= _APART
            row, col = here + _EDGE
            code = jnp.where(exists, level.astype(jnp.uint8), jnp.uint8(NOTHING))
            objects = objects.at[row, col].max(code)  # where there was no cell, nothing changes
        return objects


def lowest_of(num_agents: int) -> int:
    """How many agents' levels limit the level of food."""
    return min(num_agents, _LOWEST)


def _between(
    drawn: Float32[Array, " levels"], low: Int32[Array, ""], high: Int32[Array, ""]
) -> Int32[Array, " levels"]:
    """Whole numbers from numbers in `[0, 1)`."""
    return low + (drawn * (high - low + 1).astype(jnp.float32)).astype(jnp.int32)


def _sum_of_lowest(levels: Int32[Array, " agents"]) -> Int32[Array, ""]:
    """Of the three lowest levels, or of all where there are fewer."""
    if len(levels) <= _LOWEST:
        return levels.sum(dtype=jnp.int32)
    earlier = jnp.asarray(np.tri(len(levels), k=-1, dtype=bool))  # of equal ones the first counts
    lower = levels[None, :] < levels[:, None]
    lower |= (levels[None, :] == levels[:, None]) & earlier
    return jnp.where(lower.sum(axis=1) < _LOWEST, levels, 0).sum(dtype=jnp.int32)


def _within(floor: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
    """The floor that is not beside a wall."""
    beside = [jnp.roll(floor, shift, axis) for shift in (-1, 1) for axis in (0, 1)]
    return floor & beside[0] & beside[1] & beside[2] & beside[3]


def _steps_from(here: Int32[Array, "2"], shape: tuple[int, ...]) -> Int32[Array, "height width"]:
    """The Manhattan distance of every cell."""
    rows, cols = (jnp.arange(side, dtype=jnp.int32) for side in shape)
    return jnp.abs(rows - here[0])[:, None] + jnp.abs(cols - here[1])[None, :]


def _draw_distinct(
    drawn: Float32[Array, " places"], free: Bool[Array, "height width"]
) -> Int32[Array, "places 2"]:
    """Free cells, no two alike, from numbers in `[0, 1)`: each is drawn from those still left."""
    total = free.sum(dtype=jnp.int32)
    taken: list[Int32[Array, ""]] = []  # as numbers among all free cells
    left_before: list[Int32[Array, ""]] = []  # as numbers among those that are left without them
    for number in drawn:
        place = _scale(number, total - len(taken))
        skipped = [(x <= place).astype(jnp.int32) for x in left_before]
        taken.append(sum(skipped, start=place))
        left_before = [x - sum((y < x).astype(jnp.int32) for y in taken) for x in taken]
    (cells,) = jnp.nonzero(free.reshape(-1), size=free.size, fill_value=0)
    chosen = cells[jnp.stack(taken)]  # all episodes in one field look up the same table
    return jnp.stack(jnp.divmod(chosen, free.shape[1]), axis=-1).astype(jnp.int32)


def _draw_cell(
    drawn: Float32[Array, ""], free: Bool[Array, "height width"]
) -> tuple[Int32[Array, "2"], Bool[Array, ""]]:
    """One of the free cells, from a number in `[0, 1)`, and whether there is any."""
    in_rows = free.sum(axis=1, dtype=jnp.int32)
    total = in_rows.sum(dtype=jnp.int32)
    return find_cell(in_rows, free, _scale(drawn, total)), total > 0


def _scale(drawn: Float32[Array, ""], total: Int32[Array, ""]) -> Int32[Array, ""]:
    """A whole number below `total`, from one in `[0, 1)`."""
    return (drawn * total.astype(jnp.float32)).astype(jnp.int32)
