"""Reading kitchens: texts, names and files, and what is no kitchen."""

import re

import numpy as np
import pytest
from kitchen_checks import assert_equal, holds, refused

from eqgrid.envs.overcooked import (
    KITCHENS,
    REFERENCE_NAMES,
    Item,
    Overcooked,
    Tile,
    item_of,
    load_layout,
    parse_kitchen,
    parse_reference,
    soup_contents,
)
from eqgrid.grid import IDLE, Direction, LayoutError

SMALL = "XPXX\nO1 S\nX 2D\nXXXX"


def test_reads_every_character():
    layout = parse_kitchen("XPOT\nD1 S\n#2 X\nXXXX")
    wanted = [
        [Tile.COUNTER, Tile.POT, Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER],
        [Tile.DISH_DISPENSER, Tile.FLOOR, Tile.FLOOR, Tile.SERVING],
        [Tile.WALL, Tile.FLOOR, Tile.FLOOR, Tile.COUNTER],
        [Tile.COUNTER] * 4,
    ]
    assert layout.tiles.tolist() == wanted
    assert layout.num_agents == 2
    assert layout.start.bodies.position.tolist() == [[1, 1], [2, 1]]


def test_starts_empty_handed_facing_north_at_time_zero():
    start = parse_kitchen(SMALL).start
    assert start.bodies.direction.tolist() == [Direction.NORTH] * 2
    assert item_of(start.bodies.held).tolist() == [Item.NOTHING] * 2
    assert (item_of(start.cells.object) == Item.NOTHING).all()
    assert (start.cells.timer == IDLE).all()
    assert start.time == 0


def test_white_space_around_the_rows_does_not_matter():
    indented = "\n\n" + "\n".join(f"    {row}   " for row in SMALL.splitlines()) + "\n  \n"
    assert_equal(parse_kitchen(indented), parse_kitchen(SMALL))


def test_digits_are_in_the_order_of_the_cooks_not_of_the_text():
    layout = parse_kitchen("XXXXX\nX3 1X\nX 2 X\nXXXXX")
    assert layout.start.bodies.position.tolist() == [[1, 3], [2, 2], [1, 1]]


@pytest.mark.parametrize("text", [*KITCHENS.values(), SMALL, "#XX\nX1X\nXXX"])
def test_text_survives_a_round_trip(text):
    layout = parse_kitchen(text)
    assert str(layout) == "\n".join(row.strip() for row in text.strip().splitlines())
    assert_equal(parse_kitchen(str(layout)), layout)


REFUSALS = {
    "X1X": "at least 3 rows of 3 cells",
    "XXX\nX1X\nX X": "no border at row 3, column 2",
    "XXX\nX X\nXXX": "no start",
    "XXX\nX1X\nXXXX": "ragged: row 3 has 4 cells, row 1 has 3",
    "XXX\nX1Q\nXXX": "unknown character 'Q' in row 2, column 3",
    "XXXX\nX1xX\nXXXX": "a start x but no start 2",
    "XXXX\nX11X\nXXXX": "2 starts with the digit 1",
    "\n".join(["X" * 128, "X1" + "X" * 126, "X" * 128]): "at most 127",
}


@pytest.mark.parametrize(("text", "words"), REFUSALS.items())
def test_refuses_what_is_no_kitchen_in_one_sentence(text, words):
    with refused(re.escape(words), LayoutError):
        parse_kitchen(text)


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ([], "no start"),
        ([(0, 0)], "not a floor cell"),
        ([(1, 1), (1, 1)], "must be unique"),
    ],
)
def test_refuses_starts_that_are_none(starts, words):
    with pytest.raises(LayoutError, match=words):
        parse_kitchen(SMALL, starts=starts)


def test_starts_can_be_given_for_more_cooks_than_there_are_digits():
    text = "\n".join(["X" * 6, *["X    X"] * 4, "X" * 6])
    starts = [(row, col) for row in range(1, 4) for col in range(1, 5)]
    layout = parse_kitchen(text, starts=starts)
    assert layout.num_agents == 12
    assert [tuple(p) for p in layout.start.bodies.position.tolist()] == starts
    assert_equal(parse_kitchen(str(layout)), layout)


def test_padding_adds_walls_below_and_to_the_right():
    layout = parse_kitchen(SMALL)
    padded = layout.pad(6, 5)
    assert padded.tiles.shape == (6, 5)
    assert (padded.tiles[:4, :4] == layout.tiles).all()
    outside = np.ones((6, 5), bool)
    outside[:4, :4] = False
    assert (np.asarray(padded.tiles)[outside] == Tile.WALL).all()
    assert (np.asarray(padded.start.cells.timer) == IDLE).all()
    assert_equal(padded.start.bodies, layout.start.bodies)
    assert_equal(layout.pad(4, 4), layout)
    with pytest.raises(ValueError, match="does not fit"):
        layout.pad(3, 9)
    with pytest.raises(LayoutError, match="at most 127"):
        layout.pad(4, 128)


@pytest.mark.parametrize("name", KITCHENS)
def test_short_and_reference_names_are_the_same_kitchen(name):
    (reference,) = [long for long, short in REFERENCE_NAMES.items() if short == name]
    assert_equal(load_layout(name), load_layout(reference))


def test_the_five_kitchens_pay_for_onion_soup_only():
    ordered = np.zeros((4, 4), bool)
    ordered[3, 0] = True
    for name in KITCHENS:
        assert (np.asarray(load_layout(name).params.ordered) == ordered).all()


