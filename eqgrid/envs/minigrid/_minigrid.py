"""MiniGrid, composed of parts of the grid engine."""

import inspect
from collections.abc import Callable, Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Int

from ..._checks import check_whole
from ...errors import did_you_mean
from ...grid import (
    AbstractObservation,
    AbstractPhase,
    Action,
    Forward,
    Go,
    GridWorld,
    Interact,
    Layout,
    LayoutError,
    LocalCollision,
    Rotate,
    RuleEvents,
    Stay,
    check_named,
    choose_observation,
    empty_world,
)
from ._kinds import KINDS
from ._missions import Arrive, Burn, Collide, FetchBall, MissionOver, PromptReward
from ._observations import Symbolic, minigrid_planes
from ._rules import (
    DROP,
    PICKUP,
    RULES,
    TOGGLE,
    AbstractObstacleDraw,
    MoveObstacles,
    PickUp,
    Swing,
    UniformObstacleDraw,
    Unlock,
)
from .rooms import (
    AbstractRoom,
    CrossingRoom,
    DoorKeyRoom,
    DynamicObstaclesRoom,
    EmptyRoom,
    FourRooms,
    KeyCorridorRoom,
    MultiRoom,
    UnlockRoom,
)

ROOMS: dict[str, Callable[..., AbstractRoom]] = {
    "empty": EmptyRoom,
    "fourrooms": FourRooms,
    "doorkey": DoorKeyRoom,
    "unlock": UnlockRoom,
    "keycorridor": KeyCorridorRoom,
    "lavacrossing": CrossingRoom,
    "dynamicobstacles": DynamicObstaclesRoom,
    "multiroom": MultiRoom,
}
"""The rooms of the constructor `MiniGrid`, by name."""


def build_room(name: str, options: Mapping[str, int | bool | None]) -> AbstractRoom:
    """Builds a room by name.

    ```python
    from eqgrid.envs.minigrid import build_room

    room = build_room("doorkey", {"size": 6})
    ```

    **Arguments:**

    - `name`: a key of `ROOMS`.
    - `options`: the options of the room; those that are `None` have their default.

    **Raises:** `LayoutError` when there is no such room or option, or an option is invalid.
    """
    check_named(name)
    if name not in ROOMS:
        raise LayoutError(
            f"There is no layout {name!r:.200}{did_you_mean(name, ROOMS)} Known are "
            f"{', '.join(ROOMS)}."
        )
    given = {option: value for option, value in options.items() if value is not None}
    known = list(inspect.signature(ROOMS[name]).parameters)
    for option, value in given.items():
        if option not in known:
            raise LayoutError(
                f"The layout {name!r} has no option {option!r}: it has {' and '.join(known)}."
            )
        check_whole(**{option: int(value) if isinstance(value, bool) else value})
    return ROOMS[name](**given)


ACTIONS: tuple[Action, ...] = (
    Rotate("left"),
    Rotate("right"),
    Forward(),
    PICKUP,
    DROP,
    TOGGLE,
    Stay(),
)
"""Turn left, turn right, go forward, pick up, drop, toggle, and done, as in MiniGrid. The last one
does nothing. In a room with obstacles that move, there are only the first three.
"""

MOST_AGENTS = 8
"""The largest number of agents in a room."""


