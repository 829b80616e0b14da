"""The kinds of search and rescue, in the order of `Tile` and `Thing`."""

from ...grid import Kind, Kinds
from . import _sprites as sprites

KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True, sprite=sprites.draw_floor),
        Kind("wall", "#", solid=True, sprite=sprites.draw_wall),
        Kind("exit", "E", solid=True, sprite=sprites.draw_exit),
    ),
    objects=(
        Kind("green_victim", "G", solid=True, carryable=True, sprite=sprites.draw_green_victim),
        Kind("yellow_victim", "Y", solid=True, sprite=sprites.draw_yellow_victim),
        Kind("red_victim", "R", solid=True, sprite=sprites.draw_red_victim),
        Kind("rubble", ".", solid=True, sprite=sprites.draw_rubble),
        Kind("high_rubble", ":", solid=True, sprite=sprites.draw_high_rubble),
        Kind("purple_door", ")", solid=True, sprite=sprites.draw_purple_door),
        Kind("blue_door", "]", solid=True, sprite=sprites.draw_blue_door),
        Kind("orange_door", ">", solid=True, sprite=sprites.draw_orange_door),
        Kind("open_door", "|", sprite=sprites.draw_open_door),
        Kind("purple_key", "(", solid=True, carryable=True, sprite=sprites.draw_purple_key),
        Kind("blue_key", "[", solid=True, carryable=True, sprite=sprites.draw_blue_key),
        Kind("orange_key", "<", solid=True, carryable=True, sprite=sprites.draw_orange_key),
    ),
    agent_sprite=sprites.draw_rescuer,
)
"""The kinds of a site. An opening bracket is a key; the matching closing bracket is its door."""
