import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents import gae

DISCOUNT, TRACE_DECAY = 0.9, 0.7


def naive(reward, value, next_value, terminated, done):
    """The definition, one sum per step: errors count until the task or the episode is over."""
    time, envs, agents = reward.shape
    advantage = np.zeros_like(reward)
    for e in range(envs):
        for a in range(agents):
            for t in range(time):
                weight = 1.0
                for s in range(t, time):
                    bootstrap = 0.0 if terminated[s, e, a] else DISCOUNT * next_value[s, e, a]
                    error = reward[s, e, a] + bootstrap - value[s, e, a]
                    advantage[t, e, a] += weight * error
                    if terminated[s, e, a] or done[s, e]:
                        break
                    weight *= DISCOUNT * TRACE_DECAY
    return advantage


def rollout(key):
    keys = jax.random.split(key, 3)
    reward, value, next_value = (np.array(jax.random.normal(k, (9, 3, 2))) for k in keys)
    terminated, done = np.zeros((9, 3, 2), dtype=bool), np.zeros((9, 3), dtype=bool)
    done[4, 0] = True  # A time limit in the middle of the first environment,
    done[5, 1], terminated[5, 1] = True, True  # the end of the task in that of the second,
    terminated[3:7, 2, 0], done[6, 2] = True, True  # and one agent that is done before the other.
    return reward, value, next_value, terminated, done


def estimate(*arrays):
    arrays = [jnp.asarray(x) for x in arrays]
    return gae(*arrays, gamma=DISCOUNT, gae_lambda=TRACE_DECAY)


def test_equals_the_definition_across_every_kind_of_end(key):
    arrays = rollout(key)
    np.testing.assert_allclose(estimate(*arrays), naive(*arrays), rtol=1e-5, atol=1e-5)


def test_a_time_limit_cuts_the_trace_but_not_the_bootstrap(key):
    reward, value, next_value, terminated, done = rollout(key)
    advantage = estimate(reward, value, next_value, terminated, done)
    expected = reward[4, 0] + DISCOUNT * next_value[4, 0] - value[4, 0]
    np.testing.assert_allclose(advantage[4, 0], expected, rtol=1e-5)


def test_the_end_of_the_task_cuts_both(key):
    reward, value, next_value, terminated, done = rollout(key)
    advantage = estimate(reward, value, next_value, terminated, done)
    np.testing.assert_allclose(advantage[5, 1], reward[5, 1] - value[5, 1], rtol=1e-5)


@pytest.mark.parametrize("gae_lambda", [0.0, 1.0])
def test_its_ends_are_the_one_step_error_and_the_whole_return(key, gae_lambda):
    reward, value, _, _, _ = rollout(key)
    next_value = np.concatenate([value[1:], np.zeros_like(value[:1])])
    never = np.zeros_like(reward, dtype=bool)
    advantage = gae(
        *map(jnp.asarray, (reward, value, next_value, never, never[:, :, 0])),
        gamma=DISCOUNT,
        gae_lambda=gae_lambda,
    )
    if gae_lambda == 0:
        expected = reward[0] + DISCOUNT * next_value[0] - value[0]
    else:
        powers = DISCOUNT ** np.arange(9, dtype=np.float32)
        expected = np.tensordot(powers, reward, 1) - value[0]
    np.testing.assert_allclose(advantage[0], expected, rtol=1e-4, atol=1e-5)
