"""The warehouse: who drives where, what is loaded, delivered and paid, and what robots see."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chances import check_counts
from hypothesis import given, settings, strategies as st
from jaxtyping import Array, Int32
from kitchen_checks import Blind, assert_equal, refused, stack

from eqgrid.envs.warehouse import (
    ACTIONS,
    EVENT_NAMES,
    SIZES,
    AbstractRequestSampler,
    ChainCollision,
    Load,
    Sensors,
    Tile,
    Warehouse,
    parse_warehouse,
    shelf_rows,
)
from eqgrid.grid import Direction, Forward, LayoutError, Rotate, Stay, Use, direction_delta

STAY, FORWARD, LEFT, RIGHT, TOGGLE = range(5)
N, S, E, W = Direction
SMALL = """
    ....
    xx..
    .xxg
    ...g
"""
"""Racks are at (2, 1), (2, 2), (3, 2) and (3, 3), goals at (3, 4) and (4, 4)."""


@final
class Ranks(AbstractRequestSampler):
    """Requests what it is told."""

    ranks: Int32[Array, " goals"]

    def __call__(self, key, num_goals, num_free):
        return self.ranks


def small(num_agents=2, *, ranks=(0, 0), text=SMALL, num_requests=1, **options):
    """A warehouse whose draws are known, and in which nobody sees anything."""
    told = Ranks(jnp.asarray(ranks, jnp.int32))
    options = {"observation": Blind(), "starts": ()} | options
    return Warehouse(
        text, num_agents=num_agents, num_requests=num_requests, next_request=told, **options
    )


def world_of(env, robots, objects=(), delivered=()):
    """The start of a warehouse with robots `(row, col, direction, load)` and other objects."""
    start = env.layout.start
    codes = np.array(start.cells.object)
    for (row, col), code in dict(objects).items():
        codes[row, col] = code
    rows, cols, directions, loads = zip(*robots, strict=True)
    bodies = dataclasses.replace(
        start.bodies,
        position=jnp.asarray(np.stack([rows, cols], axis=-1), jnp.int8),
        direction=jnp.asarray(directions, jnp.int8),
        held=jnp.asarray(loads, jnp.uint8),
        extra=jnp.asarray([i in delivered for i in range(len(robots))]),
    )
    cells = dataclasses.replace(start.cells, object=jnp.asarray(codes))
    return dataclasses.replace(start, cells=cells, bodies=bodies)


@eqx.filter_jit
def step(env, world, actions):
    return env.step(jax.random.key(0), world, actions)


def act(env, world, *actions):
    return step(env, world, jnp.asarray(actions, jnp.int32))


def events(timestep, name):
    return timestep.info["events"][:, EVENT_NAMES.index(name)].tolist()


# Layouts


def test_the_sizes_are_those_of_the_reference():
    shapes = {name: Warehouse(name).layout.tiles.shape for name in SIZES}
    # 11 by 10, 20 by 10, 20 by 16 and 29 by 16 cells, and walls around them
    assert shapes == {"tiny": (13, 12), "small": (22, 12), "medium": (22, 18), "large": (31, 18)}
    shelves = {name: shelf_rows(*size).count("x") for name, size in SIZES.items()}
    assert shelves == {"tiny": 32, "small": 80, "medium": 144, "large": 224}


def test_a_layout_keeps_what_its_text_says():
    layout = parse_warehouse(SMALL.upper(), 2, 3)
    assert layout.params.tolist() == [[3, 4], [4, 4]]
    racks = np.argwhere(np.asarray(layout.tiles) == Tile.RACK).tolist()
    assert racks == [[2, 1], [2, 2], [3, 2], [3, 3]]
    codes = np.asarray(layout.start.cells.object)
    assert [codes[row, col] for row, col in racks] == [2, 2, 2, 1]
    assert layout.start.bodies.position.tolist() == [[1, 1], [1, 2]]


def test_actions_are_in_the_order_of_the_reference():
    toggle = Use("toggle_load")
    assert (Stay(), Forward(), Rotate("left"), Rotate("right"), toggle) == ACTIONS


# Loads


@pytest.mark.parametrize(
    ("robot", "lies", "held_after", "lies_after", "event"),
    [
        ((2, 1, N, Load.NOTHING), Load.SHELF, Load.SHELF, Load.NOTHING, "load"),
        ((2, 1, N, Load.NOTHING), Load.REQUESTED, Load.REQUESTED, Load.NOTHING, "load"),
        ((2, 1, N, Load.NOTHING), Load.NOTHING, Load.NOTHING, Load.NOTHING, None),
        ((2, 1, N, Load.SHELF), Load.NOTHING, Load.NOTHING, Load.SHELF, "unload"),
        ((2, 1, N, Load.REQUESTED), Load.NOTHING, Load.NOTHING, Load.REQUESTED, "unload"),
        ((1, 1, N, Load.SHELF), Load.NOTHING, Load.SHELF, Load.NOTHING, None),  # a corridor
        ((4, 4, N, Load.SHELF), Load.NOTHING, Load.SHELF, Load.NOTHING, None),  # a goal
    ],
)
def test_toggling_loads_and_unloads(robot, lies, held_after, lies_after, event):
    env = small(1)
    row, col = robot[:2]
    world = world_of(env, [robot], {(row, col): lies})
    timestep, after = act(env, world, TOGGLE)
    assert after.bodies.held.tolist() == [held_after]
    assert after.cells.object[row, col] == lies_after
    happened = {name for name in EVENT_NAMES if events(timestep, name) == [1]}
    wanted = {event} - {None}
    if event == "load" and lies == Load.REQUESTED:
        wanted.add("requested_load")
    assert happened == wanted


# Driving


@pytest.mark.parametrize(
    ("robot", "lies", "moves"),
    [
        ((1, 1, S, Load.NOTHING), Load.SHELF, True),  # under a shelf
        ((1, 1, S, Load.SHELF), Load.SHELF, False),
        ((1, 1, S, Load.REQUESTED), Load.REQUESTED, False),
        ((1, 1, S, Load.SHELF), Load.NOTHING, True),
        ((1, 1, N, Load.NOTHING), Load.SHELF, False),  # a wall
    ],
)
def test_a_shelf_keeps_other_shelves_out(robot, lies, moves):
    env = small(1)
    world = world_of(env, [robot], {(2, 1): lies})
    _, after = act(env, world, FORWARD)
    assert (after.bodies.position != world.bodies.position).any() == moves


def test_a_carried_shelf_makes_room_when_its_robot_drives_on():
    env = small(2)
    world = world_of(env, [(2, 1, E, Load.SHELF), (2, 2, E, Load.SHELF)], {(2, 1): 0, (2, 2): 0})
    _, after = act(env, world, FORWARD, FORWARD)
    assert after.bodies.position.tolist() == [[2, 2], [2, 3]]
    _, after = act(env, world, FORWARD, TOGGLE)
    assert after.bodies.position.tolist() == [[2, 1], [2, 2]]


def naive_chains(old, new):
    """The same, by a walk over the graph of wishes, robot by robot."""
    old, new = [tuple(x) for x in old], [tuple(x) for x in new]
    wants = {a: b for a, b in zip(old, new, strict=True) if a != b}
    named = [cell for pair in zip(old, new, strict=True) for cell in pair]

    def followers(cell):
        return sorted((x for x in wants if wants[x] == cell), key=named.index)

    def chain(cell):
        behind = [chain(x) for x in followers(cell)]
        return [cell, *max(behind, key=len, default=[])]

    moved = set()
    for cell in old:
        path = [cell]
        while path[-1] in wants and wants[path[-1]] not in path:
            path.append(wants[path[-1]])
        end = path[-1]
        if end in wants:  # a circle
            circle = path[path.index(wants[end]) :]
            moved |= set(circle) if len(circle) > 2 else set()
        elif end not in old:
            moved |= set(chain(end)[1:])
    return [b if a in moved else a for a, b in zip(old, new, strict=True)]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_chains_are_those_of_a_walk_over_the_graph(data):
    agents = data.draw(st.sampled_from([2, 4, 7]))
    side = data.draw(st.integers(3, 4))
    cells = data.draw(st.permutations(range(side * side)))[:agents]
    headings = data.draw(st.lists(st.integers(-1, 3), min_size=agents, max_size=agents))
    old = np.stack(np.divmod(cells, side), axis=-1).astype(np.int8)
    delta = np.asarray(direction_delta(jnp.asarray(headings, jnp.int8)))
    new = np.where(((old + delta >= 0) & (old + delta < side)).all(1)[:, None], old + delta, old)
    after = np.asarray(collide(jnp.asarray(old), jnp.asarray(new, jnp.int8)))
    assert [tuple(x) for x in after] == naive_chains(old, new)
    assert len({tuple(x) for x in after}) == agents


@jax.jit
def collide(old, new):
    return ChainCollision()(old, new, None)


# Deliveries


@pytest.mark.parametrize(
    ("reward", "paid"),
    [("individual", [0, 1]), ("shared", [1, 1]), ("two_stage", [0, 0.5])],
)
def test_a_requested_shelf_is_delivered_on_a_goal(reward, paid):
    env = small(2, reward=reward, ranks=(1, 0))
    robots = [(1, 1, N, Load.NOTHING), (3, 4, N, Load.REQUESTED)]
    world = world_of(env, robots, {(2, 1): Load.NOTHING})
    timestep, after = act(env, world, STAY, STAY)
    assert timestep.reward.tolist() == paid
    assert events(timestep, "delivery") == [0, 1]
    assert after.bodies.held.tolist() == [Load.NOTHING, Load.SHELF]
    assert after.bodies.extra.tolist() == [False, True]
    requested = np.argwhere(np.asarray(after.cells.object) == Load.REQUESTED).tolist()
    assert requested == [[3, 2]]  # the second one of those that stood and were not requested


def test_a_shelf_is_delivered_by_driving_onto_a_goal_once():
    env = small(1)
    world = world_of(env, [(4, 3, E, Load.REQUESTED)], {(2, 1): Load.NOTHING})
    first, world = act(env, world, FORWARD)
    second, world = act(env, world, STAY)
    assert [first.reward.tolist(), second.reward.tolist()] == [[1], [0]]


def test_other_shelves_and_other_cells_deliver_nothing():
    env = small(2)
    robots = [(3, 4, N, Load.SHELF), (4, 3, N, Load.REQUESTED)]
    timestep, after = act(env, world_of(env, robots), STAY, STAY)
    assert timestep.reward.tolist() == [0, 0]
    assert after.bodies.held.tolist() == [Load.SHELF, Load.REQUESTED]


def test_putting_back_pays_once_in_two_stages():
    env = small(1, reward="two_stage")
    robot = [(2, 1, N, Load.SHELF)]
    world = world_of(env, robot, {(2, 1): Load.NOTHING}, delivered=[0])
    paid = []
    for _ in range(3):
        timestep, world = act(env, world, TOGGLE)
        paid.append((timestep.reward.tolist(), events(timestep, "put_back")))
    assert paid == [([0.5], [1]), ([0], [0]), ([0], [0])]


def test_what_the_first_goal_requests_the_second_one_may_deliver():
    robots = [(4, 4, N, Load.SHELF), (3, 4, N, Load.REQUESTED)]
    lies = {(2, 1): Load.NOTHING}
    for rank, paid in ((3, [1, 1]), (0, [0, 1])):  # three stand; the first robot's is the fourth
        env = small(2, ranks=(rank, 1))
        timestep, after = act(env, world_of(env, robots, lies), STAY, STAY)
        assert timestep.reward.tolist() == paid
        assert int((after.cells.object == Load.REQUESTED).sum()) == 1
        assert Load.REQUESTED not in after.bodies.held


def test_a_carried_shelf_may_be_requested():
    env = small(2, ranks=(3, 0))
    robots = [(1, 1, N, Load.SHELF), (3, 4, N, Load.REQUESTED)]
    _, after = act(env, world_of(env, robots, {(2, 1): Load.NOTHING}), STAY, STAY)
    assert after.bodies.held.tolist() == [Load.REQUESTED, Load.SHELF]


# Whole episodes


def play(env, key):
    """States and timesteps of random robots that load a lot."""
    action_key, step_key = jax.random.split(key)
    logits = jnp.log(jnp.asarray([1, 5, 2, 2, 4], jnp.float32))
    actions = jax.random.categorical(action_key, logits, shape=(STEPS, env.num_agents))

    def advance(world, told):
        timestep, world = env.step(told[0], world, told[1])
        return world, (timestep, world)

    keys = jax.random.split(step_key, STEPS)
    return jax.lax.scan(advance, env.layout.start, (keys, actions))[1]


STEPS = 100
TEXTS = (SMALL, SMALL[::-1], "....\n.xxg\nx...\nx.g.")
play_many = eqx.filter_jit(eqx.filter_vmap(play, in_axes=(None, 0)))
play_batch = eqx.filter_jit(
    eqx.filter_vmap(eqx.filter_vmap(play, in_axes=(None, 0)), in_axes=(eqx.if_array(0), 0))
)


def warehouse(text):
    return Warehouse(text, num_agents=3, num_requests=2)


@pytest.fixture(scope="module")
def games():
    """What happens in a batch of different warehouses: `[warehouses, games, steps, ...]`."""
    envs = [warehouse(text) for text in TEXTS]
    arrays = stack([eqx.filter(env, eqx.is_array) for env in envs])
    batch = eqx.combine(arrays, eqx.filter(envs[0], eqx.is_array, inverse=True))
    keys = jax.random.split(jax.random.key(3), (3, 32))
    return keys, play_batch(batch, keys)


@pytest.mark.slow
def test_a_batch_of_warehouses_is_a_loop_over_them(games):
    keys, together = games
    alone = [play_many(warehouse(text), key) for text, key in zip(TEXTS, keys, strict=True)]
    assert_equal(stack(alone), together)


@pytest.mark.slow
def test_a_padded_warehouse_plays_the_same(games):
    keys, together = games
    env = warehouse(SMALL)
    wide = eqx.tree_at(lambda x: x.layout, env, env.layout.pad(9, 11))
    timesteps, worlds = play_many(wide, keys[0])
    first_timesteps, first_worlds = jax.tree.map(lambda x: x[0], together)
    assert_equal(timesteps, first_timesteps)
    assert_equal(worlds.bodies, first_worlds.bodies)
    np.testing.assert_array_equal(worlds.cells.object[..., :6, :6], first_worlds.cells.object)


def test_invariants_of_random_play(games):
    timesteps, worlds = games[1]
    held, position = np.asarray(worlds.bodies.held), np.asarray(worlds.bodies.position)
    objects = np.asarray(worlds.cells.object)
    both = np.concatenate([objects.reshape(*held.shape[:3], -1), held], axis=-1)
    assert ((both != Load.NOTHING).sum(axis=-1) == 4).all()
    assert ((both == Load.REQUESTED).sum(axis=-1) == 2).all()
    places = np.sort(position @ np.asarray([100, 1]), axis=-1)
    assert (np.diff(places, axis=-1) > 0).all()
    for number, text in enumerate(TEXTS):
        tiles = np.asarray(warehouse(text).layout.tiles)
        assert not ((objects[number] != Load.NOTHING) & (tiles != Tile.RACK)).any()
        row, col = position[number, ..., 0], position[number, ..., 1]
        assert (tiles[row, col] != Tile.WALL).all()
    counts = np.asarray(timesteps.info["events"]).sum(axis=(0, 1, 2, 3))
    assert (counts > 5).all(), dict(zip(EVENT_NAMES, counts, strict=True))
    delivered = timesteps.info["events"][..., EVENT_NAMES.index("delivery")]
    np.testing.assert_array_equal(timesteps.reward, delivered)
    assert not timesteps.truncated.any()


def test_starts_are_random_and_fair():
    env = Warehouse(SMALL, num_agents=2, num_requests=2, observation=Blind())
    _, worlds = eqx.filter_jit(eqx.filter_vmap(env.reset))(
        jax.random.split(jax.random.key(0), 4000)
    )
    position = np.asarray(worlds.bodies.position)
    rows, cols = np.moveaxis(position - 1, -1, 0)
    check_counts(1 - np.eye(16), *(4 * rows + cols).T)
    requested = np.asarray(worlds.cells.object) == Load.REQUESTED
    per_rack = requested.sum(axis=0)[np.asarray(env.layout.tiles) == Tile.RACK]
    assert abs(per_rack - 2000).max() < 160
    assert (requested.sum(axis=(1, 2)) == 2).all()
    assert len(np.unique(np.asarray(worlds.bodies.direction), axis=0)) == 16


def test_new_requests_are_drawn_fairly():
    env = Warehouse(SMALL, num_agents=1, num_requests=1, observation=Blind(), starts=())
    world = world_of(env, [(3, 4, N, Load.REQUESTED)], {(2, 1): Load.NOTHING})
    keys = jax.random.split(jax.random.key(0), 3000)
    advance = eqx.filter_jit(eqx.filter_vmap(env.step, in_axes=(0, None, None)))
    _, worlds = advance(keys, world, jnp.asarray([STAY]))
    requested = (np.asarray(worlds.cells.object) == Load.REQUESTED).sum(axis=0)
    assert (requested.sum(), (requested > 0).sum()) == (3000, 3)
    assert abs(requested[requested > 0] - 1000).max() < 130


def test_an_episode_is_cut_or_ends_when_nothing_is_delivered():
    env = small(1, horizon=3, max_quiet_steps=2)
    world = world_of(env, [(4, 3, E, Load.REQUESTED)], {(2, 1): Load.NOTHING})
    ends = []
    for action in (FORWARD, STAY, STAY):  # a delivery, and then none
        timestep, world = act(env, world, action)
        ends.append((timestep.terminated.tolist(), bool(timestep.truncated)))
    assert ends == [([False], False), ([False], False), ([True], True)]


# What robots see


def test_sensors_by_name():
    env = small(2, observation=Sensors(1))
    robots = [(2, 3, W, Load.SHELF), (3, 3, E, Load.NOTHING)]
    world = world_of(env, robots, {(2, 2): Load.REQUESTED, (3, 3): Load.SHELF})
    seen = dict(zip(Sensors(1).names(), np.asarray(env.observe(world))[0].tolist(), strict=True))
    on = {name: value for name, value in seen.items() if value}
    own = {"col": 2, "row": 1, "carries": 1, "faces_west": 1, "off_rack": 1}
    here = {"robot_at_0_0": 1, "robot_faces_west_at_0_0": 1, "shelf_at_0_0": 1}
    below = {"robot_at_1_0": 1, "robot_faces_east_at_1_0": 1, "shelf_at_1_0": 1}
    left = {"shelf_at_0_-1": 1, "requested_at_0_-1": 1, "shelf_at_1_-1": 1}
    reach = range(-1, 2)
    nobody = {
        f"robot_faces_north_at_{row}_{col}": 1
        for row in reach
        for col in reach
        if (row, col) not in ((0, 0), (1, 0))
    }
    assert on == {**own, **here, **below, **left, **nobody}


def test_a_wider_window_holds_the_narrow_one():
    radius = 3
    env = small(2, observation=Sensors(radius))
    world = world_of(env, [(4, 1, W, Load.NOTHING), (2, 2, E, Load.SHELF)], {(2, 2): 0})
    seen = env.observe(world)
    names = Sensors(radius).names()
    assert seen.shape == (2, len(names))
    assert len(set(names)) == len(names)
    inner = [names.index(name) for name in Sensors(1).names()]
    narrow = eqx.tree_at(lambda x: x.observation, env, Sensors(1))
    np.testing.assert_array_equal(seen[:, inner], narrow.observe(world))


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": "..\nxx\n"}, "no goal"),
        ({"size": SMALL, "num_agents": 4}, "must be from 1 to 3, because one shelf must stay"),
        ({"num_agents": 111, "num_requests": 1}, "room for 1 to 110 robots"),
        ({"difficulty": "harder"}, "choose easy or normal or hard"),
    ],
)
def test_refuses_in_one_sentence(options, words):
    with refused(words):
        Warehouse(**options)


def test_bad_texts_are_layout_errors():
    with pytest.raises(LayoutError, match="is empty"):
        parse_warehouse("\n", 1, 1)
    with pytest.raises(ValueError, match="odd number of columns"):
        shelf_rows(1, 2)
