"""A policy, and what was learned with it, goes on in other environments."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from compilations import counted
from learners import clocks

from agents import PPO, init_train_state, train, transfer
from eqgrid import (
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    Vectorize,
    make,
)


def kitchens(horizon: int, layout: str = "cramped"):
    env = AutoReset(LogEpisodes(make("overcooked", layout=layout, horizon=horizon)))
    return NormalizeReward(NormalizeObservation(Vectorize(ShapedReward(env, 1.0), 4)))


PARTS: tuple[Any, ...] = ("parameters", "optimizer", "moments", "shaping")
ppo = PPO(rollout_length=8, num_epochs=1, num_minibatches=2)


@pytest.fixture(scope="module")
def trained():
    state = init_train_state(ppo, kitchens(20), jax.random.key(0))
    return train(ppo, kitchens(20), state, num_updates=2)


@pytest.fixture(scope="module")
def fresh():
    return init_train_state(ppo, kitchens(30), jax.random.key(1))


def wrapper_parts(state):
    """The moments, and the steps that the shaping has counted."""
    rewards = state.runner.env_state
    observations = rewards.env_state
    return (rewards.moments, observations.moments), observations.env_state.count


@pytest.mark.parametrize("dropped", [(), *((part,) for part in PARTS), PARTS], ids=str)
def test_each_part_is_taken_along_or_begins_anew(trained, fresh, dropped):
    keep = [part for part in PARTS if part not in dropped]
    state = transfer(trained.state, fresh, kitchens(30), keep=keep)
    found = (state.policy, state.opt_state, *wrapper_parts(state))
    sources = [fresh if part in dropped else trained.state for part in PARTS]
    expected = (
        sources[0].policy,
        sources[1].opt_state,
        wrapper_parts(sources[2])[0],
        wrapper_parts(sources[3])[1],
    )
    assert eqx.tree_equal(found, expected)
    assert not eqx.tree_equal(wrapper_parts(fresh), wrapper_parts(trained.state))
    assert int(state.updates) == 2
    assert state.key is fresh.key


def test_what_is_seen_first_is_normalised_with_the_moments_that_came_along(trained, fresh):
    env = kitchens(30)
    state = transfer(trained.state, fresh, env)
    inner = fresh.runner.env_state.env_state.env_state
    raw = jax.vmap(env.env.env.env.observe)(inner).astype(float)
    moments = trained.state.runner.env_state.env_state.moments
    raw, mean, variance = (np.asarray(x) for x in (raw, moments.mean, moments.variance))
    expected = (raw - mean) / np.sqrt(variance + float(env.env.epsilon))
    expected = np.clip(expected, -float(env.env.clip), float(env.env.clip))
    np.testing.assert_allclose(state.runner.observation, expected, atol=1e-4)
    assert not np.allclose(state.runner.observation, fresh.runner.observation)


def test_training_goes_on_and_another_horizon_compiles_no_new_block(trained, fresh):
    env = kitchens(30)
    state = transfer(trained.state, fresh, env)
    with counted() as compilations:
        done = train(ppo, env, state, num_updates=4)
    assert compilations == []
    assert done.state.updates == 4


def test_another_policy_is_refused(trained, key):
    env = clocks(4)
    with pytest.raises(ValueError, match="other observations or actions"):
        transfer(trained.state, init_train_state(ppo, env, key), env)
