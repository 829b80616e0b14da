"""Layouts that are drawn: kitchens and mazes, their proofs, and worlds with many of them."""

import dataclasses
from collections import deque

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from kitchen_checks import at_step
from one_at_a_time import MOVES, Planner

from eqgrid import AutoReset, Vectorize, check_env
from eqgrid.envs.goals import GeneratedMazes, Goals
from eqgrid.envs.overcooked import (
    KITCHENS,
    GeneratedKitchens,
    Overcooked,
    Tile,
    can_deliver,
    can_deliver_alone,
    find_obstacle,
    load_layout,
    parse_kitchen,
)
from eqgrid.grid import (
    Layout,
    LayoutError,
    LayoutPool,
    RandomLayouts,
    SplitLayouts,
    draw_layouts,
    reach,
    sample_maze,
    stack_layouts,
)

COUNT = 100
together_possible, alone_possible = jax.jit(can_deliver), jax.jit(can_deliver_alone)


def walk(free: np.ndarray, start: tuple[int, int]) -> set[tuple[int, int]]:
    """The cells that can be walked to, in plain Python."""
    reached, queue = {start}, deque([start])
    while queue:
        row, col = queue.popleft()
        for down, right in MOVES:
            cell = (row + down, col + right)
            inside = 0 <= cell[0] < free.shape[0] and 0 <= cell[1] < free.shape[1]
            if inside and free[cell] and cell not in reached:
                reached.add(cell)
                queue.append(cell)
    return reached


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(arrays(bool, (5, 7)), st.integers(0, 4), st.integers(0, 6))
def test_reach_is_a_walk(free: np.ndarray, row: int, col: int):
    reached = np.asarray(reach(jnp.asarray(free), jnp.asarray([row, col])))
    assert set(map(tuple, np.argwhere(reached).tolist())) == walk(free, (row, col))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "loops"), [((3, 3), 0.4), ((5, 9), 1.0), ((9, 9), 0.0), ((6, 8), 0.4), ((6, 8), 0.0)]
)
def test_every_room_of_a_maze_can_be_walked_to(size: tuple[int, int], loops: float):
    keys = jax.random.split(jax.random.key(3), 20)
    floors = np.asarray(jax.vmap(lambda key: sample_maze(key, *size, jnp.asarray(loops)))(keys))
    rooms = ((size[0] - 1) // 2) * ((size[1] - 1) // 2)
    for floor in floors:
        assert floor[1 : size[0] - 1 : 2, 1 : size[1] - 1 : 2].sum() == rooms
        assert not floor[[0, -1]].any()
        assert not floor[:, [0, -1]].any()
        assert walk(floor, (1, 1)) == set(map(tuple, np.argwhere(floor).tolist()))
        if loops == 0.0:  # a tree has one door less than rooms
            assert floor.sum() == 2 * rooms - 1
    if rooms > 4:
        assert len({floor.tobytes() for floor in floors}) > 1 or loops == 1.0


OPTIONS = {
    "one room": {},
    "two rooms": {"two_rooms": 1.0},
    "any size": {"two_rooms": 0.5, "smallest": (4, 5)},
    "three cooks": {"num_agents": 3, "walls": 0.3, "two_rooms": 0.5},
    "many stations": {
        "onions": (2, 3),
        "tomatoes": (1, 1),
        "dishes": (2, 2),
        "pots": (3, 3),
        "servings": (1, 2),
    },
}


SLOW = ("one room", "two rooms", "three cooks")


@pytest.fixture(
    scope="module",
    params=[pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW)) for x in OPTIONS],
)
def drawn(request) -> tuple[GeneratedKitchens, Layout]:
    kitchens = GeneratedKitchens(7, 8, **OPTIONS[request.param])
    return kitchens, draw_layouts(kitchens, jax.random.key(5), COUNT)


def test_kitchens_are_what_was_asked_for(drawn: tuple[GeneratedKitchens, Layout]):
    kitchens, layouts = drawn
    order = (Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER, Tile.DISH_DISPENSER, Tile.POT)
    for number in range(COUNT):
        layout = at_step(layouts, number)
        assert find_obstacle(layout, "classic") is None
        tiles = np.asarray(layout.tiles)
        counts = [(tiles == tile).sum() for tile in (*order, Tile.SERVING)]
        assert (np.asarray(kitchens.fewest) <= counts).all()
        assert (counts <= np.asarray(kitchens.most)).all()
        assert str(parse_kitchen(str(layout))) == str(layout)  # a border, and distinct starts
        floor = np.argwhere(tiles == Tile.FLOOR)
        smallest = np.asarray(kitchens.smallest)
        if (smallest == tiles.shape).all() and not kitchens.walls:
            assert (floor.max(axis=0) == np.asarray(tiles.shape) - 2).all()
    assert len({str(at_step(layouts, number)) for number in range(COUNT)}) > 0.95 * COUNT


