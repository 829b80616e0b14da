"""Level-based foraging: who moves, who loads, how episodes start and end, what is seen."""

import dataclasses
from typing import final

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chances import check_counts
from kitchen_checks import Blind, assert_equal, at_step, stack, unchecked

from eqgrid.envs.foraging import MAX_LEVEL, Foraging, GridView, VectorView, from_id
from eqgrid.grid import AbstractObservation

LETTERS = ".NSWEL"
"""Stay, north, south, west, east, load: what joint actions are written in."""
RESETS = 256

ENV = Foraging(5, 3, 2, observation=Blind(), penalty=0.5)
"""One environment for all tables of cases, and so one compilation."""


def actions(letters):
    return jnp.asarray([LETTERS.index(letter) for letter in letters], jnp.int32)


def world_of(text, levels=(1, 1, 1), env=ENV):
    """A world from its text: `a`, `b` and `c` are agents, digits are food. Who is missing is where
    the one before it is."""
    rows = text.split()
    objects = np.zeros(env.layout.tiles.shape, np.uint8)
    places = {}
    for row, line in enumerate(rows, start=1):
        for col, letter in enumerate(line, start=1):
            if letter.isdigit():
                objects[row, col] = int(letter)
            elif letter != ".":
                places[letter] = (row, col)
    position, last = [], None
    for letter in "abcd"[: env.num_agents]:
        last = places.get(letter, last)
        position.append(last)
    return eqx.tree_at(
        lambda w: (w.cells.object, w.bodies.position, w.bodies.extra, w.extra),
        env.layout.start,
        (
            jnp.asarray(objects),
            jnp.asarray(position, jnp.int8),
            jnp.asarray(levels, jnp.int32),
            jnp.asarray(objects.sum(), jnp.int32),
        ),
    )


def cells_of(world):
    return [tuple(place) for place in (world.bodies.position - 1).tolist()]


@eqx.filter_jit
def step(env, world, action):
    return env.step(jax.random.key(0), world, action)


@eqx.filter_jit
def reset_many(env, keys):
    return jax.vmap(env.reset)(keys)


@eqx.filter_jit
def walk(env, key, steps):
    """Worlds and timesteps of random actions."""
    reset_key, key = jax.random.split(key)
    action = jax.random.randint(key, (steps, env.num_agents), 0, 6)

    def go(world, joint):
        timestep, after = env.step(key, world, joint)
        return after, (world, after, timestep)

    return jax.lax.scan(go, env.reset(reset_key)[1], action)[1]


MOTION = {
    "into free cells": ("a.... ..b.. ....c", "ESN", [(0, 1), (2, 2), (1, 4)]),
    "not out of the field": ("a.... ....b c....", "NEW", [(0, 0), (1, 4), (2, 0)]),
    "not into food": ("a1... b.... c....", "E..", [(0, 0), (1, 0), (2, 0)]),
    "not to a contested cell": ("a.b.. ..c..", "EWS", [(0, 0), (0, 2), (2, 2)]),
    "none of three": ("a.b.. .c...", "EWN", [(0, 0), (0, 2), (1, 1)]),
    "not to who stays": ("ab... c....", "E..", [(0, 0), (0, 1), (1, 0)]),
    "not to who cannot move": ("ab1.. c....", "EE.", [(0, 0), (0, 1), (1, 0)]),
    "not to who loads": ("ab9.. c....", "EL.", [(0, 0), (0, 1), (1, 0)]),
    "not to who loads nothing": ("ab... c....", "EL.", [(0, 0), (0, 1), (1, 0)]),
    "swap": ("ab... c....", "EW.", [(0, 1), (0, 0), (1, 0)]),
    "follow": ("abc..", "EEE", [(0, 1), (0, 2), (0, 3)]),
    "in a circle": ("ab... .c...", "ESW", [(0, 1), (1, 1), (1, 0)]),
    "to who wanted to leave": ("ab.c.", "EEW", [(0, 1), (0, 1), (0, 3)]),
    "out of a shared cell": ("a.c..", "E..", [(0, 1), (0, 0), (0, 2)]),
    "both stay in a shared cell": ("a.c..", "..N", [(0, 0), (0, 0), (0, 2)]),
    "not into a shared cell": ("..... ac...", "..W", [(1, 0), (1, 0), (1, 1)]),
}


@pytest.mark.parametrize("name", MOTION)
def test_agents_go(name):
    text, letters, expected = MOTION[name]
    world = world_of(f"{text} ..... ..... ...9.")
    timestep, after = step(ENV, world, actions(letters))
    assert cells_of(after) == expected
    np.testing.assert_array_equal(after.cells.object, world.cells.object)
    assert not timestep.done


