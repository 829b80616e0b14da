"""`Features` against a plain Python loop, and its names against their documentation."""

import equinox as eqx
import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid.envs.overcooked import (
    KINDS,
    Item,
    Overcooked,
    Recipes,
    Tile,
    encode,
    item_of,
    kitchen_features,
    parse_kitchen,
    soup_contents,
    timed_features,
)
from eqgrid.grid import IDLE, Bodies, Cell, Direction, Layout, World

STEPS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
NEAREST = {
    "onion_dispenser": (Tile.ONION_DISPENSER, None),
    "tomato_dispenser": (Tile.TOMATO_DISPENSER, None),
    "dish_dispenser": (Tile.DISH_DISPENSER, None),
    "serving": (Tile.SERVING, None),
    "empty_counter": (Tile.COUNTER, Item.NOTHING),
    "counter_onion": (Tile.COUNTER, Item.ONION),
    "counter_tomato": (Tile.COUNTER, Item.TOMATO),
    "counter_dish": (Tile.COUNTER, Item.DISH),
    "counter_soup": (Tile.COUNTER, Item.SOUP),
}
FEATURES = kitchen_features()
OTHER_SIZES = (((3, 5), 1), ((4, 7), 4), ((1, 3), 2))


@eqx.filter_jit
def observe(layout, world):
    return FEATURES(layout, world, jnp.asarray(400))


@st.composite
def arrays(draw, shape, agents):
    """Any cells and any bodies: more than can happen in a game, without a border."""
    few, item = st.integers(0, 3), st.integers(0, len(Item) - 1)
    places = draw(st.permutations(range(shape[0] * shape[1])))[:agents]
    return {
        "fixtures": draw(hnp.arrays(np.uint8, shape, elements=st.integers(0, len(Tile) - 1))),
        "item": draw(hnp.arrays(np.uint8, shape, elements=item)),
        "contents": draw(hnp.arrays(np.uint8, (*shape, 2), elements=few)),
        "timer": draw(hnp.arrays(np.int16, shape, elements=st.integers(IDLE, 30))),
        "position": np.asarray([divmod(place, shape[1]) for place in places], np.int8),
        "direction": draw(hnp.arrays(np.int8, agents, elements=few)),
        "held": draw(hnp.arrays(np.uint8, agents, elements=item)),
        "held_contents": draw(hnp.arrays(np.uint8, (agents, 2), elements=few)),
    }


def build(drawn):
    """The kitchen that was drawn; outside of strategies, as type checks draw random numbers."""
    drawn = jax.tree.map(jnp.asarray, drawn)
    world = World(
        cells=Cell(encode(drawn["item"], drawn["contents"]), drawn["timer"]),
        bodies=Bodies(
            position=drawn["position"],
            direction=drawn["direction"],
            held=encode(drawn["held"], drawn["held_contents"]),
        ),
        time=jnp.zeros((), jnp.int32),
    )
    return Layout(drawn["fixtures"], world, Recipes(), KINDS), world


def one_hot(prefix, kinds, value):
    return {f"{prefix}_{kind.name.lower()}": float(kind == value) for kind in kinds}


def test_the_time_that_is_left(key):
    env = Overcooked("ring", horizon=100, observation="timed_features")
    plain = Overcooked("ring", horizon=100, observation="features")
    observation, state = env.reset(key)
    names = ("time_left", "last_steps_left", *(f"time_left_digit_{k}" for k in range(9)))
    assert timed_features().names(env.layout)[-11:] == names
    for step in range(101):
        np.testing.assert_array_equal(observation[:, :-15], plain.observe(state))
        left = [(100 - step) / 400, min(1, (100 - step) / 40)]
        left += map(float, reversed(f"{100 - step:09b}"))
        np.testing.assert_allclose(observation[:, -11:], [left, left], rtol=1e-6)
        timestep, state = env.step(key, state, jnp.array([4, 4]))
        observation = timestep.observation


def test_how_many_things_lie_on_counters(key):
    env = Overcooked("ring", observation="timed_features")
    objects = env.layout.start.cells.object.at[0, 1].set(Item.ONION).at[4, 3].set(Item.ONION)
    soup = encode(Item.SOUP, jnp.array([3, 0]))
    objects = objects.at[2, 2].set(soup).at[1, 1].set(Item.DISH)  # this one is on the floor
    state = eqx.tree_at(lambda world: world.cells.object, env.layout.start, objects)
    assert timed_features().names(env.layout)[-15:-11] == tuple(
        f"counters_with_{thing}" for thing in ("onion", "tomato", "dish", "soup")
    )
    np.testing.assert_array_equal(env.observe(state)[:, -15:-11], [[2, 0, 0, 1]] * 2)


def by_distance(fixtures, here, wanted):
    """All cells that are wanted, nearest first; a sort is stable."""
    cells = [cell for cell in np.ndindex(fixtures.shape) if wanted(cell)]
    return sorted(cells, key=lambda cell: abs(cell[0] - here[0]) + abs(cell[1] - here[1]))


def delta(prefix, here, cell):
    if cell is None:
        return {f"{prefix}_row": 0.0, f"{prefix}_col": 0.0}
    return {f"{prefix}_row": (cell[0] - here[0]) / 5, f"{prefix}_col": (cell[1] - here[1]) / 5}


