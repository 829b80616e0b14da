"""Somebody else acts for one agent of an episode, and nothing is learned from that."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chances import Marked, Undecided, check_counts
from learners import Clock, build, roll
from wrapper_checks import assert_same

from eqgrid import (
    JOINT_ACTION,
    PARTNER_MASK,
    AutoReset,
    ConstantPartner,
    LogEpisodes,
    OneOf,
    RandomPartner,
    RecordedPartner,
    Vectorize,
    WithPartner,
    check_env,
    make,
)

STEPS = 12
KITCHEN = make("overcooked", layout="ring", horizon=5, observation="features")


@eqx.filter_jit
def episodes(env, key, actions):
    """Many episodes side by side, and what was done in them in truth."""

    def one(key, actions):
        reset_key, steps_key = jax.random.split(key)
        _, first = env.reset(reset_key)

        def step(state, inputs):
            key, action = inputs
            timestep, state = env.step(key, state, action)
            return state, (state, timestep)

        keys = jax.random.split(steps_key, STEPS)
        _, (states, timesteps) = jax.lax.scan(step, first, (keys, actions))
        return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, states), timesteps

    return jax.vmap(one)(jax.random.split(key, len(actions)), actions)


def drawn_actions(key, count):
    return jax.random.randint(key, (count, STEPS, 2), 0, 6)


def test_the_world_sees_the_partners_action(key):
    """Every step is that of the kitchen with the actions of the partner put in by hand."""
    partners = OneOf([ConstantPartner(1), ConstantPartner(5), ConstantPartner(3)])
    env = WithPartner(KITCHEN, partners, share=0.7)
    actions = drawn_actions(key, 40)
    states, timesteps = episodes(env, key, actions)
    seats, numbers, present = (
        np.asarray(x)[:, 0] for x in (states.seat, states.number, states.present)
    )
    assert set(seats) == {0, 1}
    assert set(numbers) == {0, 1, 2}
    assert 15 < present.sum() < 40
    done = np.array(actions)
    for i in range(40):
        if present[i]:
            done[i, :, seats[i]] = [1, 5, 3][numbers[i]]
    replaced = np.zeros((40, STEPS, 2), bool)
    replaced[np.arange(40)[present], :, seats[present]] = True
    np.testing.assert_array_equal(timesteps.info[PARTNER_MASK], replaced)
    np.testing.assert_array_equal(timesteps.info[JOINT_ACTION], done)
    before = jax.tree.map(lambda x: x[:, :-1].reshape(-1, *x.shape[2:]), states.env_state)
    after = jax.tree.map(lambda x: x[:, 1:].reshape(-1, *x.shape[2:]), states.env_state)
    step = eqx.filter_jit(jax.vmap(lambda s, a: KITCHEN.step(key, s, a)))
    expected, world = step(before, jnp.asarray(done.reshape(-1, 2)))
    assert_same(world, after)
    np.testing.assert_array_equal(timesteps.reward.reshape(-1, 2), expected.reward)


@pytest.mark.parametrize("partner", [RandomPartner(Clock().action_space), Undecided(3)])
def test_noise_its_actions_and_those_it_replaces_are_independent(key, partner):
    """In many episodes of one step. The agents want action 0, and the partner's are marked."""
    level, count = 0.4, 8000
    partners = OneOf([Marked(partner, 3)])
    env = WithPartner(Clock(), partners, noise=(level, level))

    def one(key):
        reset_key, step_key = jax.random.split(key)
        _, state = env.reset(reset_key)
        timestep, after = env.step(step_key, state, jnp.zeros(2, int))
        return state, timestep.info[JOINT_ACTION], after.carry

    state, taken, carry = jax.jit(jax.vmap(one))(jax.random.split(key, count))
    row, seat = np.arange(count), np.asarray(state.seat)
    did, wanted = np.asarray(taken)[row, seat], np.asarray(jax.tree.leaves(carry)[0])
    assert (np.asarray(taken)[row, 1 - seat] == 0).all()
    assert (did[did >= 3] == wanted[did >= 3] + 3).all()
    done = np.array([level / 3, level / 3, level / 3, 1 - level])  # the last for no noise
    check_counts(np.multiply.outer(done, np.full(3, 1 / 3)), np.minimum(did, 3), wanted)


