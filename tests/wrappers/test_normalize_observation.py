import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from race import Race
from wrapper_checks import assert_close, assert_same, reset, rollout, sample_actions, step

from eqgrid import (
    AutoReset,
    NormalizeObservation,
    NormalizeReward,
    RunningMoments,
    TimeLimit,
    Vectorize,
)

STEPS, ENVS = 12, 5


def inner(env=None, num_envs=ENVS):
    return Vectorize(AutoReset(TimeLimit(env or Race(), 4)), num_envs)


@pytest.fixture(scope="module")
def run():
    """Steps of an environment, normalised and not."""
    env = NormalizeObservation(inner())
    key = jax.random.key(7)
    actions = sample_actions(env, key, STEPS)
    return env, rollout(env, key, actions), rollout(inner(), key, actions)


@pytest.mark.parametrize("name", ["vector", "picture"])
def test_equals_numpy_over_all_that_was_seen(run, name):
    """Every batch is normalised with the moments of all batches up to and including it, without
    those whose task is over."""
    _, (first, timesteps, states), (raw_first, raw, _) = run
    shown = np.concatenate([first[0][name][None], timesteps.observation[name]])
    seen = np.concatenate([raw_first[0][name][None], raw.observation[name]]).astype(np.float64)
    final = np.asarray(raw.final_observation[name]).astype(np.float64)
    counts = np.concatenate([np.ones((1, ENVS, 3), bool), raw.acts_next])
    assert not counts.all()
    for t in range(STEPS + 1):
        so_far = seen[: t + 1][counts[: t + 1]]
        mean, scale = so_far.mean(axis=0), np.sqrt(so_far.var(axis=0) + 1e-8)
        expected = np.clip((seen[t] - mean) / scale, -10, 10)
        np.testing.assert_allclose(shown[t], expected, rtol=1e-3, atol=1e-3)
        if t > 0:
            moments = jax.tree.map(lambda x, t=t: x[t - 1], states.moments[name])
            assert moments.count == len(so_far)
            np.testing.assert_allclose(moments.mean, mean, rtol=1e-4, atol=1e-4)
            got = timesteps.final_observation[name][t - 1]
            expected = np.clip((final[t - 1] - mean) / scale, -10, 10)
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    assert raw.done.any()


def test_moments_have_one_agents_shape_and_results_are_floats(run):
    _, ((observation, state), _, _), _ = run
    assert state.moments["vector"].mean.shape == (4,)
    assert state.moments["picture"].mean.shape == (2, 3, 2)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(observation))


def test_clips(key):
    env = NormalizeObservation(inner(), clip=0.5)
    observation, _ = reset(env, key)
    largest = jax.tree.map(lambda x: float(jnp.abs(x).max()), observation)
    assert largest == {"vector": 0.5, "picture": 0.5}


def test_a_frozen_wrapper_has_its_own_moments_and_not_the_states(run, key):
    env, (first, _, states), _ = run
    last = jax.tree.map(lambda x: x[-1], states)
    _, after = step(env.freeze(last), key, first[1], jnp.zeros((ENVS, 3), int))
    assert_same(after.moments, last.moments)
    assert not np.array_equal(first[1].moments["vector"].mean, last.moments["vector"].mean)


def test_freezing_takes_the_moments_to_other_environments(run, key):
    """Evaluation has its own number of environments, and may have another stack around."""
    _, (first, _, _), _ = run
    evaluation = NormalizeObservation(inner(num_envs=2)).freeze(first[1])
    observation, state = evaluation.reset(key)
    assert observation["vector"].shape == (2, 3, 4)
    assert_same(state.moments, first[1].moments)
    training = NormalizeReward(NormalizeObservation(inner()))
    _, state = training.reset(key)
    _, evaluated = evaluation.freeze(state).reset(key)
    assert_same(evaluated.moments, state.env_state.moments)


def test_frozen_moments_outlive_the_state_that_training_consumes(key):
    env = NormalizeObservation(inner(CartPole()))
    _, state = env.reset(key)
    frozen = env.freeze(state)
    before = jax.tree.map(np.array, state.moments)
    jax.tree.map(lambda x: x.delete(), state.moments)  # as donated arrays are
    assert_same(frozen.moments, before)
    frozen.reset(key)


def test_frozen_moments_are_leaves(run):
    """New statistics do not make an evaluation compile again."""
    env, (_, _, states), _ = run
    a, b = (env.freeze(jax.tree.map(lambda x, t=t: x[t], states)) for t in (0, -1))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert not eqx.tree_equal(a, b)


