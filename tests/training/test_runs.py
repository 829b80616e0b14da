"""One run is taken out of the state of many."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from learners import clocks, loud_mlp

from agents import PPO, init_train_state, num_runs, pick_run

PPO_SMALL = PPO(rollout_length=8, num_epochs=1, num_minibatches=2)


def shapes_of(keys):
    def start(key):
        return init_train_state(PPO_SMALL, clocks(2), key, network=loud_mlp)

    start = start if keys.ndim == 0 else eqx.filter_vmap(start)
    return eqx.filter_eval_shape(start, keys)


def test_the_number_of_runs_is_that_of_their_axis(key):
    assert num_runs(shapes_of(key)) is None
    assert num_runs(shapes_of(jax.random.split(key, 3))) == 3


def filled(states):
    """Every array of the run `i` is full of `i`."""

    def fill(x):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.vmap(jax.random.key)(jnp.arange(3))
        numbers = jnp.arange(3).astype(x.dtype).reshape(-1, *(1 for _ in x.shape[1:]))
        return jnp.broadcast_to(numbers, x.shape)

    is_shape = lambda x: isinstance(x, jax.ShapeDtypeStruct)  # noqa: E731
    return jax.tree.map(lambda x: fill(x) if is_shape(x) else x, states)


def test_a_run_is_taken_out_whole(key):
    states = filled(shapes_of(jax.random.split(key, 3)))
    one = pick_run(states, 2)
    shapes = lambda x: [(y.shape, y.dtype) for y in jax.tree.leaves(x) if hasattr(y, "shape")]  # noqa: E731
    assert shapes(one) == shapes(shapes_of(key))
    assert int(one.updates) == 2
    assert all(bool((x == 2).all()) for x in jax.tree.leaves(eqx.filter(one.policy, eqx.is_array)))
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"There is no run {wrong} in a state of 3 runs"):
            pick_run(states, wrong)
