"""Generators of rooms, one for each kind of task."""

from ._multi_room import MultiRoom as MultiRoom
from ._room import AbstractRoom as AbstractRoom, Drawn as Drawn
from ._room_grid import KeyCorridorRoom as KeyCorridorRoom, UnlockRoom as UnlockRoom
from ._single_rooms import (
    CrossingRoom as CrossingRoom,
    DoorKeyRoom as DoorKeyRoom,
    DynamicObstaclesRoom as DynamicObstaclesRoom,
    EmptyRoom as EmptyRoom,
    FourRooms as FourRooms,
)