@pytest.mark.parametrize("number", [-1, 6, 100])
def test_other_numbers_do_nothing(number):
    world = world_of("a.b.. c.... ...1.")
    timestep, after = step(ENV, world, jnp.asarray([number, number, 4], jnp.int32))
    assert cells_of(after) == [(0, 0), (0, 2), (1, 1)]
    assert timestep.info["events"].sum() == 0


# text, levels, actions, the food that is left, who loaded, who failed, rewards
LOADS = {
    "alone": ("a2... .b... c....", (2, 1, 1), "L..", 0, "a", "", (1, 0, 0)),
    "too weak": ("a3... .b... c....", (2, 1, 1), "L..", 3, "", "a", (-0.5, 0, 0)),
    "stronger than needed": ("a1... .b... c....", (2, 1, 1), "L..", 0, "a", "", (1, 0, 0)),
    "two share": ("a3... .b... c....", (2, 1, 1), "LL.", 0, "ab", "", (2 / 3, 1 / 3, 0)),
    "two are too weak": ("a4... .b... c....", (2, 1, 1), "LL.", 4, "", "ab", (-0.5, -0.5, 0)),
    "three share": ("a4b.. .c...", (2, 1, 1), "LLL", 0, "abc", "", (0.5, 0.25, 0.25)),
    "who does not load does not help": ("a3b..", (2, 1, 1), "L..", 3, "", "a", (-0.5, 0, 0)),
    "not from a corner": ("a.b.. .1... c....", (2, 2, 2), "LL.", 1, "", "", (0, 0, 0)),
    "not from afar": ("a.1.. c...b", (2, 2, 2), "LLL", 1, "", "", (0, 0, 0)),
    "in one cell": ("a2c..", (1, 1, 1), "LL.", 0, "ab", "", (0.5, 0.5, 0)),
    "each its own": ("a1..2 b...c", (1, 1, 2), "L.L", 0, "ac", "", (1 / 3, 0, 2 / 3)),
    "one of two": ("a1..2 b...c", (1, 1, 1), "L.L", 2, "a", "c", (1 / 3, 0, -0.5)),
    "not while it goes": ("a1... b.... c....", (1, 1, 1), "LE.", 0, "a", "", (1, 0, 0)),
    "not its cell at once": ("..... a1b..", (1, 1, 1), "LW.", 0, "a", "", (1, 0, 0)),
}


@pytest.mark.parametrize("name", LOADS)
def test_agents_load(name):
    text, levels, letters, left, loads, fails, rewards = LOADS[name]
    timestep, after = step(ENV, world_of(f"{text} ..... ....."[:29], levels), actions(letters))
    assert int(after.cells.object.sum()) == left
    np.testing.assert_allclose(timestep.reward, np.asarray(rewards, np.float32), rtol=1e-6)
    happened = {name: i for i, name in enumerate(ENV.event_names)}
    for event, who in (("load", loads), ("failed_load", fails)):
        expected = [letter in who for letter in "abc"]
        assert timestep.info["events"][:, happened[event]].tolist() == expected
    assert timestep.terminated.tolist() == [left == 0] * 3
    assert not timestep.truncated


def test_a_cell_is_free_one_step_after_its_food_was_loaded():
    world = world_of("..... a1b.. ....9")
    _, world = step(ENV, world, actions("LW."))
    assert cells_of(world)[1] == (1, 2)
    _, world = step(ENV, world, actions(".W."))
    assert cells_of(world)[1] == (1, 1)


def test_rewards_may_be_plain():
    env = Foraging(5, 3, 2, observation=Blind(), normalize_reward=False)
    timestep, _ = step(env, world_of("a3... .b... c...5", (2, 1, 1)), actions("LL."))
    assert timestep.reward.tolist() == [6, 3, 0]


def test_shaping_is_kept_apart():
    weights = {"failed_load": -1.0}
    env = Foraging(5, 3, 2, observation=Blind(), shaping=weights)
    timestep, _ = step(env, world_of("a3... .b... c...5"), actions("LL."))
    assert timestep.reward.tolist() == [0, 0, 0]
    assert timestep.info["shaped_reward"].tolist() == [-1, -1, 0]


@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_what_is_paid_is_the_share_of_the_food(seed):
    env = Foraging(5, 3, 2, observation=Blind(), horizon=200)
    before, after, timestep = jax.tree.map(np.asarray, walk(env, jax.random.key(seed), 200))
    assert_legal(env, after)
    lying = after.cells.object.sum(axis=(1, 2), dtype=int)
    taken = before.cells.object.sum(axis=(1, 2), dtype=int) - lying
    np.testing.assert_allclose(timestep.reward.sum(axis=1), taken / after.extra, rtol=1e-6)
    np.testing.assert_array_equal(timestep.terminated, (lying == 0)[:, None].repeat(3, axis=1))
    np.testing.assert_array_equal(after.bodies.extra[1:], after.bodies.extra[:-1])
    share = (before.cells.object[0].sum() - lying[-1]) / after.extra[0]
    assert abs(timestep.reward.sum() - share) < 1e-5


