"""The robot warehouse, composed of parts of the grid engine."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, final

import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, Real

from ..._checks import check_whole
from ...grid import (
    AbstractGridWorld,
    AbstractObservation,
    AbstractStart,
    Action,
    Forward,
    Go,
    RandomDirections,
    Rotate,
    Stay,
    Use,
    WeightedEventReward,
)
from ._layouts import RandomCells, RandomRequests, load_warehouse
from ._rules import (
    EVENT_NAMES,
    AbstractRequestDraw,
    ChainCollision,
    CountQuietSteps,
    Deliver,
    NoDelivery,
    ToggleLoad,
    UniformRequestDraw,
    WarehouseEvents,
    YieldToShelves,
)
from ._sensors import Sensors

ACTIONS: tuple[Action, ...] = (
    Stay(),
    Forward(),
    Rotate("left"),
    Rotate("right"),
    Use("toggle_load"),
)
"""Stay, forward, turn left, turn right, and pick up or put down a shelf; as in `rware`."""

DIFFICULTIES = {"easy": 2.0, "normal": 1.0, "hard": 0.5}
"""The number of shelves per robot that are requested at any time."""

REWARDS: dict[str, tuple[dict[str, float | int], bool]] = {
    "individual": ({"delivery": 1.0}, False),
    "shared": ({"delivery": 1.0}, True),
    "two_stage": ({"delivery": 0.5, "put_back": 0.5}, False),
}
"""The weight of each event in the reward, and whether the reward is shared by all robots."""


@final
class Warehouse(AbstractGridWorld):
    """A robot warehouse, in which robots bring requested shelves to the goals.

    Every robot has five actions: stay, forward, turn left, turn right, and pick up or put down a
    shelf. The rules are as in `rware` 2.0.0; `rware-small-4ag-hard-v2` is
    `Warehouse("small", num_agents=4, difficulty="hard")`.

    ```python
    from eqgrid.envs.warehouse import Warehouse

    env = Warehouse("tiny", num_agents=2)
    ```
    """

    def __init__(
        self,
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
    ):
        """**Arguments:**

        - `size`: `"tiny"`, `"small"`, `"medium"` or `"large"`, or a text; see `parse_warehouse`.
        - `num_agents`: the number of robots.
        - `difficulty`: the number of shelves that are requested at any time: 2 (`"easy"`), 1
            (`"normal"`) or 0.5 (`"hard"`) per robot.
        - `num_requests`: the number of shelves that are requested at any time; by default as in
            `difficulty`.
        - `sensor_range`: the range of `Sensors` in cells.
        - `reward`: the reward of a delivery. With `"individual"`, the robot that delivers gets 1.
            With `"shared"` (global in `rware`), every robot gets 1. With `"two_stage"`, the robot
            that delivers gets 0.5, and another 0.5 when it then puts a shelf on a rack.
        - `horizon`: the number of steps after which an episode is truncated.
        - `max_quiet_steps`: the number of steps without a delivery after which all robots
            terminate; never by default.
        - `observation`: an `AbstractObservation` instead of `Sensors`.
        - `starts`: random changes to the initial state; by default, as in `rware`, positions,
            directions and requests are random.
        - `shaping`: the amount that each event of `EVENT_NAMES` adds to the shaping reward of the
            robot that caused it.
        - `draw`: the distribution of the shelf that is requested after a delivery; uniform by
            default.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        _check_choice("difficulty", difficulty, DIFFICULTIES)
        _check_choice("reward", reward, REWARDS)
        check_whole(
            num_agents=num_agents, max_quiet_steps=1 if max_quiet_steps is None else max_quiet_steps
        )
        if num_requests is None:
            num_requests = int(DIFFICULTIES[difficulty] * num_agents)
        layout = load_warehouse(size, num_agents, num_requests)
        deliver = Deliver(UniformRequestDraw() if draw is None else draw)
        go = Go(ChainCollision())
        phases = (YieldToShelves(ACTIONS.index(Forward())), go, ToggleLoad(), deliver)
        ending = None
        if max_quiet_steps is not None:
            if max_quiet_steps < 1:
                raise ValueError(
                    f"`max_quiet_steps` must be at least 1 step, not {max_quiet_steps}; leave it "
                    "out for episodes that end by truncation only."
                )
            start = dataclasses.replace(layout.start, extra=jnp.zeros((), jnp.int32))
            layout = dataclasses.replace(layout, start=start)
            ending = NoDelivery(jnp.asarray(max_quiet_steps, jnp.int32))
            phases = (*phases, CountQuietSteps())
        if starts is None:
            starts = (RandomCells(), RandomDirections(), RandomRequests(num_requests))
        weights, shared = REWARDS[reward]
        super().__init__(
            layout,
            actions=ACTIONS,
            phases=phases,
            reward=WeightedEventReward(weights, EVENT_NAMES, shared=shared),
            shaping=WeightedEventReward(shaping or {}, EVENT_NAMES),
            events=WarehouseEvents(),
            ending=ending,
            observation=Sensors(sensor_range) if observation is None else observation,
            starts=starts,
            horizon=horizon,
        )


def _check_choice(what: str, choice: str, choices: Mapping[str, object]) -> None:
    if choice not in choices:
        raise ValueError(f"There is no {what} {choice!r}: choose {' or '.join(choices)}.")
