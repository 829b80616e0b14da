import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from race import Race
from wrapper_checks import rollout, sample_actions

from eqgrid import AutoReset, LogEpisodes, NormalizeReward, TimeLimit, Vectorize

STEPS, ENVS = 15, 4


def inner():
    return Vectorize(AutoReset(LogEpisodes(TimeLimit(Race(), 4))), ENVS)


@pytest.mark.parametrize(("gamma", "epsilon", "clip"), [(0.9, 1e-8, 10.0), (0.5, 0.1, 0.7)])
def test_equals_numpy_over_all_that_was_seen(key, gamma, epsilon, clip):
    env = NormalizeReward(inner(), gamma, epsilon, clip)
    actions = sample_actions(env, key, STEPS)
    _, timesteps, states = rollout(env, key, actions)
    _, raw, _ = rollout(inner(), key, actions)
    running, seen, active = np.zeros((ENVS, 3)), [], np.ones((ENVS, 3), bool)
    for t in range(STEPS):
        reward = np.asarray(raw.reward[t], np.float64)
        running = gamma * running + reward
        seen.extend(running[active])
        scale = np.sqrt(np.var(seen) + epsilon)
        expected = np.clip(reward / scale, -clip, clip)
        np.testing.assert_allclose(timesteps.reward[t], expected, rtol=1e-3, atol=1e-4)
        done = np.asarray(raw.done[t])[:, None]
        active = done | ~np.asarray(raw.terminated[t])
        running = np.where(done, 0.0, running)
        np.testing.assert_allclose(states.discounted_return[t], running, rtol=1e-4, atol=1e-5)
    assert raw.done.sum() > 4
    assert states.moments.count[-1] == len(seen) < STEPS * ENVS * 3


def test_no_reward_is_no_reward(key):
    """With all returns equal there is no variance to divide by."""
    env = NormalizeReward(Vectorize(Race(goal=0.0), 2))
    env = eqx.tree_at(lambda e: e.env.env.goal, env, jnp.asarray(jnp.inf))
    _, timesteps, _ = rollout(env, key, jnp.zeros((3, 2, 3), int))
    assert jnp.isfinite(timesteps.reward).all()
    assert (jnp.abs(timesteps.reward) <= 10.0).all()
