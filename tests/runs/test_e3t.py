"""The script of E3T: its loss, its flags, and what it learns."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from command_lines import call, call_and_hear, parse

from eqgrid_lab import PartnerSettings
from agents import collect_rollout, load_policy, ppo_loss, train
from eqgrid import ConstantPartner, OneOf, WithPartner

SMALL = ["--num-envs", "8", "--width", "8", "--env.horizon", "6", "--ppo.rollout-length", "12"]
SMALL += ["--ppo.chunk-length", "6", "--ppo.num-minibatches", "2"]
RUN = [*SMALL, "--total-steps", "192", "--eval-every", "96", "--eval-episodes", "2"]


@pytest.fixture
def config():
    return parse(*SMALL, algorithm="e3t")


@pytest.mark.slow
def test_the_loss_is_that_of_ppo_for_the_agent_that_learns_and_of_predictions(config):
    """Compared with the loss of all agents, in which the partner's steps do not count."""
    env, key = config.train_env(), jax.random.key(3)
    ppo = config.learner()
    state = ppo.init(config.policy(env, key), env, key)
    rollout, _ = eqx.filter_jit(collect_rollout)(state.policy, env, state.runner, key, 12)
    assert (rollout.active.sum(axis=-1) == 1).all()
    changed = np.asarray(rollout.taken != rollout.raw_action)
    assert changed.any()
    assert not changed[np.asarray(rollout.active)].any()
    batch, _ = ppo.batch(state.policy, rollout, state.value_moments)
    batch = eqx.tree_at(lambda b: b.rollout.log_prob, batch, batch.rollout.log_prob - 0.1)
    loss = eqx.filter_jit(ppo.loss)
    plain, parts = eqx.filter_jit(ppo_loss)(state.policy, batch, ppo, 0.05)
    both, with_prediction = loss(state.policy, batch, ppo, 0.05)
    for name, value in parts.items():
        np.testing.assert_allclose(with_prediction[name], value, rtol=2e-4, atol=1e-6)
    unroll = eqx.filter_jit(state.policy.actor.network.unroll_both)
    errors = []
    for i in range(batch.rollout.start.shape[1]):
        for agent in range(2):
            x, carry = batch.rollout.observation[:, i, agent], batch.carry[0][i, agent]
            _, guess = unroll(x, carry, batch.rollout.start[:, i])
            labels = batch.rollout.taken[:, i, 1 - agent]
            error = optax.softmax_cross_entropy_with_integer_labels(guess, labels)
            errors += error[batch.rollout.active[:, i, agent]].tolist()
    assert len(errors) == 8 * 12
    np.testing.assert_allclose(with_prediction["prediction_loss"], np.mean(errors), rtol=1e-4)
    np.testing.assert_allclose(both, plain + np.mean(errors), rtol=1e-4)
    nobody = eqx.tree_at(lambda b: b.rollout.active, batch, jnp.zeros_like(batch.rollout.active))
    assert loss(state.policy, nobody, ppo, 0.0)[0] == 0, "no mean of nothing"


class NorthOrSouth(PartnerSettings):
    """Partners that always go north or always go south."""

    def around(self, place, parts):
        return WithPartner(place.env, OneOf([ConstantPartner(0), ConstantPartner(1)]))


@pytest.mark.slow
def test_it_learns_what_its_partner_does(config, key):
    """One of two partners always goes north, and the other one south."""
    config = dataclasses.replace(config, partners=NorthOrSouth(share=1.0))
    env, ppo = config.train_env(), dataclasses.replace(config.learner(), learning_rate=0.01)
    state = ppo.init(config.policy(env, key), env, key)
    run = train(ppo, env, state, num_updates=120, updates_per_block=120)
    losses = np.asarray(run.metrics.scalars["prediction_loss"])
    assert losses[0] > 1.5
    assert losses[-1] < 0.4, "without knowing which one it is, 0.69 at least"


@pytest.mark.slow
def test_a_run_leaves_a_policy_that_others_can_play_with(tmp_path):
    world = ["--env.name", "goals", "--env.layout", "room"]
    assert call(*RUN, *world, "--out", tmp_path / "run", algorithm="e3t") == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["algorithm"] == "e3t"
    assert "prediction_loss" in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]
    policy = load_policy(tmp_path / "run" / "policy.safetensors")
    assert jnp.shape(policy.initial_carry()) == (2, 8)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--partners.share", "0.5"], "needs a partner in every episode"),
        (["--partners.share-steps", "100"], "in every episode"),
        (["--env.name", "foraging", "--env.num-agents", "3"], "two agents with Discrete actions"),
    ],
)
def test_what_it_cannot_learn_from_is_refused(flags, says, tmp_path, capsys):
    code, said = call_and_hear(capsys, *RUN, *flags, "--out", tmp_path / "run", algorithm="e3t")
    assert code == 2
    assert says in said