@pytest.mark.slow
def test_a_soup_is_delivered_in_every_kitchen(drawn: tuple[GeneratedKitchens, Layout]):
    _, layouts = drawn
    for number in range(8):
        env = Overcooked(at_step(layouts, number), horizon=2000, observation="features")
        assert Planner(env).deliver() == 20.0


def test_two_rooms_need_each_other():
    kitchens = GeneratedKitchens(two_rooms=1.0)
    layouts = draw_layouts(kitchens, jax.random.key(1), COUNT)
    for number in range(COUNT):
        layout = at_step(layouts, number)
        floor = np.asarray(layout.tiles) == Tile.FLOOR
        first, second = map(tuple, np.asarray(layout.start.bodies.position).tolist())
        assert second not in walk(floor, first)
        for cook in range(2):  # with nobody in the other room, something is lacking
            bodies = layout.start.bodies
            alone = dataclasses.replace(
                bodies,
                position=bodies.position[cook : cook + 1],
                direction=bodies.direction[:1],
                held=bodies.held[:1],
            )
            start = dataclasses.replace(layout.start, bodies=alone)
            assert find_obstacle(dataclasses.replace(layout, start=start), "classic") is not None


@pytest.mark.parametrize(
    ("text", "together", "alone"),
    [
        ("XPX\nO1S\nXDX", True, True),
        ("XPX\nO1X\nXDX", False, False),  # no serving hatch
        ("XXX\nO1S\nXDX", False, False),  # no pot
        ("XPXXX\nO1X2S\nXDXXX", True, False),  # the soup goes over the counter
        ("XPXXX\nO1P2S\nXDXXX", False, False),  # a pot hands on no soup
        ("XXXXX\nO12PX\nXDSXX", False, True),  # the first cook stands in the way
        ("XXPXX\nO1 2S\nXXDXX", False, True),  # there is one, but both must walk
    ],
)
def test_a_plan_is_found_where_there_is_one(text: str, together: bool, alone: bool):
    layout = parse_kitchen(text)
    assert together_possible(layout) == together
    assert alone_possible(layout) == alone


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=[pytest.mark.slow] * (x not in ("cramped", "forced")))
        for x in KITCHENS
    ],
)
def test_a_plan_is_found_in_the_known_kitchens(name: str):
    layout = load_layout(name)
    assert together_possible(layout)
    assert alone_possible(layout) == (name != "forced")
    assert Planner(Overcooked(layout, observation="features")).deliver() == 20.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pots": (0, 0)}, "A soup needs"),
        ({"pots": (3, 2)}, "pots must be a minimum and a maximum"),
        ({"pots": (40, 40)}, "do not fit into a kitchen of 5 by 9"),
        ({"walls": 1.5}, "between 0 and 1"),
        ({"two_rooms": 1.0, "num_agents": 1}, "a cook in each"),
        ({"two_rooms": 1.0, "smallest": (5, 4)}, "at least 5 columns"),
        ({"smallest": (6, 9)}, "and the grid is"),
        ({"height": 200}, "at most 127"),
        ({"num_agents": 30}, "ask for larger kitchens"),
    ],
)
def test_impossible_kitchens_are_refused(options: dict, said: str):
    with pytest.raises(LayoutError if "walls" not in options else ValueError, match=said):
        GeneratedKitchens(**options)


def test_two_agents_can_get_anywhere_in_a_maze():
    mazes = GeneratedMazes(7, 7, loops=0.1)
    layouts = draw_layouts(mazes, jax.random.key(0), 12)
    for number in range(12):
        floor = np.asarray(at_step(layouts, number).tiles) == 0
        cells = list(map(tuple, np.argwhere(floor).tolist()))
        first = (cells[0], cells[1])
        reached, queue = {first}, deque([first])
        while queue:  # one agent walks at a time, never onto the other
            pair = queue.popleft()
            for agent in range(2):
                row, col = pair[agent]
                for down, right in MOVES:
                    cell = (row + down, col + right)
                    after = (cell, pair[1]) if agent == 0 else (pair[0], cell)
                    if floor[cell] and cell != pair[1 - agent] and after not in reached:
                        reached.add(after)
                        queue.append(after)
        assert len(reached) == len(cells) * (len(cells) - 1)


