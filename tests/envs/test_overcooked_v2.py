"""The rules of OvercookedV2 as tables of cases, and what must always hold."""

import functools

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import refused

from eqgrid.envs.overcooked_v2 import (
    EVENT_NAMES,
    FIRST_INGREDIENT,
    INGREDIENTS,
    KITCHENS,
    PLATE,
    Menu,
    OvercookedV2,
    StartFrom,
    Tile,
    all_recipes,
    contents,
    contents_of,
    load_layout,
)
from eqgrid.grid import IDLE, NOTHING, Direction, draw_look, looks

ROOM = """
    XPXSX
    O 1 R
    XTXDL
"""
"""A cook between a pot, a hatch, an indicator, piles and a button."""
ORDERS = [("onion", "onion", "tomato"), ("tomato", "tomato", "tomato")]
ONION, TOMATO = FIRST_INGREDIENT, FIRST_INGREDIENT + 1
SOUP = contents(2).soup
RIGHT, WRONG = SOUP((0, 0, 1)), SOUP((1, 1, 1))
INTERACT = 5
POT, HATCH, COUNTER = (0, 1), (0, 3), (0, 2)


@functools.cache
def kitchen(**options):
    options = {"recipes": tuple(ORDERS)} | options
    return OvercookedV2(ROOM, **{x: y for x, y in options.items() if y is not None})


def face(world, cell, held=NOTHING, lying=None, timer=IDLE):
    """The cook below or above a cell, facing it."""
    up = cell[0] == 0
    direction = Direction.NORTH if up else Direction.SOUTH
    world = eqx.tree_at(
        lambda w: (w.bodies.position, w.bodies.direction, w.bodies.held),
        world,
        (
            jnp.asarray([(1, cell[1])], jnp.int8),
            jnp.asarray([direction], jnp.int8),
            jnp.asarray([held], jnp.uint8),
        ),
    )
    if lying is None:
        return world
    return eqx.tree_at(
        lambda w: (w.cells.object, w.cells.timer),
        world,
        (world.cells.object.at[cell].set(lying), world.cells.timer.at[cell].set(timer)),
    )


@eqx.filter_jit
def advance(env, world, action):
    return env.step(jax.random.key(0), world, jnp.full(env.num_agents, action, jnp.int32))


@eqx.filter_jit
def advance_often(env, world, action):
    """The worlds after one step, with 64 keys."""
    keys, action = jax.random.split(jax.random.key(0), 64), jnp.full(env.num_agents, action)
    return jax.vmap(lambda key: env.step(key, world, action)[1])(keys)


def interact(env, world):
    """The timestep and the world after one interaction, and the names of the events."""
    timestep, world = advance(env, world, INTERACT)
    happened = {EVENT_NAMES[i] for i in np.flatnonzero(np.asarray(timestep.info["events"][0]))}
    return timestep, world, happened


