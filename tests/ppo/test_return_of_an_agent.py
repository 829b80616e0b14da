"""What an agent is paid after its task is over counts nowhere: everybody's sums agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import Clock, build, loud_mlp, roll

from agents import evaluate, record_episodes
from eqgrid import (
    AbstractEnv,
    AutoReset,
    ConstantPartner,
    Discrete,
    LogEpisodes,
    ShapedReward,
    TimeStep,
    Vectorize,
    interop,
    play,
)
from eqgrid_lab.show import record

RETURNS = [3.0, 6.0]
"""Of an episode of `Pensions`."""


class Pensions(AbstractEnv):
    """Six steps, of which the first agent works in three. It is paid 100 in each of the others."""

    num_agents: int = 2
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = jnp.zeros((), jnp.int32)
        return self.observe(state), state

    def step(self, key, state, action):
        state = state + 1
        reward = jnp.stack([jnp.where(state <= 3, 1.0, 100.0), jnp.ones(())])
        over = jnp.stack([state >= 3, state >= 6])
        info = {"shaped_reward": 10.0 * reward}
        return TimeStep(self.observe(state), reward, over, jnp.zeros((), bool), info), state

    def observe(self, state):
        return jnp.broadcast_to(state.astype(float), (2, 1))


def learned_from(rollout):
    """The returns of the first episode of each environment, as the learner sees them."""
    paid = np.where(rollout.active, rollout.reward, 0.0)
    ends = np.argmax(rollout.done, axis=0)
    return np.stack([paid[: end + 1, i].sum(axis=0) for i, end in enumerate(ends)])


def first_logged(rollout):
    ends = np.argmax(rollout.done, axis=0)
    return np.asarray(rollout.info["episode_return"])[ends, np.arange(len(ends))]


def test_the_log_has_what_the_learner_sees(key):
    """In episodes of several lengths, which end and are cut."""
    env = Vectorize(AutoReset(LogEpisodes(Clock())), 32)
    rollout, _ = roll(build(env, key, network=loud_mlp), env, key, 16)
    assert rollout.done.any(axis=0).all()
    assert not rollout.active.all()
    np.testing.assert_allclose(first_logged(rollout), learned_from(rollout), rtol=1e-6)


def test_a_shaped_reward_is_added_up_alike(key):
    env = Vectorize(ShapedReward(AutoReset(LogEpisodes(Pensions())), 0.5), 2)
    rollout, _ = roll(build(env, key, network=loud_mlp), env, key, 8)
    assert learned_from(rollout).tolist() == [[6 * x for x in RETURNS]] * 2
    assert first_logged(rollout).tolist() == [RETURNS] * 2


def test_evaluations_recordings_videos_and_play_agree(key):
    env = Vectorize(AutoReset(LogEpisodes(Pensions())), 1)
    policy = build(env, key, network=loud_mlp)
    assert evaluate(policy, env, key).episode_return.tolist() == [RETURNS]
    recorded = record_episodes(policy, env, key, max_steps=6)
    assert recorded.reward.sum(axis=0).tolist() == RETURNS
    _, rewards, _ = record(policy, env, key, 6)
    assert rewards.sum() == np.mean(RETURNS)
    game = play(Pensions(), (ConstantPartner(0), ConstantPartner(0)), key)
    assert game.episode_return.tolist() == RETURNS


@pytest.mark.parametrize("env", [LogEpisodes(Pensions()), AutoReset(LogEpisodes(Pensions()))])
def test_logs_agree_on_both_sides_of_a_reset(env, key):
    _, state = env.reset(key)
    for _ in range(6):
        timestep, state = env.step(key, state, jnp.zeros(2, int))
    assert timestep.info["episode_return"].tolist() == RETURNS


def test_pettingzoo_agrees():
    env = interop.to_pettingzoo(Pensions())
    env.reset(seed=0)
    sums = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, 0))
        sums |= {agent: sums[agent] + reward for agent, reward in rewards.items()}
    assert list(sums.values()) == RETURNS


@pytest.mark.parametrize("library", ["jaxnasium", "jaxmarl"])
def test_libraries_that_add_up_all_rewards_agree(library, key):
    pytest.importorskip(library)
    env = getattr(interop, f"to_{library}")(Pensions())
    _, state = env.reset(key)
    sums = np.zeros(2)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(6):
            out = env.step_env(key, state, dict.fromkeys(env.agents, jnp.zeros((), int)))
            reward, state = (out[0].reward, out[1]) if library == "jaxnasium" else (out[2], out[1])
            sums += [float(reward[agent]) for agent in env.agents]
    assert sums.tolist() == RETURNS