@pytest.mark.slow
def test_what_is_held_out_is_never_met():
    kitchens = GeneratedKitchens(4, 5, walls=0.0)  # few enough to be drawn again and again
    texts = []
    for held_out in (True, False):
        part = SplitLayouts(kitchens, held_out, share=0.3)
        layouts = draw_layouts(part, jax.random.key(7), 3000)
        texts.append({str(at_step(layouts, number)) for number in range(0, 3000, 3)})
    assert not texts[0] & texts[1]
    everything = draw_layouts(kitchens, jax.random.key(8), 3000)
    split = SplitLayouts(kitchens, True, share=0.3)
    assert 0.27 < np.mean(jax.vmap(split.has)(everything)) < 0.33


def test_too_few_layouts_cannot_be_split():
    kitchens = GeneratedKitchens(3, 3, num_agents=1, dishes=(1, 1), pots=(1, 1), servings=(1, 1))
    with pytest.raises(LayoutError, match="too few different ones"):
        SplitLayouts(kitchens, held_out=True, share=1e-6)
    with pytest.raises(ValueError, match="Both parts need layouts"):
        SplitLayouts(kitchens, held_out=True, share=0)


@pytest.mark.parametrize("pooled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_episode_is_somewhere_else(pooled: bool):
    kitchens = GeneratedKitchens(5, 6)
    layouts = draw_layouts(kitchens, jax.random.key(0), 500) if pooled else None
    source = kitchens if layouts is None else LayoutPool(layouts)
    world = RandomLayouts(Overcooked(kitchens.example, horizon=4), source)
    env = Vectorize(AutoReset(world, lazy=not pooled), 16)
    step = eqx.filter_jit(env.step)
    _, state = env.reset(jax.random.key(0))
    seen = []
    for number in range(12):
        before = np.asarray(state.layout.tiles)
        timestep, state = step(jax.random.key(number), state, jnp.zeros((16, 2), jnp.int32))
        after = np.asarray(state.layout.tiles)
        assert timestep.done.all() == (number % 4 == 3)
        if number % 4 != 3:
            np.testing.assert_array_equal(before, after)
            continue
        seen += [tiles.tobytes() for tiles in after]
        for i in range(16):
            layout = jax.tree.map(lambda x, i=i: x[i], state.layout)
            assert find_obstacle(layout, "classic") is None
            if layouts is not None:
                assert (layouts.tiles == layout.tiles[None]).all(axis=(1, 2)).any()
    assert len(set(seen)) > 40


@pytest.mark.slow
def test_worlds_with_many_layouts_keep_the_protocol():
    kitchens = GeneratedKitchens(5, 6)
    check_env(RandomLayouts(Overcooked(kitchens.example, observation="features"), kitchens))
    mazes = GeneratedMazes(7, 9, num_agents=3)
    env = RandomLayouts(Goals(mazes.example), SplitLayouts(mazes, held_out=False))
    check_env(env)
    assert env.shape == (7, 9)
    assert env.event_names == ("arrival",)
    pool = LayoutPool(stack_layouts([load_layout(name) for name in KITCHENS]))
    check_env(RandomLayouts(Overcooked(load_layout("asymmetric")), pool))


def test_pictures_are_of_the_layout_of_the_episode():
    mazes = GeneratedMazes(7, 7)
    env = RandomLayouts(Goals(mazes.example), mazes)
    reset = eqx.filter_jit(env.reset)
    states = [reset(jax.random.key(number))[1] for number in range(2)]
    one, other = (env.render(state) for state in states)
    assert one.shape == other.shape
    assert (one != other).any()
    video = jax.tree.map(lambda x: jnp.stack([x, x]), states[1])
    assert env.render_episode(video)[:3] == b"GIF"
    assert env.video(video)._repr_html_() != env._repr_html_()
    alone = env.env.with_layout(states[1].layout)
    np.testing.assert_array_equal(other, alone.render(states[1].world))


def test_layouts_that_do_not_fit_are_refused():
    kitchens = GeneratedKitchens(5, 6)
    with pytest.raises(LayoutError, match=r"do not fit the world.*\(4, 5\)"):
        RandomLayouts(Overcooked("cramped"), kitchens)
    with pytest.raises(LayoutError, match="of another game"):
        RandomLayouts(Goals("room"), kitchens)
    with pytest.raises(LayoutError, match="can be stacked"):
        stack_layouts([load_layout("cramped"), parse_kitchen("XPX\nO1S\nXDX")])
    with pytest.raises(LayoutError, match="no layout to be stacked"):
        stack_layouts([])
