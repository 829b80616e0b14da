"""What the tests of the wrappers share."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def sample_actions(env, key, steps):
    """Random actions, `steps` (`envs`) `agents`."""
    num_envs = (env.num_envs,) if hasattr(env, "num_envs") else ()
    shape = (steps, *num_envs, env.num_agents)
    return jax.random.randint(key, shape, 0, env.action_space.n)


@eqx.filter_jit
def rollout(env, key, actions):
    """Steps through `actions`.

    Returns the first observation and state, then every timestep and every state after it.
    """
    reset_key, scan_key = jax.random.split(key)
    first = env.reset(reset_key)

    def one_step(state, xs):
        timestep, state = env.step(*xs[:1], state, *xs[1:])
        return state, (timestep, state)

    keys = jax.random.split(scan_key, actions.shape[0])
    _, (timesteps, states) = jax.lax.scan(one_step, first[1], (keys, actions))
    return first, timesteps, states


def python_rollout(env, key, actions):
    """The same as `rollout`, as a Python loop with one compiled call per step."""
    reset_key, scan_key = jax.random.split(key)
    first = reset(env, reset_key)
    state = first[1]
    trace = []
    for step_key, action in zip(jax.random.split(scan_key, actions.shape[0]), actions, strict=True):
        timestep, state = step(env, step_key, state, action)
        trace.append((timestep, state))
    timesteps, states = jax.tree.map(lambda *xs: jnp.stack(xs), *trace)
    return first, timesteps, states


@eqx.filter_jit
def reset(env, key):
    return env.reset(key)


@eqx.filter_jit
def step(env, key, state, action):
    return env.step(key, state, action)


def as_numpy(leaf):
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def assert_same(a, b):
    """Two pytrees of arrays are equal to the bit."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(as_numpy(x), as_numpy(y))


def assert_close(a, b):
    """Two pytrees are equal up to the rounding of floats."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(as_numpy(x), as_numpy(y), rtol=1e-5, atol=1e-5)
