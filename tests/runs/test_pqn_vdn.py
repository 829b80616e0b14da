"""The page of PQN-VDN: its targets, its loss, its exploration, and what it learns."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call
from learners import Clock
from policies import pqn_vdn

from agents import collect_rollout, load_policy
from agents.runs.settings._config import parse
from eqgrid import Box, Discrete

SMALL = ["--num-envs", "4", "--width", "8", "--env.horizon", "6", "--ppo.rollout-length", "16"]
SMALL += ["--ppo.num-minibatches", "2"]
RUN = [*SMALL, "--total-steps", "256", "--eval-every", "128", "--eval-episodes", "2"]
RUN += ["--final-episodes", "2"]


def roll_out(flags, key):
    config = parse(pqn_vdn.PQNVDN, [*SMALL, *flags])
    env, pqn = config.train_env(), config.learner()
    state = pqn.init(config.policy(env, key), env, key)
    rollout, _ = eqx.filter_jit(collect_rollout)(state.policy, env, state.runner, key, 16)
    return pqn, state, rollout


@pytest.mark.parametrize(
    "world",
    [["--ppo.no-normalize-values"], ["--env.name", "foraging"], ["--env.name", "goals"]],
)
def test_targets_are_those_of_q_lambda_of_the_team(world, key):
    """Compared with Peng's Q(lambda) in plain Python, from the values of all actions."""
    flags = [*world, "--ppo.gamma", "0.9", "--ppo.gae-lambda", "0.7"]
    pqn, state, rollout = roll_out(flags, key)
    batch, _ = pqn.ppo.batch(state.policy, pqn_vdn.as_team(rollout), state.value_moments)
    every = jax.vmap(jax.vmap(lambda seen: state.policy.actor(seen, None)[0]))(rollout.observation)
    best = np.asarray(every.max(axis=-1))
    active, done = np.asarray(rollout.active), np.asarray(rollout.done)
    np.testing.assert_allclose(rollout.value, best, rtol=1e-5)
    expected = np.zeros(done.shape)
    for env in range(done.shape[1]):
        for t in reversed(range(len(done))):
            here = np.asarray(rollout.terminated)[t, env]
            after = np.asarray(rollout.next_value)[t, env][~here].sum()
            last = done[t, env] or t == len(done) - 1
            later = after if last else 0.3 * after + 0.7 * expected[t + 1, env]
            reward = np.asarray(rollout.reward)[t, env].mean()
            expected[t, env] = reward + (0.0 if here.all() else 0.9 * later)
    assert active.any()
    target = np.asarray(batch.target)[0].reshape(*done.shape, -1)
    np.testing.assert_allclose(target[..., 0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(target[..., 1], expected, rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_error_of_the_sum_of_what_agents_chose(key):
    pqn, state, rollout = roll_out([], key)
    batch, _ = pqn.ppo.batch(state.policy, pqn_vdn.as_team(rollout), state.value_moments)
    active = jnp.asarray(np.random.default_rng(0).random(batch.active.shape) < 0.7)
    batch = dataclasses.replace(batch, active=active)
    loss, _ = pqn_vdn.team_loss(state.policy, batch, pqn.ppo, 0.0)
    errors = []
    for i in range(active.shape[1]):
        said = [state.policy.actor.network(x, None)[0] for x in batch.observation[0, i]]
        chosen = sum(
            float(values[action])
            for values, action, counts in zip(
                said, batch.raw_action[0, i], active[0, i], strict=True
            )
            if counts
        )
        if active[0, i].any():
            errors.append((chosen - float(batch.target[0, i, 0])) ** 2 / 2)
    np.testing.assert_allclose(loss, np.mean(errors), rtol=1e-4)


def test_the_best_action_is_taken_but_for_random_ones(key):
    head = pqn_vdn.EpsilonGreedy(Discrete(5), 0.2)
    chances = head.distribution(jnp.asarray([[0.0, 3.0, 1.0, 2.0, -1.0]])).probs
    np.testing.assert_allclose(chances, [[0.04, 0.84, 0.04, 0.04, 0.04]], rtol=1e-5)
    sure = pqn_vdn.EpsilonGreedy(Discrete(2), 0.0).distribution(jnp.asarray([[0.0, 3.0]] * 100))
    assert (head.sample(sure, head.noise(key, Discrete(2), (100,))) == 1).all()


def test_random_actions_become_rare(key):
    flags = ["--last-epsilon", "0.1", "--exploration", "0.5"]
    config = parse(pqn_vdn.PQNVDN, [*SMALL, *flags])
    env, pqn = config.train_env(), config.learner()
    state, found = pqn.init(config.policy(env, key), env, key), []
    for _ in range(5):
        state, metrics = eqx.filter_jit(pqn.update)(env, state, num_updates=8)
        found.append(float(metrics.scalars["epsilon"]))
        assert state.policy.head.epsilon == 0, "what is judged makes no random actions"
    np.testing.assert_allclose(found, [1.0, 0.775, 0.55, 0.325, 0.1], rtol=1e-5)
    for own, copy in zip(
        jax.tree.leaves(state.policy.actor.network),
        jax.tree.leaves(state.policy.critic.network),
        strict=True,
    ):
        np.testing.assert_array_equal(own, copy)


@pytest.mark.slow
def test_runs_are_resumed_and_judged_by_the_page(tmp_path):
    out = tmp_path / "run"
    assert call(*RUN, "--out", out, algorithm=pqn_vdn.PQNVDN) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["env_steps"] == 256
    more = ["--resume", out, "--total-steps", "384"]
    assert call(*more, algorithm=pqn_vdn.PQNVDN) == 0
    assert json.loads((out / "result.json").read_text())["env_steps"] == 384
    parts = {"networks": {"QNetwork": pqn_vdn.QNetwork}}
    heads = {"EpsilonGreedy": pqn_vdn.EpsilonGreedy}
    policy = load_policy(out / "policy.safetensors", **parts, heads=heads)
    assert policy.actor_critic.critic.network.best
    assert policy.actor_critic.head.epsilon == 0


@pytest.mark.slow
@pytest.mark.learning
def test_two_agents_learn_to_reach_flags(tmp_path):
    flags = ["--env.name", "goals", "--total-steps", "200000", "--final-episodes", "64"]
    assert call(*flags, "--out", tmp_path / "run", algorithm=pqn_vdn.PQNVDN) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["eval_return_mean"] > 0.9


class Slider(Clock):
    """A clock whose agents choose numbers."""

    action_space: Box = Box(-1.0, 1.0, (1,))  # pyright: ignore[reportIncompatibleVariableOverride]


def test_agents_that_choose_numbers_are_refused():
    with pytest.raises(ValueError, match="for agents that make one choice"):
        parse(pqn_vdn.PQNVDN, SMALL).observe(Slider())
