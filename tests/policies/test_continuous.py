"""Actions that are numbers in a box."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import GRU, build, loud_mlp, roll
from pendulum import Pendulum
from swing_up import best_returns

from agents import (
    PPO,
    CategoricalHead,
    ClippedNormalHead,
    JointObservation,
    LocalObservation,
    evaluate,
    head_for,
    init_train_state,
    load_policy,
    mixed_team,
    replay,
    save_policy,
    train,
    trained_policy,
)
from agents.ppo import minibatch, shuffle
from eqgrid import (
    AbstractEnv,
    AbstractSpace,
    AppendAgentId,
    AutoReset,
    Box,
    Discrete,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    RunningMoments,
    TimeLimit,
    TimeStep,
    Vectorize,
    check_env,
    unwrap_state,
)
from eqgrid_lab.show import record

HEAD = ClippedNormalHead()


class Reach(AbstractEnv):
    """Two agents see their numbers and the time; they earn less the further each of the two rows of
    an action is from the numbers.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Box = Box(jnp.array([-1.0, 0.0, 5.0]), jnp.array([1.0, 3.0, 6.0]), (2, 3))

    def reset(self, key):
        state = {"goal": jax.random.normal(key, (2, 2)), "time": jnp.zeros(())}
        return self.observe(state), state

    def step(self, key, state, action):
        reward = -jnp.abs(action.sum(axis=-1) - state["goal"]).sum(axis=-1)
        state = {"goal": state["goal"], "time": state["time"] + 1}
        info = {"inside": jax.vmap(self.action_space.contains)(action).all()}
        over = jnp.broadcast_to(state["time"] >= 6, (2,))
        return TimeStep(self.observe(state), reward, over, jnp.array(False), info), state

    def observe(self, state):
        return jnp.concatenate([state["goal"], jnp.full((2, 1), state["time"])], axis=1)


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