def test_whatever_is_drawn_for_an_episode_is_independent(key):
    partners = OneOf([ConstantPartner(action) for action in range(4)])
    env = WithPartner(Clock(), partners, share=0.5, noise=(0.0, 1.0))
    keys = jax.random.split(key, 8000)
    state = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(keys)
    check_counts(np.ones((2, 2, 4, 4)), state.present, state.seat, state.number, 4 * state.level)


@pytest.mark.slow
def test_every_episode_has_a_partner_of_its_own(key):
    partners = OneOf([ConstantPartner(4), ConstantPartner(5)])
    env = AutoReset(WithPartner(KITCHEN, partners, share=0.5, noise=(0.2, 0.9)))
    states, timesteps = episodes(env, key, drawn_actions(key, 60))
    assert 0.2 <= states.level.min() < 0.25
    assert 0.85 < states.level.max() <= 0.9
    drawn = (states.seat, states.number, states.present, states.level)
    who = np.stack([np.asarray(x) for x in drawn], axis=-1)
    starts = np.concatenate([np.ones((60, 1), bool), timesteps.done], axis=1)
    changed = (who[:, 1:] != who[:, :-1]).any(axis=-1)
    assert not (changed & ~starts[:, 1:]).any()
    assert changed[starts[:, 1:]].mean() > 0.5
    assert not timesteps.info[PARTNER_MASK].all(axis=-1).any()


def test_replaced_actions_are_not_active_in_a_rollout(key):
    """The partner alone takes action 2, and the learner never does."""
    one = WithPartner(Clock(), OneOf([ConstantPartner(2)]), share=0.5)
    env = Vectorize(AutoReset(LogEpisodes(one)), 16)
    policy = build(env, key)
    bias = jnp.array([0.0, 0.0, -1e9])
    policy = eqx.tree_at(lambda p: p.actor.network.layers[-1].bias, policy, bias)
    rollout, _ = roll(policy, env, key, 12)
    replaced = np.asarray(rollout.taken == 2)
    assert (np.asarray(rollout.raw_action) != 2).all()
    assert (replaced.sum(axis=-1) <= 1).all()
    assert 0.15 < replaced.mean() < 0.35
    terminated = np.asarray(rollout.terminated)
    going = np.ones((16, 2), bool)
    for time in range(12):
        np.testing.assert_array_equal(rollout.active[time], going & ~replaced[time])
        going = np.asarray(rollout.done)[time, :, None] | ~terminated[time]


@pytest.mark.slow
def test_what_partners_remember_begins_anew(key):
    recording = jnp.tile(jnp.array([[0], [1], [2]]), (1, 2))
    env = AutoReset(WithPartner(Clock(), OneOf([RecordedPartner(recording, then=0)])))
    _, state = env.reset(key)

    def step(state, key):
        timestep, after = env.step(key, state, jnp.array([0, 0]))
        return after, (state.carry, timestep.done)

    _, (carry, done) = jax.jit(lambda s: jax.lax.scan(step, s, jax.random.split(key, 200)))(state)
    (remembers,) = jax.tree.leaves(carry)
    ends = np.flatnonzero(done)
    starts = np.concatenate([[0], ends[:-1] + 1])
    assert len(ends) > 20
    for start, end in zip(starts, ends, strict=True):
        assert remembers[start : end + 1].tolist() == list(range(end + 1 - start))


@pytest.mark.slow
def test_it_keeps_the_protocol():
    check_env(
        WithPartner(KITCHEN, OneOf([ConstantPartner(4), ConstantPartner(5)]), noise=(0.1, 0.2))
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WithPartner(AutoReset(KITCHEN)), "must be inside AutoReset"),
        (lambda: WithPartner(Vectorize(KITCHEN, 2)), "with the environment inside Vectorize"),
        (lambda: WithPartner(Clock(1)), "at least 2 agents"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
