"""What holds in every kitchen and every world, with cooks that do anything."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive_kitchen
import numpy as np
import pytest
from kitchen_checks import (
    Blind,
    assert_equal,
    play,
    play_compiled,
    random_actions,
    random_layout,
    random_world,
    stack,
)

from eqgrid.envs.overcooked import EVENT_NAMES, Overcooked, Recipes, item_of, soup_contents

SHAPE, STEPS = (6, 7), 40
TEAMS = [(1, "classic"), (2, "interactive"), (4, "classic")]
SEEDS = st.integers(0, 2**32 - 1)
few = hypothesis.settings(max_examples=8, deadline=None)


def random_game(seed, agents, dynamics):
    """Everything of one game, the first world leading the others."""
    rng = np.random.default_rng(seed)
    recipes = Recipes(cook_times={("onion",) * 3: 3, ("tomato",): 1, ("onion", "tomato"): 5})
    layout = random_layout(rng, SHAPE, agents, recipes)
    env = Overcooked(layout, dynamics=dynamics, observation=Blind())
    start, actions = random_world(rng, layout), random_actions(rng, STEPS, agents)
    timesteps, worlds = play(env, start, actions)
    worlds = jax.tree.map(lambda first, rest: np.concatenate([first[None], rest]), start, worlds)
    return env, np.asarray(actions), timesteps, worlds


def as_plain(worlds, time):
    """One world of a game for `naive_kitchen`."""
    world = jax.tree.map(lambda x: x[time], worlds)
    cells, held = world.cells, world.bodies.held
    items, contents, timers = (
        x.tolist() for x in (item_of(cells.object), soup_contents(cells.object), cells.timer)
    )
    return {
        "cells": {
            (r, c): (items[r][c], tuple(contents[r][c]), timers[r][c]) for r, c in np.ndindex(SHAPE)
        },
        "positions": [tuple(p) for p in world.bodies.position.tolist()],
        "headings": world.bodies.direction.tolist(),
        "hands": [
            (item, tuple(inside))
            for item, inside in zip(
                item_of(held).tolist(), soup_contents(held).tolist(), strict=True
            )
        ],
    }


@pytest.mark.parametrize(("agents", "dynamics"), TEAMS)
@few
@hypothesis.given(seed=SEEDS)
def test_every_step_is_as_in_plain_python(agents, dynamics, seed):
    env, actions, timesteps, worlds = random_game(seed, agents, dynamics)
    fixtures = dict(np.ndenumerate(np.asarray(env.layout.tiles)))
    cook_time = dict(np.ndenumerate(np.asarray(env.layout.params.cook_time)))
    columns = {
        "Deliver": EVENT_NAMES.index("soup_delivery"),
        "Plate": EVENT_NAMES.index("soup_plating"),
        "StartCooking": EVENT_NAMES.index("cooking_start"),
    }
    events = np.asarray(timesteps.info["events"])
    state = as_plain(worlds, 0)
    for time in range(STEPS):
        state, done = naive_kitchen.step(
            fixtures, state, actions[time].tolist(), cook_time, dynamics == "interactive"
        )
        assert as_plain(worlds, time + 1) == state
        for name, column in columns.items():
            assert [x == name for x in done] == events[time, :, column].tolist()


def games_of(seed, count):
    """Different kitchens and worlds of one shape."""
    rng = np.random.default_rng(seed)
    layouts = [random_layout(rng, SHAPE, 2) for _ in range(count)]
    envs = [Overcooked(layout, observation=Blind()) for layout in layouts]
    return (
        envs,
        [random_world(rng, x) for x in layouts],
        [random_actions(rng, STEPS, 2) for _ in range(count)],
    )


play_many = eqx.filter_jit(eqx.filter_vmap(play_compiled))


@pytest.mark.slow
@few
@hypothesis.given(seed=SEEDS)
def test_filter_vmap_equals_a_python_loop(seed):
    envs, worlds, actions = games_of(seed, 5)
    together = play_many(stack(envs), stack(worlds), jnp.stack(actions))
    one_by_one = [play(*game) for game in zip(envs, worlds, actions, strict=True)]
    assert_equal(together, stack(one_by_one))
