"""The V-trace of the documentation, against a loop over its definition."""

import jax
import jax.numpy as jnp
import numpy as np
from pages import python_blocks

GAMMA = 0.9


def naive(ratio, reward, value, next_value, terminated, done):
    """Equation 1 and the advantage of section 4.2 of Espeholt et al. 2018, one sum per step."""
    time, envs, agents = reward.shape
    target, advantage = value.copy(), np.zeros_like(reward)
    for s, e, a in np.ndindex(time, envs, agents):
        weight = 1.0
        for t in range(s, time):
            later = 0.0 if terminated[t, e, a] else GAMMA * next_value[t, e, a]
            error = reward[t, e, a] + later - value[t, e, a]
            target[s, e, a] += weight * min(1.0, ratio[t, e, a]) * error
            if terminated[t, e, a] or done[t, e]:
                break
            weight *= GAMMA * min(1.0, ratio[t, e, a])
    for s, e, a in np.ndindex(time, envs, agents):
        last = s == time - 1 or done[s, e]
        later = next_value[s, e, a] if last else target[s + 1, e, a]
        later = 0.0 if terminated[s, e, a] else GAMMA * later
        error = reward[s, e, a] + later - value[s, e, a]
        advantage[s, e, a] = min(1.0, ratio[s, e, a]) * error
    return target, advantage


def test_it_equals_its_definition(key):
    page: dict = {}
    exec(python_blocks("your-own-algorithm.md")[0], page)
    keys = jax.random.split(key, 4)
    shape = (9, 3, 2)
    ratio = np.exp(np.asarray(jax.random.normal(keys[0], shape)))
    assert (ratio < 1).any()
    assert (ratio > 1).any()
    reward, value = (np.asarray(jax.random.normal(k, shape)) for k in keys[1:3])
    terminated, done = np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=bool)
    done[4, 0] = True  # a time limit
    done[5, 1], terminated[5, 1] = True, True  # the end of the task
    # Where the episode goes on, the value after a step is that before the next one.
    other = np.asarray(jax.random.normal(keys[3], shape))
    ends = done.copy()
    ends[-1] = True
    next_value = np.where(ends[..., None], other, np.roll(value, -1, axis=0))
    arrays = (ratio, reward, value, next_value, terminated, done)
    found = page["vtrace"](*map(jnp.asarray, arrays), GAMMA)
    for ours, expected in zip(found, naive(*arrays), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
