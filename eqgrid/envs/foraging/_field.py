"""The field of level-based foraging: its kinds and their pictures, and its random initial state."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray, UInt8

from ...grid import NOTHING, AbstractStart, AgentLook, Kind, Kinds, Layout, Number, Pen, World

_SKIN, _SKIN_EDGE = "#E2402F", "#7E150C"
_LEAF, _LEAF_EDGE = "#3E9A45", "#1F5A26"


def draw_food(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws an apple with its level."""
    r = 1.25 * radius
    pen.line([(x, y - 0.6 * r), (x + 0.1 * r, y - 1.15 * r)], fill="#6B4A2B", width=0.14 * r)
    leaf = [(0.1, -0.85), (0.35, -1.15), (0.7, -1.1), (0.5, -0.85)]
    pen.shape([(x + a * r, y + b * r) for a, b in leaf], fill=_LEAF, edge=_LEAF_EDGE, width=0.01)
    pen.disc(x, y + 0.06 * r, r, 0.92 * r, fill=_SKIN, edge=_SKIN_EDGE, width=0.1 * r)
    pen.text(x, y + 0.08 * r, str(variant + 1), 1.1 * r, fill="#FFFFFF")


def draw_forager(pen: Pen, agent: AgentLook, draw_held: object) -> None:
    """Draws head and shoulders in the agent's colour, with its level."""
    colour, dark = agent.colours
    pen.disc(0.5, 0.3, 0.18, fill=colour, edge=dark, width=0.03)
    pen.box(0.2, 0.42, 0.8, 0.92, fill=colour, edge=dark, width=0.03, round_by=0.22)
    pen.text(0.5, 0.67, str(agent.extra[0]), 0.4, fill="#FFFFFF")


FLOOR, WALL = 0, 1
"""The numbers of the kinds of tiles. The wall is only used as the border of the field."""

MAX_LEVEL = 32
"""The highest level of food and of agents."""


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True),
        Kind("wall", "#", solid=True),
    ),
    objects=(Kind("food", solid=True, variants=MAX_LEVEL, sprite=draw_food),),
    agent_sprite=draw_forager,
)
"""The kinds of level-based foraging. Food is the only kind of object, so its code is its level:
1, 2, and so on. `Bodies.extra` contains the levels of the agents.
"""

_NUM_WEAKEST = 3
"""By default, the maximum level of food is the sum of the levels of this number of weakest agents.
"""

_MIN_DISTANCE = 3
"""The smallest Manhattan distance between two foods."""

_BORDER = 2
"""The number of rows and columns without food on each side of the grid, walls included."""


@final
class Levels(eqx.Module):
    """The ranges from which levels are sampled uniformly, both bounds included.

    - `min_agent`, `max_agent`: the levels of agents.
    - `min_food`, `max_food`: the levels of food. If `max_food` is 0, the highest level of food is
        the sum of the levels of the three weakest agents, or of all if there are fewer.
    - `coop`: whether all food has the highest level.
    """

    min_agent: Int32[Array, ""]
    max_agent: Int32[Array, ""]
    min_food: Int32[Array, ""]
    max_food: Int32[Array, ""]
    coop: Bool[Array, ""]


@final
class Spawn(AbstractStart):
    """Places agents with random levels anywhere in the field, and then food with random levels.

    There is no food in the outermost cells of the field or in the cell of an agent. Two items of
    food are at least three steps apart, so an agent is never next to both. Each food is placed
    uniformly at random in one of the remaining cells, or left out if no cell remains.

    Source: `spawn_players` and `spawn_food` of lbforaging, which try random cells up to 1000 times.
    The distribution is the same unless lbforaging runs out of attempts.

    **Arguments:**

    - `num_food`: the number of foods.
    """

    num_food: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        levels: Levels = layout.params
        agents = world.num_agents
        # Two random numbers for each agent and each food: one for its cell, and one for its level.
        uniform = jax.random.uniform(key, (2 * (agents + self.num_food),), jnp.float32)
        of_agents, of_food = uniform[: 2 * agents], uniform[2 * agents :]
        agent_levels = _between(of_agents[agents:], levels.min_agent, levels.max_agent)
        highest = jnp.where(levels.max_food == 0, _sum_of_weakest(agent_levels), levels.max_food)
        lowest = jnp.where(levels.coop, highest, levels.min_food)
        food_levels = _between(of_food[self.num_food :], lowest, highest)

        floor = layout.tiles == FLOOR
        position = _distinct_cells(of_agents[:agents], floor)
        objects = self._place_food(of_food[: self.num_food], food_levels, floor, position)
        return World(
            cells=dataclasses.replace(world.cells, object=objects),
            bodies=dataclasses.replace(
                world.bodies, position=position.astype(jnp.int8), extra=agent_levels
            ),
            time=world.time,
            extra=objects.sum(dtype=jnp.int32),  # the sum of the levels of all food
        )

    def _place_food(
        self,
        uniform: Float32[Array, " food"],
        levels: Int32[Array, " food"],
        floor: Bool[Array, "height width"],
        position: Int32[Array, "agents 2"],
    ) -> UInt8[Array, "height width"]:
        """Places the items of food one after the other, and returns the grid of objects."""
        neighbours = [jnp.roll(floor, shift, axis) for shift in (-1, 1) for axis in (0, 1)]
        inner = floor & neighbours[0] & neighbours[1] & neighbours[2] & neighbours[3]
        # `free` leaves out the border of the grid, in which no food is placed.
        free = inner[_BORDER:-_BORDER, _BORDER:-_BORDER]
        for cell in position:
            free &= _steps_from(cell - _BORDER, free.shape) > 0
        objects = jnp.full(floor.shape, NOTHING, jnp.uint8)
        for number, level in zip(uniform, levels, strict=True):
            in_rows = free.sum(axis=1, dtype=jnp.int32)
            total = in_rows.sum(dtype=jnp.int32)
            row, rest = _find(in_rows, _scale(number, total))
            col, _ = _find(free[row].astype(jnp.int32), rest)
            cell, exists = jnp.stack([row, col]), total > 0
            free &= _steps_from(cell, free.shape) >= _MIN_DISTANCE
            row, col = cell + _BORDER
            code = jnp.where(exists, level.astype(jnp.uint8), jnp.uint8(NOTHING))
            objects = objects.at[row, col].max(code)  # NOTHING is 0, so `max` ignores it
        return objects


