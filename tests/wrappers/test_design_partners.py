"""Partners are designed by the variance of returns: compared with a loop in NumPy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import Clock
from wrapper_checks import rollout, sample_actions

from eqgrid import (
    AutoReset,
    Box,
    ConstantPartner,
    DesignPartners,
    LogEpisodes,
    Masked,
    OneOf,
    Vectorize,
    WithPartner,
    sample_allowed,
)

pytestmark = pytest.mark.slow

ENVS, DESIGNS, EPISODES, STEPS = 12, 4, 5, 200


class Paid(Clock):
    """A clock that pays a multiple."""

    pay: float | jax.Array = 1.0

    def step(self, key, state, action):
        timestep, state = super().step(key, state, action)
        return dataclasses.replace(timestep, reward=self.pay * timestep.reward), state


def designed(num_designs=DESIGNS, episodes=EPISODES, *, pay=1.0, share=1.0):
    """Environments that differ in numbers alone, for which one program is compiled."""
    clock = WithPartner(Paid(pay=jnp.asarray(pay)), share=share, biased=True)
    return DesignPartners(Vectorize(AutoReset(LogEpisodes(clock)), ENVS), num_designs, episodes)


def partners_of(states):
    """The states of `WithPartner` in those of a `DesignPartners`."""
    return states.env_state.env_state


@pytest.fixture(scope="module")
def played():
    env, key = designed(), jax.random.key(0)
    actions = sample_actions(env, jax.random.key(1), STEPS)
    (_, first), timesteps, states = rollout(env, key, actions)
    everything = jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, states)
    return jax.tree.map(np.asarray, (actions, timesteps, everything))


def test_the_half_with_the_highest_variance_stays(played):
    _, timesteps, states = played
    begun, returns, generation = np.zeros(ENVS, int), [[] for _ in range(DESIGNS)], 0
    own = ENVS // DESIGNS
    for step in range(STEPS):
        ended = timesteps.info["episode_done"][step]
        for env in np.flatnonzero(ended):
            if begun[env] == generation:
                earned = timesteps.info["episode_return"][step, env].mean()
                returns[env // own].append(earned)
        before, after = states.level[step], states.level[step + 1]
        kept = np.ones(DESIGNS, bool)
        if min(map(len, returns)) >= EPISODES:
            worst = np.argsort([np.var(x) for x in returns])[: DESIGNS // 2]
            kept[worst] = False
            returns, generation = [[] for _ in range(DESIGNS)], generation + 1
        begun[ended] = generation
        np.testing.assert_array_equal(after == before, kept)
        same = (states.bias[step + 1] == states.bias[step]).all(axis=1)
        np.testing.assert_array_equal(same, kept)
        assert states.generation[step + 1] == generation
        np.testing.assert_array_equal(states.begun[step + 1], begun)
    assert generation >= 5


def test_ties_are_broken_at_random(key):
    """Where nothing is earned, no design stays for good."""
    env = designed(pay=0.0)
    (_, first), _, states = rollout(env, key, sample_actions(env, key, STEPS))
    assert states.generation[-1] > 8
    assert not np.isin(np.asarray(first.level), np.asarray(states.level[-1])).any()


def test_an_episode_without_a_partner_does_not_count(key):
    env = designed(share=0.0)
    _, _, states = rollout(env, key, sample_actions(env, key, STEPS))
    assert states.generation[-1] == 0
    assert not states.returns.count.any()


def test_an_episode_has_the_partner_of_its_design_to_its_end(played):
    _, timesteps, states = played
    partner, design = partners_of(states), np.arange(ENVS) // (ENVS // DESIGNS)
    for step in range(STEPS + 1):
        begins = np.ones(ENVS, bool) if step == 0 else timesteps.info["episode_done"][step - 1]
        level, bias = states.level[step][design], states.bias[step][design]
        if step > 0:
            level = np.where(begins, level, partner.level[step - 1])
            bias = np.where(begins[:, None], bias, partner.bias[step - 1])
        np.testing.assert_array_equal(partner.level[step], level)
        np.testing.assert_array_equal(partner.bias[step], bias)
    assert 0 <= states.level.min() < 0.1
    assert 0.9 < states.level.max() <= 1


def test_what_is_forbidden_is_never_drawn():
    space = Clock().action_space
    seen = Masked(jnp.zeros((2, 1)), jnp.array([[True, True, True], [False, True, False]]))
    logits = jnp.array([5.0, -5.0, 5.0])
    for number in range(20):
        assert sample_allowed(space, seen, 1, jax.random.key(number), logits) == 1
    nothing = Masked(seen.observation, jnp.zeros((2, 3), bool))
    drawn = {int(sample_allowed(space, nothing, 1, jax.random.key(x), logits)) for x in range(20)}
    assert drawn == {0, 2}, "where nothing is allowed, everything is"


class Slider(Clock):
    """A clock whose agents choose numbers."""

    action_space: Box = Box(-1.0, 1.0, (1,))  # pyright: ignore[reportIncompatibleVariableOverride]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: designed(num_designs=3), "an even number of designs that divides"),
        (lambda: designed(num_designs=8), "an even number of designs that divides"),
        (lambda: designed(episodes=1), "at least 2 episodes"),
        (lambda: DesignPartners(Clock()), "put Vectorize inside it"),
        (lambda: DesignPartners(Vectorize(Clock(), 4), 2), r"WithPartner\(env, biased=True\)"),
        (
            lambda: DesignPartners(
                Vectorize(WithPartner(Clock(), OneOf([ConstantPartner(0)]), biased=True), 4), 2
            ),
            "without partners of its own",
        ),
        (lambda: WithPartner(Slider(), biased=True), "needs Discrete actions"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_it_needs_the_returns(key):
    env = DesignPartners(Vectorize(AutoReset(WithPartner(Clock(), biased=True)), 4), 2)
    with pytest.raises(ValueError, match="needs LogEpisodes inside"):
        rollout(env, key, jnp.zeros((2, 4, 2), int))
