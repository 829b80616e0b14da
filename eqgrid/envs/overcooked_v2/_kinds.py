"""The kinds of OvercookedV2, in the order of `Tile` and of the object codes, and their pictures.

Kinds that are also in Overcooked use the sprites of Overcooked.
"""

import functools
import math
from collections.abc import Callable

from ..._functions import Partial
from ...grid import IDLE, Colour, Kind, Kinds, Look, Number, Pen, top_of
from ..overcooked import KINDS as OVERCOOKED
from ._contents import INGREDIENTS, contents
from ._rules import Menu

Draw = Callable[[Pen, Number, Number, Number], None]

_COLOURS = {
    "onion": ("#D69E3A", "#8D5A14"),
    "tomato": ("#CD4A2C", "#7E150C"),
    "carrot": ("#F08A24", "#97500A"),
    "mushroom": ("#B99A86", "#5E4737"),
    "broccoli": ("#4FA34A", "#23562A"),
    "fish": ("#6FA8C9", "#2E5B78"),
    "garlic": ("#EDE6F2", "#8A7A99"),
    "eggplant": ("#6B3F8F", "#371C50"),
    "kale": ("#2F7D5B", "#123F2C"),
}
_LEAF, _LEAF_EDGE = "#3E9A45", "#1F5A26"
_PLATE, _PLATE_EDGE = "#FDFDFE", "#7D8896"
_SPRITES = {kind.name: kind.sprite for kind in (*OVERCOOKED.tiles, *OVERCOOKED.objects)}


def _tile_sprite(name: str) -> Callable[[Pen, Look], None]:
    """The sprite of a kind of tile in Overcooked."""
    sprite = _SPRITES[name]
    assert sprite is not None
    return sprite


draw_floor, draw_counter = _tile_sprite("floor"), _tile_sprite("counter")
draw_wall, draw_hatch = _tile_sprite("wall"), _tile_sprite("serving")
draw_plates, _draw_empty_pot = _tile_sprite("dish_dispenser"), _tile_sprite("pot")
draw_plate = _SPRITES["dish"]
draw_cook = OVERCOOKED.agent_sprite


# Ingredients.


def _carrot(pen: Pen, x: Number, y: Number, r: Number) -> None:
    fill, edge = _COLOURS["carrot"]
    for side in (-0.28, 0.0, 0.28):
        pen.line([(x, y - 0.55 * r), (x + side * r, y - 1.15 * r)], fill=_LEAF, width=0.2 * r)
    points = [(-0.58, -0.6), (0.0, -0.78), (0.58, -0.6), (0.14, 0.95), (-0.14, 0.95)]
    corners = [(x + a * r, y + b * r) for a, b in points]
    pen.shape(corners, fill=fill, edge=edge, width=max(0.018, 0.11 * r))


def _mushroom(pen: Pen, x: Number, y: Number, r: Number) -> None:
    fill, edge = _COLOURS["mushroom"]
    width = max(0.018, 0.11 * r)
    pen.box(
        x - 0.3 * r,
        y - 0.1 * r,
        x + 0.3 * r,
        y + 0.92 * r,
        fill="#F4E9DC",
        edge=edge,
        width=width,
        round_by=0.15 * r,
    )
    cap = [(math.cos(math.pi * k / 12), math.sin(math.pi * k / 12)) for k in range(13)]
    dome = [(x + 0.95 * r * a, y + 0.15 * r - 0.95 * r * b) for a, b in cap]
    pen.shape(dome, fill=fill, edge=edge, width=width)


def _lettered(name: str, pen: Pen, x: Number, y: Number, r: Number) -> None:
    """Draws an ingredient as a disc with a leaf and a letter."""
    fill, edge = _COLOURS[name]
    pen.disc(x, y, 0.95 * r, fill=fill, edge=edge, width=max(0.018, 0.11 * r))
    pen.disc(x + 0.3 * r, y - 0.95 * r, 0.3 * r, 0.18 * r, fill=_LEAF, edge=_LEAF_EDGE)
    pen.text(x, y, INGREDIENTS[name], 1.2 * r, fill="#FFFFFF")


def _from_overcooked(name: str, pen: Pen, x: Number, y: Number, r: Number) -> None:
    """Draws an ingredient with its sprite of Overcooked."""
    sprite = _SPRITES[name]
    assert sprite is not None
    sprite(pen, 0, x, y, r)


_DRAW: dict[str, Draw] = {name: Partial(_lettered, name) for name in INGREDIENTS}
_DRAW |= {name: Partial(_from_overcooked, name) for name in ("onion", "tomato")}
_DRAW |= {"carrot": _carrot, "mushroom": _mushroom}


