import pytest

from eqgrid.envs.overcooked import (
    KITCHENS,
    Recipes,
    find_obstacle,
    load_layout,
    parse_kitchen,
    parse_reference,
)

CRAMPED = KITCHENS["cramped"]
SPLIT = """
    XXPXXXX
    O1 X  D
    X  X 2X
    XXXXXSX"""
IN_A_ROW = "XOXXXXX\nP1X2X3S\nXXXXXDX"


@pytest.mark.parametrize("name", KITCHENS)
@pytest.mark.parametrize("dynamics", ["classic", "interactive"])
def test_nothing_is_wrong_with_the_classic_kitchens(name, dynamics):
    assert find_obstacle(load_layout(name), dynamics) is None


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (CRAMPED.replace("P", "X"), "a pot"),
        (CRAMPED.replace("D", "X"), "dishes"),
        (CRAMPED.replace("S", "X"), "a serving hatch"),
        (CRAMPED.replace("O", "X"), "onions"),
        ("XXX\nX1X\nXXX", "a serving hatch and a pot and dishes and onions"),
        (SPLIT, None),  # things are handed on over counters
        (SPLIT.replace("X  D", "#  D").replace("X 2X", "# 2X"), "a serving hatch and dishes"),
        ("XXXXX\nO1P2D\nXXXSX", None),  # a pot is filled from one side, and emptied from another
        ("XXXXX\nO1#2D\nXXXSX", "a pot and onions"),
        ("PXXXS\nO1  O\nXXDXX", "a serving hatch and a pot"),  # in corners
        (IN_A_ROW, None),
        (IN_A_ROW.replace("2", " ").replace("3", "2"), "a serving hatch and dishes"),
    ],
)
def test_what_cooks_cannot_reach_is_named(text, missing):
    said = find_obstacle(parse_kitchen(text), "classic")
    expected = f"No soup can be delivered: the cooks cannot reach {missing}."
    assert said == (None if missing is None else expected)


@pytest.mark.parametrize(
    ("recipes", "dynamics", "words"),
    [
        ({"orders": [("tomato",) * 3]}, "classic", "tomatoes"),
        ({"orders": [("onion",)]}, "classic", "no order that pays and can be cooked"),
        ({"orders": [("onion",)]}, "interactive", ""),
        ({"orders": [("onion", "onion", "tomato"), ("onion",) * 3]}, "classic", ""),
        ({"values": 0}, "classic", "no order that pays"),
    ],
)
def test_orders_count(recipes, dynamics, words):
    said = find_obstacle(parse_kitchen(CRAMPED, Recipes(**recipes)), dynamics) or ""
    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize(("place", "reached"), [("(2, 0)", True), ("(0, 0)", False), (None, False)])
def test_things_that_lie_there_count(place, reached):
    player = "{'position': (1, 1), 'orientation': (0, 1), 'held_object': None}"
    objects = "" if place is None else f"{{'name': 'dish', 'position': {place}}}"
    start = f"{{'players': [{player}], 'objects': [{objects}]}}"
    layout = parse_reference(f"{{'grid': 'XPXX\\nX1 O\\nXSXX', 'start_state': {start}}}")
    assert (find_obstacle(layout, "classic") is None) == reached
