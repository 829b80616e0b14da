"""The rooms by name, and the options of each."""

import inspect
from collections.abc import Callable, Mapping

from ..._checks import check_whole, did_you_mean
from ...grid import LayoutError, check_named
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
