"""An environment of classes that know nothing of eqgrid, in all wrappers, learners and players."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from corridor import Corridor
from kitchen_checks import unchecked

from agents import PPO, evaluate, init_train_state, train
from eqgrid import (
    AbstractVectorEnv,
    AppendAgentId,
    AppendTimeLeft,
    AutoReset,
    ConstantPartner,
    Discrete,
    Environment,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    OneOf,
    RandomPartner,
    Scheduled,
    ShapedReward,
    TimeLimit,
    VectorEnvironment,
    Vectorize,
    WithPartner,
    check_env,
    iter_wrappers,
    play,
    replace_innermost,
    unwrap,
    unwrap_state,
)

CORRIDOR = Corridor(Discrete(2))
RIGHT = ConstantPartner(1)


def stack(env):
    """All wrappers of one environment."""
    env = AppendAgentId(AppendTimeLeft(WithPartner(TimeLimit(env, 9), OneOf([RIGHT])), 9))
    env = AutoReset(LogEpisodes(env, totals=("shaped_reward",)))
    return Scheduled(ShapedReward(env, 0.5), lambda x: x.env.env.env.env.env.share, lambda _: 0.0)


def test_check_env_passes_and_it_is_an_environment():
    check_env(CORRIDOR, steps=20)
    assert isinstance(CORRIDOR, Environment)
    assert not isinstance(CORRIDOR, VectorEnvironment)
    assert not isinstance(Discrete(2), Environment)


class Pair(Corridor):
    """Two agents that walk through the same corridor: the first one decides."""

    def step(self, key, state, action):
        result, state = super().step(key, state, action)
        both = {name: jnp.repeat(getattr(result, name), 2) for name in ("reward", "terminated")}
        info = jax.tree.map(lambda x: jnp.repeat(x, 2), result.info)
        return result._replace(observation=self.observe(state), info=info, **both), state

    def observe(self, state):
        return jnp.repeat(super().observe(state), 2, axis=0)


def test_all_wrappers_trace(key):
    pair = Pair(Discrete(2), num_agents=2)
    envs = NormalizeReward(NormalizeObservation(Vectorize(stack(pair), 4)))
    _, state = eqx.filter_eval_shape(envs.reset, key)
    action = jnp.zeros((4, 2), int)
    timestep, after = eqx.filter_eval_shape(envs.step, key, state, action)
    assert timestep.observation.shape == (4, 2, 7 + 1 + 2)
    assert eqx.tree_equal(state, after)


def test_wrappers_are_searched_and_replaced(key):
    limited = TimeLimit(CORRIDOR, 9)
    assert unwrap(limited) is CORRIDOR
    assert [*iter_wrappers(limited)] == [limited]
    longer = replace_innermost(limited, lambda env: Corridor(env.action_space, length=3))
    assert unwrap(longer).length == 3
    assert unwrap_state(limited.reset(key)[1]).shape == ()


def test_an_episode_is_played(key):
    game = play(TimeLimit(CORRIDOR, 9), (RIGHT,), key)
    np.testing.assert_array_equal(game.episode_return, [1.0])
    assert game.episode_length == 6
    team = (RandomPartner(CORRIDOR.action_space),)
    assert play(CORRIDOR, team, key, max_steps=3).episode_length == 3


def test_ppo_learns_the_way(key):
    envs = NormalizeObservation(Vectorize(AutoReset(LogEpisodes(TimeLimit(CORRIDOR, 30))), 8))
    ppo = PPO(rollout_length=32, num_minibatches=4, learning_rate=3e-3)
    run = train(ppo, envs, init_train_state(ppo, envs, key), num_updates=8)
    assert run.metrics.episode_length[-1] < 0.8 * run.metrics.episode_length[0]
    frozen = envs.freeze(run.state.runner.env_state)
    result = evaluate(run.state.policy, frozen, key, greedy=True)
    np.testing.assert_array_equal(result.episode_length, 6)


class Batch(eqx.Module):
    """A batch of corridors that is no `AbstractVectorEnv`."""

    inner: Vectorize
    num_envs: int = eqx.field(static=True, default=8)
    num_agents: int = eqx.field(static=True, default=1)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        return self.inner.reset(key)

    def step(self, key, state, action):
        return self.inner.step(key, state, action)

    def observe(self, state):
        return self.inner.observe(state)


def test_a_batch_is_told_apart_by_num_envs(key):
    batch = Batch(Vectorize(AutoReset(LogEpisodes(TimeLimit(CORRIDOR, 30))), 8))
    assert not isinstance(batch, AbstractVectorEnv)
    ppo = PPO(rollout_length=4, num_minibatches=1)
    for envs in (batch, NormalizeReward(batch)):
        assert init_train_state(ppo, envs, key).runner.start.shape == (8,)
    with unchecked(), pytest.raises(ValueError, match="TimeLimit needs one environment, but Batch"):
        TimeLimit(batch, 9)