CASES = {
    # what is faced, held, lying, timer -> held, lying, timer, reward, shaped, events
    "take a plate": ((2, 3), 0, None, IDLE, PLATE, 0, IDLE, 0, 0, {"plate_pickup"}),
    "take an ingredient": ((2, 1), 0, None, IDLE, TOMATO, 0, IDLE, 0, 0, {"ingredient_pickup"}),
    "give nothing back": ((2, 1), TOMATO, None, IDLE, TOMATO, 0, IDLE, 0, 0, set()),
    "put down": (COUNTER, PLATE, 0, IDLE, 0, PLATE, IDLE, 0, 0, {"drop"}),
    "pick up": (COUNTER, 0, RIGHT, IDLE, RIGHT, 0, IDLE, 0, 0, {"soup_pickup"}),
    "no room": (COUNTER, PLATE, ONION, IDLE, PLATE, ONION, IDLE, 0, 0, set()),
    "add": (POT, ONION, 0, IDLE, 0, SOUP((0,)), IDLE, 0, 3, {"potting", "useful_potting"}),
    "add too many": (POT, TOMATO, SOUP((1,)), IDLE, 0, SOUP((1, 1)), IDLE, 0, 0, {"potting"}),
    "add the third": (
        *(POT, TOMATO, SOUP((0, 0)), IDLE, 0, RIGHT, 19, 0, 3),
        {"potting", "useful_potting"},
    ),
    "start what is full": (POT, PLATE, WRONG, IDLE, PLATE, WRONG, 19, 0, 0, {"cooking_start"}),
    "not full": (POT, 0, SOUP((0, 0)), IDLE, 0, SOUP((0, 0)), IDLE, 0, 0, set()),
    "still cooking": (POT, PLATE, RIGHT, 2, PLATE, RIGHT, 1, 0, 0, set()),
    "done cooking": (POT, 0, RIGHT, 1, 0, RIGHT, 0, 0, 0, set()),
    "plate": (POT, PLATE, RIGHT, 0, RIGHT, 0, IDLE, 0, 5, {"plating", "right_plating"}),
    "plate a wrong one": (POT, PLATE, WRONG, 0, WRONG, 0, IDLE, 0, 0, {"plating"}),
    "no plate": (POT, 0, RIGHT, 0, 0, RIGHT, 0, 0, 0, set()),
    "deliver": (HATCH, RIGHT, None, IDLE, 0, RIGHT, IDLE, 20, 0, {"right_delivery"}),
    "deliver a wrong one": (HATCH, WRONG, None, IDLE, 0, 0, IDLE, 0, 0, {"wrong_delivery"}),
    "deliver a plate": (HATCH, PLATE, None, IDLE, PLATE, 0, IDLE, 0, 0, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_one_interaction(name):
    cell, held, lying, timer, then_held, then_lying, then_timer, reward, shaped, events = CASES[
        name
    ]
    env = kitchen()
    timestep, world, happened = interact(env, face(env.layout.start, cell, held, lying, timer))
    assert world.bodies.held[0] == then_held
    assert (world.cells.object[cell], world.cells.timer[cell]) == (then_lying, then_timer)
    assert (timestep.reward[0], timestep.info["shaped_reward"][0]) == (reward, shaped)
    assert happened == events


def test_a_wrong_soup_can_cost():
    env = kitchen(negative_rewards=True)
    timestep, _, _ = interact(env, face(env.layout.start, HATCH, WRONG))
    assert timestep.reward[0] == -20


@pytest.mark.parametrize("lying", [SOUP((1,)), RIGHT])
def test_an_empty_hand_starts_a_pot_by_hand(lying):
    env = kitchen(start_by_hand=True)
    timestep, world, happened = interact(env, face(env.layout.start, POT, NOTHING, lying))
    assert world.cells.timer[POT] == 19
    assert timestep.info["shaped_reward"][0] == (5 if lying == RIGHT else 0)
    assert "cooking_start" in happened
    _, world, _ = interact(env, face(env.layout.start, POT, TOMATO, SOUP((0, 0))))
    assert world.cells.timer[POT] == IDLE


def test_a_button_shows_the_recipe_for_ten_steps_and_costs():
    text = "XLX\nO1D\nX T\nXPS"
    env = OvercookedV2(text, recipes=ORDERS)
    world = eqx.tree_at(
        lambda w: w.bodies.position, env.layout.start, jnp.asarray([(1, 1)], jnp.int8)
    )
    timestep, world, happened = interact(env, world)
    assert happened == {"button_press"}
    assert timestep.reward[0] == -5
    recipe_planes = slice(-3, -1)
    for left in range(9, -1, -1):
        assert world.cells.timer[0, 1] == (left or IDLE)
        assert world.cells.object[0, 1] == (RIGHT if left else NOTHING)
        seen = np.asarray(env.observe(world)[0, 0, 1, recipe_planes])
        assert seen.tolist() == ([2, 1] if left else [0, 0])
        _, world = advance(env, world, 4)


def test_a_plate_is_useful_while_pots_wait_for_more_plates_than_there_are():
    env = kitchen()
    filled = face(env.layout.start, POT, NOTHING, SOUP((0,)))
    for lying, paid in ((NOTHING, 3), (PLATE, 0)):
        objects = filled.cells.object.at[COUNTER].set(lying)
        world = eqx.tree_at(lambda w: w.cells.object, filled, objects)
        timestep, _, _ = interact(env, face(world, (2, 3)))
        assert timestep.info["shaped_reward"][0] == paid


def test_a_new_recipe_is_drawn_after_the_right_soup_only():
    env = kitchen(sample_recipe_on_delivery=True)
    for soup, drawn in ((RIGHT, {RIGHT, WRONG}), (WRONG, {RIGHT})):
        after = advance_often(env, face(env.layout.start, HATCH, soup), jnp.asarray(INTERACT))
        assert set(np.asarray(after.extra.recipe).tolist()) == drawn
        np.testing.assert_array_equal(after.cells.object[:, 1, 4], after.extra.recipe)
    _, world, _ = interact(kitchen(), face(kitchen().layout.start, HATCH, RIGHT))
    assert world.extra.recipe == RIGHT


def test_the_hatch_shows_the_soup_that_was_served_and_not_the_new_order():
    env, size = kitchen(sample_recipe_on_delivery=True), 32
    after = advance_often(env, face(env.layout.start, HATCH, RIGHT), jnp.asarray(INTERACT))
    orders = np.asarray(after.extra.recipe).tolist()
    for order in (RIGHT, WRONG):
        first = orders.index(order)
        world = jax.tree.map(lambda x, first=first: x[first], after)
        look = looks(env.layout, world)[HATCH[1]]
        assert look.lying == RIGHT
        picture = env.render(world, cell_pixels=size)[:size, HATCH[1] * size :][:, :size]
        np.testing.assert_array_equal(picture, draw_look(env.layout.kinds, look, size))
    later = advance_often(env, world, jnp.asarray(4))
    assert (later.cells.object[:, *HATCH] == NOTHING).all()


def test_who_looks_through_a_window_does_not_see_beyond_it():
    env = OvercookedV2("cramped_room_v2", view_radius=1)
    whole = OvercookedV2("cramped_room_v2")
    world = env.layout.start
    row, col = world.bodies.position[1]
    near, all_of_it = env.observe(world), whole.observe(world)
    assert near.shape == (2, 3, 3, 35)
    np.testing.assert_array_equal(near[1], all_of_it[1, row - 1 : row + 2, col - 1 : col + 2])


def test_cooks_mistake_permuted_ingredients_only():
    options = {"permuted_ingredients": ("onion", "tomato")}
    env = OvercookedV2("fun_coordination", **options)
    keys = jax.random.split(jax.random.key(0), 100)
    observation, worlds = eqx.filter_jit(lambda env, keys: jax.vmap(env.reset)(keys))(env, keys)
    assert {tuple(x) for x in np.asarray(worlds.bodies.extra).reshape(-1, 4).tolist()} == {
        (0, 1, 2, 3),
        (1, 0, 2, 3),
    }
    honest = jax.vmap(OvercookedV2("fun_coordination").observe)(worlds)
    piles = slice(2 * 11 + 6, 2 * 11 + 10)
    for game in range(20):
        for agent in range(2):
            meant = worlds.bodies.extra[game, agent]
            expected = honest[game, agent][..., piles][..., meant]
            np.testing.assert_array_equal(observation[game, agent][..., piles], expected)


def test_random_places_are_in_the_own_room_and_apart():
    env = OvercookedV2("two_rooms", random_positions=True)
    keys = jax.random.split(jax.random.key(0), 500)
    worlds = eqx.filter_jit(lambda env, keys: jax.vmap(env.reset)(keys)[1])(env, keys)
    position = np.asarray(worlds.bodies.position)
    assert {tuple(x) for x in position[:, 0]} == {(r, c) for r in (1, 2, 3) for c in (1, 2, 3)}
    assert {tuple(x) for x in position[:, 1]} == {(r, c) for r in (1, 2, 3) for c in (5, 6, 7)}
    assert set(np.asarray(worlds.bodies.direction).ravel()) == {0, 1, 2, 3}


def test_episodes_can_start_in_given_worlds():
    env = kitchen()
    worlds = [face(env.layout.start, POT, held) for held in (PLATE, ONION)]
    worlds = jax.tree.map(lambda *xs: jnp.stack(xs), *worlds)
    env = OvercookedV2(ROOM, recipes=ORDERS, starts=(StartFrom(worlds),))
    keys = jax.random.split(jax.random.key(0), 50)
    held = eqx.filter_jit(lambda keys: jax.vmap(env.reset)(keys)[1].bodies.held)(keys)
    assert set(np.asarray(held).ravel()) == {PLATE, ONION}


def rollout(env, key, steps):
    """All worlds of a random game."""

    def step(world, key):
        act_key, step_key = jax.random.split(key)
        action = jax.random.randint(act_key, (env.num_agents,), 0, 8)
        world = env.step(step_key, world, jnp.minimum(action, INTERACT))[1]
        return world, world

    return jax.lax.scan(step, env.reset(key)[1], jax.random.split(key, steps))[1]


@functools.cache
def compiled_rollout(name):
    env = OvercookedV2(name, random_reset=True, sample_recipe_on_delivery=True)
    return env, eqx.filter_jit(functools.partial(rollout, steps=200))


@pytest.mark.slow
@hypothesis.settings(deadline=None, max_examples=15)
@hypothesis.given(st.integers(0, 2**31 - 1))
def test_what_always_holds(seed):
    env, play = compiled_rollout("grounded_coord_ring")
    worlds = jax.tree.map(np.asarray, play(env, jax.random.key(seed)))
    tiles, things, timer = np.asarray(env.layout.tiles), worlds.cells.object, worlds.cells.timer
    first_soup = contents_of(env.layout.kinds).first_soup
    pots, counters = things[:, tiles == Tile.POT], things[:, tiles == Tile.COUNTER]
    assert ((pots == NOTHING) | (pots >= first_soup)).all()
    assert (pots[timer[:, tiles == Tile.POT] != IDLE] >= first_soup).all()
    assert (counters < env.layout.kinds.num_codes).all()
    assert (things[:, (tiles == Tile.FLOOR) | (tiles >= Tile.PLATES)] == NOTHING).all()
    recipes = np.asarray(env.layout.params.recipes)
    assert np.isin(worlds.extra.recipe, recipes).all()
    assert (things[:, tiles == Tile.INDICATOR] == worlds.extra.recipe[:, None]).all()
    lit = timer[:, tiles == Tile.BUTTON] > 0
    assert (things[:, tiles == Tile.BUTTON] == worlds.extra.recipe[:, None] * lit).all()
    position = worlds.bodies.position
    assert (tiles[position[..., 0], position[..., 1]] == Tile.FLOOR).all()
    assert (position[:, 0] != position[:, 1]).any(axis=-1).all()


@pytest.mark.slow
def test_a_batch_of_layouts_is_a_loop_over_them():
    names = ["cramped_room_v2", "two_rooms", "demo_cook_simple"]
    layouts = [load_layout(name, num_ingredients=3).pad(5, 11) for name in names]
    envs = [OvercookedV2(x, sample_recipe_on_delivery=True, view_radius=2) for x in layouts]
    play = functools.partial(rollout, steps=100)
    single = eqx.filter_jit(play)
    loop = [single(env, jax.random.key(1)) for env in envs]
    batch = jax.tree.map(lambda *xs: jnp.stack(xs), *envs)
    together = eqx.filter_jit(eqx.filter_vmap(play, in_axes=(0, None)))(batch, jax.random.key(1))
    for i, alone in enumerate(loop):
        jax.tree.map(lambda x, y, i=i: np.testing.assert_array_equal(x[i], y), together, alone)


def test_soups_are_numbered_as_their_contents_say():
    for number in range(1, len(INGREDIENTS) + 1):
        table = contents(number)
        assert len(table.size) == table.first_soup + len(table.recipes) <= 256
        for under in range(len(table.size)):
            for held in range(len(table.size)):
                if mixed := table.mixed[under, held]:
                    both = table.amount[under].astype(int) + table.amount[held]
                    assert (table.amount[mixed] == both).all()
        assert (table.mixed > 0).sum() == sum(len(set(x)) for x in table.recipes)
    assert len(all_recipes(["onion", "carrot"])) == 4


@pytest.mark.parametrize("name", KITCHENS)
def test_every_kitchen_starts_with_an_order_that_shows(name):
    layout = load_layout(name)
    recipe = layout.start.extra.recipe
    assert recipe == layout.params.recipes[0]
    shown = np.asarray(layout.start.cells.object)[np.asarray(layout.tiles) == Tile.INDICATOR]
    assert (shown == np.asarray(recipe)).all()


ONIONS = ("onion",) * 3
REFUSED = [
    (OvercookedV2, {"layout": "XXXXX\nX1 RX\nXPSDX"}, "no ingredients: put a pile, such as O"),
    (OvercookedV2, {"layout": "XXXXX\nX1 OX\nXPSDX"}, "Nothing shows the recipe: add an R or an L"),
    (OvercookedV2, {"recipes": [("onion", "onion", "x")]}, "is not a recipe: name 3 ingredients"),
    (OvercookedV2, {"layout": load_layout("two_rooms"), "recipes": ORDERS}, "already has recipes"),
    (
        OvercookedV2,
        {"permuted_ingredients": ("onion", "tomato")},
        "must be different ones",
    ),
    (Menu, {"recipes": [ONIONS], "num_ingredients": 1, "cook_time": 0}, "between 1 and 1000 steps"),
    (load_layout, {"layout": "two_rooms", "num_ingredients": 10}, "1 to 9 ingredients, not 10"),
]


@pytest.mark.parametrize(("make", "options", "words"), REFUSED)
def test_refuses_in_one_sentence(make, options, words):
    with refused(words):
        make(**options)
