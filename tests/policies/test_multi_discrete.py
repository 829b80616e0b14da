"""Several choices in one action: a move and a word, each with its own options and its own mask."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from learners import build
from signals import SPACE, Signals

from agents import (
    PPO,
    MultiCategoricalHead,
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
    AutoReset,
    LogEpisodes,
    Masked,
    MultiDiscrete,
    NoisyPartner,
    PartnerInput,
    RandomPartner,
    Vectorize,
    check_env,
    sample_allowed,
)


def many(num_envs=8, **options):
    return Vectorize(AutoReset(LogEpisodes(Signals(**options))), num_envs)


def test_a_sample_is_in_the_space_and_every_option_is_sampled(key):
    samples = jax.vmap(SPACE.sample)(jax.random.split(key, 300))
    assert samples.shape == (300, 2)
    assert jax.vmap(SPACE.contains)(samples).all()
    assert [set(np.asarray(x)) for x in samples.T] == [{0, 1, 2}, {0, 1, 2, 3, 4}]


@pytest.mark.parametrize(("x", "inside"), [([0, 0], True), ([2, 4], True), ([3, 0], False)])
def test_a_space_contains_its_bounds(x, inside):
    assert bool(SPACE.contains(jnp.asarray(x))) == inside
    assert not SPACE.contains(jnp.asarray([0, -1]))


@pytest.mark.parametrize(
    ("ns", "says"), [((), "at least 1 choice"), ((3, 0), "at least 1, but got 0")]
)
def test_a_space_needs_choices_with_options(ns, says):
    with pytest.raises(ValueError, match=says):
        MultiDiscrete(ns)


def log_softmax(logits):
    shifted = np.asarray(logits, np.float64) - np.max(logits)
    return shifted - np.log(np.exp(shifted).sum())


HEAD = MultiCategoricalHead(SPACE)
EVERY = [(i, j) for i in range(3) for j in range(5)]


@jax.jit
def numbers_of(logits, uniform):
    """The log-probability of every action, the entropy, the most probable action, and a sample."""
    distribution = HEAD.distribution(logits[None])
    log_prob = jax.vmap(lambda action: distribution.log_prob(action[None])[0])(jnp.asarray(EVERY))
    choices = HEAD.most_probable(distribution)[0], HEAD.sample(distribution, uniform)[0]
    return log_prob, HEAD.entropy(distribution)[0], *choices


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-5, 5, width=32), min_size=8, max_size=8), st.integers(0, 2**31 - 1))
def test_the_distribution_equals_a_naive_one(numbers, seed):
    logits = np.asarray(numbers, np.float32)
    moves, words = (np.exp(log_softmax(x)) for x in (logits[:3], logits[3:]))
    joint = np.outer(moves, words)
    uniform = HEAD.noise(jax.random.key(seed), SPACE, (1,))
    log_prob, entropy, best, sample = numbers_of(jnp.asarray(logits), uniform)
    np.testing.assert_allclose(np.exp(log_prob).reshape(3, 5), joint, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(entropy, -(joint * np.log(joint)).sum(), rtol=1e-4, atol=1e-5)
    assert np.isclose(joint[tuple(best)], joint.max())
    expected = [
        int((np.cumsum(p) <= u + 1e-6).sum())
        for p, u in zip((moves, words), uniform[0], strict=True)
    ]
    edges = np.concatenate([np.cumsum(moves), np.cumsum(words)])
    if np.abs(edges[:, None] - np.asarray(uniform)).min() > 1e-4:
        assert sample.tolist() == expected


def test_actions_that_a_mask_forbids_are_never_taken(key):
    mask = jnp.asarray([[True, False, True, False, False, True, False, False]])
    distribution = HEAD.distribution(mask_logits(jnp.zeros((1, 8)), mask))
    actions = HEAD.sample(
        jax.tree.map(lambda x: jnp.repeat(x, 200, axis=0), distribution),
        HEAD.noise(key, SPACE, (200,)),
    )
    assert set(map(tuple, np.asarray(actions))) == {(0, 2), (2, 2)}
    seen = Masked(jnp.zeros((1, 1)), mask)
    drawn = [sample_allowed(SPACE, seen, 0, k) for k in jax.random.split(key, 60)]
    assert {tuple(x.tolist()) for x in drawn} == {(0, 2), (2, 2)}


@pytest.mark.slow
def test_a_policy_learns_to_move_and_to_speak_and_travels(key, tmp_path):
    env = many(32, masked=False)
    ppo = PPO(rollout_length=32, num_minibatches=4, learning_rate=3e-3)
    state = train(ppo, env, init_train_state(ppo, env, key), num_updates=30).state
    result = evaluate(state.policy, env, key, greedy=True)
    assert result.episode_return.mean() > 11  # of 12; a random agent earns 3.2

    policy = trained_policy(state.policy, env)
    save_policy(tmp_path / "a", policy)
    loaded = load_policy(tmp_path / "a")
    assert eqx.tree_equal(loaded, policy)
    observation, _ = Signals(masked=False).reset(key)
    action, _ = loaded.act(observation, None, key)
    assert action.shape == (2, 2)


def test_partners_take_allowed_actions(key):
    partner = PolicyPartner(trained_policy(build(many(), key), many()))
    observation, state = Signals().reset(key)
    moves, words = jnp.split(observation.action_mask[0], [3])
    seen = PartnerInput(observation, state, jnp.asarray(0))
    keys = jax.random.split(key, 100)
    for anyone in (RandomPartner(SPACE), NoisyPartner(partner, 0.5, SPACE)):
        act = jax.vmap(lambda key, anyone=anyone: anyone(seen, anyone.initial_carry(), key)[0])
        actions = jax.jit(act)(keys)
        assert moves[actions[:, 0]].all()
        assert words[actions[:, 1]].all()
        assert len(np.unique(actions, axis=0)) == 4


def test_the_world_keeps_the_protocol():
    check_env(Signals())
