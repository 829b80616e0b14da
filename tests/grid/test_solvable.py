import numpy as np
import pytest

from eqgrid.envs.overcooked import (
    KITCHENS,
    Recipes,
    find_obstacle,
    load_layout,
    parse_kitchen,
    parse_reference,
)

SPLIT = """
    XXPXXXX
    O1 X  D
    X  X 2X
    XXXXXSX"""


def obstacle(text: str, dynamics: str = "classic", **recipes) -> str:
    return find_obstacle(parse_kitchen(text, Recipes(**recipes)), dynamics) or ""


@pytest.mark.parametrize("name", KITCHENS)
@pytest.mark.parametrize("dynamics", ["classic", "interactive"])
def test_nothing_is_wrong_with_the_classic_kitchens(name, dynamics):
    assert find_obstacle(load_layout(name), dynamics) is None


@pytest.mark.parametrize(
    ("fixture", "words"),
    [("P", "a pot"), ("D", "dishes"), ("S", "a serving hatch"), ("O", "onions")],
)
def test_what_is_not_there_is_named(fixture, words):
    text = KITCHENS["cramped"].replace(fixture, "X")
    assert obstacle(text) == f"No soup can be delivered: the cooks cannot reach {words}."


def test_all_that_is_missing_is_named():
    assert "a serving hatch and a pot and dishes and onions." in obstacle("XXX\nX1X\nXXX")


def test_things_are_handed_on_over_counters():
    assert obstacle(SPLIT) == ""
    assert obstacle(SPLIT.replace("X  D", "#  D").replace("X 2X", "# 2X")) == (
        "No soup can be delivered: the cooks cannot reach a serving hatch and dishes."
    )


def test_a_pot_is_filled_from_one_side_and_emptied_from_the_other():
    assert obstacle("XXXXX\nO1P2D\nXXXSX") == ""
    assert "a pot" in obstacle("XXXXX\nO1#2D\nXXXSX")


def test_a_corner_cannot_be_reached():
    text = "PXXXS\nO1  O\nXXDXX"
    assert "a serving hatch and a pot" in obstacle(text)


def test_three_cooks_hand_things_on_in_a_row():
    assert obstacle("XOXXXXX\nP1X2X3S\nXXXXXDX") == ""
    assert "a serving hatch" in obstacle("XOXXXXX\nP1X X3S\nXXXXXDX".replace("3", "2"))


@pytest.mark.parametrize(
    ("orders", "dynamics", "words"),
    [
        ([("tomato",) * 3], "classic", "tomatoes"),
        ([("onion",)], "classic", "no order that pays and can be cooked"),
        ([("onion",)], "interactive", ""),
        ([("onion", "onion", "tomato"), ("onion",) * 3], "classic", ""),
    ],
)
def test_orders_count(orders, dynamics, words):
    said = obstacle(KITCHENS["cramped"], dynamics, orders=orders)
    assert words in said
    assert bool(words) == bool(said)


def test_orders_without_pay_do_not_count():
    assert "no order that pays" in obstacle(KITCHENS["cramped"], values=0)


def test_things_that_lie_there_count():
    player = "{'position': (1, 1), 'orientation': (0, 1), 'held_object': None}"
    dish = "{'name': 'dish', 'position': (0, 0)}"
    text = "{'grid': 'XPXX\\nX1 O\\nXSXX', 'start_state': {'players': [%s], 'objects': [%s]}}"
    assert "dishes" in (find_obstacle(parse_reference(text % (player, "")), "classic") or "")
    near = dish.replace("(0, 0)", "(2, 0)")
    assert find_obstacle(parse_reference(text % (player, near)), "classic") is None
    assert find_obstacle(parse_reference(text % (player, dish)), "classic") is not None, "a corner"


def test_it_looks_at_the_start_only(key):
    layout = load_layout("cramped")
    before = np.asarray(layout.tiles).copy()
    find_obstacle(layout, "classic")
    np.testing.assert_array_equal(layout.tiles, before)
