"""The kinds of tiles and objects of level-based foraging."""

from ...grid import Kind, Kinds
from . import _sprites as sprites

FLOOR, WALL = 0, 1
"""The numbers of the kinds of tiles. The wall is only used as the border of the field."""

MAX_LEVEL = 32
"""The highest level of food and of agents."""


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True),
        Kind("wall", "#", solid=True),
    ),
    objects=(Kind("food", solid=True, variants=MAX_LEVEL, sprite=sprites.draw_food),),
    agent_sprite=sprites.draw_forager,
)
"""The kinds of level-based foraging. Food is the only kind of object, so its code is its level:
1, 2, and so on. The level of an agent is the only entry of its `Bodies.extra`.
"""
