"""Kitchens of OvercookedV2, by name or from a text."""

import dataclasses
from collections.abc import Sequence

from ...errors import did_you_mean
from ...grid import Layout, LayoutError, check_named
from ._contents import INGREDIENTS
from ._kinds import kitchen_kinds
from ._rules import Menu, Recipe, all_recipes, place_order

_ONIONS: Recipe = ("onion", "onion", "onion")
_TOMATOES: Recipe = ("tomato", "tomato", "tomato")

KITCHENS = {
    "cramped_room": """
        XXPXX
        O2 1O
        X   X
        XDXSX""",
    "asymm_advantages": """
        XXXXXXXXX
        O XSXOX S
        X   P   X
        X 1 P2  X
        XXXDXDXXX""",
    "coord_ring": """
        XXXPX
        X 1 P
        D2X X
        O   X
        XOSXX""",
    "forced_coord": """
        XXXPX
        O X1P
        O2X X
        D X X
        XXXSX""",
    "counter_circuit": """
        XXXPPXXX
        X 2    X
        D XXXX S
        X     1X
        XXXOOXXX""",
    "cramped_room_v2": """
        XXPXX
        O1 2T
        X   R
        XDXSX""",
    "asymm_advantages_recipes_center": """
        XXXXXXXXX
        O XSROT S
        T   P   X
        X 1 P2  X
        XXXDXDXXX""",
    "asymm_advantages_recipes_right": """
        XXXXXXXXX
        O XSXOT S
        T   P   R
        X 1 P2  X
        XXXDXDXXX""",
    "asymm_advantages_recipes_left": """
        XXXXXXXXX
        O XSXOT S
        T   P   R
        R 1 P2  X
        XXXDXDXXX""",
    "two_rooms": """
        XXXXXDTOX
        X   X   R
        P 1 X 2 X
        X   X   S
        XXXXXXXXX""",
    "two_rooms_both": """
        XOTDXDTOX
        X   X   R
        P 1 X 2 X
        X   X   S
        XXXXXXXXX""",
    "long_room": """
        XXXXXXXXXXXXXXX
        D            1P
        O             S
        XXXXXXXXXXXXXXX""",
    "fun_coordination": """
        XXXXXXXXX
        O   S   C
        R1  P  2X
        T   D   M
        XXXXXXXXX""",
    "more_fun_coordination": """
        XXXXXXXXX
        X   S   X
        R1  P  2T
        O   P   C
        X   D   X
        XXXXXXXXX""",
    "fun_symmetries": """
        XXXXDXX
        C  X  O
        R 1P2 S
        C  X  T
        XXXXDXX""",
    "fun_symmetries_plates": """
        XXXXXXX
        D  X  O
        R 1P2 S
        D  X  T
        XXXXXXX""",
    "fun_symmetries1": """
        XXXXXDXX
        C  XX  O
        R 1XP2 S
        C  XX  T
        XXXXXDXX""",
    "grounded_coord_simple": """
        XXCXXXXX
        X  XD  O
        R 1LP2 S
        X  XD  T
        XXCXXXXX""",
    "grounded_coord_ring": """
        XXXCRCXXX
        X       X
        X XXLXX X
        C O   D C
        R1S2P S R
        C T   D C
        X XXLXX X
        X       X
        XXXCRCXXX""",
    "test_time_simple": """
        XXCXXXXX
        X  XD  O
        R 1XP2 S
        X  XD  T
        XXCXXXXX""",
    "test_time_wide": """
        XXSDXX
        O 1  O
        T    T
        XPXPXX
        M 2  M
        X    X
        XXRXXX""",
    "demo_cook_simple": """
        XXXXXRCXOXX
        O      X  D
        X     1P2 S
        T      X  D
        XXXXXRCXTXX""",
    "demo_cook_wide": """
        XXXXDSDXXXX
        XXXO 1 TXXX
        XXXXXPXXXXX
        X    2    X
        O  XMRMX  O
        XTXXXXXXXTX""",
}
"""The 23 kitchens of JaxMARL's OvercookedV2, with its names."""


