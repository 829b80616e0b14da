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
from pendulum import Pendulum
from signals import Signals

from agents import (
    AbstractActionHead,
    DiagonalNormal,
    MultiCategoricalHead,
    evaluate,
    mixed_team,
    trained_policy,
)
from agents.policies._mixed_head import MixedHead
from eqgrid import AutoReset, Box, LogEpisodes, MultiDiscrete, TimeLimit, Vectorize

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


@pytest.mark.slow
def test_a_team_acts_by_both_heads(key):
    env = Vectorize(AutoReset(LogEpisodes(TimeLimit(Pendulum(), 5))), 4)
    env = eqx.tree_at(lambda e: e.env, env, env.env)
    signals = Vectorize(AutoReset(LogEpisodes(Signals(masked=False))), 4)
    policies = [trained_policy(build(signals, k), signals) for k in jax.random.split(key)]
    assert evaluate(mixed_team(policies), signals, key).finished.all()


def test_heads_that_do_not_fit_are_one_sentence():
    with pytest.raises(ValueError, match="heads of one team need equal numbers of outputs"):
        MixedHead([Narrow(jnp.ones(())), _two_outputs()], SPACE)


def _two_outputs():
    @final
    class Twice(Narrow):
        def out_size(self, space):
            return 6

        def distribution(self, output):
            return DiagonalNormal(output[:, :3], jnp.ones_like(output[:, :3]))

    return Twice(jnp.ones(()))
