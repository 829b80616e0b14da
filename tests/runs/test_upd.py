"""The script of UPD: partners are designed by the variance of returns, compared with NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear
from learners import Clock
from upd import UPD, DesignPartners, RandomizedPartner, partner_state
from wrapper_checks import rollout, sample_actions

from agents import load_policy
from eqgrid import JOINT_ACTION, PARTNER_MASK, AutoReset, LogEpisodes, Masked, Vectorize

pytestmark = pytest.mark.slow

ENVS, DESIGNS, EPISODES, STEPS = 12, 4, 5, 200


class Paid(Clock):
    """A clock that pays a multiple."""

    pay: float | jax.Array = 1.0

    def step(self, key, state, action):
        timestep, state = super().step(key, state, action)
        return dataclasses.replace(timestep, reward=self.pay * timestep.reward), state


def designed(*, pay=1.0):
    """Environments that differ in numbers alone, for which one program is compiled."""
    clock = RandomizedPartner(Paid(pay=jnp.asarray(pay)))
    return DesignPartners(Vectorize(AutoReset(LogEpisodes(clock)), ENVS), DESIGNS, EPISODES)


@pytest.fixture(scope="module")
def played():
    env, key = designed(), jax.random.key(0)
    actions = sample_actions(env, jax.random.key(1), STEPS)
    (_, first), timesteps, states = rollout(env, key, actions)
    everything = jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, states)
    return jax.tree.map(np.asarray, (actions, timesteps, everything))


def test_the_half_with_the_highest_variance_stays(played):
    _, timesteps, states = played
    begun, returns, generation = np.zeros(ENVS, int), [[] for _ in range(DESIGNS)], 0
    own = ENVS // DESIGNS
    for step in range(STEPS):
        ended = timesteps.info["episode_done"][step]
        for env in np.flatnonzero(ended):
            if begun[env] == generation:
                earned = timesteps.info["episode_return"][step, env].mean()
                returns[env // own].append(earned)
        before, after = states.level[step], states.level[step + 1]
        kept = np.ones(DESIGNS, bool)
        if min(map(len, returns)) >= EPISODES:
            worst = np.argsort([np.var(x) for x in returns])[: DESIGNS // 2]
            kept[worst] = False
            returns, generation = [[] for _ in range(DESIGNS)], generation + 1
        begun[ended] = generation
        np.testing.assert_array_equal(after == before, kept)
        same = (states.bias[step + 1] == states.bias[step]).all(axis=1)
        np.testing.assert_array_equal(same, kept)
        assert states.generation[step + 1] == generation
        np.testing.assert_array_equal(states.begun[step + 1], begun)
    assert generation >= 5


def test_ties_are_broken_at_random(key):
    """Where nothing is earned, no design stays for good."""
    env = designed(pay=0.0)
    (_, first), _, states = rollout(env, key, sample_actions(env, key, STEPS))
    assert states.generation[-1] > 8
    assert not np.isin(np.asarray(first.level), np.asarray(states.level[-1])).any()


def test_an_episode_has_the_partner_of_its_design_to_its_end(played):
    _, timesteps, states = played
    partner, design = partner_state(states), np.arange(ENVS) // (ENVS // DESIGNS)
    for step in range(STEPS + 1):
        begins = np.ones(ENVS, bool) if step == 0 else timesteps.info["episode_done"][step - 1]
        level, bias = states.level[step][design], states.bias[step][design]
        if step > 0:
            level = np.where(begins, level, partner.level[step - 1])
            bias = np.where(begins[:, None], bias, partner.bias[step - 1])
        np.testing.assert_array_equal(partner.level[step], level)
        np.testing.assert_array_equal(partner.bias[step], bias)
    assert 0 <= states.level.min() < 0.1
    assert 0.9 < states.level.max() <= 1


class Choosy(Clock):
    """A clock that forbids the last action."""

    def observe(self, state):
        return Masked(super().observe(state), jnp.ones((2, 3), bool).at[:, 2].set(False))


@pytest.mark.parametrize("clock", [Clock(), Choosy()])
def test_random_actions_have_the_probabilities_of_the_design(clock, key):
    env, level, count = RandomizedPartner(clock), 0.4, 20_000
    bias = jnp.log(jnp.array([0.2, 0.3, 0.5]))

    def one(key):
        reset_key, step_key = jax.random.split(key)
        _, state = env.reset(reset_key)
        state = dataclasses.replace(state, level=jnp.asarray(level), bias=bias)
        return env.step(step_key, state, jnp.zeros(2, int))[0].info

    info = jax.jit(jax.vmap(one))(jax.random.split(key, count))
    replaced = np.asarray(info[PARTNER_MASK])
    assert (replaced.sum(axis=1) == 1).all()
    assert replaced.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.02)
    taken = np.asarray(info[JOINT_ACTION])
    assert (taken[~replaced] == 0).all()
    shares = [0.4, 0.6, 0.0] if isinstance(clock, Choosy) else [0.2, 0.3, 0.5]
    expected = level * np.array(shares) + (1 - level) * np.array([1, 0, 0])
    found = np.bincount(taken[replaced], minlength=3) / count
    assert found == pytest.approx(expected, abs=0.02)
    assert (found[2] > 0) == (shares[2] > 0)


def test_designs_divide_the_environments(capsys):
    for flags in (("--designs", 3, "--num-envs", 6), ("--designs", 4, "--num-envs", 6)):
        code, said = call_and_hear(capsys, *flags, algorithm=UPD)
        assert code == 2
        assert "--designs must be even, and divide --num-envs." in said


def test_a_run_trains_with_designs(tmp_path):
    flags = ["--num-envs", "8", "--designs", "4", "--width", "8", "--env.horizon", "6"]
    flags += ["--ppo.rollout-length", "12", "--ppo.chunk-length", "6", "--ppo.num-minibatches", "2"]
    flags += ["--total-steps", "192", "--eval-every", "96", "--eval-episodes", "2"]
    flags += ["--env.name", "goals", "--env.layout", "room"]
    assert call(*flags, "--out", tmp_path / "run", algorithm=UPD) == 0
    assert "prediction_loss" in (tmp_path / "run/metrics.csv").read_text().splitlines()[0]
    policy = load_policy(tmp_path / "run" / "policy.safetensors")
    assert jnp.shape(policy.initial_carry()) == (2, 8)
