"""One run is taken out of the state of many."""

import equinox as eqx
import jax
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


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_run_that_does_not_exist_is_refused(key, wrong):
    states = shapes_of(jax.random.split(key, 3))
    with pytest.raises(ValueError, match=f"There is no run {wrong} in a state of 3 runs"):
        pick_run(states, wrong)