def _loose(draw: Draw, pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    draw(pen, x, y, 0.9 * radius)


def _pile(draw: Draw, pen: Pen, look: Look) -> None:
    """Draws an open crate, seen from the front."""
    draw_counter(pen, look)
    y = look.middle
    crate = {"fill": "#5E3B1A", "edge": "#4A2D12", "width": 0.03, "round_by": 0.05}
    pen.box(0.13, y - 0.3, 0.87, y + 0.34, **crate)
    for dx, dy in ((-0.19, -0.12), (0.19, -0.12), (0.0, -0.08), (-0.17, 0.07), (0.17, 0.07)):
        draw(pen, 0.5 + dx, y + dy, 0.15)
    board = {"fill": "#E5BC85", "edge": "#6B4420", "width": 0.022, "round_by": 0.02}
    for level in (0.14, 0.25):
        pen.box(0.11, y + level, 0.89, y + level + 0.1, **board)


LOOSE = {name: Partial(_loose, draw) for name, draw in _DRAW.items()}
"""The sprite of each ingredient."""

PILES = {name: Partial(_pile, draw) for name, draw in _DRAW.items()}
"""The sprite of the pile of each ingredient."""


# Soups and pots.


def _stew(pen: Pen, x: Number, y: Number, r: Number, recipe: tuple[int, ...]) -> None:
    """Draws broth with the ingredients side by side in it."""
    names = list(INGREDIENTS)
    # The colour of the broth is the mean of the colours of the ingredients.
    hexes = [_COLOURS[names[i]][0] for i in recipe]
    sums = [sum(int(colour[k : k + 2], 16) for colour in hexes) for k in (1, 3, 5)]
    broth = tuple(round(total / len(hexes)) for total in sums)
    pen.disc(x, y, r, fill=broth, edge="#6A4A1C", width=0.02)
    ring = 0.0 if len(recipe) == 1 else 0.5 * r
    for k, ingredient in enumerate(recipe):
        angle = 2 * math.pi * k / len(recipe) + (math.pi if len(recipe) == 2 else math.pi / 6)
        place = x + ring * math.cos(angle), y + ring * math.sin(angle)
        _DRAW[names[ingredient]](pen, *place, 0.38 * r)


def _soup(
    num_ingredients: int, pen: Pen, variant: int, x: Number, y: Number, radius: Number
) -> None:
    pen.disc(x, y, 1.12 * radius, fill=_PLATE, edge=_PLATE_EDGE, width=0.02)
    _stew(pen, x, y, 0.88 * radius, contents(num_ingredients).recipes[variant])


def _pot(num_ingredients: int, pen: Pen, look: Look) -> None:
    table = contents(num_ingredients)
    _draw_empty_pot(pen, look._replace(lying=0))
    if look.lying < table.first_soup:
        return
    _stew(pen, 0.5, look.middle, 0.27, table.recipes[look.lying - table.first_soup])
    # A badge with the number of steps that are left, or a tick for 0.
    if look.timer == 0:
        pen.disc(0.81, 0.81, 0.165, fill="#2FB45A", edge="#FFFFFF", width=0.03)
        pen.line([(0.735, 0.815), (0.79, 0.865), (0.885, 0.755)], fill="#FFFFFF", width=0.05)
    elif look.timer > IDLE and pen.can_write(0.3):
        box = (0.5, 0.68, 0.98, 0.98)
        pen.box(*box, fill="#FFFFFF", edge="#B4530A", width=0.03, round_by=0.1)
        pen.text(0.74, 0.83, str(look.timer), 0.3, fill="#2A1A08")


SOUPS = {number: Partial(_soup, number) for number in range(1, len(INGREDIENTS) + 1)}
"""The sprites of soups, by the number of ingredients in the kitchen."""

POTS = {number: Partial(_pot, number) for number in range(1, len(INGREDIENTS) + 1)}
"""The sprite of pots, by the number of ingredients of the kitchen."""


# Signs.


def _board(pen: Pen, look: Look, fill: Colour, edge: Colour) -> None:
    draw_counter(pen, look)
    top = top_of(look.open_sides)
    pen.box(0.08, 0.07, 0.92, top - 0.07, fill=fill, edge=edge, width=0.04, round_by=0.08)


def draw_indicator(pen: Pen, look: Look) -> None:
    """Draws a blackboard; the recipe is the object on it."""
    _board(pen, look, "#2F4A40", "#E5BC85")


def draw_button(pen: Pen, look: Look) -> None:
    """Draws a red button on a dark box, or a bright board while the button is active."""
    if look.timer > 0:
        _board(pen, look, "#FFE9A8", "#C98F12")
        return
    _board(pen, look, "#454C57", "#23272E")
    pen.disc(0.5, look.middle + 0.04, 0.23, 0.2, fill="#7E150C")
    pen.disc(0.5, look.middle - 0.02, 0.23, 0.2, fill="#E2402F", edge="#7E150C", width=0.03)


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
            Kind("floor", " ", sprite=draw_floor),
            Kind("counter", "X", solid=True, holds=True, sprite=draw_counter),
            Kind("serving", "S", solid=True, holds=True, sprite=draw_hatch),
            Kind(
                "pot",
                "P",
                solid=True,
                draws_object=True,
                duration=_cook_time,
                sprite=POTS[num_ingredients],
            ),
            Kind("indicator", "R", solid=True, holds=True, sprite=draw_indicator),
            Kind(
                "button",
                "L",
                solid=True,
                holds=True,
                duration=_button_time,
                sprite=draw_button,
            ),
            Kind("wall", "#", solid=True, sprite=draw_wall),
            Kind("plate_pile", "D", solid=True, sprite=draw_plates),
            *(Kind(f"{name}_pile", char, solid=True, sprite=PILES[name]) for name, char in used),
        ),
        objects=(
            Kind("plate", carryable=True, sprite=draw_plate),
            *(Kind(name, carryable=True, sprite=LOOSE[name]) for name, _ in used),
            Kind(
                "soup",
                carryable=True,
                variants=len(contents(num_ingredients).recipes),
                sprite=SOUPS[num_ingredients],
            ),
        ),
        agent_sprite=draw_cook,
    )
