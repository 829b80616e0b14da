"""Goal seeking, in layouts and in random mazes."""

from ._goals import (
    ACTIONS as ACTIONS,
    KINDS as KINDS,
    ROOMS as ROOMS,
    Arrive as Arrive,
    Arrived as Arrived,
    GeneratedMazes as GeneratedMazes,
    Goals as Goals,
    RandomFlags as RandomFlags,
    WayToFlag as WayToFlag,
    flags_to_take as flags_to_take,
)
