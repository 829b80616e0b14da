import itertools
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import counted
from learners import Clock, build, clocks, loud_mlp

import agents.evaluation._evaluate
from agents import evaluate
from eqgrid import (
    AbstractEnv,
    AutoReset,
    Discrete,
    LogEpisodes,
    NormalizeReward,
    TimeStep,
    Vectorize,
    unwrap_state,
)


class Lottery(AbstractEnv):
    """An episode has 1 to 50 steps, and every one earns the action: its return tells its length."""

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = jnp.stack([jnp.asarray(0), jax.random.randint(key, (), 1, 51)])
        return self.observe(state), state

    def step(self, key, state, action):
        state = state + jnp.array([1, 0])
        over = jnp.broadcast_to(state[0] >= state[1], (2,))
        reward = action.astype(float) + jnp.array([1.0, 2.0])
        return TimeStep(self.observe(state), reward, over, jnp.array(False), {}), state

    def observe(self, state):
        return jnp.broadcast_to(state.astype(float), (2, 2))


def lotteries(num_envs):
    return Vectorize(AutoReset(LogEpisodes(Lottery())), num_envs)


@pytest.mark.parametrize("greedy", [pytest.param(True, marks=pytest.mark.slow), False])
def test_it_plays_the_first_episode_of_every_environment(key, greedy):
    env = lotteries(200)
    policy = build(env, key, network=loud_mlp)
    result = evaluate(policy, env, key, greedy=greedy)
    assert result.episode_return.shape == (200, 2)
    length = np.asarray(result.episode_length)
    # The state that `evaluate` starts from says how long each first episode is.
    _, state = env.reset(jax.random.split(key)[1])
    np.testing.assert_array_equal(length, unwrap_state(state)[:, 1])
    assert length.max() > length.min() + 40
    earned = np.asarray(result.episode_return) - np.array([1.0, 2.0]) * length[:, None]
    assert (earned >= 0).all()
    assert (earned <= length[:, None]).all()
    assert np.array_equal(earned, np.round(earned))


