"""Generators of rooms, one for each kind of task."""

from ._crossing import CrossingRoom as CrossingRoom
from ._door_key import DoorKeyRoom as DoorKeyRoom
from ._empty import DynamicObstaclesRoom as DynamicObstaclesRoom, EmptyRoom as EmptyRoom
from ._four_rooms import FourRooms as FourRooms
from ._multi_room import MultiRoom as MultiRoom
from ._room import AbstractRoom as AbstractRoom, Drawn as Drawn
from ._room_grid import KeyCorridorRoom as KeyCorridorRoom, UnlockRoom as UnlockRoom
