"""Level-based foraging, composed of parts of the grid engine."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Int, Real

from ..._checks import check_whole
from ...grid import (
    AbstractGridWorld,
    AbstractObservation,
    Action,
    Direction,
    Go,
    Layout,
    Move,
    Stay,
    WeightedEventReward,
    choose_observation,
    empty_world,
)
from ._field import FLOOR, KINDS, MAX_LEVEL, WALL, Levels, Spawn, num_weakest
from ._rules import LOAD, Load, LoadEvents, LoadReward, LoneClaim, NothingLeft
from ._views import GridView, VectorView

ACTIONS: tuple[Action, ...] = (
    Stay(),
    Move(Direction.NORTH),
    Move(Direction.SOUTH),
    Move(Direction.WEST),
    Move(Direction.EAST),
    LOAD,
)
"""Stay, north, south, west, east and load, in this order."""

_MAX_SIDE = 125  # a grid has at most 127 cells per side, two of which are walls
_ID = re.compile(
    r"(?:Foraging-)?(?P<grid>grid-)?(?:(?P<sight>\d+)s-)?(?P<rows>\d+)x(?P<cols>\d+)"
    r"-(?P<agents>\d+)p-(?P<food>\d+)f(?P<coop>-coop)?(?P<ind>-ind)?(?P<pen>-pen)?(?:-v3)?"
)


@final
class Foraging(AbstractGridWorld):
    """Level-based foraging, in which agents collect food in a field. Agents and food have levels.
    Agents that are next to food can load it in the same step: they collect the food if the sum of
    their levels is at least its level.

    Every agent has six actions: stay, go north, south, west or east, and load. Any other number
    means stay. An episode starts in a random state, see `Spawn`, and ends when no food is left. The
    defaults are as in the environments of lbforaging 2.0.0; see `from_id`.

    ```python
    from eqgrid.envs.foraging import Foraging

    env = Foraging(num_agents=3, coop=True)
    ```
    """

    def __init__(
        self,
        size: int | tuple[int, int] = 8,
        num_agents: int = 2,
        num_food: int = 2,
        *,
        coop: bool = False,
        min_agent_level: int = 1,
        max_agent_level: int = 2,
        min_food_level: int = 1,
        max_food_level: int | None = None,
        sight: int | None = None,
        observation: Literal["vector", "grid"] | AbstractObservation = "vector",
        observe_levels: bool = True,
        penalty: Real[ArrayLike, ""] = 0.0,
        normalize_reward: bool = True,
        shaping: Mapping[str, Real[ArrayLike, ""]] | None = None,
        horizon: Int[ArrayLike, ""] = 50,
    ):
        """**Arguments:**

        - `size`: the rows and columns of the field, or one number for both; walls surround it.
        - `num_agents`: the number of agents.
        - `num_food`: the number of food items; there are fewer if they do not fit into the field.
        - `coop`: whether all food has the highest level, so that several agents must load it
            together.
        - `min_agent_level`: the lowest level of an agent.
        - `max_agent_level`: the highest level of an agent.
        - `min_food_level`: the lowest level of food.
        - `max_food_level`: the highest level of food. By default it is the sum of the levels of the
            three weakest agents, or of all if there are fewer.
        - `sight`: the range of sight in cells; the whole field by default.
        - `observation`: `"vector"`, positions and levels of food and agents (`VectorView`),
            `"grid"`, an image (`GridView`), or an `AbstractObservation`.
        - `observe_levels`: whether the levels of agents are observed.
        - `penalty`: the cost of loading food for which the loading agents are too weak.
        - `normalize_reward`: whether all food of an episode is worth 1 in total; see `LoadReward`.
        - `shaping`: the amount that each event, `"load"` or `"failed_load"`, adds to the shaping
            reward.
        - `horizon`: the largest number of steps in an episode.

        **Raises:** `ValueError` when an argument is invalid.
        """
        rows, cols = size if isinstance(size, tuple) and len(size) == 2 else (size, size)
        check_whole(size=(rows, cols), num_agents=num_agents, num_food=num_food)
        if min(rows, cols) < 3 or max(rows, cols) > _MAX_SIDE:
            raise ValueError(
                f"A field has 3 to {_MAX_SIDE} rows and columns, but the size is {(rows, cols)}."
            )
        if not 1 <= num_agents <= rows * cols:
            raise ValueError(
                f"A field of {rows} by {cols} cells has room for 1 to {rows * cols} agents, not "
                f"{num_agents}."
            )
        if num_food < 1:
            raise ValueError(f"There must be at least 1 food, not {num_food}.")
        food_range = (min_food_level, max_food_level)
        levels = _build_levels(num_agents, (min_agent_level, max_agent_level), food_range, coop)
        sight = max(rows, cols) if sight is None else sight
        views = {
            "vector": lambda: VectorView(num_food, sight, observe_levels),
            "grid": lambda: GridView(sight, observe_levels),
        }
        super().__init__(
            _build_field(rows, cols, num_agents, levels),
            actions=ACTIONS,
            phases=(Go(LoneClaim()), Load()),
            reward=LoadReward(penalty, normalize_reward),
            shaping=WeightedEventReward(shaping, LoadEvents().names) if shaping else None,
            events=LoadEvents(),
            ending=NothingLeft(),
            observation=choose_observation(observation, views),
            starts=(Spawn(num_food),),
            horizon=horizon,
        )


def from_id(name: str, **options: Any) -> AbstractGridWorld:
    """Builds the environment that lbforaging registers under a name.

    **Arguments:**

    - `name`: such as `"Foraging-2s-8x8-2p-2f-coop-v3"` or `"Foraging-grid-8x8-2p-2f-v3"`.
        `Foraging-` and `-v3` may be omitted: `"8x8-2p-2f-coop"`. As in lbforaging, `2s` is the
        range of sight, `8x8` the size, `2p` the number of agents, `2f` the number of food items,
        `ind` limits food to level 1, and `pen` is a penalty of 0.1.
    - `options`: options of `Foraging`, which take precedence over the name.

    **Raises:** `ValueError` when the name does not have this form.
    """
    found = _ID.fullmatch(name)
    if found is None:
        raise ValueError(
            f"There is no environment {name!r}: give a name such as 8x8-2p-2f-coop, with grid- "
            "before it for windows of the field, or 2s- for a sight of 2 cells."
        )
    named = {
        "size": (int(found["rows"]), int(found["cols"])),
        "num_agents": int(found["agents"]),
        "num_food": int(found["food"]),
        "coop": found["coop"] is not None,
        "max_food_level": 1 if found["ind"] else None,
        "sight": int(found["sight"]) if found["sight"] else None,
        "observation": "grid" if found["grid"] else "vector",
        "penalty": 0.1 if found["pen"] else 0.0,
    }
    return Foraging(**(named | options))


def _build_levels(
    num_agents: int, agent_range: tuple[int, int], food_range: tuple[int, int | None], coop: bool
) -> Levels:
    """Checks the ranges of levels, and converts them to arrays."""
    low, high = food_range
    check_whole(agent_levels=agent_range, food_levels=(low, 0 if high is None else high))
    # The smallest and the largest possible sum of the levels of the weakest agents.
    smallest, largest = (num_weakest(num_agents) * level for level in agent_range)
    _check_levels(*agent_range, "agents")
    _check_levels(1 if coop else low, largest if high is None else high, "food")
    if high is None and not coop and low > smallest:
        raise ValueError(
            f"Food of level {low} may be too much for agents whose levels sum up to {smallest}: "
            "lower min_food_level, raise min_agent_level, or give max_food_level."
        )
    bounds = (jnp.asarray(level, jnp.int32) for level in (*agent_range, low, high or 0))
    return Levels(*bounds, coop=jnp.asarray(coop, bool))


def _build_field(rows: int, cols: int, num_agents: int, levels: Levels) -> Layout:
    """A field without food, with the agents side by side; `Spawn` samples the initial state."""
    tiles = np.pad(np.full((rows, cols), FLOOR, np.uint8), 1, constant_values=WALL)
    places = np.stack(np.divmod(np.arange(num_agents), cols), axis=-1) + 1
    start = empty_world(KINDS, tiles.shape, places)
    agents = jnp.broadcast_to(levels.min_agent, (num_agents,))
    start = dataclasses.replace(
        start,
        bodies=dataclasses.replace(start.bodies, extra=agents),
        extra=jnp.zeros((), jnp.int32),
    )
    return Layout(jnp.asarray(tiles), start, levels, KINDS)


def _check_levels(low: int, high: int, whose: str) -> None:
    if not 1 <= low <= high <= MAX_LEVEL:
        raise ValueError(
            f"The levels of {whose} must be between 1 and {MAX_LEVEL}, the lowest first, but they "
            f"go from {low} to {high}."
        )