RECIPES: dict[str, tuple[Recipe, ...]] = {
    **dict.fromkeys(
        (
            "cramped_room",
            "asymm_advantages",
            "coord_ring",
            "forced_coord",
            "counter_circuit",
            "long_room",
        ),
        (_ONIONS,),
    ),
    **dict.fromkeys(
        (
            "fun_symmetries",
            "fun_symmetries_plates",
            "fun_symmetries1",
            "grounded_coord_simple",
            "grounded_coord_ring",
            "test_time_simple",
            "test_time_wide",
            "demo_cook_simple",
            "demo_cook_wide",
        ),
        (_ONIONS, _TOMATOES),
    ),
    "fun_coordination": (("onion", "onion", "carrot"), ("tomato", "tomato", "mushroom")),
    "more_fun_coordination": (("onion", "tomato", "tomato"), ("onion", "carrot", "carrot")),
}
"""The recipes of the kitchens in which only some soups of three ingredients may be ordered, or
nothing shows the recipe.
"""


def load_layout(
    layout: str | Layout,
    recipes: Sequence[Recipe] | None = None,
    num_ingredients: int | None = None,
) -> Layout:
    """Loads a kitchen by name or text.

    **Arguments:**

    - `layout`: a name of `KITCHENS`, a text of more than one line, or a `Layout`, which is returned
        as it is.
    - `recipes`: the recipes that may be ordered; by default the recipes of the named kitchen.
    - `num_ingredients`: as in `parse_kitchen`.

    **Raises:** `LayoutError` when there is no such kitchen, when the text is invalid, and when a
    `Layout` is given with `recipes` or `num_ingredients`.
    """
    if isinstance(layout, Layout):
        if recipes is not None or num_ingredients is not None:
            raise LayoutError(
                "A `Layout` already has recipes and ingredients: pass them when it is parsed."
            )
        return layout
    check_named(layout, Layout)
    if "\n" in layout.strip():
        return parse_kitchen(layout, recipes, num_ingredients)
    if layout not in KITCHENS:
        raise LayoutError(
            f"There is no layout {layout!r}{did_you_mean(layout, KITCHENS)} Known are "
            f"{', '.join(KITCHENS)}."
        )
    recipes = RECIPES.get(layout) if recipes is None else recipes
    return parse_kitchen(KITCHENS[layout], recipes, num_ingredients)


def parse_kitchen(
    text: str,
    recipes: Sequence[Recipe] | None = None,
    num_ingredients: int | None = None,
    starts: Sequence[tuple[int, int]] | None = None,
) -> Layout:
    """Builds a kitchen from its text.

    **Arguments:**

    - `text`: one row per line: `X` counter, `P` pot, `D` plates, `S` serving hatch, `R` recipe
        indicator, `L` button that shows the recipe for some steps, `#` wall, blank floor, a letter
        of `INGREDIENTS` for a pile of it, and `1` to `9`, then `a` to `z`, for the initial cells of
        the cooks.
    - `recipes`: the recipes that may be ordered; by default every soup of three ingredients that
        have a pile.
    - `num_ingredients`: the number of ingredients that observations distinguish, in the order of
        `INGREDIENTS`; by default up to the last ingredient that has a pile. Kitchens with the same
        number can be batched.
    - `starts`: `(row, col)` of every cook, instead of the marks in the text.

    **Raises:** `LayoutError` as in `Layout.parse`; when no ingredient has a pile, or
    `num_ingredients` is too small for the piles or above 9; when `recipes` are invalid; and when
    `recipes` is not given and nothing in the kitchen shows the recipe.
    """
    piles = [name for name, char in INGREDIENTS.items() if char in text]
    if not piles:
        raise LayoutError(
            f"The layout has no ingredients: put a pile, such as {INGREDIENTS['onion']}, in a wall."
        )
    used = list(INGREDIENTS).index(piles[-1]) + 1
    number = used if num_ingredients is None else num_ingredients
    if number < used:
        raise LayoutError(
            f"The layout has a pile of {piles[-1]}, so it needs at least {used} ingredients."
        )
    if recipes is None and "R" not in text and "L" not in text:
        raise LayoutError("Nothing shows the recipe: add an R or an L, or give the `recipes`.")
    recipes = all_recipes(piles) if recipes is None else recipes
    try:
        kinds = kitchen_kinds(number)
        menu = Menu(recipes, number, used)
    except ValueError as error:
        raise LayoutError(str(error)) from error
    layout = Layout.parse(text, kinds, menu, starts)
    return dataclasses.replace(layout, start=place_order(layout, layout.start, menu.recipes[0]))
