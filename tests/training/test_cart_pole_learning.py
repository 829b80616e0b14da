"""An environment of another kind, defined outside of the package, in all wrappers: solved."""

import jax
import numpy as np
import optax
import pytest
from cart_pole import CartPole

from agents import PPO, evaluate, init_train_state, train
from eqgrid import (
    AppendAgentId,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    TimeLimit,
    Vectorize,
)


def cart_poles(num_envs):
    env = AutoReset(LogEpisodes(TimeLimit(AppendAgentId(CartPole()), 500)))
    env = ShapedReward(env, optax.linear_schedule(0.1, 0.0, 1000))
    return NormalizeObservation(NormalizeReward(Vectorize(env, num_envs), 0.99))


@pytest.mark.slow
@pytest.mark.learning
def test_ppo_solves_the_cart_pole_in_all_wrappers():
    ppo = PPO(rollout_length=64, num_epochs=6, learning_rate=1.5e-3, entropy_coefficient=0.0)
    env = cart_poles(16)
    train_key, eval_key = jax.random.split(jax.random.key(0))
    state = init_train_state(ppo, env, train_key)
    evaluation = cart_poles(64)
    start = evaluate(state.policy, evaluation.freeze(state.runner.env_state), eval_key)
    done = train(ppo, env, state, num_updates=150, updates_per_block=50)
    frozen = evaluation.freeze(done.state.runner.env_state)
    result = evaluate(done.state.policy, frozen, eval_key)
    assert np.mean(start.episode_return) < 60, "a policy that has learned nothing must fail"
    assert np.mean(result.episode_return) >= 475
    np.testing.assert_array_equal(result.episode_return[:, 0], result.episode_length)
    assert done.env_steps == 150 * 64 * 16
