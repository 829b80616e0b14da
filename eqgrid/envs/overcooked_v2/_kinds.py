"""The kinds of OvercookedV2, in the order of `Tile` and of the object codes."""

import functools

from ...grid import Kind, Kinds
from . import _sprites as sprites
from ._contents import INGREDIENTS, contents
from ._rules import Menu


def _cook_time(menu: Menu, code: int) -> int:
    return int(menu.cook_time)


def _button_time(menu: Menu, code: int) -> int:
    return int(menu.button_time)


@functools.cache
def kitchen_kinds(num_ingredients: int) -> Kinds:
    """The kinds of kitchens with the first `num_ingredients` of `INGREDIENTS`.

    **Raises:** `ValueError` when `num_ingredients` is not between 1 and 9.
    """
    if not 1 <= num_ingredients <= len(INGREDIENTS):
        raise ValueError(
            f"A kitchen has 1 to {len(INGREDIENTS)} ingredients, not {num_ingredients}."
        )
    used = list(INGREDIENTS.items())[:num_ingredients]
    return Kinds(
        tiles=(
            Kind("floor", " ", sprite=sprites.draw_floor),
            Kind("counter", "X", solid=True, holds=True, sprite=sprites.draw_counter),
            Kind("serving", "S", solid=True, holds=True, sprite=sprites.draw_hatch),
            Kind(
                "pot",
                "P",
                solid=True,
                draws_object=True,
                duration=_cook_time,
                sprite=sprites.POTS[num_ingredients],
            ),
            Kind("indicator", "R", solid=True, holds=True, sprite=sprites.draw_indicator),
            Kind(
                "button",
                "L",
                solid=True,
                holds=True,
                duration=_button_time,
                sprite=sprites.draw_button,
            ),
            Kind("wall", "#", solid=True, sprite=sprites.draw_wall),
            Kind("plate_pile", "D", solid=True, sprite=sprites.draw_plates),
            *(
                Kind(f"{name}_pile", char, solid=True, sprite=sprites.PILES[name])
                for name, char in used
            ),
        ),
        objects=(
            Kind("plate", carryable=True, sprite=sprites.draw_plate),
            *(Kind(name, carryable=True, sprite=sprites.LOOSE[name]) for name, _ in used),
            Kind(
                "soup",
                carryable=True,
                variants=len(contents(num_ingredients).recipes),
                sprite=sprites.SOUPS[num_ingredients],
            ),
        ),
        agent_sprite=sprites.draw_cook,
    )
