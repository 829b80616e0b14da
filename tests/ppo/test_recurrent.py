"""Agents that remember need no other PPO."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import GRU, loud_mlp

from agents import PPO, evaluate, init_train_state, train
from eqgrid import AbstractEnv, AutoReset, Discrete, LogEpisodes, TimeStep, Vectorize


class Recall(AbstractEnv):
    """Two agents each see a cue once, and earn 1 for naming it three steps later."""

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        cues = jax.random.randint(key, (2,), 0, 2)
        state = jnp.concatenate([jnp.zeros(1, dtype=int), cues])
        return self.observe(state), state

    def step(self, key, state, action):
        state = state + jnp.array([1, 0, 0])
        last = state[0] == 4
        reward = (last & (action == state[1:])).astype(float)
        over = jnp.broadcast_to(last, (2,))
        return TimeStep(self.observe(state), reward, over, jnp.array(False), {}), state

    def observe(self, state):
        time = jnp.broadcast_to(state[0].astype(float), (2,))
        cue = jnp.where(state[0] == 0, 2.0 * state[1:].astype(float) - 1.0, 0.0)
        return jnp.stack([cue, time / 4], axis=1)


def recalls(num_envs):
    return Vectorize(AutoReset(LogEpisodes(Recall())), num_envs)


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize(("network", "chunk_length"), [(GRU, 0), (GRU, 8), (loud_mlp, 0)])
def test_memory_is_learned_where_there_is_one(key, network, chunk_length):
    ppo = PPO(
        rollout_length=16,
        num_minibatches=2,
        learning_rate=5e-3,
        chunk_length=chunk_length,
        entropy_coefficient=0.0,
    )
    env = recalls(32)
    state = init_train_state(ppo, env, key, network=network)
    done = train(ppo, env, state, num_updates=60, updates_per_block=60)
    result = evaluate(done.state.policy, recalls(256), key)
    mean = np.mean(result.episode_return)
    if network is GRU:
        assert mean > 0.95
    else:
        assert 0.35 < mean < 0.65, "without a memory nobody does better than a coin"
