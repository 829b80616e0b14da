"""The script of PQN-VDN: its targets, its loss, its exploration, and what it learns."""

import dataclasses
import functools
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear, parse
from learners import Clock, build, clocks
from policies import pqn_vdn

from agents import PPO, collect_rollout, load_policy
from eqgrid import Box, Discrete
from eqgrid_lab.base import UsageError

pytestmark = pytest.mark.slow

SMALL = ["--num-envs", "4", "--width", "8", "--env.horizon", "6", "--ppo.rollout-length", "16"]
SMALL += ["--ppo.num-minibatches", "2"]
RUN = [*SMALL, "--total-steps", "256", "--eval-every", "128", "--eval-episodes", "2"]


@functools.cache
def roll_out(*flags):
    """A learner with these flags, its first state, a rollout, and the batch that it makes of it."""
    config, key = parse(*SMALL, *flags, algorithm=pqn_vdn.PQNVDN), jax.random.key(0)
    env, pqn = config.train_env(), config.learner()

    @eqx.filter_jit
    def play(key):
        state = pqn.init(config.policy(env, key), env, key)
        rollout, _ = collect_rollout(state.policy, env, state.runner, key, 16)
        return state, rollout, make_batch(pqn.ppo, state, rollout)[0]

    return pqn, *play(key)


@eqx.filter_jit
def make_batch(ppo, state, rollout):
    return ppo.batch(state.policy, pqn_vdn.as_team(rollout), state.value_moments)


@eqx.filter_jit
def update(pqn, env, state):
    """One of the 8 updates of a run."""
    return pqn.update(env, state, num_updates=8)


def clock_learner(key):
    """A learner in clocks, its environments and its first state."""
    env = clocks(16)
    network = functools.partial(pqn_vdn.QNetwork, choices=3, width=8)
    policy = build(env, key, network=network, head=pqn_vdn.EpsilonGreedy)
    ppo = PPO(rollout_length=24, gamma=0.9, gae_lambda=0.7, normalize_values=True)
    pqn = pqn_vdn.PQN(ppo, 0.1, 0.5)
    return pqn, env, eqx.filter_jit(pqn.init)(policy, env, key)


def targets(pqn, state, rollout):
    """Peng's Q(lambda) of the team in plain Python, from the values of all actions."""
    ppo, done = pqn.ppo, np.asarray(rollout.done)
    names = ("reward", "value", "next_value", "active", "terminated")
    reward, value, after, active, over = (np.asarray(getattr(rollout, name)) for name in names)
    every = jax.vmap(jax.vmap(lambda seen: state.policy.actor(seen, None)[0]))(rollout.observation)
    np.testing.assert_allclose(value, every.max(axis=-1), rtol=1e-4, atol=1e-6)
    mean, std = 0.0, 1.0
    if ppo.normalize_values:
        mean = float(state.value_moments.mean)
        std = float(jnp.sqrt(state.value_moments.variance))
    found = np.zeros(done.shape)
    for env in range(done.shape[1]):
        for t in reversed(range(len(done))):
            own = reward[t, env][active[t, env]].sum() / reward.shape[-1]
            later = mean + std * after[t, env][~over[t, env]].sum()
            if not done[t, env] and t < len(done) - 1:
                share = float(ppo.gae_lambda)
                later = (1 - share) * later + share * found[t + 1, env]
            found[t, env] = own + (0.0 if over[t, env].all() else float(ppo.gamma) * later)
    return found


DECAY = ("--ppo.gamma", "0.9", "--ppo.gae-lambda", "0.7")
FORAGING = ("--env.name", "foraging", *DECAY)


@pytest.mark.parametrize("flags", [("--ppo.no-normalize-values", *DECAY), FORAGING])
def test_targets_are_those_of_q_lambda_of_the_team(flags):
    pqn, state, rollout, batch = roll_out(*flags)
    found = np.asarray(batch.target)[0].reshape(*rollout.done.shape, -1)
    expected = targets(pqn, state, rollout)
    for agent in range(found.shape[-1]):
        np.testing.assert_allclose(found[..., agent], expected, rtol=1e-4, atol=1e-5)


