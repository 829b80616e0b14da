"""The rule for partners that are stuck, compared with a loop over a list of what was done."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agents import (
    AbstractNetwork,
    ActorCritic,
    ClippedNormalHead,
    LocalObservation,
    PolicyPartner,
    SharedParameters,
    StuckRule,
    TrainedPolicy,
)
from eqgrid import Discrete, Masked, PartnerInput, make
from eqgrid.grid import poses

LENGTH, ACTIONS = 14, 6


class Echo(AbstractNetwork):
    """A network whose outputs are its inputs."""

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return x, carry


def echo(actions=ACTIONS, *, masked=False, greedy=True):
    """A partner that observes its logits."""
    team = SharedParameters(Echo(), 2)
    logits = jnp.zeros((2, actions))
    shown = jax.eval_shape(lambda: Masked(logits, logits == 0) if masked else logits)
    actor_critic = ActorCritic(team, team, LocalObservation())
    return PolicyPartner(TrainedPolicy(actor_critic, Discrete(actions), shown), greedy)


def as_it_is(state):
    return state


def probabilities(logits, pose, history, steps):
    """Of a person who did what is in the history: pairs of a pose and an action."""
    weights = np.exp(logits.astype(float))
    recent = history[-steps:]
    if len(history) >= steps + 1 and all(before == pose for before, _ in recent):
        weights[[action for _, action in recent]] = 0
    return weights / weights.sum()


@eqx.filter_jit
def actions_of(partner, observations, states, seat, key):
    def step(carry, now):
        observation, state, key = now
        action, carry = partner(PartnerInput(observation, state, seat), carry, key)
        return carry, action

    keys = jax.random.split(key, LENGTH)
    return jax.lax.scan(step, partner.initial_carry(), (observations, states, keys))[1]


@given(
    where=st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=LENGTH, max_size=LENGTH),
    number=st.integers(0, 2),
    seat=st.integers(0, 1),
    steps=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
@settings(deadline=None, max_examples=80)
def test_it_is_a_loop_over_the_last_steps(where, number, seat, steps, seed):
    """The agents stay where they are for a while, and differ in one number of their pose."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(LENGTH, 2, ACTIONS)).astype(np.float32)
    state = np.full((LENGTH, 2, 3), 7, np.int8)
    state[:, 1 - seat] = random.integers(9, size=(LENGTH, 3))
    state[:, seat, number] = where
    rule = StuckRule(echo(), as_it_is, steps)
    did = actions_of(rule, jnp.asarray(logits), jnp.asarray(state), jnp.asarray(seat), KEY)
    history = []
    for now, pose in enumerate(where):
        expected = probabilities(logits[now, seat], pose, history, steps).argmax()
        assert did[now] == expected, now
        history.append((pose, expected))


KEY = jax.random.key(0)


def test_drawn_actions_have_the_scaled_probabilities():
    logits = np.asarray([1.0, 0.5, 0.0, -0.5, 0.3, 0.2], np.float32)
    rule = StuckRule(echo(greedy=False), as_it_is)
    seen = PartnerInput(jnp.asarray([logits, logits]), jnp.ones((2, 3), jnp.int8), jnp.asarray(1))
    history = [(1, 5), (1, 2), (1, 0), (1, 2)]
    memory = dataclasses.replace(
        rule.initial_carry(),
        poses=jnp.ones((3, 3), int),
        actions=jnp.asarray([action for _, action in history[-3:]]),
        count=jnp.asarray(len(history)),
    )
    draw = jax.jit(jax.vmap(lambda key: rule(seen, memory, key)[0]))
    drawn = np.bincount(draw(jax.random.split(KEY, 5000)), minlength=ACTIONS) / 5000
    expected = probabilities(logits, 1, history, 3)
    assert (expected == 0).sum() == 2
    np.testing.assert_allclose(drawn, expected, atol=0.03)
    assert (drawn[expected == 0] == 0).all()


def test_forbidden_actions_stay_forbidden():
    """Two actions are allowed: if both were tried, the rule would leave nothing."""
    rule = StuckRule(echo(masked=True), as_it_is)
    logits = jnp.tile(jnp.asarray([3.0, 2.0, 1.0, 0.0, 0.0, 0.0]), (LENGTH, 2, 1))
    allowed = jnp.tile(jnp.asarray([False, True, True, False, False, False]), (LENGTH, 2, 1))
    still = jnp.zeros((LENGTH, 2, 3), jnp.int8)
    did = actions_of(rule, Masked(logits, allowed), still, jnp.asarray(0), KEY)
    assert did.tolist()[:9] == [1, 1, 1, 1, 2, 1, 1, 1, 2]


def test_a_cook_at_a_counter_tries_something_else():
    """It walks north for as long as it is told to, in a real kitchen."""
    kitchen = make("overcooked", layout="cramped", horizon=LENGTH)
    logits = jnp.tile(jnp.arange(6.0, 0.0, -1.0), (2, 1))
    rule = StuckRule(echo(), poses)

    def step(now, key):
        state, carry = now
        action, carry = rule(PartnerInput(logits, state, jnp.asarray(1)), carry, key)
        _, after = kitchen.step(key, state, jnp.stack([4, action]))
        return (after, carry), action

    start = kitchen.reset(KEY)[1], rule.initial_carry()
    _, did = jax.jit(lambda: jax.lax.scan(step, start, jax.random.split(KEY, LENGTH)))()
    # It faces the counter at first. Each step south leads away from it, and the next one back.
    assert did.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="excludes up to 3 actions"):
        StuckRule(echo(3), as_it_is)
    with pytest.raises(ValueError, match="at least 1 step"):
        StuckRule(echo(), as_it_is, 0)
    scales = eqx.tree_at(lambda x: x.policy.actor_critic.head, echo(), ClippedNormalHead())
    with pytest.raises(ValueError, match="whose head is a CategoricalHead"):
        StuckRule(scales, as_it_is)