def test_a_layout_is_taken_as_it_is():
    layout = parse_kitchen(SMALL)
    assert load_layout(layout) is layout
    assert Overcooked(layout).layout is layout


def test_a_text_and_a_file_with_it_are_the_same_kitchen(tmp_path):
    path = tmp_path / "kitchen.txt"
    path.write_text(SMALL)
    for source in (SMALL, path, str(path)):
        assert_equal(load_layout(source), parse_kitchen(SMALL))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cramed", "'cramed'; did you mean cramped"),
        ("zzz", r"'zzz'\. Known are"),
        ("none.layout", "file"),
        ("no/such/kitchen", "file"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_if_one_is_near(name, words):
    with refused(f"There is no layout {words}", LayoutError):
        load_layout(name)


FULL_HANDS = (
    "{'players': [{'position': [1, 1], 'orientation': [0, 1], 'held_object': {'name': 'onion'}}],"
    " 'objects': []}"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'grid': 'XXX'", "not a Python dictionary"),
        ("{'grid': 7}", "'grid' must be a text"),
        ("{'grid': 'XXX\\nX1X\\nXXX', 'start_all_orders': [{'ingredients': ['leek']}]}", "leek"),
        (f"{{'grid': 'XXX\\nX1X\\nXXX', 'start_state': {FULL_HANDS}}}", "full hands"),
        (b"\xff\xfe\x00\x80", "cannot be read"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path, text, words):
    path = tmp_path / "broken.layout"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(words, LayoutError) as refusal:
        load_layout(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("name", ["mine.txt", "mine.layout"])
def test_a_byte_order_mark_does_not_matter(tmp_path, name):
    text = "XXPXX\nO1 2O\nX   X\nXDXSX\n"
    content = text if name == "mine.txt" else repr({"grid": text})
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    (tmp_path / f"plain-{name}").write_text(content, encoding="utf-8")
    assert_equal(load_layout(tmp_path / name), load_layout(tmp_path / f"plain-{name}"))


GRID = "'grid': '''XXPXX\n                O  2T\n                X1  X\n                XDXSX'''"


def test_reads_a_reference_file():
    layout = parse_reference(f"{{{GRID}, 'start_bonus_orders': [], 'start_all_orders': []}}")
    assert str(layout) == "XXPXX\nO  2T\nX1  X\nXDXSX"
    assert (layout.params.value == 20).all()
    assert (layout.params.cook_time == 20).all()
    assert layout.params.ordered[1, 0]
    assert not layout.params.bonus.any()


def test_reads_values_and_times_of_recipes():
    each = parse_reference(f"""{{{GRID},
        'start_all_orders': [{{'ingredients': ['onion']}}, {{'ingredients': ['tomato', 'onion']}}],
        'start_bonus_orders': [{{'ingredients': ['onion', 'tomato']}}],
        'recipe_values': [10, 15], 'recipe_times': [5, 8]}}""").params
    assert (each.value[1, 0], each.value[1, 1], each.value[3, 0]) == (10, 15, 20)
    assert (each.cook_time[1, 0], each.cook_time[1, 1]) == (5, 8)
    assert (each.ordered.sum(), each.bonus.sum()) == (2, 1)
    assert each.payoff(holds(Item.SOUP, (1, 1))) == 30
    by_ingredient = parse_reference(f"""{{{GRID}, 'start_all_orders': [],
        'onion_value': 21, 'tomato_value': 13, 'onion_time': 15, 'tomato_time': 7}}""").params
    assert by_ingredient.value[2, 1] == 2 * 21 + 13
    assert by_ingredient.cook_time[1, 2] == 15 + 2 * 7
    same = parse_reference(f"{{{GRID}, 'delivery_reward': 7, 'cook_time': 4}}").params
    assert (same.value == 7).all()
    assert (same.cook_time == 4).all()
    infinite = parse_reference(f"""{{{GRID}, 'order_bonus': float('inf'),
        'start_bonus_orders': [{{'ingredients': ['onion']}}]}}""").params
    assert infinite.payoff(holds(Item.SOUP, (1, 0))) == np.inf
    assert infinite.payoff(holds(Item.SOUP, (2, 0))) == 20


def test_reads_a_start_of_its_own():
    onion = "{'name': 'onion', 'position': [1, 0]}"
    soup = (
        "{'name': 'soup', 'position': [2, 0], '_cooking_tick': 8, '_ingredients': "
        "[{'name': 'onion'}, {'name': 'tomato'}]}"
    )
    player = "{'position': [%d, %d], 'orientation': [%d, %d], 'held_object': None}"
    players = ", ".join(player % x for x in ((3, 2, -1, 0), (1, 1, 0, 1)))
    layout = parse_reference(
        f"{{{GRID}, 'start_state': {{'players': [{players}], 'objects': [{onion}, {soup}]}}}}"
    )
    start = layout.start
    assert start.bodies.position.tolist() == [[2, 3], [1, 1]]
    assert start.bodies.direction.tolist() == [Direction.WEST, Direction.SOUTH]
    assert item_of(start.cells.object)[0, 1] == Item.ONION
    assert item_of(start.cells.object)[0, 2] == Item.SOUP
    assert soup_contents(start.cells.object)[0, 2].tolist() == [1, 1]
    assert start.cells.timer[0, 2] == 20 - 8
    assert (item_of(start.cells.object) != Item.NOTHING).sum() == 2