def assert_legal(env, worlds):
    """Agents are in the field and not in food; food is no nearer than three steps to other food."""
    place = np.asarray(worlds.bodies.position)
    assert (place >= 1).all()
    assert (place < np.asarray(env.layout.tiles.shape) - 1).all()
    objects = np.asarray(worlds.cells.object)
    here = np.arange(len(place))[:, None]
    assert (objects[here, place[..., 0], place[..., 1]] == 0).all()
    for lying in objects:
        food = np.argwhere(lying)
        apart = np.abs(food[:, None] - food[None]).sum(axis=-1)
        assert (apart[~np.eye(len(food), dtype=bool)] >= 3).all()


STARTS = {
    "default": {},
    "coop": {"coop": True},
    "oblong": {"size": (5, 10), "num_agents": 4, "num_food": 3},
    "many": {"size": 6, "num_agents": 5, "num_food": 2, "coop": True, "max_agent_level": 3},
    "levels": {"min_agent_level": 2, "max_agent_level": 4, "min_food_level": 3},
    "bounded": {"min_food_level": 2, "max_food_level": 3},
    "alone": {"size": 5, "num_agents": 1, "num_food": 1, "coop": True},
}


@pytest.mark.parametrize("name", STARTS)
def test_starts_keep_the_rules(name):
    options = STARTS[name]
    env = Foraging(**options, observation=Blind())
    _, worlds = reset_many(env, jax.random.split(jax.random.key(0), RESETS))
    worlds = jax.tree.map(np.asarray, worlds)
    assert_legal(env, worlds)
    objects, place = worlds.cells.object, worlds.bodies.position
    assert all(len({tuple(p) for p in places}) == env.num_agents for places in place.tolist())
    inner = np.zeros(objects.shape[1:], bool)
    inner[2:-2, 2:-2] = True
    assert not objects[:, ~inner].any()
    assert ((objects > 0).sum(axis=(1, 2)) == options.get("num_food", 2)).all()
    np.testing.assert_array_equal(worlds.extra, objects.sum(axis=(1, 2), dtype=np.int32))

    levels, food = worlds.bodies.extra, objects[objects > 0]
    expected = range(options.get("min_agent_level", 1), options.get("max_agent_level", 2) + 1)
    assert set(np.unique(levels)) == set(expected)
    together = np.sort(levels, axis=1)[:, :3].sum(axis=1)
    highest = np.broadcast_to(options.get("max_food_level", together), RESETS)
    lowest = highest if options.get("coop") else np.full(RESETS, options.get("min_food_level", 1))
    most = objects.max(axis=(1, 2))
    least = np.where(objects > 0, objects, MAX_LEVEL).min(axis=(1, 2))
    assert (most <= highest).all()
    assert (least >= lowest).all()
    assert set(np.unique(food)) == set(range(lowest.min(), highest.max() + 1))
    assert (worlds.time == 0).all()
    assert worlds.bodies.active.all()


def test_agents_start_anywhere_alike():
    env = Foraging((3, 4), 2, 1, observation=Blind())
    _, worlds = reset_many(env, jax.random.split(jax.random.key(1), 4096))
    rows, cols = np.moveaxis(np.asarray(worlds.bodies.position) - 1, -1, 0)
    check_counts(1 - np.eye(12), *(4 * rows + cols).T)


def test_a_field_without_room_for_food_is_over_at_once():
    """Food must lie in the middle, and there is none where the agent starts there."""
    env = Foraging(3, 1, 1, observation=Blind())
    _, worlds = reset_many(env, jax.random.split(jax.random.key(0), RESETS))
    middle = np.asarray((worlds.bodies.position[:, 0] == 2).all(axis=-1))
    assert 0 < middle.sum() < RESETS
    np.testing.assert_array_equal(worlds.cells.object.any(axis=(1, 2)), ~middle)
    world = at_step(worlds, int(middle.argmax()))
    timestep, _ = step(env, world, actions("L"))
    assert timestep.terminated.all()
    assert not timestep.reward.any()


# What is seen


def test_the_vector_of_a_small_field():
    env = Foraging((4, 5), 2, 3, sight=5)
    world = world_of("....a ..3.. ..... .b...", (2, 1), env)
    food, nothing = [1, 2, 3], [-1, -1, 0]
    assert env.observe(world).tolist() == [
        [*food, *nothing, *nothing, 0, 4, 2, 3, 1, 1],
        [*food, *nothing, *nothing, 3, 1, 1, 0, 4, 2],
    ]
    names = VectorView(3, 5).names(2)
    assert names[:4] == ("food_1_row", "food_1_col", "food_1_level", "food_2_row")
    assert names[9:] == ("own_row", "own_col", "own_level", "other_1_row", "other_1_col", names[-1])


