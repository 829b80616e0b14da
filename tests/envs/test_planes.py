"""The 26 planes against a plain loop over cells and cooks."""

import itertools

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import random_layout, random_world
from naive_kitchen import (
    COUNTER,
    DISH,
    DISHES,
    NOTHING,
    ONION,
    ONIONS,
    POT,
    SERVING,
    SOUP,
    TOMATO,
    TOMATOES,
)

from eqgrid.envs.overcooked import Overcooked, encode, item_of, lossless_planes, soup_contents
from eqgrid.grid import IDLE

OWN, OTHER, OWN_HEADING, OTHER_HEADING = 0, 1, 2, 6
BUILT = {POT: 10, COUNTER: 11, ONIONS: 12, TOMATOES: 13, DISHES: 14, SERVING: 15}
ONIONS_IN_IDLE_POT, TOMATOES_IN_IDLE_POT, ONIONS_IN_SOUP, TOMATOES_IN_SOUP = range(16, 20)
TIME_LEFT, READY = 20, 21
LOOSE = {DISH: 22, ONION: 23, TOMATO: 24}
URGENT = 25

KITCHENS = [
    ((4, 6), 1, "classic"),
    ((7, 4), 2, "interactive"),
    ((4, 8), 3, "classic"),
    ((8, 5), 4, "classic"),
    ((5, 6), 5, "interactive"),
]
SOUPS = [(n, k) for n in range(4) for k in range(4) if 1 <= n + k <= 3]
THINGS = [(kind, (0, 0)) for kind in (NOTHING, ONION, TOMATO, DISH)]
THINGS += [(SOUP, contents) for contents in SOUPS]


def mark_thing(cell, kind, contents, pot_timer=None):
    """Marks a thing in the 26 numbers of its cell; only a soup in a pot has a timer."""
    if kind in LOOSE:
        cell[LOOSE[kind]] = 1
    if kind != SOUP:
        return
    onions, tomatoes = contents
    if pot_timer == IDLE:
        cell[ONIONS_IN_IDLE_POT] = onions
        cell[TOMATOES_IN_IDLE_POT] = tomatoes
        return
    cell[ONIONS_IN_SOUP] = onions
    cell[TOMATOES_IN_SOUP] = tomatoes
    if pot_timer is not None:
        cell[TIME_LEFT] = min(pot_timer, 255)
    if pot_timer is None or pot_timer == 0:
        cell[READY] = 1


def kinds_and_contents(holder):
    return np.asarray(item_of(holder)), np.asarray(soup_contents(holder))


def naive_view(layout, world, agent, steps_left):
    """What one cook sees; `layout` and `world` are NumPy arrays."""
    seen = np.zeros((*layout.tiles.shape, 26), int)
    kinds, contents = kinds_and_contents(world.cells.object)
    for place, fixture in np.ndenumerate(layout.tiles):
        if fixture in BUILT:
            seen[place][BUILT[fixture]] = 1
        timer = world.cells.timer[place] if fixture == POT else None
        mark_thing(seen[place], kinds[place], contents[place], timer)
    kinds, contents = kinds_and_contents(world.bodies.held)
    for cook, (row, col) in enumerate(world.bodies.position):
        heading = world.bodies.direction[cook]
        if cook == agent:
            seen[row, col, OWN] = 1
            seen[row, col, OWN_HEADING + heading] = 1
        else:
            seen[row, col, OTHER] = 1
            seen[row, col, OTHER_HEADING + heading] = 1
        mark_thing(seen[row, col], kinds[cook], contents[cook])
    if steps_left < 40:
        seen[..., URGENT] = 1
    return seen


def assert_planes_are_as_in_the_loop(env, world, steps_left):
    world = eqx.tree_at(lambda w: w.time, world, env.horizon - steps_left)
    views = np.asarray(env.observe(world))
    assert views.dtype == np.uint8
    layout, world = jax.tree.map(np.asarray, (env.layout, world))
    expected = [naive_view(layout, world, i, steps_left) for i in range(env.num_agents)]
    np.testing.assert_array_equal(views, expected)