@pytest.mark.parametrize(
    ("network", "chunk", "shared", "view"),
    [
        (loud_mlp, 1, False, JointObservation()),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (loud_mlp, 1, True, LocalObservation()),
                (GRU, 4, True, JointObservation()),
                (GRU, 12, False, LocalObservation()),
            )
        ),
    ],
)
def test_the_first_ratio_is_one(key, network, chunk, shared, view):
    env = reaches(4)
    policy = build(env, key, network=network, shared=shared, critic_input=view)
    rollout, _ = roll(policy, env, key, 12)
    assert rollout.raw_action.shape == (12, 4, 2, 6)
    # An action at a bound says nothing about the choice that it came from.
    assert (jnp.abs(rollout.raw_action) > 1).any()
    ppo = PPO(rollout_length=12, chunk_length=chunk)
    batch, _ = ppo.batch(policy, rollout, RunningMoments.empty(()))
    rows = shuffle(key, batch.rollout.value.shape[1], 1, 2)[0]
    part = minibatch(batch, rows)
    distribution, value = eqx.filter_jit(replay)(policy, part)
    ratio = jnp.exp(distribution.log_prob(part.rollout.raw_action) - part.rollout.log_prob)
    np.testing.assert_allclose(ratio, 1.0, atol=1e-3)
    np.testing.assert_allclose(value, part.rollout.value, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("greedy", [True, False])
def test_greedy_agents_take_the_mode(key, greedy):
    env = reaches(3)
    policy = build(env, key, network=loud_mlp)
    result = evaluate(policy, env, key, greedy=greedy)
    again = evaluate(policy, env, jax.random.key(7), greedy=greedy)
    assert result.finished.all()
    np.testing.assert_array_equal(result.episode_length, 6)
    assert not np.array_equal(result.episode_return, again.episode_return)
    _, state = env.reset(jax.random.split(key)[1])
    goal = np.asarray(unwrap_state(state)["goal"])
    total = np.zeros((3, 2))
    for time in range(6):
        seen = jnp.concatenate([jnp.asarray(goal), jnp.full((3, 2, 1), float(time))], axis=-1)
        distribution, _, _ = jax.vmap(policy)(seen, None)
        action = HEAD.action(distribution.mean, env.action_space)
        total -= np.abs(np.asarray(action.sum(axis=-1)) - goal).sum(axis=-1)
    assert np.allclose(result.episode_return, total, rtol=1e-4) == greedy


@pytest.mark.slow
def test_videos_and_wrappers_take_continuous_actions(key):
    one = AutoReset(LogEpisodes(TimeLimit(AppendAgentId(Reach()), 4)))
    training = NormalizeReward(NormalizeObservation(Vectorize(one, 3)))
    policy = build(training, key, network=loud_mlp)
    rollout, runner = roll(policy, training, key, 9)
    assert rollout.raw_action.shape == (9, 3, 2, 6)
    assert np.isfinite(rollout.reward).all()
    env = NormalizeObservation(Vectorize(one, 1)).freeze(runner.env_state)
    states, reward, done = record(policy, env, key, 9)
    np.testing.assert_array_equal(np.flatnonzero(done), [3, 7])
    assert states["goal"].shape == (9, 2, 2)
    assert np.isfinite(reward).all()


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
    team = mixed_team([policy, policy])
    seen = policy.normalization(observation, local=False)
    expected = policy.actor_critic(seen, policy.actor_critic.initial_carry())[0].mean
    np.testing.assert_allclose(team(observation, team.initial_carry())[0].mean, expected)


def test_a_box_passes_the_test_kit():
    check_env(TimeLimit(Pendulum(), 20), steps=30)
    check_env(Reach(), steps=10)


def test_other_spaces_are_refused():
    box, none = Box(-1.0, 1.0, (2,)), Words()
    endless = eqx.tree_at(lambda b: b.high, box, jnp.array([1.0, jnp.inf]))
    whole = eqx.tree_at(lambda b: b.low, box, jnp.array([0, 1]))
    empty = Box(-1.0, 1.0, (0,))
    messages = {
        "must be Discrete, MultiDiscrete or Box, but it is Words: pass a head": none,
        "bounds must be finite": endless,
        "for whole numbers, use Discrete": whole,
        "at least one number": empty,
    }
    for message, space in messages.items():
        with pytest.raises(ValueError, match=message):
            head_for(space)
    assert head_for(box) == HEAD
    assert head_for(Discrete(3)) == CategoricalHead()


class Words(AbstractSpace):
    def sample(self, key):
        return jnp.zeros(())

    def contains(self, x):
        return jnp.array(True)


def pendulums(num_envs):
    return Vectorize(AutoReset(LogEpisodes(TimeLimit(Pendulum(), 200))), num_envs)


@pytest.fixture(scope="module")
def best():
    """The best mean return from the starts of `evaluate`, and those starts' environments."""
    env = pendulums(256)
    _, state = env.reset(jax.random.split(jax.random.key(9))[1])
    played, said = best_returns(np.asarray(unwrap_state(state), dtype=np.float64))
    # What the grid says is what comes of it when it is played, so it is fine enough.
    np.testing.assert_allclose(played.mean(), said.mean(), atol=2.0)
    assert -160 < played.mean() < -120
    return played.mean()


@pytest.mark.slow
@pytest.mark.learning
def test_ppo_swings_the_pendulum_up(best):
    ppo = PPO(num_epochs=6, gamma=0.95, entropy_coefficient=0.01)
    env = NormalizeReward(NormalizeObservation(pendulums(32)), 0.95)
    state = init_train_state(ppo, env, jax.random.key(0))
    done = train(ppo, env, state, num_updates=60, updates_per_block=60)
    test_env = NormalizeObservation(pendulums(256)).freeze(done.state.runner.env_state)
    result = evaluate(done.state.policy, test_env, jax.random.key(9), greedy=True)
    assert best - 60 < result.episode_return.mean() < best + 1