def test_the_vector_of_a_short_sight():
    """The third agent sees rows 2 to 4 and columns 1 to 3; the first sees rows and columns up to 1,
    but agents up to 2."""
    env = Foraging(5, 3, 2, sight=1, observe_levels=False)
    world = world_of("a.... .4... ..b.. ..c.. .7...", env=env)
    first, _, third = env.observe(world).tolist()
    assert first == [1, 1, 4, -1, -1, 0, 0, 0, 2, 2, -1, -1]
    assert third == [2, 0, 7, -1, -1, 0, 1, 1, 0, 1, -1, -1]


def test_the_window_of_a_small_field():
    env = Foraging(5, 3, 2, sight=1, observation="grid")
    world = world_of("a.... .4... ..b.. ..c..", (1, 2, 3), env)
    seen = np.asarray(env.observe(world))
    agents, food, free = np.moveaxis(seen, -1, 1)[0]
    assert agents.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert food.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 4]]
    assert free.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    agents, food, free = np.moveaxis(seen, -1, 1)[1]
    assert agents.tolist() == [[0, 0, 0], [0, 2, 0], [0, 3, 0]]
    assert food.tolist() == [[4, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert free.tolist() == [[0, 1, 1], [1, 0, 1], [1, 0, 1]]


# Many fields


def play(env, key, action):
    """A reset and one step."""
    seen, world = env.reset(key)
    return seen, env.step(key, world, action)


play_one, play_many = eqx.filter_jit(play), eqx.filter_jit(eqx.filter_vmap(play))


@final
class BothViews(AbstractObservation):
    """The vector and the window, as one vector."""

    def __call__(self, layout, world, steps_left):
        vector = VectorView(2, 3)(layout, world, steps_left)
        window = GridView(3)(layout, world, steps_left).astype(jnp.float32)
        return jnp.concatenate([vector, window.reshape(world.num_agents, -1)], axis=1)


@pytest.mark.slow
def test_different_fields_are_one_batch():
    """Of other sizes, levels and penalties: the same as one by one, but for the padding."""
    options = [
        {"size": (5, 7), "coop": True},
        {"size": (7, 5)},
        {"size": (7, 5), "max_agent_level": 5, "max_food_level": 3, "penalty": 0.5},
    ]
    envs = [Foraging(**x, observation=BothViews()) for x in options]
    padded = [eqx.tree_at(lambda e: e.layout, env, env.layout.pad(9, 9)) for env in envs]
    keys = jax.random.split(jax.random.key(2), 3)
    joint = jnp.asarray([[5, 1], [4, 5], [2, 3]], jnp.int32)
    many = play_many(stack(padded), keys, joint)
    for i, env in enumerate(envs):
        seen, (timestep, after) = play_one(env, keys[i], joint[i])
        after = dataclasses.replace(after, cells=widened(after.cells))
        assert_equal(at_step(many, i), (seen, (timestep, after)))


def widened(cells):
    rows, cols = (9 - side for side in cells.object.shape)
    return dataclasses.replace(cells, object=jnp.pad(cells.object, ((0, rows), (0, cols))))


# Options


IDS = {
    "8x8-2p-2f": {},
    "Foraging-8x8-2p-2f-coop-v3": {"coop": True},
    "Foraging-2s-10x10-3p-4f-v3": {"size": 10, "num_agents": 3, "num_food": 4, "sight": 2},
    "grid-5x6-2p-2f-v3": {"size": (5, 6), "observation": "grid"},
    "Foraging-grid-3s-8x8-2p-2f-coop": {"coop": True, "sight": 3, "observation": "grid"},
    "8x8-2p-2f-ind-pen": {"max_food_level": 1, "penalty": 0.1},
}


@pytest.mark.parametrize("name", IDS)
def test_names_stand_for_options(name):
    assert eqx.tree_equal(from_id(name), Foraging(**IDS[name]))


def test_options_count_more_than_the_name():
    assert eqx.tree_equal(
        from_id("8x8-2p-2f", horizon=9, coop=True), Foraging(horizon=9, coop=True)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 2}, "3 to 125 rows"),
        ({"size": 3, "num_agents": 10}, "1 to 9 agents"),
        ({"min_agent_level": 3}, "levels of agents"),
        ({"max_agent_level": 17}, "levels of food"),
        ({"min_food_level": 3}, "lower min_food_level"),
    ],
)
def test_bad_options_are_refused(options, words):
    with unchecked(), pytest.raises(ValueError, match=words):
        Foraging(**options)


@pytest.mark.parametrize("name", ["", "8x8", "Foraging-8x8-2p-2f-v2", "8x8-2p-2f-coop-2s"])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match=r"such as 8x8-2p-2f-coop"):
        from_id(name)
