"""Actions that are numbers in a box."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pendulum import Pendulum
from reach import Reach

from agents import (
    PPO,
    CategoricalHead,
    ClippedNormalHead,
    evaluate,
    head_for,
    init_train_state,
    load_policy,
    save_policy,
    train,
    trained_policy,
)
from eqgrid import (
    AbstractSpace,
    AutoReset,
    Box,
    Discrete,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    TimeLimit,
    Vectorize,
    check_env,
)

HEAD = ClippedNormalHead()


def reaches(num_envs):
    return Vectorize(AutoReset(LogEpisodes(Reach())), num_envs)


def normal(mean, log_std):
    return HEAD.distribution(jnp.concatenate([mean, log_std], axis=-1))


def test_actions_lie_between_the_bounds(key):
    space = Reach().action_space
    assert HEAD.out_size(space) == 12
    choice = jnp.concatenate([1e3 * jax.random.normal(key, (500, 6)), jnp.zeros((1, 6))])
    action = HEAD.action(choice, space)
    assert action.shape == (501, 2, 3)
    assert jax.vmap(space.contains)(action).all()
    np.testing.assert_allclose(action[-1], (space.low + space.high) / 2)
    np.testing.assert_allclose(action[0], np.where(choice[0].reshape(2, 3) > 0, *bounds(space)))
    wide = Box(-3e38, 3e38, (1,))
    np.testing.assert_allclose(HEAD.action(jnp.array([[9e9], [0.0]]), wide), [[3e38], [0.0]])


def bounds(space):
    return np.asarray(space.high), np.asarray(space.low)


def test_choices_follow_the_distribution(key):
    mean = jnp.array([[0.5, -2.0]])
    distribution = normal(mean, jnp.array([[0.5, -1.5]]))
    noise = HEAD.noise(key, Box(-1.0, 1.0, (2,)), (20_000, 1))
    choice = jax.vmap(lambda n: HEAD.sample(distribution, n))(noise)
    np.testing.assert_allclose(choice.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(choice.std(axis=0)[0], np.exp([0.0, -2.0]), rtol=0.03)
    np.testing.assert_array_equal(HEAD.most_probable(distribution), mean)
    log_prob = distribution.log_prob(choice[0])
    z = (np.asarray(choice[0]) - np.asarray(mean)) / np.exp([[0.0, -2.0]])
    expected = (-(z**2) / 2 - 0.5 * np.log(2 * np.pi) - np.array([[0.0, -2.0]])).sum(axis=-1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5)


def test_the_entropy_is_that_of_the_normal_distribution():
    distribution = normal(jnp.array([[0.5, -20.0]]), jnp.array([[0.0, 1.0]]))
    expected = np.log(2 * np.pi * np.e) + np.sum([-0.5, 0.5])
    np.testing.assert_allclose(HEAD.entropy(distribution), [expected], rtol=1e-5)


def test_deviations_have_limits():
    distribution = normal(jnp.zeros((1, 2)), jnp.array([[-1e6, 1e6]]))
    std = distribution.std
    np.testing.assert_allclose(std, [[np.exp(-5.0), np.exp(2.0)]], rtol=1e-5)


@pytest.mark.slow
def test_a_policy_travels_with_its_box(key, tmp_path):
    env = NormalizeObservation(reaches(4))
    state = init_train_state(PPO(rollout_length=12, num_minibatches=2), env, key)
    path = tmp_path / "policy.safetensors"
    save_policy(path, trained_policy(state.policy, env, state.runner.env_state))
    policy = load_policy(path)
    assert eqx.tree_equal(policy.action_space, Reach().action_space)
    observation = Reach().reset(key)[0]
    drawn, _ = policy.act(observation, policy.initial_carry(), key)
    again, _ = policy.act(observation, policy.initial_carry(), key)
    greedy, _ = policy.act(observation, policy.initial_carry(), None, greedy=True)
    np.testing.assert_array_equal(drawn, again)
    assert drawn.shape == greedy.shape == (2, 2, 3)
    assert jax.vmap(policy.action_space.contains)(drawn).all()
    assert np.abs(drawn - greedy).max() > 0.05
    output, _ = policy.outputs(observation, None)
    mean = policy.actor_critic.head.distribution(output).mean
    np.testing.assert_allclose(greedy, HEAD.action(mean, policy.action_space), rtol=1e-6)


def test_policies_of_several_runs_are_evaluated_together(key):
    """Also if their boxes, which are the same, have an axis of runs."""
    env = reaches(2)

    @eqx.filter_vmap
    def policies(key):
        state = init_train_state(PPO(rollout_length=4), env, key)
        return trained_policy(state.policy, env, state.runner.env_state)

    played = eqx.filter_vmap(lambda policy: evaluate(policy, env, key))(
        policies(jax.random.split(key))
    )
    assert played.episode_return.shape == (2, 2, 2)
    assert played.finished.all()


def test_a_box_passes_the_test_kit():
    check_env(TimeLimit(Pendulum(), 20), steps=30)
    check_env(Reach(), steps=10)


class Words(AbstractSpace):
    def sample(self, key):
        return jnp.zeros(())

    def contains(self, x):
        return jnp.array(True)


BOX = Box(-1.0, 1.0, (2,))
NO_HEAD = {
    "must be Discrete, MultiDiscrete or Box, but it is Words: pass a head": Words(),
    "bounds must be finite": eqx.tree_at(lambda b: b.high, BOX, jnp.array([1.0, jnp.inf])),
    "for whole numbers, use Discrete": eqx.tree_at(lambda b: b.low, BOX, jnp.array([0, 1])),
    "at least one number": Box(-1.0, 1.0, (0,)),
}


@pytest.mark.parametrize(("message", "space"), NO_HEAD.items())
def test_other_spaces_are_refused(message, space):
    with pytest.raises(ValueError, match=message):
        head_for(space)


def test_boxes_and_choices_have_heads():
    assert head_for(BOX) == HEAD
    assert head_for(Discrete(3)) == CategoricalHead()


BEST = -140.4
"""The best mean return from the 256 starts below, by value iteration on a grid of 201 angles, 201
speeds and 9 torques."""


def pendulums(num_envs):
    return Vectorize(AutoReset(LogEpisodes(TimeLimit(Pendulum(), 200))), num_envs)


@pytest.mark.slow
@pytest.mark.learning
def test_ppo_swings_the_pendulum_up():
    ppo = PPO(num_epochs=6, gamma=0.95, entropy_coefficient=0.01)
    env = NormalizeReward(NormalizeObservation(pendulums(32)), 0.95)
    state = init_train_state(ppo, env, jax.random.key(0))
    done = train(ppo, env, state, num_updates=60, updates_per_block=60)
    test_env = NormalizeObservation(pendulums(256)).freeze(done.state.runner.env_state)
    result = evaluate(done.state.policy, test_env, jax.random.key(9), greedy=True)
    assert BEST - 60 < result.episode_return.mean() < BEST + 1
