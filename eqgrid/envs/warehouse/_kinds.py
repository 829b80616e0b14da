"""The kinds of tiles and objects of the warehouse, in the order of `Tile` and `Load`."""

from enum import IntEnum

from ...grid import Kind, Kinds
from . import _sprites as sprites


class Tile(IntEnum):
    """The kinds of tiles. A robot can put a shelf down only on a `RACK`."""

    CORRIDOR = 0
    RACK = 1
    GOAL = 2
    WALL = 3


class Load(IntEnum):
    """The code of the shelf in a cell, or of the one that a robot carries. Shelves have no
    identity: rules depend only on whether a shelf is requested.
    """

    NOTHING = 0
    SHELF = 1
    REQUESTED = 2


KINDS = Kinds(
    tiles=(
        Kind("corridor", ".", holds=True, sprite=sprites.draw_corridor),
        Kind("rack", "X", holds=True, sprite=sprites.draw_rack),
        Kind("goal", "G", holds=True, sprite=sprites.draw_goal),
        Kind("wall", "#", solid=True, sprite=sprites.draw_wall),
    ),
    objects=(
        Kind("shelf", carryable=True, sprite=sprites.draw_shelf),
        Kind("requested_shelf", carryable=True, sprite=sprites.draw_requested_shelf),
    ),
    agent_sprite=sprites.draw_robot,
)
"""The kinds of a warehouse."""