def num_weakest(num_agents: int) -> int:
    """The number of weakest agents whose levels limit the level of food."""
    return min(num_agents, _NUM_WEAKEST)


def _between(
    uniform: Float32[Array, " levels"], low: Int32[Array, ""], high: Int32[Array, ""]
) -> Int32[Array, " levels"]:
    """Converts numbers in `[0, 1)` to integers from `low` to `high`, both included."""
    return low + (uniform * (high - low + 1).astype(jnp.float32)).astype(jnp.int32)


def _sum_of_weakest(levels: Int32[Array, " agents"]) -> Int32[Array, ""]:
    """The sum of the three lowest levels, or of all levels if there are fewer."""
    if len(levels) <= _NUM_WEAKEST:
        return levels.sum(dtype=jnp.int32)
    # Entry [i, j] is whether agent j is weaker than agent i; of equal levels, the first is weaker.
    earlier = jnp.asarray(np.tri(len(levels), k=-1, dtype=bool))
    weaker = levels[None, :] < levels[:, None]
    weaker |= (levels[None, :] == levels[:, None]) & earlier
    return jnp.where(weaker.sum(axis=1) < _NUM_WEAKEST, levels, 0).sum(dtype=jnp.int32)


def _steps_from(cell: Int32[Array, "2"], shape: tuple[int, ...]) -> Int32[Array, "height width"]:
    """The Manhattan distance from a cell to every cell."""
    rows, cols = (jnp.arange(side, dtype=jnp.int32) for side in shape)
    return jnp.abs(rows - cell[0])[:, None] + jnp.abs(cols - cell[1])[None, :]


def _distinct_cells(
    uniform: Float32[Array, " places"], free: Bool[Array, "height width"]
) -> Int32[Array, "places 2"]:
    """Converts numbers in `[0, 1)` to distinct free cells."""
    total = free.sum(dtype=jnp.int32)
    taken: list[Int32[Array, ""]] = []  # the ranks of the taken cells among all free cells
    untaken_before: list[Int32[Array, ""]] = []  # the untaken free cells before each taken cell
    for number in uniform:
        rank = _scale(number, total - len(taken))  # among the untaken cells
        # The rank among all free cells also counts the taken cells that come before this cell.
        passed = [(x <= rank).astype(jnp.int32) for x in untaken_before]
        taken.append(sum(passed, start=rank))
        untaken_before = [x - sum((y < x).astype(jnp.int32) for y in taken) for x in taken]
    # This table depends only on the field, so all episodes of a batch share it.
    (cells,) = jnp.nonzero(free.reshape(-1), size=free.size, fill_value=0)
    chosen = cells[jnp.stack(taken)]
    return jnp.stack(jnp.divmod(chosen, free.shape[1]), axis=-1).astype(jnp.int32)


def _scale(uniform: Float32[Array, ""], total: Int32[Array, ""]) -> Int32[Array, ""]:
    """Converts a number in `[0, 1)` to an integer below `total`."""
    return (uniform * total.astype(jnp.float32)).astype(jnp.int32)


def _find(
    counts: Int32[Array, " places"], index: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Finds an item by its index in a sequence of places, which contain `counts` items each.

    **Returns:** the index of the place that contains the item, and the item's index in this place.
    """
    up_to = (counts[None, :] * np.tri(len(counts), dtype=np.int32)).sum(axis=1, dtype=jnp.int32)
    passed = up_to <= index
    before = jnp.where(passed, counts, 0).sum(dtype=jnp.int32)
    return passed.sum(dtype=jnp.int32), index - before
