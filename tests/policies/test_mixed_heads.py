"""Teams of policies whose action heads differ: each agent acts by its own."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from learners import build

from agents import (
    AbstractActionHead,
    ClippedNormalHead,
    DiagonalNormal,
    MultiCategoricalHead,
    evaluate,
    mixed_team,
    trained_policy,
)
from agents.policies import MixedHead
from eqgrid import AbstractEnv, AutoReset, Box, LogEpisodes, MultiDiscrete, TimeStep, Vectorize

SPACE = Box(-1.0, 1.0, (3,))


@final
class Narrow(AbstractActionHead):
    """A normal distribution around the outputs, with a deviation that is a parameter."""

    std: Array

    def out_size(self, space):
        return math.prod(space.shape)

    def distribution(self, output):
        return DiagonalNormal(output, jnp.broadcast_to(self.std, output.shape))

    def noise(self, key, space, shape):
        return jax.random.normal(key, (*shape, math.prod(space.shape)))

    def sample(self, distribution, noise):
        return distribution.mean + distribution.std * noise

    def most_probable(self, distribution):
        return distribution.mean

    def action(self, raw_action, space):
        return jnp.clip(raw_action, -1.0, 1.0)

    def entropy(self, distribution):
        return distribution.entropy()


def test_every_agent_has_the_distribution_of_its_head(key):
    heads = [Narrow(jnp.asarray(std)) for std in (0.1, 1.0, 3.0)]
    mixed = MixedHead(heads, SPACE)
    output = jax.random.normal(key, (5, 3, 3))
    distribution = jax.vmap(mixed.distribution)(output)
    noise = mixed.noise(key, SPACE, (5, 3))
    assert noise.shape == (5, 3, 3)
    raw = mixed.sample(distribution, noise)
    action, log_prob = mixed.action(raw, SPACE), distribution.log_prob(raw)
    entropy, best = mixed.entropy(distribution), mixed.most_probable(distribution)
    for agent, head in enumerate(heads):
        own = head.distribution(output[:, agent])
        expected = head.sample(own, noise[:, agent])
        np.testing.assert_allclose(raw[:, agent], expected, rtol=1e-6)
        np.testing.assert_allclose(action[:, agent], head.action(expected, SPACE), rtol=1e-6)
        np.testing.assert_allclose(log_prob[:, agent], own.log_prob(expected), rtol=1e-5)
        np.testing.assert_allclose(entropy[:, agent], head.entropy(own), rtol=1e-6)
        np.testing.assert_allclose(best[:, agent], output[:, agent], rtol=1e-6)


def test_heads_of_discrete_choices_are_mixed_too(key):
    space = MultiDiscrete((3, 5))
    mixed = MixedHead([MultiCategoricalHead(space)] * 2, space)
    distribution = mixed.distribution(jax.random.normal(key, (2, 8)))
    raw = mixed.sample(distribution, mixed.noise(key, space, (2,)))
    assert raw.shape == mixed.action(raw, space).shape == (2, 2)
    assert jax.vmap(space.contains)(raw).all()


@final
class Lines(AbstractEnv):
    """Two agents see ones, and earn what they do, for five steps."""

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Box = SPACE

    def reset(self, key):
        return jnp.ones((2, 1)), jnp.asarray(0)

    def step(self, key, state, action):
        over = jnp.zeros(2, bool)
        reward = jnp.abs(action).sum(axis=1)
        return TimeStep(jnp.ones((2, 1)), reward, over, state >= 4, {}), state + 1

    def observe(self, state):
        return jnp.ones((2, 1))


def test_a_team_acts_by_both_heads(key):
    envs = Vectorize(AutoReset(LogEpisodes(Lines())), 8)
    still, wild = (
        trained_policy(build(envs, key, head=lambda space, std=std: Narrow(std)), envs)
        for std in (jnp.asarray(0.0), jnp.asarray(50.0))
    )
    for team, wilder in (((still, wild), 1), ((wild, still), 0)):
        earned = evaluate(mixed_team(team), envs, key).episode_return
        assert (earned[:, wilder] > 10).all()  # nearly every number is clipped to 1
        assert (earned[:, 1 - wilder] < 1).all()


def test_heads_that_do_not_fit_are_one_sentence():
    with pytest.raises(ValueError, match="heads of one team need equal numbers of outputs"):
        MixedHead([Narrow(jnp.ones(())), ClippedNormalHead(SPACE)], SPACE)
