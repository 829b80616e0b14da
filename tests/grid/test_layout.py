"""Reading kitchens: texts, names and files, and what is no kitchen."""

import numpy as np
import pytest
from kitchen_checks import assert_equal, holds, unchecked

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
    "XX\nXX\nXX": "at least 3 rows of 3 cells",
    "": "at least 3 rows of 3 cells",
    "XXX\nX1X\nX X": "no border at row 3, column 2",
    "XXX\n1 X\nXXX": "no border at row 2, column 1",
    "XXX\nX X\nXXX": "no start",
    "XXX\nX1X\nXXXX": "ragged: row 3 has 4 cells, row 1 has 3",
    "XXX\nX1XX\nXXX": "ragged: row 2 has 4 cells, row 1 has 3",
    "XXX\nX1Q\nXXX": "unknown character 'Q' in row 2, column 3",
    "XXX\nX1*\nXXX": "unknown character '*' in row 2, column 3",
    "XXXX\nX1xX\nXXXX": "a start x but no start 2",
    "XXXX\nX11X\nXXXX": "2 starts with the digit 1",
    "XXXX\nX13X\nXXXX": "a start 3 but no start 2",
    "XXXX\nX 2X\nXXXX": "a start 2 but no start 1",
    "XXX\nX0X\nXXX": "unknown character '0'",
}


@pytest.mark.parametrize(("text", "words"), REFUSALS.items())
def test_refuses_what_is_no_kitchen_in_one_sentence(text, words):
    with pytest.raises(LayoutError) as refusal:
        parse_kitchen(text)
    message = str(refusal.value)
    assert words in message
    assert "\n" not in message
    assert message.endswith(".")


def test_refuses_a_kitchen_that_is_too_large():
    with pytest.raises(LayoutError, match="at most 127"):
        parse_kitchen("\n".join(["X" * 128, "X1" + "X" * 126, "X" * 128]))


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ([], "no start"),
        ([(0, 0)], "not a floor cell"),
        ([(1, 9)], "not a floor cell"),
        ([(-1, 1)], "not a floor cell"),
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
    ("name", "near"),
    [("cramed", "cramped"), ("cramped_rom", "cramped_room"), ("rings", "ring"), ("zzz", None)],
)
def test_an_unknown_name_is_refused_with_the_nearest_if_one_is_near(name, near):
    with pytest.raises(LayoutError) as refusal:
        load_layout(name)
    suggestion = str(refusal.value).split("Known are")[0]
    assert suggestion == f"There is no layout {name!r}. " if near is None else near in suggestion
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["none.layout", "no/such/kitchen"])
def test_a_missing_file_is_refused(name):
    with pytest.raises(LayoutError, match="There is no layout file"):
        load_layout(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("XXX\nX X\nXXX", "no start"),
        ("{'grid': 'XXX'", "not a Python dictionary"),
        ("{'start_all_orders': []}", "not a Python dictionary with a 'grid'"),
        ("{'grid': __import__('os').getcwd()}", "not a Python dictionary"),
        ("{'grid': 'XXX\\nX X\\nXXX'}", "no start"),
        ("{'grid': 7}", "'grid' must be a text"),
        ("{'grid': 'XXX\\nX1X\\nXXX', 'start_all_orders': [{'ingredients': ['leek']}]}", "leek"),
        ("{'grid': 'XXX\\nX1X\\nXXX', 'start_all_orders': [{}]}", "ingredients"),
        ("{'grid': 'XXX\\nX1X\\nXXX', 'start_state': {'players': []}}", "objects"),
    ],
)
def test_a_broken_file_is_refused_with_its_name(tmp_path, text, words):
    path = tmp_path / "broken.layout"
    path.write_text(text)
    with unchecked(), pytest.raises(LayoutError) as refusal:
        load_layout(path)
    message = str(refusal.value)
    assert str(path) in message
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["mine.txt", "mine.layout"])
def test_a_byte_order_mark_does_not_matter(tmp_path, name):
    text = "XXPXX\nO1 2O\nX   X\nXDXSX\n"
    content = text if name == "mine.txt" else repr({"grid": text})
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    (tmp_path / f"plain-{name}").write_text(content, encoding="utf-8")
    assert_equal(load_layout(tmp_path / name), load_layout(tmp_path / f"plain-{name}"))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "binary.layout"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(LayoutError, match="cannot be read"):
        load_layout(path)


GRID = "'grid': '''XXPXX\n                O  2T\n                X1  X\n                XDXSX'''"


def test_reads_a_reference_file():
    layout = parse_reference(f"{{{GRID}, 'start_bonus_orders': [], 'start_all_orders': []}}")
    assert str(layout) == "XXPXX\nO  2T\nX1  X\nXDXSX"
    assert (layout.params.value == 20).all()
    assert (layout.params.cook_time == 20).all()
    assert layout.params.ordered[1, 0]
    assert not layout.params.bonus.any()


def test_reads_values_and_times_of_every_recipe():
    layout = parse_reference(f"""{{{GRID},
        'start_all_orders': [{{'ingredients': ['onion']}}, {{'ingredients': ['tomato', 'onion']}}],
        'start_bonus_orders': [{{'ingredients': ['onion', 'tomato']}}],
        'recipe_values': [10, 15], 'recipe_times': [5, 8]}}""")
    recipes = layout.params
    assert (recipes.value[1, 0], recipes.value[1, 1], recipes.value[3, 0]) == (10, 15, 20)
    assert (recipes.cook_time[1, 0], recipes.cook_time[1, 1]) == (5, 8)
    assert recipes.ordered.sum() == 2
    assert recipes.bonus.sum() == 1
    assert recipes.payoff(holds(Item.SOUP, (1, 1))) == 30


def test_reads_values_and_times_of_every_ingredient():
    layout = parse_reference(f"""{{{GRID}, 'start_all_orders': [],
        'onion_value': 21, 'tomato_value': 13, 'onion_time': 15, 'tomato_time': 7}}""")
    assert layout.params.value[2, 1] == 2 * 21 + 13
    assert layout.params.cook_time[1, 2] == 15 + 2 * 7


def test_reads_one_value_and_time_for_all():
    layout = parse_reference(f"{{{GRID}, 'delivery_reward': 7, 'cook_time': 4}}")
    assert (layout.params.value == 7).all()
    assert (layout.params.cook_time == 4).all()


def test_reads_an_infinite_bonus():
    layout = parse_reference(f"""{{{GRID}, 'order_bonus': float('inf'),
        'start_bonus_orders': [{{'ingredients': ['onion']}}]}}""")
    assert layout.params.payoff(holds(Item.SOUP, (1, 0))) == np.inf
    assert layout.params.payoff(holds(Item.SOUP, (2, 0))) == 20


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


def test_a_start_with_full_hands_is_refused():
    player = "{'position': [1, 1], 'orientation': [0, 1], 'held_object': {'name': 'onion'}}"
    with pytest.raises(LayoutError, match="full hands"):
        parse_reference(f"{{{GRID}, 'start_state': {{'players': [{player}], 'objects': []}}}}")