class Coins(AbstractEnv):
    """In step `t`, the first agent earns `2**t` if it takes action 1, and the second if a coin of
    the world says so: so a return tells what happened in each of the 12 steps.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        return jnp.zeros((2, 1)), jnp.asarray(0)

    def step(self, key, state, action):
        heads = jnp.stack([action[0] == 1, jax.random.bernoulli(key)])
        reward = jnp.where(heads, 2.0**state, 0.0)
        over = jnp.broadcast_to(state >= 11, (2,))
        return TimeStep(jnp.zeros((2, 1)), reward, over, jnp.asarray(False), {}), state + 1

    def observe(self, state):
        return jnp.zeros((2, 1))


def test_chance_is_another_one_in_every_step_and_environment(key):
    """The choices of the agent and the coins of the world are 2,400 independent, fair coins."""
    env = Vectorize(AutoReset(LogEpisodes(Coins())), 100)
    result = evaluate(build(env, key), env, key)
    totals = np.asarray(result.episode_return).astype(int)
    coins = totals[:, :, None] >> np.arange(12) & 1
    coins = np.moveaxis(coins, 0, -1).reshape(24, 100)
    pairs = [(one == other).mean() for one, other in itertools.combinations(coins, 2)]
    np.testing.assert_allclose(coins.mean(), 0.5, atol=0.05)
    np.testing.assert_allclose(pairs, 0.5, atol=0.25)
    pairs = [(one == other).mean() for one, other in itertools.combinations(coins.T, 2)]
    assert max(pairs) < 1


@pytest.mark.slow
def test_greedy_takes_the_most_probable_action(key):
    env = clocks(5)
    policy = build(env, key)
    bias = jnp.array([0.0, 0.3, 0.2])
    policy = eqx.tree_at(lambda p: p.actor.network.layers[-1].bias, policy, bias)
    greedy, drawn = (evaluate(policy, env, key, greedy=g) for g in (True, False))
    length = np.asarray(greedy.episode_length)
    for agent in range(2):
        steps = length if agent else np.minimum(length, 4)  # its task is then over
        expected = [sum(10 * t + agent + 1 for t in range(1, n + 1)) for n in steps]
        np.testing.assert_allclose(greedy.episode_return[:, agent], expected)
    np.testing.assert_array_equal(drawn.episode_length, length)
    assert not np.array_equal(drawn.episode_return, greedy.episode_return)


@pytest.mark.slow
def test_new_parameters_and_moments_need_no_new_compilation(key):
    training = clocks(4, normalize=True)
    # A number of its own, or a program of another test might serve.
    env, counts, results = clocks(11, normalize=True), [], []
    for number in range(3):
        k = jax.random.key(number)
        policy, (_, state) = build(training, k, network=loud_mlp), training.reset(k)
        frozen = env.freeze(state)
        with counted() as compilations:
            results.append(evaluate(policy, frozen, key))
        counts.append(len(compilations))
    assert counts[0] > 0
    assert counts[1:] == [0, 0]
    assert not np.array_equal(results[1].episode_return, results[2].episode_return)


@pytest.mark.slow
def test_statistics_stay_frozen(key):
    training = clocks(4, normalize=True)
    _, state = training.reset(key)
    frozen = clocks(8, normalize=True).freeze(state)
    watch = agents.evaluation._evaluate._play(build(training, key), frozen, key, False, 1000)
    assert eqx.tree_equal(watch.runner.env_state.moments, state.moments)


@pytest.mark.slow
def test_an_episode_without_an_end_is_refused(key):
    env = lotteries(20)
    with pytest.raises(ValueError, match="did not end in 10 steps"):
        evaluate(build(env, key), env, key, max_steps=10)


@pytest.mark.slow
def test_it_is_pure(key):
    env = lotteries(20)
    policy = build(env, key, network=loud_mlp)
    keys = jax.random.split(key, 3)
    alone = [evaluate(policy, env, k) for k in keys]
    jitted = jax.jit(lambda k: evaluate(policy, env, k))(keys[0])
    assert eqx.tree_equal(jitted, alone[0])
    assert not np.array_equal(alone[0].episode_return, alone[1].episode_return)
    mapped = eqx.filter_vmap(lambda k: evaluate(policy, env, k))(keys)
    assert mapped.episode_return.shape == (3, 20, 2)
    assert mapped.finished.all()
    for i, one in enumerate(alone):
        assert eqx.tree_equal(jax.tree.map(lambda x, i=i: x[i], mapped), one)


@pytest.mark.slow
def test_policies_are_mapped_over(key):
    env = lotteries(5)
    keys = jax.random.split(key, 3)
    policies = eqx.filter_vmap(lambda k: build(env, k, network=loud_mlp))(keys)
    each = eqx.filter_jit(
        eqx.filter_vmap(
            lambda policy: evaluate(policy, env, key, greedy=True), in_axes=(eqx.if_array(0),)
        )
    )(policies)
    for i, k in enumerate(keys):
        alone = evaluate(build(env, k, network=loud_mlp), env, key, greedy=True)
        np.testing.assert_array_equal(each.episode_return[i], alone.episode_return)


@pytest.mark.slow
def test_under_a_trace_an_unfinished_episode_is_marked(key):
    env = lotteries(50)
    policy = build(env, key)
    whole = evaluate(policy, env, key)
    short = jax.jit(lambda k: evaluate(policy, env, k, max_steps=10))(key)
    finished = np.asarray(whole.episode_length) <= 10
    assert 0 < finished.sum() < 50
    np.testing.assert_array_equal(short.finished, finished)
    np.testing.assert_array_equal(np.isnan(short.episode_return), np.stack([~finished] * 2, 1))
    np.testing.assert_array_equal(short.episode_return[finished], whole.episode_return[finished])
    np.testing.assert_array_equal(short.episode_length, np.where(finished, whole.episode_length, 0))


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: NormalizeReward(env, 0.9)])
def test_moving_moments_are_refused(key, wrap):
    env = wrap(clocks(2, normalize=True))
    with pytest.raises(ValueError, match=r"NormalizeObservation\(env\)\.freeze\(env_state\)"):
        evaluate(build(env, key), env, key)


@pytest.mark.slow
def test_moments_of_rewards_change_nothing(key):
    policy = build(clocks(4), key, network=loud_mlp)
    plain, scaled = (
        evaluate(policy, env, key) for env in (clocks(4), NormalizeReward(clocks(4), 0.9))
    )
    assert eqx.tree_equal(plain, scaled)


IN_DOUBLE_PRECISION = """
import equinox as eqx
import jax
import numpy as np
from learners import GRU, clocks

from agents import PPO, evaluate, init_train_state, scan_updates, train

key = jax.random.key(0)
env = clocks(4)
ppo = PPO(rollout_length=8, num_minibatches=2)
state = init_train_state(ppo, env, key, network=GRU)
_, metrics = eqx.filter_jit(scan_updates)(ppo, env, state, num_updates=2, length=1)
state = train(ppo, env, state, num_updates=2).state
result = evaluate(state.policy, env, key)
parameters = jax.tree.leaves(eqx.filter(state.policy, eqx.is_inexact_array))
assert all(x.dtype == np.float64 for x in [*parameters, result.episode_return])
assert result.finished.all()
assert np.isfinite(metrics.scalars["value_loss"]).all()
"""


@pytest.mark.slow
def test_double_precision_works():
    folder = Path(__file__).parent
    paths = os.pathsep.join([str(folder.parent), str(folder)])
    env = os.environ | {"JAX_ENABLE_X64": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", IN_DOUBLE_PRECISION]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_environments_must_say_what_an_episode_came_to(key):
    env = Vectorize(AutoReset(Clock()), 2)
    with pytest.raises(ValueError, match="put LogEpisodes around"):
        evaluate(build(env, key), env, key)
