"""The warehouse: robots that share corridors, put together from parts of the grid engine."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractEnding,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Forward,
    Go,
    GridWorld,
    Layout,
    RandomDirections,
    Rotate,
    Stay,
    Use,
    WeightedEventReward,
    check_whole,
)
from ._deliveries import AbstractRequestDraw, Deliver, UniformRequestDraw
from ._driving import ChainCollision, YieldToShelves
from ._events import EVENT_NAMES, CountQuietSteps, NoDelivery, WarehouseEvents
from ._layouts import load_warehouse
from ._loading import ToggleLoad
from ._sensors import Sensors
from ._starts import RandomCells, RandomRequests

ACTIONS: tuple[Action, ...] = (
    Stay(),
    Forward(),
    Rotate("left"),
    Rotate("right"),
    Use("toggle_load"),
)
"""Stay, forward, turn left, turn right, and take a shelf on or put it down; as in `rware`."""

DIFFICULTIES = {"easy": 2.0, "normal": 1.0, "hard": 0.5}
"""How many shelves are requested at any time, for each robot."""

REWARDS: dict[str, tuple[dict[str, float | int], bool]] = {
    "individual": ({"delivery": 1.0}, False),
    "shared": ({"delivery": 1.0}, True),
    "two_stage": ({"delivery": 0.5, "put_back": 0.5}, False),
}
"""What each event pays, and whether everybody is paid for it."""


def Warehouse(
    size: str = "tiny",
    *,
    num_agents: int = 2,
    difficulty: Literal["easy", "normal", "hard"] = "normal",
    num_requests: int | None = None,
    sensor_range: int = 1,
    reward: Literal["individual", "shared", "two_stage"] = "individual",
    horizon: Int[ArrayLike, ""] = 500,
    max_quiet_steps: int | None = None,
    observation: AbstractObservation | None = None,
    starts: tuple[AbstractStart, ...] | None = None,
    shaping: Mapping[str, Real[ArrayLike, ""]] | None = None,
    draw: AbstractRequestDraw | None = None,
) -> GridWorld:
    """Robots share a warehouse, and bring the shelves that are requested to the goals.

    Every robot has five actions: stay, forward, turn left, turn right, and take a shelf on or put
    it down. The rules are those of `rware` 2.0.0; `rware-small-4ag-hard-v2` is
    `Warehouse("small", num_agents=4, difficulty="hard")`.

    **Arguments:**

    - `size`: `"tiny"`, `"small"`, `"medium"` or `"large"`, or a text; see `parse_warehouse`.
    - `num_agents`: how many robots there are.
    - `difficulty`, `num_requests`: how many shelves are requested at any time: 2, 1 or 0.5 for
        each robot, or a number of your own.
    - `reward`: `"individual"`: 1 for who delivers; `"shared"` (global in `rware`): 1 for everybody;
        `"two_stage"`: 0.5 for who delivers, and 0.5 when it then puts the shelf on a rack.
    - `horizon`, `max_quiet_steps`: steps in an episode, and without a delivery until it is over.
    - `sensor_range`, `observation`: how far `Sensors` reach, or a Module of your own.
    - `starts`: what is random about the start of an episode; unless given, everything, as in
        `rware`: where the robots are, where they face, and which shelves are requested.
    - `shaping`: what each event of `EVENT_NAMES` adds to the shaped reward of the robot.
    - `draw`: which shelf is requested in place of a delivered one; any, unless given.

    **Raises:** `ValueError` (`LayoutError` for the layout) with one sentence that says what to do.
    """
    _check_choice("difficulty", difficulty, DIFFICULTIES)
    _check_choice("reward", reward, REWARDS)
    check_whole(
        num_agents=num_agents, max_quiet_steps=1 if max_quiet_steps is None else max_quiet_steps
    )
    if num_requests is None:
        num_requests = int(DIFFICULTIES[difficulty] * num_agents)
    layout = load_warehouse(size, num_agents, num_requests)
    phases, ending = _phases(UniformRequestDraw() if draw is None else draw), None
    if max_quiet_steps is not None:
        layout, ending = _count_quiet_steps(layout), _ending(max_quiet_steps)
        phases = (*phases, CountQuietSteps())
    weights, shared = REWARDS[reward]
    return GridWorld(
        layout,
        actions=ACTIONS,
        phases=phases,
        reward=WeightedEventReward(weights, EVENT_NAMES, shared=shared),
        shaping=WeightedEventReward(shaping or {}, EVENT_NAMES),
        events=WarehouseEvents(),
        ending=ending,
        observation=Sensors(sensor_range) if observation is None else observation,
        starts=_starts(num_requests) if starts is None else starts,
        horizon=horizon,
    )


def _check_choice(what: str, choice: str, choices: Mapping[str, object]) -> None:
    if choice not in choices:
        raise ValueError(f"There is no {what} {choice!r}: choose {' or '.join(choices)}.")


def _count_quiet_steps(layout: Layout) -> Layout:
    start = dataclasses.replace(layout.start, extra=jnp.zeros((), jnp.int32))
    return dataclasses.replace(layout, start=start)


def _phases(draw: AbstractRequestDraw) -> tuple[AbstractPhase, ...]:
    forward = ACTIONS.index(Forward())
    return (YieldToShelves(forward), Go(ChainCollision()), ToggleLoad(), Deliver(draw))


def _starts(num_requests: int) -> tuple[AbstractStart, ...]:
    return (RandomCells(), RandomDirections(), RandomRequests(num_requests))


def _ending(max_quiet_steps: int) -> AbstractEnding:
    check_whole(max_quiet_steps=max_quiet_steps)
    if max_quiet_steps < 1:
        raise ValueError(
            f"`max_quiet_steps` must be at least 1 step, not {max_quiet_steps}; leave it out for "
            "episodes that only time ends."
        )
    return NoDelivery(jnp.asarray(max_quiet_steps, jnp.int32))
