import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents import gae

DISCOUNT = 0.9


def naive(reward, value, next_value, terminated, done, trace_decay):
    """The definition, one sum per step: errors count until the task or the episode is over."""
    time, envs, agents = reward.shape
    advantage = np.zeros_like(reward)
    for t, e, a in np.ndindex(time, envs, agents):
        weight = 1.0
        for s in range(t, time):
            bootstrap = 0.0 if terminated[s, e, a] else DISCOUNT * next_value[s, e, a]
            advantage[t, e, a] += weight * (reward[s, e, a] + bootstrap - value[s, e, a])
            if terminated[s, e, a] or done[s, e]:
                break
            weight *= DISCOUNT * trace_decay
    return advantage


@pytest.mark.parametrize("trace_decay", [0.0, 0.7, 1.0])
def test_equals_the_definition_across_every_kind_of_end(key, trace_decay):
    keys = jax.random.split(key, 3)
    reward, value, next_value = (np.array(jax.random.normal(k, (9, 3, 2))) for k in keys)
    terminated, done = np.zeros((9, 3, 2), dtype=bool), np.zeros((9, 3), dtype=bool)
    done[4, 0] = True  # a time limit in the middle of the first environment
    done[5, 1], terminated[5, 1] = True, True  # the end of the task in the second one
    terminated[3:7, 2, 0], done[6, 2] = True, True  # one agent is done before the other
    arrays = reward, value, next_value, terminated, done
    found = gae(*map(jnp.asarray, arrays), gamma=DISCOUNT, gae_lambda=trace_decay)
    np.testing.assert_allclose(found, naive(*arrays, trace_decay), rtol=1e-5, atol=1e-5)
