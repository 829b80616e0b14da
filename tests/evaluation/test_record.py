"""Recorded episodes are those that a loop in Python plays."""

from types import SimpleNamespace

import equinox as eqx
import jax
import numpy as np
import pytest
from kitchen_checks import assert_equal

from agents import OutOfMemory, actor_critic, record_episodes
from eqgrid import AppendAgentId, AutoReset, LogEpisodes, NormalizeObservation, Vectorize, make

pytestmark = pytest.mark.slow
EPISODES = 3
MAX_STEPS = 12


@pytest.fixture(scope="module")
def played():
    """Episodes of goals, which end when everybody has arrived, at different times."""
    one = AppendAgentId(make("goals", horizon=9))
    env = Vectorize(AutoReset(LogEpisodes(one)), EPISODES)
    policy = actor_critic(env, jax.random.key(1))
    key = jax.random.key(2)
    recorded = record_episodes(policy, env, key, max_steps=MAX_STEPS)
    return one, policy, env, key, recorded


def test_every_row_follows_from_the_one_before(played):
    one, *_, recorded = played
    step = eqx.filter_jit(one.step)
    number = 0
    for episode, length in enumerate(recorded.length.tolist()):
        for left in range(length, 0, -1):
            state, seen, action, reward, terminated, truncated = (
                jax.tree.map(lambda x, row=number: x[row], part)
                for part in (
                    recorded.state,
                    recorded.observation,
                    recorded.action,
                    recorded.reward,
                    recorded.terminated,
                    recorded.truncated,
                )
            )
            np.testing.assert_array_equal(one.observe(state), seen)
            told, after = step(jax.random.key(0), state, action)
            assert (told.reward == reward).all()
            assert (told.terminated == terminated).all()
            assert told.truncated == truncated
            assert bool(told.done) == (left == 1)
            number += 1
            if left > 1:
                assert_equal(after, jax.tree.map(lambda x, row=number: x[row], recorded.state))
        np.testing.assert_array_equal(told.observation, recorded.final_observation[episode])
    assert number == len(recorded.reward)


def test_what_cannot_be_recorded_is_one_sentence(played, monkeypatch):
    _, policy, env, key, _ = played
    with pytest.raises(ValueError, match=r"did not end in 2 steps: .* raise max_steps\.$"):
        record_episodes(policy, env, key, max_steps=2)
    with pytest.raises(ValueError, match="evaluate needs the moments"):
        record_episodes(policy, NormalizeObservation(env), key, max_steps=2)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=0))
    with pytest.raises(OutOfMemory):
        record_episodes(policy, env, key, max_steps=2)