def MiniGrid(
    layout: str | AbstractRoom = "doorkey",
    *,
    num_agents: int = 1,
    size: int | None = None,
    crossings: int | None = None,
    obstacles: int | None = None,
    rows: int | None = None,
    rooms: int | None = None,
    random_start: bool = False,
    reward: Literal["shared", "individual"] = "shared",
    horizon: Int[ArrayLike, ""] | None = None,
    observation: Literal["planes", "symbolic"] | AbstractObservation = "planes",
    view: int = 7,
    draw: AbstractObstacleDraw | None = None,
) -> GridWorld:
    """Builds a room of MiniGrid (Chevalier-Boisvert et al. 2023), for one agent or for several.

    With one agent, the rules, the observations `"symbolic"`, the rewards and the distribution of
    the rooms are those of minigrid 3.2. Agents of a team first use their hands, one after the other
    from the first one on, and then all turn and move at once, with `LocalCollision`. An agent whose
    task is over leaves the room.

    ```python
    from eqgrid.envs.minigrid import MiniGrid

    env = MiniGrid("doorkey", size=6, num_agents=2)
    ```

    **Arguments:**

    - `layout`: the room: `"empty"`, `"fourrooms"`, `"doorkey"`, `"unlock"`, `"keycorridor"`,
        `"lavacrossing"`, `"dynamicobstacles"`, `"multiroom"`, or an `AbstractRoom`, which has its
        options already.
    - `num_agents`: the number of agents, at most 8.
    - `size`: the size of the grid or, in `"unlock"`, `"keycorridor"` and `"multiroom"`, of a room;
        by default that of the reference.
    - `crossings`: the number of rivers in `"lavacrossing"`.
    - `obstacles`: the number of balls in `"dynamicobstacles"`.
    - `rows`: the number of rows of rooms in `"keycorridor"`.
    - `rooms`: the number of rooms in `"multiroom"`.
    - `random_start`: whether agents start anywhere in `"empty"` and `"dynamicobstacles"`, instead
        of in the corner.
    - `reward`: `"individual"`: an agent is paid for its own success, `1 - 0.9 * steps / horizon`,
        and -1 for its own collision with an obstacle; `"shared"`: every agent that is not done gets
        the sum over all agents.
    - `horizon`: the number of steps after which an episode is truncated; by default that of the
        reference.
    - `observation`: `"planes"` (`minigrid_planes`), `"symbolic"`, MiniGrid's own numbers
        (`Symbolic`), or an `AbstractObservation`.
    - `view`: the side of the window that an agent sees, an odd number of cells.
    - `draw`: the distribution of where obstacles move; uniform by default.

    **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the layout.
    """
    options = {
        "size": size,
        "crossings": crossings,
        "obstacles": obstacles,
        "rows": rows,
        "rooms": rooms,
        "random_start": random_start or None,
    }
    room = _room(layout, options)
    check_whole(num_agents=num_agents, view=view)
    if not 1 <= num_agents <= MOST_AGENTS:
        raise LayoutError(f"A room has from 1 to {MOST_AGENTS} agents, not {num_agents}.")
    if reward not in ("shared", "individual"):
        raise ValueError(f"There is no reward {reward!r}: choose shared or individual.")
    success, joint = _mission(room)
    steps = room.max_steps if horizon is None else horizon
    views = {
        "planes": lambda: minigrid_planes(view, see_through=room.see_through),
        "symbolic": lambda: Symbolic(view, see_through=room.see_through),
    }
    return GridWorld(
        _blank(room, num_agents),
        actions=ACTIONS if room.num_obstacles is None else ACTIONS[:3],
        phases=_phases(room, success, UniformObstacleDraw() if draw is None else draw),
        events=_events(room, success),
        reward=PromptReward(success, steps, shared=reward == "shared"),
        ending=MissionOver(success, joint),
        observation=choose_observation(observation, views),
        starts=(room,),
        horizon=steps,
    )


def _room(layout: str | AbstractRoom, options: dict[str, int | bool | None]) -> AbstractRoom:
    if not isinstance(layout, AbstractRoom):
        return build_room(layout, options)
    if given := [name for name, value in options.items() if value is not None]:
        raise LayoutError(f"A room has its options already: leave out {' and '.join(given)}.")
    return layout


def _mission(room: AbstractRoom) -> tuple[type, bool]:
    """The type of the rule that fulfils the mission, and whether it is one of all agents."""
    if isinstance(room, UnlockRoom):
        return Unlock, True
    if isinstance(room, KeyCorridorRoom):
        return FetchBall, True
    return Arrive, False


def _phases(
    room: AbstractRoom, success: type, draw: AbstractObstacleDraw
) -> tuple[AbstractPhase, ...]:
    go = Go(LocalCollision())
    if room.num_obstacles is not None:
        return (MoveObstacles(draw), go, Arrive(), Collide())
    missions = (FetchBall(),) if success is FetchBall else (Arrive(), Burn())
    return (Interact(RULES), go, *missions)


def _events(room: AbstractRoom, success: type) -> RuleEvents:
    if room.num_obstacles is not None:
        return RuleEvents(success=success, collision=Collide)
    hands = {"pickup": PickUp, "unlocking": Unlock, "door": Swing}
    if success is FetchBall:
        return RuleEvents(success=success, **hands)
    return RuleEvents(success=success, **hands, lava=Burn)


def _blank(room: AbstractRoom, num_agents: int) -> Layout:
    """A layout of the size of a room; everything in it is drawn at the start of an episode."""
    world = empty_world(KINDS, room.shape, np.zeros((num_agents, 2), np.int8))
    extra = None
    if room.num_obstacles is not None:
        extra = jnp.zeros((room.num_obstacles, 2), jnp.int8)
    layout = Layout(jnp.zeros(room.shape, jnp.uint8), world, None, KINDS)
    return layout if extra is None else layout.with_start(extra=extra)
