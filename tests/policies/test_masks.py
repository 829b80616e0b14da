"""Masks of actions: what is forbidden is never done, wherever actions are chosen."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import unchecked
from learners import build, loud_mlp, roll
from masked_world import ACTIONS, Trapdoors
from signals import Signals

from agents import (
    PPO,
    CategoricalHead,
    JointObservation,
    PartnerTeam,
    PolicyPartner,
    evaluate,
    init_train_state,
    load_policy,
    mask_logits,
    save_policy,
    train,
    trained_policy,
)
from eqgrid import (
    AppendAgentId,
    AppendTimeLeft,
    AutoReset,
    Box,
    ConstantPartner,
    LogEpisodes,
    Masked,
    NoisyPartner,
    NormalizeObservation,
    RandomPartner,
    Vectorize,
    WithPartner,
    check_env,
    play,
)

WORLD = Trapdoors()


def many(world=WORLD, num_envs=8):
    return Vectorize(AutoReset(LogEpisodes(world, ("fallen",))), num_envs)


@pytest.fixture(scope="module")
def run():
    """A short run in normalised observations."""
    env = NormalizeObservation(many(AppendAgentId(AppendTimeLeft(WORLD, 6))))
    ppo = PPO(rollout_length=16, num_minibatches=2, num_epochs=2)
    state = init_train_state(ppo, env, jax.random.key(0), network=loud_mlp)
    return env, train(ppo, env, state, num_updates=2)


def lists_of(values):
    return st.lists(values, min_size=ACTIONS, max_size=ACTIONS).map(np.array)


@eqx.filter_jit
def masked_head(logits, mask, uniform):
    head = CategoricalHead()
    distribution = head.distribution(mask_logits(logits, mask)[None])
    log_prob = jnp.stack([distribution.log_prob(jnp.array([i])) for i in range(ACTIONS)])
    choices = head.sample(distribution, uniform[None]), head.most_probable(distribution)
    return distribution.probs[0], log_prob, head.entropy(distribution)[0], choices


@settings(deadline=None, max_examples=100)
@given(
    lists_of(st.floats(-1e6, 1e6, width=32)),
    lists_of(st.booleans()),
    st.floats(0.0, 1.0, exclude_max=True, width=32),
)
def test_the_masked_head_equals_a_softmax_over_what_is_allowed(logits, mask, uniform):
    probs, log_prob, entropy, choices = masked_head(*map(jnp.asarray, (logits, mask, uniform)))
    allowed = mask if mask.any() else ~mask
    wide = logits if mask.any() else np.zeros(ACTIONS)
    weight = np.where(allowed, np.exp(np.minimum(wide - wide[allowed].max(), 0.0)), 0.0)
    expected = weight / weight.sum()
    np.testing.assert_allclose(probs, expected, atol=1e-5)
    assert np.isfinite(log_prob).all()
    positive = expected[expected > 0]
    np.testing.assert_allclose(entropy, -(positive * np.log(positive)).sum(), atol=1e-4)
    assert all(allowed[choice] for choice in choices)


def test_no_gradient_flows_into_forbidden_logits():
    mask = jnp.array([True, False, True, False])

    def loss(logits):
        head = CategoricalHead()
        distribution = head.distribution(mask_logits(logits, mask)[None])
        return (distribution.log_prob(jnp.array([2])) + head.entropy(distribution)).sum()

    gradient = jax.grad(loss)(jnp.array([0.3, 5.0, -1.0, 9.0]))
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient != 0, mask)


@pytest.mark.parametrize("greedy", [False, True])
def test_agents_never_do_what_is_forbidden(run, greedy, key):
    env, result = run
    assert result.metrics.episode_return[-1] >= 0  # nobody fell, even while learning
    frozen = env.freeze(result.state.runner.env_state)
    played = evaluate(result.state.policy, frozen, key, greedy=greedy)
    assert not played.totals["fallen"].any()


def test_critics_of_all_observations_are_shown_no_masks(key):
    policy = build(many(), key, critic_input=JointObservation())
    assert policy.critic.network.layers[0].weight.shape[1] == 2 * 2
    assert policy.actor.network.layers[0].weight.shape[1] == 2


def test_wrappers_change_what_is_seen_and_leave_the_mask(key):
    plain, world = many(), many(AppendAgentId(AppendTimeLeft(WORLD, 6)))
    env = NormalizeObservation(world)
    inner, _ = eqx.filter_jit(plain.reset)(key)
    seen, state = eqx.filter_jit(env.reset)(key)
    np.testing.assert_array_equal(seen.action_mask, inner.action_mask)
    assert seen.observation.shape == (8, 2, 2 + 1 + 2)
    assert seen.observation.dtype == jnp.float32
    assert state.moments.mean.shape == (5,)
    timestep, _ = eqx.filter_jit(env.step)(key, state, jnp.argmax(seen.action_mask, axis=-1))
    assert timestep.final_observation.action_mask.dtype == bool


def test_a_saved_policy_reads_masks(run, tmp_path, key):
    env, result = run
    policy = trained_policy(result.state.policy, env, result.state.runner.env_state)
    save_policy(tmp_path / "p.safetensors", policy, {})
    loaded = load_policy(tmp_path / "p.safetensors")
    world = AppendAgentId(AppendTimeLeft(WORLD, 6))
    loaded.check(world)
    observation, _ = world.reset(key)
    for number, allowed in enumerate(np.eye(ACTIONS, dtype=bool)):
        mask = np.tile(allowed, (2, 1))
        shown = Masked(np.asarray(observation.observation), mask)
        action, _ = loaded.act(shown, loaded.initial_carry(), key)
        np.testing.assert_array_equal(action, number)
    with pytest.raises(ValueError, match=r"needs the observation .*action_mask bool\[2, 5\]"):
        loaded.act(observation.observation, loaded.initial_carry(), key)
    team = evaluate(PartnerTeam([PolicyPartner(loaded), PolicyPartner(policy)]), many(world), key)
    assert not team.totals["fallen"].any()
    duo = [PolicyPartner(loaded), NoisyPartner(PolicyPartner(policy), 0.5, WORLD.action_space)]
    assert (play(world, duo, key).episode_return >= 0).all()


def test_random_partners_do_what_is_allowed(key):
    anyone = RandomPartner(WORLD.action_space)
    assert (play(WORLD, [anyone, anyone], key).episode_return >= 0).all()
    # A fixed action is taken, whatever the mask says.
    assert play(WORLD, [ConstantPartner(0), anyone], key).episode_return[0] < 0
    env = many(WithPartner(WORLD, noise=(1.0, 1.0)))
    rollout, _ = roll(build(env, key), env, key, 8)
    assert (rollout.reward >= 0).all()


def changed(world, change):
    """The world with other masks."""

    class Wrong(world):
        def observe(self, state):
            shown = super().observe(state)
            return Masked(shown.observation, change(shown.action_mask, time=state[0]))

    return Wrong()


NOTHING = "must allow at least one action to each agent that has not terminated."
SHAPE = "action_mask must be bool[2, {}], a truth value for each"
NO_BOX = "Only Discrete and MultiDiscrete actions can be masked, not actions of a Box."
FAULTS = {
    "nothing later": (Trapdoors, lambda mask, time: mask & (time < 2), NOTHING),
    "numbers": (Trapdoors, lambda mask, time: mask.astype(int), SHAPE.format(ACTIONS)),
    "too few": (Trapdoors, lambda mask, time: mask[:, 1:], SHAPE.format(ACTIONS)),
    "no move": (Signals, lambda mask, time: mask.at[:, :3].set(False), NOTHING),
    "too few words": (Signals, lambda mask, time: mask[:, :-1], SHAPE.format(8)),
}


@pytest.mark.parametrize(("world", "change", "message"), FAULTS.values(), ids=FAULTS)
def test_a_mask_that_does_not_fit_is_one_sentence(world, change, message, key):
    env = changed(world, change)
    with unchecked(), pytest.raises(ValueError, match=re.escape(message)):
        check_env(env, steps=6)
    if message != NOTHING:
        with unchecked(), pytest.raises(ValueError, match=r"^A mask (of|must have)"):
            init_train_state(PPO(), Vectorize(AutoReset(env), 2), key)


def test_numbers_cannot_be_masked(key):
    env = Trapdoors(action_space=Box(0.0, 1.0, (3,)))
    with unchecked(), pytest.raises(ValueError, match=NO_BOX):
        check_env(env, steps=6)
    with unchecked(), pytest.raises(ValueError, match=r"^A mask (of|must have)"):
        init_train_state(PPO(), Vectorize(AutoReset(env), 2), key)


def test_sound_masks_pass():
    check_env(WORLD, steps=12)
