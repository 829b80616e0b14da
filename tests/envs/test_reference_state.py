"""States of the reference without the reference: `tests/parity` compares with it."""

import copy
import json

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import (
    assert_equal,
    holds,
    lies,
    put,
    random_layout,
    random_world,
    refused,
    stack,
)

from eqgrid.envs.overcooked import Item, Recipes, load_layout, parse_kitchen
from eqgrid.envs.overcooked.reference import (
    world_from_reference,
    world_to_reference,
    worlds_from_reference,
    worlds_to_reference,
)
from eqgrid.grid import Direction

MIXED, PLAIN = ("onion", "tomato"), ("onion",) * 3
LAYOUT = parse_kitchen(
    "XXPXX\nO  2T\nX1  P\nXDXSX",
    Recipes(orders=[PLAIN, MIXED], bonus_orders=[MIXED], cook_times={MIXED: 10}),
)
"""Two pots, at `(col, row)` (2, 0) and (4, 2)."""


def thing(name, position):
    return {"name": name, "position": position}


def soup(position, ingredients, tick, cook_time):
    return {
        "name": "soup",
        "position": position,
        "_ingredients": [thing(name, position) for name in ingredients],
        "cooking_tick": tick,
        "is_cooking": 0 <= tick < cook_time,
        "is_ready": tick == cook_time,
        "is_idle": tick < 0,
        "cook_time": cook_time if tick >= 0 else -1,
        "_cooking_tick": tick,
    }


STATE = {
    "players": [
        {
            "position": (1, 2),
            "orientation": (0, 1),
            "held_object": soup((1, 2), PLAIN, 20, 20),
        },
        {"position": (3, 1), "orientation": (-1, 0), "held_object": None},
    ],
    "objects": [
        soup((2, 0), MIXED, 4, 10),
        thing("dish", (3, 0)),
        soup((4, 2), ["tomato", "tomato"], -1, 20),
        soup((2, 3), ["onion"], 20, 20),
    ],
    "bonus_orders": [{"ingredients": MIXED}],
    "all_orders": [{"ingredients": PLAIN}, {"ingredients": MIXED}],
    "timestep": 17,
}
OLD = {
    "players": [
        {"position": [1, 2], "orientation": [0, 1]},
        {
            "position": [3, 1],
            "orientation": [1, 0],
            "held_object": {"name": "soup", "position": [3, 1], "state": ["onion", 3, 31]},
        },
    ],
    "objects": {
        "2,0": {"name": "soup", "position": [2, 0], "state": ["onion", 3, 8]},
        "4,2": {"name": "soup", "position": [4, 2], "state": ["onion", 2, 0]},
        "0,0": {"name": "onion", "position": [0, 0]},
    },
    "order_list": ["onion"],
    "pot_explosion": False,
}
"""As a game of 2019 was recorded."""


def test_reads_every_part_of_a_state():
    world = world_from_reference(STATE, LAYOUT)
    codes, timers = np.asarray(world.cells.object), np.asarray(world.cells.timer)
    expected = {
        (0, 2): (holds(Item.SOUP, (1, 1)), 6),
        (0, 3): (Item.DISH, -1),
        (2, 4): (holds(Item.SOUP, (0, 2)), -1),
        (3, 2): (holds(Item.SOUP, (1, 0)), -1),
    }
    assert {tuple(at) for at in np.argwhere(codes).tolist()} == set(expected)
    for at, (code, timer) in expected.items():
        assert (codes[at], timers[at]) == (int(code), timer)
    assert (timers != -1).sum() == 1
    assert world.bodies.position.tolist() == [[2, 1], [1, 3]]
    assert world.bodies.direction.tolist() == [Direction.SOUTH, Direction.WEST]
    assert world.bodies.held.tolist() == [int(holds(Item.SOUP, (3, 0))), 0]
    assert int(world.time) == 17
    assert jax.tree.structure(world) == jax.tree.structure(LAYOUT.start)
    assert [x.dtype for x in jax.tree.leaves(world)] == [
        x.dtype for x in jax.tree.leaves(LAYOUT.start)
    ]


def test_writes_what_it_read():
    assert world_to_reference(world_from_reference(STATE, LAYOUT), LAYOUT) == STATE
    as_json = json.loads(json.dumps(STATE))
    assert_equal(world_from_reference(as_json, LAYOUT), world_from_reference(STATE, LAYOUT))


def test_reads_the_recorded_form():
    written = world_to_reference(world_from_reference(OLD, LAYOUT), LAYOUT)
    assert written["objects"] == [
        thing("onion", (0, 0)),
        soup((2, 0), PLAIN, 8, 20),
        soup((4, 2), ["onion"] * 2, -1, 20),
    ]
    held = [player["held_object"] for player in written["players"]]
    assert held == [None, soup((3, 1), PLAIN, 20, 20)]
    assert written["timestep"] == 0


def test_a_recorded_soup_is_ready_after_20_steps_whatever_the_layout_says():
    layout = parse_kitchen("XXPXX\nO  2T\nX1  P\nXDXSX", Recipes(cook_times=30))
    state = edited(["objects", "2,0", "state", 2], 20, OLD)
    assert world_from_reference(state, layout).cells.clock[0, 2] == 0
    assert world_from_reference(OLD, layout).cells.clock[0, 2] == 22


