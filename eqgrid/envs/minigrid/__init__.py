"""The rooms of MiniGrid, for one agent or several."""

from ._kinds import (
    COLOURS as COLOURS,
    DIRECTION_SYMBOLS as DIRECTION_SYMBOLS,
    KINDS as KINDS,
    STATES as STATES,
    SYMBOLS as SYMBOLS,
)
from ._minigrid import (
    ACTIONS as ACTIONS,
    MOST_AGENTS as MOST_AGENTS,
    ROOMS as ROOMS,
    MiniGrid as MiniGrid,
    build_room as build_room,
)
from ._observations import (
    PLANE_NAMES as PLANE_NAMES,
    Symbolic as Symbolic,
    minigrid_planes as minigrid_planes,
)
from ._rules import (
    DROP as DROP,
    PICKUP as PICKUP,
    RULES as RULES,
    TOGGLE as TOGGLE,
    AbstractObstacleDraw as AbstractObstacleDraw,
    Arrive as Arrive,
    Burn as Burn,
    Collide as Collide,
    Drop as Drop,
    FetchBall as FetchBall,
    MissionOver as MissionOver,
    MoveObstacles as MoveObstacles,
    OpenBox as OpenBox,
    PickUp as PickUp,
    PromptReward as PromptReward,
    Swing as Swing,
    UniformObstacleDraw as UniformObstacleDraw,
    Unlock as Unlock,
    is_ball as is_ball,
    is_door as is_door,
    is_thing as is_thing,
)
from .rooms import (
    AbstractRoom as AbstractRoom,
    CrossingRoom as CrossingRoom,
    DoorKeyRoom as DoorKeyRoom,
    Drawn as Drawn,
    DynamicObstaclesRoom as DynamicObstaclesRoom,
    EmptyRoom as EmptyRoom,
    FourRooms as FourRooms,
    KeyCorridorRoom as KeyCorridorRoom,
    MultiRoom as MultiRoom,
    UnlockRoom as UnlockRoom,
)
