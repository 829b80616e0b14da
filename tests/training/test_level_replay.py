"""The program of docs/your-own-reset.md: levels are met as often as their scores say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import build
from pages import python_blocks

from agents import PPO
from eqgrid import LogEpisodes, Vectorize
from eqgrid.envs.goals import GeneratedMazes, Goals
from eqgrid.grid import LayoutPool, RandomLayouts, draw_layouts

LEVELS = 6


@pytest.fixture(scope="module")
def program():
    """What the first two blocks of the page define."""
    names = {"__name__": "your_own_reset"}
    for block in python_blocks("your-own-reset.md")[:2]:
        exec(block, names)
    return names


@pytest.fixture(scope="module")
def mazes():
    generator = GeneratedMazes(7, 7, num_agents=2)
    pool = LayoutPool(draw_layouts(generator, jax.random.key(0), LEVELS))
    return LogEpisodes(RandomLayouts(Goals(generator.example, horizon=3), pool))


@pytest.mark.slow
def test_it_keeps_the_contract_of_resets(program, mazes, key):
    envs = Vectorize(program["LevelReplay"](mazes, LEVELS), 8)
    _, state = envs.reset(key)
    step = eqx.filter_jit(envs.step)
    for i in range(4):
        level = state.level
        timestep, state = step(jax.random.fold_in(key, i), state, jnp.full((8, 2), 4))
        np.testing.assert_array_equal(timestep.info["episode_level"], level)
        layouts = state.env_state.env_state.layout.tiles
        np.testing.assert_array_equal(layouts, mazes.env.layouts.layouts.tiles[state.level])
        goes_on = ~np.asarray(timestep.done)
        np.testing.assert_array_equal(state.level[goes_on], level[goes_on])


def test_levels_are_sampled_by_their_weights(program, mazes, key):
    env = program["LevelReplay"](mazes, LEVELS)
    weights = jnp.asarray([0.5, 0.25, 0.125, 0.125, 0.0, 0.0])
    start = jax.jit(jax.vmap(lambda key: env._start(key, weights).level))
    level = start(jax.random.split(key, 2000))
    counts = np.bincount(level, minlength=LEVELS)
    np.testing.assert_allclose(counts / 2000, weights, atol=0.04)
    assert counts[4:].sum() == 0


def test_weights_equal_naive_ones(program):
    algorithm = program["PrioritizedPPO"](PPO(), LEVELS, temperature=0.5, staleness=0.25)
    scores, age = np.array([3.0, 1, 2, 6, 5, 4], np.float32), np.array([0, 4, 0, 2, 2, 0])
    rank = [1 + sum(other > score for other in scores) for score in scores]
    by_score = np.array([1 / r**2 for r in rank])
    by_age = age / age.sum()
    expected = 0.75 * by_score / by_score.sum() + 0.25 * by_age
    weights = algorithm.weights(jnp.asarray(scores), jnp.asarray(age))
    np.testing.assert_allclose(weights, expected, atol=1e-3)


@pytest.mark.slow
def test_scores_are_errors_of_the_critic(program, mazes, key):
    envs = Vectorize(program["LevelReplay"](mazes, LEVELS), 8)
    ppo = PPO(rollout_length=12, num_minibatches=2, num_epochs=1)
    algorithm = program["PrioritizedPPO"](ppo, LEVELS)
    state = algorithm.init(build(envs, key), envs, key)
    after, metrics = eqx.filter_jit(algorithm.update)(envs, state, num_updates=2)
    seen = np.asarray(after.extra.score) < 1e30
    assert seen.any()
    assert (
        (np.asarray(after.extra.score)[seen] >= 0) & (np.asarray(after.extra.score)[seen] < 2)
    ).all()
    weights = np.asarray(after.runner.env_state.weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    assert (weights == weights[0]).all()
    assert 1 < float(metrics.scalars["effective_levels"]) <= LEVELS
