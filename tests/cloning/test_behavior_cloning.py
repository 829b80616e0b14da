"""Behaviour cloning: demonstrations, the loss, epochs and the best network."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import unchecked

from agents import GRU, MLP, BehaviorCloning, demonstrations
from agents.cloning import clone_epoch, cross_entropy, logits, score

pytestmark = pytest.mark.slow

ACTIONS = 3
REMEMBERS = functools.partial(GRU, encoder=MLP)


def games(lengths, agents=2, seed=0):
    """Observations of two numbers, and actions that follow from the first of them."""
    random = np.random.default_rng(seed)
    found = []
    for length in lengths:
        seen = random.normal(size=(length, agents, 2)).astype(np.float32)
        action = np.digitize(seen[..., 0], [-0.5, 0.5]).astype(np.int32)
        found.append((seen, action))
    return found


def network(kind=MLP):
    return kind((2,), ACTIONS, width=8, key=jax.random.key(0))


def stacked(kind, runs):
    keys = jax.random.split(jax.random.key(0), runs)
    return eqx.filter_vmap(lambda key: kind((2,), ACTIONS, width=8, key=key))(keys), keys


def clone(learner, networks, keys, shown, held_out):
    """The networks after all epochs."""
    states = eqx.filter_vmap(learner.init)(networks, keys)
    for _ in range(learner.num_epochs):
        states, _, _ = clone_epoch(learner, states, shown, held_out)
    return states.network


def pick(networks, run):
    return jax.tree.map(lambda x: x[run] if eqx.is_array(x) else x, networks)


def assert_close(one, other):
    for x, y in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        if eqx.is_array(x):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 4))
def test_every_step_of_every_agent_is_shown_once(lengths, agents, length):
    played = games(lengths, agents)
    shown = demonstrations(played, length)
    assert shown.action.shape[1] == length
    expected = []
    for seen, action in played:  # a naive loop over games, agents and pieces
        for agent in range(agents):
            for start in range(0, len(action), length):
                piece = slice(start, start + length)
                expected.append((seen[piece, agent], action[piece, agent]))
    assert shown.num_sequences == len(expected)
    for row, (seen, action) in enumerate(expected):
        known = np.asarray(shown.recorded[row])
        assert known.tolist() == [i < len(action) for i in range(length)]
        np.testing.assert_array_equal(np.asarray(shown.observation[row])[known], seen)
        np.testing.assert_array_equal(np.asarray(shown.action[row])[known], action)


def test_scores_equal_a_loop_over_steps():
    played, model = games([5, 9]), network()
    found = score(model, demonstrations(played, 4))
    losses, right = [], []
    for seen, action in played:
        for x, a in zip(seen.reshape(-1, 2), action.reshape(-1), strict=True):
            out = np.asarray(model(jnp.asarray(x), None)[0], np.float64)
            losses.append(np.log(np.exp(out).sum()) - out[a])
            right.append(out.argmax() == a)
    np.testing.assert_allclose(found.cross_entropy, np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(found.accuracy, np.mean(right), rtol=1e-6)


def test_a_memory_begins_anew_in_every_sequence():
    model = network(REMEMBERS)
    seen, action = games([6], agents=1)[0]
    outputs = logits(model, demonstrations([(seen, action)], 3))
    for start in (0, 3):
        carry = model.initial_carry()
        for i in range(3):
            expected, carry = model(jnp.asarray(seen[start + i, 0]), carry)
            np.testing.assert_allclose(outputs[start // 3, i], expected, rtol=1e-4, atol=1e-6)


def test_a_gradient_step_is_that_of_adam_on_the_mean_loss():
    model, shown = network(), demonstrations(games([4]), 1)  # eight steps, which are one batch
    learner = BehaviorCloning(num_epochs=1, batch_size=64, learning_rate=0.1)
    after, loss = learner.epoch(learner.init(model, jax.random.key(0)), shown)
    gradient, optimizer = eqx.filter_grad(cross_entropy)(model, shown), optax.adam(0.1)
    with jax.numpy_dtype_promotion("standard"):
        updates, _ = optimizer.update(gradient, optimizer.init(eqx.filter(model, eqx.is_array)))
    np.testing.assert_allclose(loss, cross_entropy(model, shown), rtol=1e-5)
    assert_close(after.network, eqx.apply_updates(model, updates))


@pytest.mark.parametrize("kind", [MLP, REMEMBERS])
def test_learns_what_is_shown(kind):
    networks, keys = stacked(kind, 2)
    learner = BehaviorCloning(num_epochs=30, batch_size=16, learning_rate=1e-2)
    shown = demonstrations(games([200, 200]), 1 if kind is MLP else 20)
    held_out = demonstrations(games([100], seed=1))
    last = clone(learner, networks, keys, shown, held_out)
    for run in range(2):
        assert score(pick(last, run), held_out).accuracy > 0.85  # the most frequent: 0.38


def test_a_run_does_not_depend_on_the_runs_beside_it():
    networks, keys = stacked(MLP, 2)
    shown, held_out = demonstrations(games([20]), 1), demonstrations(games([20], seed=1))
    learner = BehaviorCloning(num_epochs=3)
    both = clone(learner, networks, keys, shown, held_out)
    second = jax.tree.map(lambda x: x[1:] if eqx.is_array(x) else x, networks)
    alone = clone(learner, second, keys[1:], shown, held_out)
    assert_close(pick(both, 1), pick(alone, 0))


def test_lengths_follow_from_the_memory_of_a_network():
    assert BehaviorCloning().length_for(network()) == 1
    assert BehaviorCloning().length_for(network(REMEMBERS)) == 100
    assert BehaviorCloning(sequence_length=7).length_for(network()) == 7


def test_demonstrations_need_games_and_a_length():
    with pytest.raises(ValueError, match="at least one game"):
        demonstrations([])
    with unchecked(), pytest.raises(ValueError, match="length of at least 1"):
        demonstrations(games([3]), 0)