def test_an_agent_whose_task_is_over_counts_no_longer(key):
    pqn, env, state = clock_learner(key)
    for _ in range(2):  # moments of values are known after the first update
        state, _ = update(pqn, env, state)
    state = dataclasses.replace(state, policy=pqn_vdn._with_epsilon(state.policy, jnp.asarray(0.5)))
    rollout, _ = eqx.filter_jit(collect_rollout)(state.policy, env, state.runner, key, 24)
    over, done = np.asarray(rollout.terminated), np.asarray(rollout.done)
    ends = (over.all(-1), done & ~over.all(-1), over.any(-1) & ~done, ~rollout.active.all(-1))
    assert all(kind.any() for kind in ends)
    batch, after = make_batch(pqn.ppo, state, rollout)
    found = np.asarray(batch.target)[0].reshape(*done.shape, -1)
    found = float(after.mean) + found * float(jnp.sqrt(after.variance))
    expected = targets(pqn, state, rollout)
    for agent in range(2):
        np.testing.assert_allclose(found[..., agent], expected, rtol=1e-4, atol=1e-3)


def test_the_loss_is_the_error_of_the_sum_of_what_agents_chose():
    pqn, state, _, batch = roll_out(*FORAGING)
    active = jnp.asarray(np.random.default_rng(0).random(batch.rollout.active.shape) < 0.7)
    batch = eqx.tree_at(lambda b: b.rollout.active, batch, active)
    loss, _ = pqn_vdn.team_loss(state.policy, batch, pqn.ppo, 0.0)
    errors = []
    for i in range(active.shape[1]):
        said = [state.policy.actor.network(x, None)[0] for x in batch.rollout.observation[0, i]]
        chosen = sum(
            float(values[action])
            for values, action, counts in zip(
                said, batch.rollout.raw_action[0, i], active[0, i], strict=True
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
    (pqn, env, state), found = clock_learner(key), []
    flags = ["--last-epsilon", "0.1", "--exploration", "0.5"]
    learner = parse(*SMALL, *flags, algorithm=pqn_vdn.PQNVDN).learner()
    assert (learner.last_epsilon, learner.exploration) == (pqn.last_epsilon, pqn.exploration)
    for _ in range(5):
        state, metrics = update(pqn, env, state)
        found.append(float(metrics.scalars["epsilon"]))
        assert state.policy.head.epsilon == 0, "what is judged makes no random actions"
    np.testing.assert_allclose(found, [1.0, 0.775, 0.55, 0.325, 0.1], rtol=1e-5)
    for own, copy in zip(
        jax.tree.leaves(state.policy.actor.network),
        jax.tree.leaves(state.policy.critic.network),
        strict=True,
    ):
        np.testing.assert_array_equal(own, copy)


def test_runs_are_resumed_and_judged_by_the_script(tmp_path):
    out = tmp_path / "run"
    assert call(*RUN, "--out", out, algorithm=pqn_vdn.PQNVDN) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["env_steps"] == 256
    more = ["--out", out, "--resume", "--total-steps", "384"]
    assert call(*more, algorithm=pqn_vdn.PQNVDN) == 0
    assert json.loads((out / "result.json").read_text())["env_steps"] == 384
    parts = {"QNetwork": pqn_vdn.QNetwork, "EpsilonGreedy": pqn_vdn.EpsilonGreedy}
    policy = load_policy(out / "policy.safetensors", parts=parts)
    assert policy.actor_critic.critic.network.best
    assert policy.actor_critic.head.epsilon == 0


@pytest.mark.learning
def test_two_agents_learn_to_reach_flags(tmp_path):
    flags = ["--env.name", "goals", "--total-steps", "200000"]
    assert call(*flags, "--out", tmp_path / "run", algorithm=pqn_vdn.PQNVDN) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["eval_return_mean"] > 0.9


class Slider(Clock):
    """A clock whose agents choose numbers."""

    action_space: Box = Box(-1.0, 1.0, (1,))  # pyright: ignore[reportIncompatibleVariableOverride]


def test_agents_that_choose_numbers_are_refused():
    with pytest.raises(UsageError, match="needs Discrete actions without action masks"):
        parse(*SMALL, algorithm=pqn_vdn.PQNVDN).observe(Slider())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--partners.share", "0.5", "--partners.noise", "0", "0.3"], "without partners"),
        (["--config", "people"], "without partners"),
    ],
)
def test_what_has_no_effect_is_refused(flags, says, tmp_path, capsys):
    out = ["--env.layout", "ring", "--out", tmp_path / "run"]
    code, said = call_and_hear(capsys, *RUN, *flags, *out, algorithm=pqn_vdn.PQNVDN)
    assert code == 2
    assert says in " ".join(said.split())
