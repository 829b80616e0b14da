"""MiniGrid, composed of parts of the grid engine."""

import inspect
from collections.abc import Callable, Mapping
from typing import Literal, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Int

from ..._checks import check_whole
from ...errors import did_you_mean
from ...grid import (
    AbstractGridWorld,
    AbstractObservation,
    AbstractPhase,
    Action,
    Forward,
    Go,
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
from ._observations import Symbolic, minigrid_planes
from ._rules import (
    DROP,
    PICKUP,
    RULES,
    TOGGLE,
    AbstractObstacleDraw,
    Arrive,
    Burn,
    Collide,
    FetchBall,
    MissionOver,
    MoveObstacles,
    PickUp,
    PromptReward,
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
    - `options`: the options of the room; `None` means the default.

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
"""Turn left, turn right, go forward, pick up, drop, toggle, and done, as in MiniGrid. "Done" does
nothing. In a room with moving obstacles, there are only the first three actions.
"""

MOST_AGENTS = 8
"""The largest number of agents in a room."""


@final
class MiniGrid(AbstractGridWorld):
    """A room of MiniGrid (Chevalier-Boisvert et al. 2023), for one agent or for several.

    With one agent, the rules, the observations `"symbolic"`, the rewards and the distribution of
    the rooms are as in minigrid 3.2. In a team, agents first pick up, drop and toggle, one after
    the other in their order. Then all agents turn and move at once, with `LocalCollision`. An agent
    whose task is over leaves the room.

    ```python
    from eqgrid.envs.minigrid import MiniGrid

    env = MiniGrid("doorkey", size=6, num_agents=2)
    ```
    """

    def __init__(
        self,
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
    ):
        """**Arguments:**

        - `layout`: the room: `"empty"`, `"fourrooms"`, `"doorkey"`, `"unlock"`, `"keycorridor"`,
            `"lavacrossing"`, `"dynamicobstacles"`, `"multiroom"`, or an `AbstractRoom` with its
            options.
        - `num_agents`: the number of agents, at most 8.
        - `size`: the size of the grid or, in `"unlock"`, `"keycorridor"` and `"multiroom"`, of a
            room; by default as in the reference.
        - `crossings`: the number of rivers in `"lavacrossing"`.
        - `obstacles`: the number of balls in `"dynamicobstacles"`.
        - `rows`: the number of rows of rooms in `"keycorridor"`.
        - `rooms`: the number of rooms in `"multiroom"`.
        - `random_start`: whether agents start anywhere in `"empty"` and `"dynamicobstacles"`,
            instead of in the corner.
        - `reward`: with `"individual"`, an agent gets `1 - 0.9 * steps / horizon` for its own
            success, and -1 for its own collision with an obstacle. With `"shared"`, every agent
            that has not terminated gets the sum over all agents.
        - `horizon`: the number of steps after which an episode is truncated; by default as in
            the reference.
        - `observation`: `"planes"` (`minigrid_planes`), `"symbolic"`, the numbers of MiniGrid
            (`Symbolic`), or an `AbstractObservation`.
        - `view`: the side of the window that an agent sees, an odd number of cells.
        - `draw`: the distribution of the moves of obstacles; uniform by default.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        options = {
            "size": size,
            "crossings": crossings,
            "obstacles": obstacles,
            "rows": rows,
            "rooms": rooms,
            "random_start": random_start or None,
        }
        if not isinstance(layout, AbstractRoom):
            room = build_room(layout, options)
        elif given := [name for name, value in options.items() if value is not None]:
            raise LayoutError(f"A room has its options already: leave out {' and '.join(given)}.")
        else:
            room = layout
        check_whole(num_agents=num_agents, view=view)
        if not 1 <= num_agents <= MOST_AGENTS:
            raise LayoutError(f"A room has from 1 to {MOST_AGENTS} agents, not {num_agents}.")
        if reward not in ("shared", "individual"):
            raise ValueError(f"There is no reward {reward!r}: choose shared or individual.")
        success, phases, events = _mission(room, UniformObstacleDraw() if draw is None else draw)
        steps = room.max_steps if horizon is None else horizon
        views = {
            "planes": lambda: minigrid_planes(view, see_through=room.see_through),
            "symbolic": lambda: Symbolic(view, see_through=room.see_through),
        }
        # Everything in a room is placed at the start of an episode.
        world = empty_world(KINDS, room.shape, np.zeros((num_agents, 2), np.int8))
        blank = Layout(jnp.zeros(room.shape, jnp.uint8), world, None, KINDS)
        if room.num_obstacles is not None:
            blank = blank.with_start(extra=jnp.zeros((room.num_obstacles, 2), jnp.int8))
        super().__init__(
            blank,
            actions=ACTIONS if room.num_obstacles is None else ACTIONS[:3],
            phases=phases,
            events=events,
            reward=PromptReward(success, steps, shared=reward == "shared"),
            ending=MissionOver(success, joint=success is not Arrive),
            observation=choose_observation(observation, views),
            starts=(room,),
            horizon=steps,
        )


def _mission(
    room: AbstractRoom, draw: AbstractObstacleDraw
) -> tuple[type, tuple[AbstractPhase, ...], RuleEvents]:
    """The mission of a room: the type of the rule that fulfils it, the phases of a step, and the
    events.
    """
    go = Go(LocalCollision())
    if room.num_obstacles is not None:
        phases = (MoveObstacles(draw), go, Arrive(), Collide())
        return Arrive, phases, RuleEvents(success=Arrive, collision=Collide)
    interactions = {"pickup": PickUp, "unlocking": Unlock, "door": Swing}
    if isinstance(room, KeyCorridorRoom):
        phases = (Interact(RULES), go, FetchBall())
        return FetchBall, phases, RuleEvents(success=FetchBall, **interactions)
    success = Unlock if isinstance(room, UnlockRoom) else Arrive
    phases = (Interact(RULES), go, Arrive(), Burn())
    return success, phases, RuleEvents(success=success, **interactions, lava=Burn)