def test_a_soup_that_has_cooked_for_too_long_is_ready():
    state = copy.deepcopy(STATE)
    state["objects"][0]["cooking_tick"] = 99
    written = world_to_reference(world_from_reference(state, LAYOUT), LAYOUT)
    assert written["objects"][0] == soup((2, 0), MIXED, 10, 10)


def test_orders_are_in_the_order_of_the_reference():
    """By onions and four times tomatoes; recipes of both come last."""
    layout = parse_kitchen("XXPXX\nO1 2T\nXDXSX")
    orders = world_to_reference(layout.start, layout)["all_orders"]
    letters = ["".join(name[0] for name in order["ingredients"]) for order in orders]
    assert letters == ["o", "oo", "ooo", "t", "tt", "ttt", "ot", "oot", "ott"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_any_world_there_and_back(seed, cooks):
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, (6, 7), cooks)
    world = random_world(rng, layout)
    written = world_to_reference(world, layout)
    assert_equal(world_from_reference(json.loads(json.dumps(written)), layout), world)
    worlds = stack([world, layout.start, world])
    states = worlds_to_reference(worlds, layout)
    assert states[0] == states[2] == written
    assert_equal(worlds_from_reference(states, layout), worlds)


def edited(path, value, state=STATE):
    """A state with one entry replaced, or removed if `value` is `...`."""
    state = copy.deepcopy(state)
    *way, last = path
    inside = state
    for key in way:
        inside = inside[key]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return state


ONION = thing("onion", (1, 0))
BAD = {
    "no players": (edited(["players"], ...), "no 'players'"),
    "objects are a number": (edited(["objects"], 3), "must be a list"),
    "one player": (edited(["players", 1], ...), "has 1 players, but the layout is for 2"),
    "player outside": (edited(["players", 1, "position"], (5, 1)), r"\(5, 1\) is outside the grid"),
    "player in a wall": (edited(["players", 1, "position"], (0, 0)), "there is no floor"),
    "position in words": (edited(["players", 1, "position"], "31"), "must be two numbers"),
    "two in a cell": (
        edited(["players", 1, "position"], (2, 2))
        | {"players": [STATE["players"][1], STATE["players"][1]]},
        "two players in one cell",
    ),
    "faces nowhere": (edited(["players", 0, "orientation"], (0, 0)), "the directions are"),
    "unknown object": (edited(["objects", 1, "name"], "carrot"), "object 'carrot'"),
    "object on the floor": (edited(["objects", 1, "position"], (2, 1)), "where it cannot be"),
    "two in one place": (edited(["objects", 1], thing("dish", (2, 3))), "two objects"),
    "soup of four": (edited(["objects", 2, "_ingredients"], [ONION] * 4), "soup of 4 ingredients"),
    "soup is raw": (edited(["objects", 3, "cooking_tick"], 3), "must be ready"),
    "tick": (edited(["objects", 0, "cooking_tick"], -2), "whole number from -1"),
    "other cook time": (edited(["objects", 0, "cook_time"], 20), "but 10 in the layout"),
    "held elsewhere": (
        edited(["players", 0, "held_object", "position"], (2, 2)),
        "holds an object that is elsewhere",
    ),
    "timestep": (edited(["timestep"], -1), "timestep must be a whole number"),
    "other orders": (edited(["all_orders", 0], ...), "'all_orders' of the state differ"),
    "old soup of four": (edited(["objects", "2,0", "state", 1], 4, OLD), "ingredients in a soup"),
}


@pytest.mark.parametrize("name", BAD)
def test_refuses_in_one_sentence(name):
    state, words = BAD[name]
    with refused(words):
        world_from_reference(state, LAYOUT)
    with refused(f"State 1: .*{words}"):
        worlds_from_reference([OLD, state], LAYOUT)


def test_orders_that_a_state_does_not_name_are_those_of_the_layout():
    for key in ("all_orders", "bonus_orders"):
        assert_equal(
            world_from_reference(edited([key], ...), LAYOUT), world_from_reference(STATE, LAYOUT)
        )


def test_refuses_worlds_that_the_reference_does_not_know():
    layout = load_layout("cramped")
    start = layout.start

    def with_soup(contents, timer=-1):
        return put(start, (0, 2), lies(Item.SOUP, contents, timer))

    with pytest.raises(ValueError, match="code 20"):
        world_to_reference(with_soup((4, 0)), layout)
    with pytest.raises(ValueError, match="is unknown to Overcooked-AI"):
        world_to_reference(with_soup((0, 0)), layout)
    with pytest.raises(ValueError, match="needs 21 more steps"):
        world_to_reference(with_soup((3, 0), 21), layout)
    with pytest.raises(ValueError, match="several worlds"):
        world_to_reference(stack([start]), layout)
    with pytest.raises(ValueError, match="one more axis"):
        worlds_to_reference(start, layout)
    with pytest.raises(ValueError, match="give at least one"):
        worlds_from_reference([], layout)
