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
1, 2, and so on. The level of an agent is the only entry of its `Bodies.extra`.
"""


_LOWEST = 3
"""By default, food has at most the sum of the levels of this many of the weakest agents."""

_APART = 3
"""The smallest Manhattan distance between two foods."""

_EDGE = 2
"""The number of rows and columns on each side of the grid, walls included, without food."""


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

    There is no food in the outermost cells of the field or in the cell of an agent, and two foods
    are at least three steps apart, so that no agent is ever next to two of them. Each food is
    placed uniformly at random in one of the remaining cells; if there are none, there is less food.

    Source: `spawn_players` and `spawn_food` of lbforaging, which try random cells up to 1000 times.
    The distribution is the same unless they run out of attempts.

    **Arguments:**

    - `num_food`: the number of foods.
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
        """The objects in all cells, with food placed one after the other in the remaining cells."""
        beside = [jnp.roll(floor, shift, axis) for shift in (-1, 1) for axis in (0, 1)]
        no_wall = floor & beside[0] & beside[1] & beside[2] & beside[3]
        free = no_wall[_EDGE:-_EDGE, _EDGE:-_EDGE]
        for here in position:
            free &= _steps_from(here - _EDGE, free.shape) > 0
        objects = jnp.full(floor.shape, NOTHING, jnp.uint8)
        for number, level in zip(drawn, levels, strict=True):
            in_rows = free.sum(axis=1, dtype=jnp.int32)
            total = in_rows.sum(dtype=jnp.int32)
            row, rest = _find(in_rows, _scale(number, total))
            col, _ = _find(free[row].astype(jnp.int32), rest)
            here, exists = jnp.stack([row, col]), total > 0
            free &= _steps_from(here, free.shape) >= _APART
            row, col = here + _EDGE
            code = jnp.where(exists, level.astype(jnp.uint8), jnp.uint8(NOTHING))
            objects = objects.at[row, col].max(code)  # if there is no cell left, nothing changes
        return objects


def lowest_of(num_agents: int) -> int:
    """The number of weakest agents whose levels limit the level of food."""
    return min(num_agents, _LOWEST)


def _between(
    drawn: Float32[Array, " levels"], low: Int32[Array, ""], high: Int32[Array, ""]
) -> Int32[Array, " levels"]:
    """Converts numbers in `[0, 1)` to integers from `low` to `high`, both included."""
    return low + (drawn * (high - low + 1).astype(jnp.float32)).astype(jnp.int32)


def _sum_of_lowest(levels: Int32[Array, " agents"]) -> Int32[Array, ""]:
    """The sum of the three lowest levels, or of all if there are fewer."""
    if len(levels) <= _LOWEST:
        return levels.sum(dtype=jnp.int32)
    earlier = jnp.asarray(np.tri(len(levels), k=-1, dtype=bool))  # ties go to the first agent
    lower = levels[None, :] < levels[:, None]
    lower |= (levels[None, :] == levels[:, None]) & earlier
    return jnp.where(lower.sum(axis=1) < _LOWEST, levels, 0).sum(dtype=jnp.int32)


def _steps_from(here: Int32[Array, "2"], shape: tuple[int, ...]) -> Int32[Array, "height width"]:
    """The Manhattan distance from `here` to every cell."""
    rows, cols = (jnp.arange(side, dtype=jnp.int32) for side in shape)
    return jnp.abs(rows - here[0])[:, None] + jnp.abs(cols - here[1])[None, :]


def _draw_distinct(
    drawn: Float32[Array, " places"], free: Bool[Array, "height width"]
) -> Int32[Array, "places 2"]:
    """Converts numbers in `[0, 1)` to distinct free cells, each from the remaining cells."""
    total = free.sum(dtype=jnp.int32)
    taken: list[Int32[Array, ""]] = []  # as indices among all free cells
    left_before: list[Int32[Array, ""]] = []  # as indices among the free cells without those taken
    for number in drawn:
        place = _scale(number, total - len(taken))
        skipped = [(x <= place).astype(jnp.int32) for x in left_before]
        taken.append(sum(skipped, start=place))
        left_before = [x - sum((y < x).astype(jnp.int32) for y in taken) for x in taken]
    (cells,) = jnp.nonzero(free.reshape(-1), size=free.size, fill_value=0)
    chosen = cells[jnp.stack(taken)]  # the table is shared by all episodes in one field
    return jnp.stack(jnp.divmod(chosen, free.shape[1]), axis=-1).astype(jnp.int32)


def _scale(drawn: Float32[Array, ""], total: Int32[Array, ""]) -> Int32[Array, ""]:
    """Converts a number in `[0, 1)` to an integer below `total`."""
    return (drawn * total.astype(jnp.float32)).astype(jnp.int32)


def _find(
    counts: Int32[Array, " places"], number: Int32[Array, ""]
) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """The place that contains the item with a given index, counted through all places, and the
    index of the item within its place.
    """
    up_to = (counts[None, :] * np.tri(len(counts), dtype=np.int32)).sum(axis=1, dtype=jnp.int32)
    passed = up_to <= number
    before = jnp.where(passed, counts, 0).sum(dtype=jnp.int32)
    return passed.sum(dtype=jnp.int32), number - before