def naive_pot(prefix, here, cells, cell):
    names = ("onions", "tomatoes", "idle", "cooking", "ready", "full", "time_left")
    seen = {f"{prefix}_exists": float(cell is not None), **delta(prefix, here, cell)}
    if cell is None:
        return seen | {f"{prefix}_{name}": 0.0 for name in names}
    onions, tomatoes = soup_contents(cells.object)[cell].tolist()
    timer = int(cells.timer[cell])
    flags = (timer == IDLE, timer > 0, timer == 0, onions + tomatoes >= 3)
    values = (onions / 3, tomatoes / 3, *map(float, flags), max(timer, 0) / 20)
    return seen | {f"{prefix}_{name}": value for name, value in zip(names, values, strict=True)}


def naive_faced(layout, world, agent, others):
    fixtures, cells = layout.tiles, world.cells
    row, col = world.bodies.position[agent].tolist()
    down, right = STEPS[Direction(int(world.bodies.direction[agent])).name.lower()]
    place = (row + down, col + right)
    inside = 0 <= place[0] < fixtures.shape[0] and 0 <= place[1] < fixtures.shape[1]
    timer = int(cells.timer[place]) if inside else IDLE
    onions, tomatoes = soup_contents(cells.object)[place].tolist() if inside else (0, 0)
    return {
        **one_hot("faced", Tile, fixtures[place] if inside else Tile.WALL),
        **one_hot("faced", Item, item_of(cells.object)[place] if inside else Item.NOTHING),
        "faced_soup_onions": onions / 3,
        "faced_soup_tomatoes": tomatoes / 3,
        "faced_cooking": float(timer > 0),
        "faced_ready": float(timer == 0),
        "faced_agent": float(place in others),
    }


def naive(layout, world, agent):
    """What one agent sees, by name."""
    layout, world = jax.tree.map(np.asarray, (layout, world))
    fixtures, cells, bodies = layout.tiles, world.cells, world.bodies
    count, here = len(bodies.direction), tuple(bodies.position[agent].tolist())
    order = [(agent + k) % count for k in range(1, count)]
    others = [tuple(bodies.position[other].tolist()) for other in order]
    onions, tomatoes = soup_contents(bodies.held)[agent].tolist()
    seen = {"own_row": here[0] / 5, "own_col": here[1] / 5}
    seen |= one_hot("own_direction", Direction, bodies.direction[agent])
    seen |= one_hot("own_held", Item, item_of(bodies.held)[agent])
    seen |= {"own_held_soup_onions": onions / 3, "own_held_soup_tomatoes": tomatoes / 3}
    for way, (down, right) in STEPS.items():
        cell = (here[0] + down, here[1] + right)
        inside = 0 <= cell[0] < fixtures.shape[0] and 0 <= cell[1] < fixtures.shape[1]
        floor = inside and fixtures[cell] == Tile.FLOOR
        seen[f"{way}_free"] = float(floor and cell not in others)
        seen[f"{way}_agent"] = float(cell in others)
    seen |= naive_faced(layout, world, agent, others)
    for kind, (fixture, item) in NEAREST.items():
        found = by_distance(
            fixtures,
            here,
            lambda cell, fixture=fixture, item=item: (
                fixtures[cell] == fixture and (item is None or item_of(cells.object)[cell] == item)
            ),
        )
        seen[f"{kind}_exists"] = float(bool(found))
        seen |= delta(kind, here, found[0] if found else None)
    pots = by_distance(fixtures, here, lambda cell: fixtures[cell] == Tile.POT)
    for k, pot in enumerate([*pots, None, None][:2], start=1):
        seen |= naive_pot(f"pot_{k}", here, cells, pot)
    for k, (other, place) in enumerate(zip(order, others, strict=True), start=1):
        seen |= delta(f"other_{k}", here, place)
        seen |= one_hot(f"other_{k}_direction", Direction, bodies.direction[other])
        seen |= one_hot(f"other_{k}_held", Item, item_of(bodies.held)[other])
    return seen


@pytest.mark.parametrize(
    ("shape", "cooks"),
    [((5, 4), 2), *(pytest.param(*x, marks=pytest.mark.slow) for x in OTHER_SIZES)],
)
@hypothesis.settings(deadline=None, max_examples=20)
@hypothesis.given(data=st.data())
def test_equals_a_plain_loop(shape, cooks, data):
    layout, world = build(data.draw(arrays(shape, cooks)))
    names = FEATURES.names(layout)
    observation = observe(layout, world)
    assert observation.dtype == jnp.float32
    assert observation.shape == (world.num_agents, len(names))
    for agent in range(world.num_agents):
        expected = naive(layout, world, agent)
        assert set(names) == set(expected)
        got = dict(zip(names, np.asarray(observation[agent]).tolist(), strict=True))
        assert got == pytest.approx(expected, abs=1e-6)


def test_padding_changes_nothing():
    layout = parse_kitchen("XXPXX\nO  2O\nX1  X\nXDXSX")
    padded = layout.pad(6, 9)
    np.testing.assert_array_equal(observe(layout, layout.start), observe(padded, padded.start))


def names(cooks):
    return FEATURES.names(
        parse_kitchen("XXXXX\nX   X\nXXXXX", starts=[(1, 1), (1, 2), (1, 3)][:cooks])
    )


def test_names_are_distinct_and_grow_by_one_cook():
    two, three = names(2), names(3)
    assert len(set(three)) == len(three)
    assert three[: len(two)] == two
    again = [name.replace("other_1_", "other_2_") for name in two if name.startswith("other_1_")]
    assert list(three[len(two) :]) == again
    assert names(1) == two[: -len(again)]