def slow_world(rng, layout):
    """Any world that this kitchen could be in, with soups that cook for up to 1000 steps."""
    world = random_world(rng, layout)
    timer = np.asarray(world.cells.timer)
    slow = timer * rng.integers(1, 251, timer.shape)
    timer = jnp.asarray(np.where(timer > 0, slow, timer), jnp.int16)
    return eqx.tree_at(lambda w: w.cells.timer, world, timer)


def things(pairs, shape):
    """The things of `(kind, contents)` pairs, as an array of this shape."""
    kinds, contents = (np.asarray(x, np.uint8) for x in zip(*pairs, strict=True))
    return encode(kinds.reshape(shape), contents.reshape(*shape, 2))


@pytest.mark.parametrize(("shape", "agents", "dynamics"), KITCHENS)
@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1), horizon=st.integers(40, 1000))
def test_planes_are_what_a_naive_loop_says(shape, agents, dynamics, seed, horizon):
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, shape, agents)
    env = Overcooked(layout, dynamics=dynamics, horizon=horizon)
    world = slow_world(rng, layout)
    for steps_left in (horizon, 40, 39, 0):
        assert_planes_are_as_in_the_loop(env, world, steps_left)


@pytest.mark.parametrize("radius", [1, 2, 7])
@pytest.mark.parametrize("steps_left", [40, 39])
def test_a_window_is_cut_out_of_the_whole(radius, steps_left):
    rng = np.random.default_rng(radius)
    layout = random_layout(rng, (5, 7), 3)
    world = slow_world(rng, layout)
    left = jnp.asarray(steps_left)
    whole = np.asarray(eqx.filter_jit(lossless_planes())(layout, world, left))
    seen = np.asarray(eqx.filter_jit(lossless_planes(radius))(layout, world, left))
    side = 2 * radius + 1
    assert seen.shape == (3, side, side, 26)
    padded = np.pad(whole, ((0, 0), (radius, radius), (radius, radius), (0, 0)))
    padded[..., URGENT] = steps_left < 40
    for agent, (row, col) in enumerate(np.asarray(world.bodies.position)):
        window = padded[agent, row : row + side, col : col + side]
        np.testing.assert_array_equal(seen[agent], window)


@pytest.mark.slow
@pytest.mark.parametrize("steps_left", [40, 39])
def test_every_thing_shows_on_a_counter_and_every_soup_in_a_pot_at_every_time(steps_left):
    width = len(THINGS)
    env = Overcooked("\n".join([width * "X", "X1" + (width - 3) * " " + "X", width * "P"]))
    nothing = (NOTHING, (0, 0))
    lying = [*THINGS, *width * [nothing], *(x if x[0] == SOUP else nothing for x in THINGS)]
    cells = things(lying, env.layout.tiles.shape)
    start = eqx.tree_at(lambda w: w.cells.object, env.layout.start, cells)
    in_pot = (np.asarray(env.layout.tiles) == POT) & (np.asarray(cells) != NOTHING)
    for time in range(IDLE, 1001):
        timer = jnp.asarray(np.where(in_pot, time, IDLE), jnp.int16)
        world = eqx.tree_at(lambda w: w.cells.timer, start, timer)
        assert_planes_are_as_in_the_loop(env, world, steps_left)


@pytest.mark.parametrize("steps_left", [40, 39])
def test_every_thing_shows_in_the_hands_of_cooks_of_every_heading(steps_left):
    headings, held = zip(*itertools.product(range(4), THINGS), strict=True)
    rng = np.random.default_rng(0)
    layout = random_layout(rng, (10, 12), len(held))
    world = eqx.tree_at(
        lambda w: (w.bodies.direction, w.bodies.held),
        slow_world(rng, layout),
        (jnp.asarray(headings, jnp.int8), things(held, (len(held),))),
    )
    assert_planes_are_as_in_the_loop(Overcooked(layout), world, steps_left)
