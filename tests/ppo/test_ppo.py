import dataclasses
import functools
import itertools

import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from learners import GRU, Clock, assert_close, build, clocks, loud_mlp, roll
from masked_world import Trapdoors
from reach import Reach
from signals import Signals

from agents import (
    PPO,
    JointObservation,
    LocalObservation,
    Minibatch,
    actor_critic,
    loss_of_choices,
    ppo_loss,
    replay,
)
from agents.ppo import minibatch, shuffle
from eqgrid import AutoReset, LogEpisodes, NormalizeObservation, RunningMoments, Vectorize

LENGTH, NUM_ENVS = 24, 4
NO_MOMENTS = RunningMoments.empty(())


@functools.cache
def experience(network=loud_mlp, view=None, shared=True):
    """A policy, and a rollout of it in which episodes end."""
    key = jax.random.key(0)
    env = clocks(NUM_ENVS)
    policy = build(env, key, network=network, critic_input=view, shared=shared)
    rollout, _ = roll(policy, env, key, LENGTH)
    assert rollout.done[:-1].sum() > NUM_ENVS
    return policy, rollout


def settings(**changes):
    return PPO(**{"rollout_length": LENGTH, **changes})


@eqx.filter_jit
def whole_batch(ppo, policy, rollout):
    """The rollout as one minibatch."""
    return ppo.batch(policy, rollout, NO_MOMENTS)[0]


@eqx.filter_jit
def some_minibatches(ppo, policy, rollout, key, count):
    """All minibatches of one epoch, one after the other along the first axis."""
    batch, _ = ppo.batch(policy, rollout, NO_MOMENTS)
    rows = shuffle(key, batch.rollout.value.shape[1], 1, count)
    return batch, jax.vmap(minibatch, in_axes=(None, 0))(batch, rows)


@eqx.filter_jit
def replayed(policy, batch):
    """The policy's values, and the ratios of its probabilities to those of the rollout."""
    distribution, value = replay(policy, batch)
    ratio = jnp.exp(distribution.log_prob(batch.rollout.raw_action) - batch.rollout.log_prob)
    return value, ratio


@eqx.filter_jit
def learn(ppo, policy, rollout, key):
    state = ppo.init(policy, clocks(NUM_ENVS), key)
    state, metrics = ppo.learn(state, rollout, key, num_updates=2)
    return state.policy, metrics


WORLDS = {
    "choices": Clock(),
    "masked choices": Trapdoors(),
    "several choices": Signals(),
    "numbers": Reach(),
}
RATIOS = [
    ("choices", GRU, 8, True, LocalObservation()),
    ("masked choices", loud_mlp, 0, True, JointObservation()),
    ("several choices", loud_mlp, 0, False, LocalObservation()),
    ("numbers", loud_mlp, 1, False, JointObservation()),
]
SLOW_RATIOS = [
    ("choices", GRU, 0, False, JointObservation()),
    ("choices", loud_mlp, 0, True, LocalObservation()),
    ("masked choices", GRU, 0, False, LocalObservation()),
    ("numbers", GRU, 4, True, JointObservation()),
]


