"""The kinds of tiles and objects of Overcooked, in the order of `Tile` and `Item`."""

from ...grid import Kind, Kinds
from . import _sprites as sprites
from ._contents import RADIX, Recipes, contents_of


def _cook_time(recipes: Recipes, code: int) -> int:
    return int(recipes.cook_time[contents_of(code)])


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", sprite=sprites.draw_floor),
        Kind("counter", "X", solid=True, holds=True, sprite=sprites.draw_counter),
        Kind(
            "pot",
            "P",
            solid=True,
            draws_object=True,
            duration=_cook_time,
            sprite=sprites.draw_pot,
        ),
        Kind("onion_dispenser", "O", solid=True, sprite=sprites.draw_onions),
        Kind("tomato_dispenser", "T", solid=True, sprite=sprites.draw_tomatoes),
        Kind("dish_dispenser", "D", solid=True, sprite=sprites.draw_dishes),
        Kind("serving", "S", solid=True, sprite=sprites.draw_hatch),
        Kind("wall", "#", solid=True, sprite=sprites.draw_wall),
    ),
    objects=(
        Kind("onion", carryable=True, sprite=sprites.draw_onion),
        Kind("tomato", carryable=True, sprite=sprites.draw_tomato),
        Kind("dish", carryable=True, sprite=sprites.draw_dish),
        Kind("soup", carryable=True, variants=RADIX**2, sprite=sprites.draw_soup),
    ),
    agent_sprite=sprites.draw_cook,
)
"""The kinds of Overcooked. Games that extend it append their own, so that all numbers stay."""
