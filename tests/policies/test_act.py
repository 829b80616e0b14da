"""Acting is one function, for rollouts, evaluations and videos alike."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import clocks

from agents import (
    AbstractNetwork,
    ActorCritic,
    LocalObservation,
    SharedParameters,
    act,
    init_runner,
    step_runner,
)
from eqgrid_lab.show import record


class Counter(AbstractNetwork):
    """It does what says how many steps of the episode it has seen: 0, 1, 2, 2, 2, ..."""

    out_size: int

    def initial_carry(self):
        return jnp.zeros((), dtype=jnp.int32)

    def __call__(self, x, carry):
        chosen = jnp.arange(self.out_size) == jnp.minimum(carry, self.out_size - 1)
        return jnp.where(chosen, 0.0, -1e9), carry + 1


@pytest.fixture(scope="module")
def counting():
    return ActorCritic(
        SharedParameters(Counter(3), 2), SharedParameters(Counter(1), 2), LocalObservation()
    )


def test_a_video_forgets_where_an_episode_starts(counting, key):
    states, reward, done = jax.tree.map(np.asarray, record(counting, clocks(1), key, 40))
    assert done[:-1].sum() > 3
    time = states[:, 0]
    np.testing.assert_array_equal(time[1:] == 0, done[:-1])
    # An agent earns `10 * time + number + action`; the task of the first is over after 4 steps.
    pay = 10 * (time + 1) + np.minimum(time, 2)
    np.testing.assert_allclose(reward, (np.where(time < 4, pay, 0) + pay + 1) / 2)


@pytest.mark.parametrize("greedy", [True, False])
def test_a_step_is_a_decision_and_its_consequences(counting, key, greedy):
    env = clocks(5)
    runner = init_runner(counting, env, key)
    uniform = jax.random.uniform(key, (5, 2))
    for count in range(4):
        started = np.asarray(runner.start)
        decision = act(counting, env.action_space, runner, uniform, greedy=greedy)
        same, timestep, runner = step_runner(counting, env, runner, uniform, key, greedy=greedy)
        assert eqx.tree_equal(decision, same)
        assert started.all() == (count == 0)
        np.testing.assert_array_equal(decision.action[~started], min(count, 2))
        np.testing.assert_array_equal(decision.action[started], 0)
        np.testing.assert_array_equal(decision.log_prob, 0.0)
        np.testing.assert_array_equal(runner.start, timestep.done)
        np.testing.assert_array_equal(runner.active, timestep.acts_next)
        assert eqx.tree_equal(runner.carry, decision.next_carry)