@pytest.mark.parametrize(
    ("world", "network", "chunk", "shared", "view"),
    [*RATIOS, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_RATIOS)],
)
def test_the_first_ratio_is_one(key, world, network, chunk, shared, view):
    env = NormalizeObservation(Vectorize(AutoReset(LogEpisodes(WORLDS[world])), NUM_ENVS))
    policy = build(env, key, network=network, critic_input=view, shared=shared)
    rollout, _ = roll(policy, env, key, LENGTH)
    _, parts = some_minibatches(settings(chunk_length=chunk), policy, rollout, key, 2)
    value, ratio = eqx.filter_vmap(replayed, in_axes=(None, 0))(policy, parts)
    np.testing.assert_allclose(ratio, 1.0, atol=1e-3 if world == "numbers" else 1e-5)
    np.testing.assert_allclose(value, parts.rollout.value, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shift", [1, -1])
def test_a_carry_reset_too_early_or_too_late_would_show(shift):
    policy, rollout = experience(GRU)
    start = jnp.asarray(np.roll(rollout.start, shift, axis=0))
    wrong = eqx.tree_at(lambda r: r.start, rollout, start)
    _, ratio = replayed(policy, whole_batch(settings(), policy, wrong))
    assert jnp.abs(ratio - 1).max() > 1e-3


@pytest.mark.parametrize("normalize_advantages", [True, False])
def test_the_loss_equals_a_naive_one(normalize_advantages):
    policy, rollout = experience()
    ppo = settings(
        clip_epsilon=0.1,
        value_coefficient=1e-3,
        advantage_std_offset=5.0,
        normalize_advantages=normalize_advantages,
    ).with_arrays()  # so that other numbers compile nothing anew
    batch = whole_batch(ppo, policy, rollout)
    moved = jax.tree.map(lambda x: jnp.asarray(0.8 * np.asarray(x)), policy)
    values, _ = replayed(moved, batch)
    log_probs = jax.nn.log_softmax(replay(moved, batch)[0].logits)
    total, parts = eqx.filter_jit(ppo_loss)(moved, batch, ppo, jnp.asarray(3.0))

    active = np.asarray(batch.rollout.active).reshape(-1)
    assert 0 < active.sum() < len(active)
    log_probs = np.asarray(log_probs).reshape(-1, 3)[active]
    action = np.asarray(batch.rollout.raw_action).reshape(-1)[active]
    old, advantage, target, value = (
        np.asarray(x).reshape(-1)[active]
        for x in (batch.rollout.log_prob, batch.advantage, batch.target, values)
    )
    if normalize_advantages:
        advantage = (advantage - advantage.mean()) / (advantage.std() + ppo.advantage_std_offset)
    policy_loss, value_loss, entropy, kl, clipped = 0.0, 0.0, 0.0, 0.0, 0
    for i in range(len(action)):
        ratio = np.exp(log_probs[i, action[i]] - old[i])
        limited = min(max(ratio, 0.9), 1.1)
        policy_loss -= min(ratio * advantage[i], limited * advantage[i])
        value_loss += (value[i] - target[i]) ** 2 / 2
        entropy -= (np.exp(log_probs[i]) * log_probs[i]).sum()
        kl += ratio - 1 - np.log(ratio)
        clipped += abs(ratio - 1) > 0.1
    expected = np.array([policy_loss, value_loss, entropy, kl, clipped]) / len(action)
    names = ["policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"]
    np.testing.assert_allclose([parts[n] for n in names], expected, rtol=1e-4, atol=1e-5)
    weighted = expected[:3] * [1, 1e-3, -3]
    assert np.abs(weighted).min() > 1e-4 * np.abs(weighted).max(), "no part may hide another"
    np.testing.assert_allclose(total, weighted.sum(), rtol=1e-5)
    assert 0 < expected[4] < 1


def test_normalised_values_are_in_units_of_the_targets():
    """Advantages are those of the same values in rewards, and targets are standardised."""
    policy, rollout = experience()
    moments = RunningMoments(jnp.asarray(1e3), jnp.asarray(7.0), jnp.asarray(9.0))
    ppo = settings(normalize_values=True)
    batch, after = eqx.filter_jit(ppo.batch)(policy, rollout, moments)
    in_rewards = dataclasses.replace(
        rollout, value=7 + 3 * rollout.value, next_value=7 + 3 * rollout.next_value
    )
    plain, same = eqx.filter_jit(settings().batch)(policy, in_rewards, moments)
    assert eqx.tree_equal(same, moments)
    np.testing.assert_allclose(batch.advantage, plain.advantage, rtol=1e-4, atol=1e-4)
    seen = np.asarray(plain.target, np.float64)[np.asarray(batch.rollout.active)]
    assert len(seen) < batch.rollout.active.size, "what nobody learns from is left out"
    mean = (1e3 * 7 + seen.sum()) / (1e3 + len(seen))
    square = (1e3 * (9 + 49) + (seen**2).sum()) / (1e3 + len(seen))
    np.testing.assert_allclose([after.mean, after.variance], [mean, square - mean**2], rtol=1e-4)
    deviation = np.sqrt(square - mean**2)
    np.testing.assert_allclose(
        batch.target, (plain.target - mean) / deviation, rtol=1e-3, atol=1e-4
    )
    raw, _ = settings().batch(policy, rollout, moments)
    np.testing.assert_array_equal(batch.rollout.value, raw.rollout.value)


def test_normalised_values_do_not_depend_on_the_unit_of_rewards(key):
    """Advantages are normalised, too, so nothing changes when everything is worth 64 times more."""
    policy, rollout = experience()
    ppo = settings(normalize_values=True, advantage_std_offset=0.0, max_grad_norm=1e9)
    zero = jax.tree.map(jnp.zeros_like, (rollout.value, rollout.next_value))
    one = dataclasses.replace(rollout, value=zero[0], next_value=zero[1])
    results = []
    for unit in (1.0, 64.0):
        paid = dataclasses.replace(one, reward=one.reward * unit)
        results.append(learn(ppo, policy, paid, key)[0])
    assert_close(*results, 1e-3)


def parts_of(ppo, *, ratio, advantage):
    """The parts of the loss of a batch in which these numbers repeat, and all agents are active."""
    policy, rollout = experience()
    batch = whole_batch(settings(), policy, rollout)
    shape = batch.rollout.value.shape
    repeat = lambda numbers: jnp.resize(jnp.asarray(numbers, float), shape)  # noqa: E731
    distribution = distrax.Categorical(logits=jnp.zeros((*shape, 3)))
    rollout = dataclasses.replace(
        batch.rollout,
        active=jnp.ones(shape, bool),
        log_prob=distribution.log_prob(batch.rollout.raw_action) - jnp.log(repeat(ratio)),
    )
    batch = Minibatch(rollout, batch.carry, repeat(advantage), batch.target)
    return loss_of_choices(policy, distribution, rollout.value, batch, ppo, 0.0)[1]


def test_the_ratio_is_clipped_where_that_makes_the_objective_smaller():
    ppo = settings(clip_epsilon=0.25, normalize_advantages=False)
    ratio = np.array([0.5, 0.5, 0.875, 0.875, 1.5, 1.5])
    counted = np.array([0.5, 0.75, 0.875, 0.875, 1.25, 1.5])
    advantage = np.array([2.0, -2.0] * 3)

    def loss(ratio):
        parts = parts_of(ppo, ratio=ratio, advantage=advantage)
        return parts["policy_loss"], parts["clip_fraction"]

    (found, clipped), gradient = jax.value_and_grad(loss, has_aux=True)(jnp.asarray(ratio))
    np.testing.assert_allclose(found, -np.mean(counted * advantage), rtol=1e-5)
    np.testing.assert_allclose(clipped, 4 / 6, rtol=1e-5)
    moves = counted == ratio
    np.testing.assert_allclose(gradient, -(moves * advantage) / 6, atol=1e-5)


# From 2^18 rows on, they are shuffled in another way.
@pytest.mark.parametrize("count", [96, 2**18 + 8])
def test_every_epoch_uses_every_row_once_in_new_minibatches(key, count):
    steps = np.asarray(eqx.filter_jit(shuffle)(key, count, 3, 4))
    assert steps.shape == (12, count // 4)
    assert abs((np.diff(steps, axis=1) > 0).mean() - 0.5) < 0.1, "rows do not keep their order"
    epochs = steps.reshape(3, count)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), [np.arange(count)] * 3)
    orders = [np.arange(count), *epochs]
    # Which of four minibatches each row is in, for the order as it was and for each epoch.
    members = [np.argsort(order) // (count // 4) for order in orders]
    for i, j in itertools.combinations(range(4), 2):
        assert (orders[i] == orders[j]).mean() < 0.1
        assert abs((members[i] == members[j]).mean() - 0.25) < 0.15


def test_minibatches_are_even_samples(key):
    keys = jax.random.split(key, 400)
    steps = np.asarray(jax.jit(jax.vmap(lambda k: shuffle(k, 8, 1, 2)))(keys))
    in_first = np.stack([(steps[:, 0] == row).any(axis=1) for row in range(8)])
    np.testing.assert_allclose(in_first.mean(axis=1), 0.5, atol=0.12)


@pytest.mark.parametrize(("network", "chunk"), [(loud_mlp, 1), (loud_mlp, 4), (GRU, 6)])
def test_minibatches_never_mix_what_belongs_together(key, network, chunk):
    policy, rollout = experience(network)
    ppo = settings(chunk_length=chunk)
    number = np.arange(LENGTH * NUM_ENVS * 2, dtype=np.float32).reshape(LENGTH, NUM_ENVS, 2)
    start = np.arange(LENGTH * NUM_ENVS).reshape(LENGTH, NUM_ENVS) % 5 == 0
    observation = np.repeat(number[..., None], 4, axis=-1)
    carry = jax.tree.map(lambda x: np.broadcast_to(number[..., None], x.shape), rollout.carry)
    fields = dict.fromkeys(("raw_action", "log_prob", "value", "reward"), jnp.asarray(number))
    fields |= {"observation": jnp.asarray(observation), "start": jnp.asarray(start)}
    marked = dataclasses.replace(rollout, carry=jax.tree.map(jnp.asarray, carry), **fields)
    batch, parts = some_minibatches(ppo, policy, marked, key, 2)
    batch, parts = jax.tree.map(np.asarray, (batch, parts))
    assert parts.rollout.value.shape == (2, chunk, LENGTH * NUM_ENVS // chunk // 2, 2)
    steps = parts.rollout
    mark = steps.value
    for other in (steps.raw_action, steps.log_prob, steps.observation[..., 0]):
        np.testing.assert_array_equal(other, mark)
    np.testing.assert_array_equal(steps.start, mark[..., 0] // 2 % 5 == 0)
    np.testing.assert_array_equal(mark % 2, np.broadcast_to([0, 1], mark.shape))
    np.testing.assert_array_equal(mark[..., 1] - mark[..., 0], 1)
    np.testing.assert_array_equal(np.diff(mark, axis=1), 2 * NUM_ENVS)
    advantage = dict(zip(batch.rollout.value.ravel(), batch.advantage.ravel(), strict=True))
    expected = np.vectorize(advantage.get)(mark)
    np.testing.assert_allclose(parts.advantage, expected, rtol=1e-6)
    np.testing.assert_allclose(parts.target, expected + mark, rtol=1e-5)
    for carry in jax.tree.leaves(parts.carry):
        np.testing.assert_array_equal(carry[..., 0], mark[:, 0])


def test_the_optimiser_follows_the_schedule(key):
    # The first step of Adam has the length of the learning rate, whatever the gradient.
    ppo = PPO(learning_rate=0.1, num_epochs=1, num_minibatches=1, max_grad_norm=1e3)
    optimiser = ppo.optimiser(11)
    parameter = jnp.zeros(())
    state = optimiser.init(parameter)
    with jax.numpy_dtype_promotion("standard"):
        lengths = []
        for _ in range(11):
            change, state = optimiser.update(jnp.ones(()), state, parameter)
            lengths.append(-float(change))
    np.testing.assert_allclose(lengths, np.linspace(0.1, 0, 11), atol=1e-5)
    rates = [ppo.learning_rate_at(11, step) for step in range(11)]
    np.testing.assert_allclose(rates, np.linspace(0.1, 0, 11), atol=1e-5)
    constant = PPO(learning_rate=0.1, anneal_learning_rate=False)
    assert constant.learning_rate_at(11, 10) == jnp.float32(0.1)


def test_long_gradients_are_cut():
    optimiser = PPO(max_grad_norm=0.5).optimiser(2)
    parameters = {"a": jnp.zeros(2)}
    with jax.numpy_dtype_promotion("standard"):
        _, state = optimiser.update({"a": jnp.array([30.0, 40.0])}, optimiser.init(parameters))
    moment = optax.tree.get(state, "mu")["a"]
    np.testing.assert_allclose(moment, 0.1 * np.array([0.3, 0.4]), rtol=1e-5)


def test_the_entropy_coefficient_moves_to_its_end():
    at = PPO(entropy_coefficient=0.1, entropy_coefficient_end=0.02).entropy_coefficient_at
    found = [at(jnp.asarray(i), 5) for i in range(5)]
    np.testing.assert_allclose(found, np.linspace(0.1, 0.02, 5), rtol=1e-5)
    constant = PPO(entropy_coefficient=0.1, entropy_coefficient_end=0.1).entropy_coefficient_at
    assert constant(jnp.asarray(4), 5) == jnp.float32(0.1)


@pytest.mark.slow
def test_the_metrics_say_what_happened(key):
    policy, rollout = experience()
    ppo = settings(num_epochs=1, num_minibatches=1)
    _, metrics = learn(ppo, policy, rollout, key)
    assert jnp.abs(metrics.scalars["approx_kl"]) < 1e-6
    assert metrics.scalars["clip_fraction"] == 0
    done = np.asarray(rollout.done)
    length = np.asarray(rollout.observation[:, :, 0, 2])[done]
    assert metrics.episodes == done.sum()
    np.testing.assert_allclose(metrics.episode_length, length.mean(), rtol=1e-5)
    returns = np.asarray(rollout.info["episode_return"])[done]
    np.testing.assert_allclose(metrics.episode_return, returns.mean(), rtol=1e-5)
    batch, _ = ppo.batch(policy, rollout, NO_MOMENTS)
    target, value = (
        np.asarray(x)[batch.rollout.active] for x in (batch.target, batch.rollout.value)
    )
    expected = 1 - np.var(target - value) / np.var(target)
    np.testing.assert_allclose(metrics.scalars["explained_variance"], expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout_length": 0}, "rollout_length must be at least 1, but it is 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"gamma": 1.1}, "gamma must be between 0 and 1, but it is 1.1"),
        ({"gamma": float("nan")}, "gamma must be between 0 and 1"),
        ({"entropy_coefficient": -1.0}, "entropy_coefficient must be at least 0"),
    ],
)
def test_settings_without_a_meaning_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        PPO(**changes)


