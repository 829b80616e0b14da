"""An environment that is stepped without any adapter, for the tests of the adapters."""

import equinox as eqx
import jax
import numpy as np


def episode(env, seed, actions):
    """The first observation of an episode and its timesteps, with the keys that an adapter uses."""
    random = np.random.default_rng(seed)
    key, reset_key = jax.random.split(jax.random.key(random.integers(2**32, dtype=np.uint32)))
    observation, state = eqx.filter_jit(env.reset)(reset_key)
    step, timesteps = eqx.filter_jit(env.step), []
    for action in actions:
        key, step_key = jax.random.split(key)
        timestep, state = step(step_key, state, action)
        timesteps.append(jax.tree.map(np.asarray, timestep))
    return jax.tree.map(np.asarray, observation), timesteps, state