def test_thawed_moments_go_on_from_the_frozen_ones(run, key):
    env, (first, _, _), _ = run
    thawed = env.freeze(first[1]).thaw()
    observation, state = reset(thawed, key)
    assert state.moments["vector"].count == 2 * ENVS * 3
    raw, _ = reset(inner(), key)
    expected = first[1].moments["vector"].update(raw["vector"].reshape(-1, 4))
    assert_close(state.moments["vector"], expected)
    assert_same(eqx.filter_jit(thawed.observe)(state), observation)
    # In the middle of a run the state knows better than the wrapper.
    _, after = step(thawed, key, state, jnp.zeros((ENVS, 3), int))
    assert after.moments["vector"].count == 3 * ENVS * 3


def test_moments_can_be_given(key):
    moments = RunningMoments(jnp.asarray(3.0), jnp.ones(4), jnp.full(4, 4.0))
    env = NormalizeObservation(inner(CartPole()), moments=moments, frozen=True)
    observation, _ = env.reset(key)
    raw, _ = inner(CartPole()).reset(key)
    np.testing.assert_allclose(observation, (raw - 1) / 2, rtol=1e-5)


def test_freezing_without_moments_is_refused(key):
    with pytest.raises(ValueError, match="no moments to freeze"):
        NormalizeObservation(inner(), frozen=True)
    _, state = inner().reset(key)
    with pytest.raises(ValueError, match="freeze needs the state of a NormalizeObservation"):
        NormalizeObservation(inner()).freeze(state)


@pytest.mark.slow
@pytest.mark.to_the_bit
def test_observe_repeats_to_the_bit():
    """The first observation too, around which a compiler has constants to fold."""
    for world, num_envs in itertools.product((Race(), CartPole()), (1, 7)):
        env = NormalizeObservation(inner(world, num_envs))
        observe = eqx.filter_jit(env.observe)
        for seed in range(3):
            observation, state = reset(env, jax.random.key(seed))
            assert_same(observe(state), observation)
            for _ in range(3):
                action = jnp.zeros((num_envs, env.num_agents), int)
                timestep, state = step(env, jax.random.key(seed), state, action)
                assert_same(observe(state), timestep.observation)


def test_raw_observations_are_kept_and_can_be_normalised_later(key):
    env = NormalizeReward(NormalizeObservation(inner(), keep_raw=True), 0.9)
    actions = sample_actions(env, key, STEPS)
    (shown, _), timesteps, states = rollout(env, key, actions)
    _, raw, _ = rollout(NormalizeReward(inner(), 0.9), key, actions)
    assert (raw.observation["vector"] != raw.final_observation["vector"]).any()
    last = jax.tree.map(lambda x: x[-1] if eqx.is_array(x) else x, states)
    kept = env.env.raw(last)
    told = (raw.observation, raw.final_observation)
    assert_same(kept, jax.tree.map(lambda x: x[-1], told))
    names = ("observation", "final_observation")
    for stored, name in zip(kept, names, strict=True):
        now = eqx.filter_jit(env.env.normalize)(last, stored)
        assert_close(now, jax.tree.map(lambda x: x[-1], getattr(timesteps, name)))
    # Older ones are normalised with the moments of now.
    old = jax.tree.map(lambda x: np.asarray(x[0]), raw.observation)
    again = eqx.filter_jit(env.env.normalize)(last, jax.tree.map(jnp.asarray, old))["vector"]
    moments = jax.tree.map(np.asarray, last.env_state.moments["vector"])
    expected = (old["vector"] - moments.mean) / np.sqrt(moments.variance + 1e-8)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)
    assert (np.abs(again - timesteps.observation["vector"][0]) > 1e-2).any()
    assert jax.tree.leaves(shown)


def test_raw_observations_are_those_of_the_reset_at_first(key):
    env = NormalizeObservation(inner(), keep_raw=True)
    _, state = reset(env, key)
    first, final = env.raw(state)
    assert_same(first, reset(inner(), key)[0])
    assert_same(final, first)
    assert env.freeze(state).thaw().keep_raw


def test_raw_observations_that_are_not_kept_are_asked_for(key):
    env = NormalizeObservation(inner())
    with pytest.raises(ValueError, match="keep_raw=True"):
        env.raw(reset(env, key)[1])
