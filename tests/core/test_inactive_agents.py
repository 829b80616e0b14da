"""Of agents whose task is over nothing is learned."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents import MLP, PPO, actor_critic, collect_rollout, gae, init_runner
from eqgrid import AutoReset, LogEpisodes, Vectorize
from eqgrid.envs.goals import Goals

ENVS, LENGTH = 16, 64


@pytest.fixture(scope="module")
def played():
    """A rollout in which agents arrive at different times."""
    env = Vectorize(AutoReset(LogEpisodes(Goals("room", horizon=30))), ENVS)
    ppo = PPO(rollout_length=LENGTH, num_minibatches=4, num_epochs=2)
    policy = actor_critic(env, jax.random.key(0), network=MLP)
    scene = init_runner(policy, env, jax.random.key(1))
    rollout, _ = eqx.filter_jit(collect_rollout)(policy, env, scene, jax.random.key(2), LENGTH)
    return env, ppo, policy, rollout


def with_nonsense(rollout, seed):
    """The same rollout, with other numbers wherever a task was over."""
    over = ~np.asarray(rollout.active)

    def change(leaf, key):
        other = jax.random.permutation(key, leaf.reshape(-1)).reshape(leaf.shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            other = other + 3.0
        return jnp.where(over.reshape(*over.shape, *[1] * (leaf.ndim - 3)), other, leaf)

    keys = jax.random.split(jax.random.key(seed), 6)
    names = ("observation", "raw_action", "log_prob", "value", "next_value", "reward")
    changes = {
        name: change(getattr(rollout, name), key) for name, key in zip(names, keys, strict=True)
    }
    return dataclasses.replace(rollout, **changes)


def test_who_is_active_is_known_from_what_came_before(played):
    _, _, _, rollout = played
    expected = np.ones((ENVS, 2), bool)
    for t in range(LENGTH):
        np.testing.assert_array_equal(rollout.active[t], expected)
        expected = np.asarray(rollout.done[t])[:, None] | ~np.asarray(rollout.terminated[t])
    assert 0.02 < (~rollout.active).mean() < 0.9


@eqx.filter_jit
def learn(ppo, policy, env, rollout):
    key = jax.random.key(5)
    state, metrics = ppo.learn(ppo.init(policy, env, key), rollout, key, num_updates=3)
    return state.policy, state.opt_state, state.value_moments, metrics


def test_nonsense_changes_neither_parameters_nor_metrics(played):
    env, ppo, policy, rollout = played
    nonsense = with_nonsense(rollout, 3)
    assert not eqx.tree_equal(nonsense, rollout)
    ours, theirs = (learn(ppo, policy, env, x) for x in (rollout, nonsense))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_nonsense_of_one_who_is_active_does_change_them(played):
    env, ppo, policy, rollout = played
    reward = rollout.reward.at[0, 0, 0].add(1.0)
    ours, theirs = (
        learn(ppo, policy, env, x) for x in (rollout, dataclasses.replace(rollout, reward=reward))
    )
    assert not eqx.tree_equal(ours[0], theirs[0])


def test_nothing_leaks_through_time(played):
    """The advantage of whose task goes on depends on nothing after its end."""
    _, _, _, rollout = played
    nonsense = with_nonsense(rollout, 4)
    ours, theirs = (
        gae(x.reward, x.value, x.next_value, x.terminated, x.done, gamma=0.99, gae_lambda=0.95)
        for x in (rollout, nonsense)
    )
    np.testing.assert_array_equal(
        np.asarray(ours)[rollout.active], np.asarray(theirs)[rollout.active]
    )
    assert (np.asarray(ours) != np.asarray(theirs)).any()
