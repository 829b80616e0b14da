import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from drift import Drift
from learners import build, clocks, roll

from agents import (
    AbstractNetwork,
    ActorCritic,
    LocalObservation,
    Metrics,
    SharedParameters,
    collect_rollout,
    init_runner,
)
from eqgrid import AutoReset, LogEpisodes, TimeLimit, Vectorize
from eqgrid.envs.goals import Goals

LENGTH, NUM_ENVS = 40, 3


class TimeReader(AbstractNetwork):
    """A critic whose value is the time that it reads, or the logits of a coin."""

    out_size: int

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return jnp.full(self.out_size, x[1]), carry


class StepCounter(AbstractNetwork):
    """A critic whose value is how many observations it has seen in this episode."""

    def initial_carry(self):
        return jnp.zeros(())

    def __call__(self, x, carry):
        return (carry + 1)[None], carry + 1


def policy_with(critic):
    return ActorCritic(
        SharedParameters(TimeReader(3), 2), SharedParameters(critic, 2), LocalObservation()
    )


@pytest.fixture(scope="module")
def read():
    """A rollout of 40 steps, so that several episodes end in it, in either way."""
    rollout, scene = roll(policy_with(TimeReader(1)), clocks(NUM_ENVS), jax.random.key(0), LENGTH)
    return jax.tree.map(np.asarray, rollout), scene


def test_it_holds_what_the_environments_said(read):
    rollout, scene = read
    time, length, limited = np.moveaxis(rollout.observation[:, :, 1, 1:], -1, 0)
    np.testing.assert_array_equal(rollout.done, time + 1 == length)
    np.testing.assert_array_equal(rollout.start, time == 0)
    np.testing.assert_array_equal(rollout.start[1:], rollout.done[:-1])
    np.testing.assert_array_equal(scene.start, rollout.done[-1])
    number = np.arange(2)[None, None]
    expected = 10 * (time + 1)[:, :, None] + number + rollout.raw_action
    np.testing.assert_array_equal(rollout.reward, expected)
    over = rollout.done & (limited == 0)
    np.testing.assert_array_equal(rollout.terminated[:, :, 1], over)
    np.testing.assert_array_equal(rollout.terminated[:, :, 0], over | (time + 1 >= 4))
    assert rollout.done.sum() >= 10


def test_the_next_value_is_that_of_the_final_observation(read):
    rollout, _ = read
    time = rollout.observation[..., 1]
    bootstrapped = ~rollout.terminated
    np.testing.assert_array_equal(rollout.value, time)
    np.testing.assert_array_equal(rollout.next_value[bootstrapped], time[bootstrapped] + 1)
    cut = rollout.done[:, :, None] & bootstrapped
    assert cut.sum() >= 3, "no time limit in the rollout: the test above shows nothing"
    assert not cut[-1].any(), "the last step must be an ordinary one"


def test_the_next_value_of_a_recurrent_critic_knows_the_episode(key):
    policy = policy_with(StepCounter())
    assert policy.recurrent
    rollout, _ = roll(policy, clocks(NUM_ENVS), key, LENGTH)
    time = np.asarray(rollout.observation[..., 1])
    np.testing.assert_array_equal(rollout.value, time + 1)
    bootstrapped = ~np.asarray(rollout.terminated)
    np.testing.assert_array_equal(
        np.asarray(rollout.next_value)[bootstrapped], time[bootstrapped] + 2
    )
    assert (np.asarray(rollout.done)[:, :, None] & bootstrapped).any()


def test_a_final_observation_is_that_of_the_step_that_was_taken(key):
    """Each reward is the place after the step, which the critic reads as well."""
    env = Vectorize(AutoReset(TimeLimit(Drift(), 4)), NUM_ENVS)
    rollout, _ = roll(policy_with(TimeReader(1)), env, key, 12)
    assert rollout.done.sum() == 3 * NUM_ENVS
    np.testing.assert_allclose(rollout.next_value, rollout.reward, rtol=1e-6)


@pytest.mark.slow
def test_it_goes_on_where_it_stopped(key):
    env = clocks(NUM_ENVS)
    rollout, scene = roll(policy_with(TimeReader(1)), env, key, 5)
    later, _ = eqx.filter_jit(collect_rollout)(policy_with(TimeReader(1)), env, scene, key, 5)
    time, next_time = rollout.observation[-1, :, 1, 1], later.observation[0, :, 1, 1]
    np.testing.assert_array_equal(next_time, np.where(rollout.done[-1], 0, time + 1))
    np.testing.assert_array_equal(later.start[0], rollout.done[-1])


def test_environments_that_never_start_over_are_refused(key):
    env = Vectorize(CartPole(), 2)
    policy = policy_with(TimeReader(1))
    with pytest.raises(ValueError, match=r"Vectorize\(AutoReset\(env\), num_envs\)"):
        init_runner(policy, env, key)


def test_the_return_can_be_differentiated(key):
    """Final values are targets, through which nothing flows; what else does is not in the way."""
    env = clocks(NUM_ENVS)
    policy = build(env, key)
    parameters, rest = eqx.partition(policy, eqx.is_inexact_array)

    def value(parameters):
        rollout, _ = roll(eqx.combine(parameters, rest), env, key, 9)
        return (rollout.value + rollout.next_value).sum()

    gradient = jax.jit(jax.grad(value))(parameters)
    assert np.abs(gradient.critic.network.layers[0].weight).sum() > 0


@pytest.mark.parametrize("batch", [None, 2])
def test_final_values_are_looked_up_on_some_steps_only(key, batch):
    """Also for many seeds at once, where a plain condition would be none."""
    env = clocks(NUM_ENVS)
    policy = build(env, key)

    def one(key):
        return roll(policy, env, key, 9)

    run = one if batch is None else jax.vmap(one)
    keys = key if batch is None else jax.random.split(key, batch)
    assert "stablehlo.case" in jax.jit(run).lower(keys).as_text()


def test_totals_are_means_over_the_episodes_that_ended(key):
    env = Vectorize(AutoReset(LogEpisodes(Goals("room", horizon=9), ("events",))), 5)
    rollout, _ = roll(build(env, key), env, key, 24)
    totals = Metrics.of({}, rollout.info).totals
    assert totals.keys() == {"events"}
    found = [np.asarray(rollout.info["episode_events"][t, e]) for t, e in np.argwhere(rollout.done)]
    assert len(found) > 5
    assert np.any(found)
    np.testing.assert_allclose(totals["events"], np.mean(found, axis=0), rtol=1e-5)
