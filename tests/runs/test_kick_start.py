"""Learning with a teacher: the loss, what it learns, and what is refused."""

import dataclasses
import json

import equinox as eqx
import jax
import numpy as np
import pytest
from command_lines import call, call_and_hear, parse
from policies import kick_start

from agents import collect_rollout, find_policy, load_policy, ppo_loss
from agents.files import shipped

pytestmark = pytest.mark.slow

MEMORY = "heldout/policies/ring/ippo-memory.safetensors"
PLAN = str(find_policy("shipped:plan-ring"))
SMALL = ["--env.layout", "ring", "--num-envs", "4", "--ppo.rollout-length", "8"]
SMALL += ["--ppo.num-minibatches", "1", "--width", "8"]


def test_the_loss_is_that_of_ppo_and_the_cross_entropy_with_the_teacher(key):
    config = parse(
        *SMALL, "--teacher", PLAN, "--teacher-weight", "2", algorithm=kick_start.KickStart
    )
    env, ppo = config.train_env(), config.learner()

    @eqx.filter_jit
    def losses(key):
        state = ppo.init(config.policy(env, key), env, key)
        rollout, _ = collect_rollout(state.policy, env, state.runner, key, 8)
        batch, _ = ppo.batch(state.policy, rollout, state.value_moments)
        half = 0.5 * ppo.entropy_coefficient  # in the middle of training
        both = [loss(state.policy, batch, ppo, half) for loss in (ppo_loss, ppo.loss)]
        return state.policy, batch, both

    policy, batch, ((plain, parts), (both, with_teacher)) = losses(key)
    seen = batch.rollout.observation.reshape(-1, batch.rollout.observation.shape[-1])

    def log_probs(policy):
        return np.asarray(jax.nn.log_softmax(jax.vmap(policy.actor.network)(seen, None)[0]))

    teacher, own = log_probs(load_policy(PLAN).actor_critic), log_probs(policy)
    differences = -(np.exp(teacher) * own).sum(axis=-1)
    assert len(differences) == 4 * 8 * 2
    np.testing.assert_allclose(with_teacher["teacher_loss"], np.mean(differences), rtol=1e-4)
    np.testing.assert_allclose(both, plain + 2 * 0.5 * np.mean(differences), rtol=1e-4)
    np.testing.assert_allclose(with_teacher["entropy"], parts["entropy"], rtol=1e-5)


def test_agents_learn_from_the_plan(tmp_path):
    """Without a teacher, they learn nothing in so few steps."""
    flags = ["--env.layout", "ring", "--total-steps", "100000"]
    flags += ["--teacher", PLAN, "--teacher-weight", "1", "--out", tmp_path / "run"]
    assert call(*flags, algorithm=kick_start.KickStart) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["eval_return_mean"] > 30


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "Name the policy file of a teacher"),
        (["--teacher", PLAN, "--ppo.entropy-coefficient", "0"], "a number above 0"),
        (["--teacher", PLAN, "--env.normalize-observation"], "--env.normalize-observation out"),
        (["--teacher", PLAN, "--env.observation", "features"], "The teacher observes (2, 112)"),
        (["--teacher", shipped(MEMORY)], "choose a --teacher without memory"),
    ],
)
def test_a_teacher_who_cannot_teach_is_refused(flags, says, tmp_path, capsys):
    args = [*SMALL, *flags, "--out", tmp_path / "run"]
    code, said = call_and_hear(capsys, *args, algorithm=kick_start.KickStart)
    assert code == 2
    assert says in " ".join(said.split())


def test_two_runs_with_one_teacher_share_it():
    config = parse(*SMALL, "--teacher", PLAN, algorithm=kick_start.KickStart)
    assert config.learner().loss.teacher is config.learner().loss.teacher
    assert dataclasses.replace(config, seed=1).learner().loss.weight == 1
