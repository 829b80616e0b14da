"""Evaluations of whatever acts: trained policies, and actors that are no actor and critic."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import GRU, build, clocks, loud_mlp

from agents import (
    AbstractActor,
    PartnerTeam,
    PolicyPartner,
    evaluate,
    record_episodes,
    trained_policy,
)
from eqgrid import AbstractPartner, ConstantPartner, NormalizeObservation, RecordedPartner

KEY = jax.random.key(8)


@final
class Counts(AbstractActor):
    """Plays the number of its step in the episode, modulo 3; or anything, unless greedy."""

    num_agents: int = eqx.field(static=True, default=2)

    def initial_carry(self):
        return jnp.zeros(self.num_agents, jnp.int32)

    def act(self, observation, carry, key, *, greedy=False):
        other = jax.random.randint(key, (self.num_agents,), 0, 3)
        return carry % 3 if greedy else other, carry + 1


def test_its_memory_starts_with_every_episode(key):
    played = record_episodes(Counts(), clocks(5), key, max_steps=10, greedy=True)
    expected = np.concatenate([np.arange(length) % 3 for length in played.length])
    np.testing.assert_array_equal(played.action, np.stack([expected, expected], axis=1))


@pytest.mark.parametrize("greedy", [False, True])
def test_an_evaluation_plays_what_is_recorded(key, greedy):
    env = clocks(5)
    result = evaluate(Counts(), env, key, greedy=greedy)
    played = record_episodes(Counts(), env, key, max_steps=10, greedy=greedy)
    np.testing.assert_array_equal(result.episode_length, played.length)
    totals = np.add.reduceat(played.reward, np.cumsum(played.length) - played.length)
    np.testing.assert_allclose(result.episode_return, totals, rtol=1e-6)
    assert greedy == (len(np.unique(np.diff(played.action, axis=1))) == 1)


@pytest.mark.parametrize("network", [loud_mlp, GRU])
def test_a_trained_policy_plays_as_its_networks_do(key, network):
    env = clocks(4, normalize=True)
    policy = build(env, key, network=network)
    _, env_state = eqx.filter_jit(env.reset)(key)
    whole = trained_policy(policy, env, env_state)
    ours = evaluate(whole, env.env, key, greedy=True)
    theirs = evaluate(policy, env.freeze(env_state), key, greedy=True)
    np.testing.assert_allclose(ours.episode_return, theirs.episode_return, rtol=1e-5)
    with pytest.raises(ValueError, match="without NormalizeObservation"):
        evaluate(whole, env.freeze(env_state), key)


@pytest.mark.parametrize("network", [loud_mlp, GRU])
def test_a_team_of_partners_plays_as_their_policies_do(key, network):
    envs = clocks(6)
    one, two = (trained_policy(build(envs, own, network=network), envs) for own in (key, KEY))
    team = PartnerTeam([PolicyPartner(policy, greedy=True) for policy in (one, two)])
    alone = [evaluate(policy, envs, key, greedy=True).episode_return for policy in (one, two)]
    found = evaluate(team, envs, key).episode_return
    np.testing.assert_allclose(found[:, 0], alone[0][:, 0], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], alone[1][:, 1], rtol=1e-6)
    assert found.std() > 0


def test_partners_read_the_state_and_their_memory_starts_with_every_episode(key):
    """A clock's state is its time, with which the recording keeps in step."""

    @final
    class Reader(AbstractPartner):
        def initial_carry(self):
            return None

        def __call__(self, seen, carry, key):
            return seen.state[0] % 3, None

    recording = jnp.stack([jnp.arange(10) % 3] * 2, axis=1)
    team = PartnerTeam([Reader(), RecordedPartner(recording, then=0)])
    played = record_episodes(team, clocks(5), key, max_steps=10)
    expected = np.concatenate([np.arange(length) % 3 for length in played.length])
    np.testing.assert_array_equal(played.action, np.stack([expected, expected], axis=1))


def test_a_team_that_cannot_be_is_refused(key):
    stay = ConstantPartner(0)
    with pytest.raises(ValueError, match="A team of 3 partners cannot act for 2 agents"):
        evaluate(PartnerTeam([stay] * 3), clocks(2), key)
    with pytest.raises(ValueError, match="without NormalizeObservation"):
        evaluate(PartnerTeam([stay] * 2), NormalizeObservation(clocks(2)), key)