def test_what_does_not_divide_is_refused_with_the_nearest_that_does(key):
    env = clocks(4)
    plain, remembers = (
        eqx.filter_eval_shape(functools.partial(actor_critic, network=network), env, key)
        for network in (loud_mlp, GRU)
    )
    with pytest.raises(
        ValueError, match=r"num_minibatches=5 does not divide the 96 steps .* 4 and 6"
    ):
        PPO(rollout_length=24, num_minibatches=5).check(env, plain)
    with pytest.raises(ValueError, match=r"num_minibatches=200 .* nearest that do are 96"):
        PPO(rollout_length=24, num_minibatches=200).check(env, plain)
    for policy in (plain, remembers):
        with pytest.raises(ValueError, match=r"chunk_length=7 does not divide .* 6 and 8"):
            PPO(rollout_length=24, chunk_length=7).check(env, policy)
    with pytest.raises(
        ValueError, match=r"num_minibatches=3 .* the 4 chunks of 24 steps .* 2 and 4"
    ):
        PPO(rollout_length=24, num_minibatches=3).check(env, remembers)
    with pytest.raises(ValueError, match="num_minibatches=5"):
        PPO(rollout_length=24, num_minibatches=5).init(build(env, key), env, key)


def test_whole_numbers_and_switches_are_static():
    ppo = PPO(rollout_length=7)
    assert jax.jit(lambda ppo: jnp.zeros(ppo.rollout_length))(ppo).shape == (7,)
    leaves = jax.tree.leaves(ppo)
    assert leaves
    assert all(type(x) is float for x in leaves)


@pytest.mark.parametrize("one", [1, np.float32(1), np.int64(1), np.float64(1)])
def test_real_numbers_are_floats(one):
    ppo = PPO(gamma=one)
    assert type(ppo.gamma) is float
    assert ppo.with_arrays().gamma.dtype == jnp.float32
    assert eqx.tree_equal(ppo, PPO(gamma=1.0))
