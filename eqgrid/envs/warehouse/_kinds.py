"""What a warehouse is made of, in the order of `Tile` and `Load`."""

from enum import IntEnum

from ...grid import Kind, Kinds
from . import _sprites as sprites


class Tile(IntEnum):
    """What is built into a cell. A robot can put a shelf down on a `RACK` only."""

    CORRIDOR = 0
    RACK = 1
    GOAL = 2
    WALL = 3


class Load(IntEnum):
    """The code of what stands in a cell, or of what a robot carries. Shelves have no names: all
    that rules ask of one is whether it is requested."""

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
