"""The robot warehouse, composed of parts of the grid engine, and what its robots observe."""

import dataclasses
from collections.abc import Mapping
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float32, Int, Int32, Real, UInt8

from ..._checks import check_whole
from ...grid import (
    AbstractGridWorld,
    AbstractObservation,
    AbstractStart,
    Action,
    Direction,
    Forward,
    Go,
    Layout,
    RandomDirections,
    Rotate,
    Stay,
    Use,
    WeightedEventReward,
    World,
)
from ._kinds import Load, Tile
from ._layouts import RandomCells, RandomRequests, load_warehouse
from ._rules import (
    EVENT_NAMES,
    AbstractRequestSampler,
    ChainCollision,
    CountQuietSteps,
    Deliver,
    NoDelivery,
    ToggleLoad,
    UniformRequests,
    WarehouseEvents,
    YieldToShelves,
)

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
        next_request: AbstractRequestSampler | None = None,
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
        - `next_request`: the distribution of the shelf that is requested after a delivery;
            uniform by default.

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
        deliver = Deliver(UniformRequests() if next_request is None else next_request)
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


_ORDER = (Direction.NORTH, Direction.SOUTH, Direction.WEST, Direction.EAST)
_DIRECTIONS = tuple(direction.name.lower() for direction in _ORDER)
_INDEX = np.asarray([_ORDER.index(direction) for direction in Direction], np.uint8)
"""The index of each `Direction` in the reference's order: up, down, left, right."""

# The seven numbers of a cell are encoded as the bits of a byte, from the lowest bit on. Bits 1 to 4
# are the directions of a robot.
_NUM_BITS = 7
_ROBOT, _FACES_UP, _SHELF, _REQUESTED = (np.uint8(1 << bit) for bit in (0, 1, 5, 6))


@final
class Sensors(AbstractObservation):
    """A robot's own state, and the contents of the cells around it: `agents numbers`, as float32,
    with `8 + 7 * cells` numbers.

    A robot's own 8 numbers come first: its column and row, counted from 0 within the walls; whether
    it carries a shelf; its direction, one-hot (up, down, left, right); and whether its cell is not
    a rack.

    Then come 7 numbers for each cell of the window around the robot, in row-major order, including
    its own cell: whether there is a robot; the direction of this robot, one-hot (up if there is no
    robot); whether there is a shelf, carried or not; and whether the shelf is requested. Cells
    outside the warehouse are encoded as empty cells.

    Source: the flattened observation of `rware` 2.0.0, without messages.

    **Arguments:**

    - `radius`: the range of the sensors in cells, to every side.

    **Raises:** `ValueError` when the range is below 1.
    """

    radius: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        check_whole(sensor_range=self.radius)
        if self.radius < 1:
            raise ValueError(f"Sensors need a range of at least 1 cell, not {self.radius}.")

    def names(self) -> tuple[str, ...]:
        """The name of every number in the vector, in order."""
        own = ("col", "row", "carries", *(f"faces_{x}" for x in _DIRECTIONS), "off_rack")
        cell = ("robot", *(f"robot_faces_{x}" for x in _DIRECTIONS), "shelf", "requested")
        reach = range(-self.radius, self.radius + 1)
        around = [f"{name}_at_{row}_{col}" for row in reach for col in reach for name in cell]
        return (*own, *around)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents numbers"]:
        bodies = world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        load = jnp.where(bodies.held == Load.NOTHING, world.cells.object[row, col], bodies.held)
        faces = jnp.asarray(_INDEX)[bodies.direction]
        robots = _ROBOT | (_FACES_UP << faces) | _shelf_bits(load)
        bits = (_shelf_bits(world.cells.object) | _FACES_UP).at[row, col].set(robots)
        # The walls around the warehouse already are one row and column of padding.
        bits = jnp.pad(bits, self.radius - 1, constant_values=_FACES_UP)
        window = (2 * self.radius + 1,) * 2
        corners = bodies.position.astype(jnp.int32) - 1
        seen = jnp.stack([jax.lax.dynamic_slice(bits, tuple(corner), window) for corner in corners])
        seen = seen[..., None]
        seen = (seen >> np.arange(_NUM_BITS, dtype=np.uint8)[None, None, None]) & np.uint8(1)
        numbers = [
            (bodies.position[:, ::-1] - jnp.int8(1)).astype(jnp.float32),
            (bodies.held != Load.NOTHING).astype(jnp.float32)[:, None],
            jax.nn.one_hot(faces, len(Direction), dtype=jnp.float32),
            (layout.tiles[row, col] != Tile.RACK).astype(jnp.float32)[:, None],
            seen.astype(jnp.float32).reshape(world.num_agents, -1),
        ]
        return jnp.concatenate(numbers, axis=-1)


def _shelf_bits(load: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells"]:
    """The bits of `_SHELF` and `_REQUESTED` for each code of `Load`."""
    requested = jnp.where(load == Load.REQUESTED, _REQUESTED, np.uint8(0))
    return jnp.where(load == Load.NOTHING, np.uint8(0), _SHELF | requested)
