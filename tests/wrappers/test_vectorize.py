import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from drift import Drift
from race import Race
from wrapper_checks import assert_close, rollout, sample_actions

from eqgrid import (
    AbstractEnv,
    AbstractSpace,
    AbstractWrapper,
    AutoReset,
    Discrete,
    LogEpisodes,
    TimeLimit,
    TimeStep,
    Vectorize,
    make,
)


@pytest.mark.parametrize("core", [Drift(), pytest.param(Race(), marks=pytest.mark.slow)])
def test_equals_a_python_loop(key, core):
    one = AutoReset(TimeLimit(core, 3))
    env = Vectorize(one, 4)
    actions = sample_actions(env, key, 1)[0]
    first = env.reset(key)
    then = env.step(key, first[1], actions)
    reset, step = eqx.filter_jit(one.reset), eqx.filter_jit(one.step)
    for i, sub_key in enumerate(jax.random.split(key, 4)):
        pick = lambda tree, i=i: jax.tree.map(lambda x: x[i], tree)  # noqa: E731
        assert_close(pick(first), reset(sub_key))
        assert_close(pick(then), step(sub_key, pick(first[1]), actions[i]))


class Tabled(Drift):
    """A world with a table among its parameters."""

    table: jax.Array = eqx.field(default_factory=lambda: jnp.arange(4.0))

    def step(self, key, state, action):
        timestep, state = super().step(key, state, action)
        return dataclasses.replace(timestep, info={"total": self.table.sum()}), state


def test_parameters_are_shared_and_not_split(key):
    """Even where an axis of a parameter happens to be as long as there are environments."""
    _, timesteps, _ = rollout(Vectorize(Tabled(), 4), key, jnp.zeros((1, 4, 2), int))
    np.testing.assert_array_equal(timesteps.info["total"], [[6.0] * 4])


def test_one_environment_is_a_batch_of_one(key):
    observation, state = Vectorize(CartPole(), 1).reset(key)
    assert observation.shape == (1, 1, 4)
    assert state.shape == (1, 4)


class OneRowTooMany(AbstractEnv):
    """Two agents, of which `part` has three rows."""

    part: str = eqx.field(static=True)
    num_agents: int = eqx.field(static=True, default=2)
    action_space: AbstractSpace = Discrete(2)

    def rows(self, *parts):
        return 3 if self.part in parts else 2

    def reset(self, key):
        return jnp.zeros((self.rows("first"), 3)), jnp.asarray(0)

    def step(self, key, state, action):
        rows = self.rows("reward")
        observation = jnp.zeros((self.rows("observation"), 3))
        over = (jnp.zeros(rows, bool), jnp.asarray(False))
        return TimeStep(observation, jnp.zeros(rows), *over, {}), state

    def observe(self, state):
        return jnp.zeros((self.rows("observe"), 3))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("first", "observation"),
        ("observation", "observation"),
        ("observe", "observation"),
        ("reward", "reward"),
    ],
)
def test_what_has_another_number_of_agents_is_named(part, name, key):
    one = AutoReset(TimeLimit(OneRowTooMany(part), 5))
    with pytest.raises(ValueError, match=f"`{name}` must lead with 2 agents, but has the shape"):
        one.step(key, one.reset(key)[1], jnp.zeros(2, int))
    envs = Vectorize(TimeLimit(OneRowTooMany(part), 5), 4)
    actions = jnp.zeros((4, 2), int)
    if part == "observe":  # `step` of an environment without AutoReset does not use it
        envs.step(key, envs.reset(key)[1], actions)
        return
    axes = "4 envs, 2 agents" if part == "first" else "2 agents"
    with pytest.raises(ValueError, match=f"`{name}` must lead with {axes}, but has the"):
        envs.step(key, envs.reset(key)[1], actions)


class Miscounts(AbstractWrapper):
    """Changes one part of every timestep to a number for all agents, or the other way round."""

    env: AbstractEnv
    part: str = eqx.field(static=True)

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        shape = (2,) if self.part == "truncated" else ()
        wrong = jnp.zeros(shape, getattr(timestep, self.part).dtype)
        return eqx.tree_at(lambda x: getattr(x, self.part), timestep, wrong), state

    def observe(self, state):
        return self.env.observe(state)


@pytest.mark.parametrize("part", ["reward", "terminated", "truncated"])
@pytest.mark.parametrize("wrap", [LogEpisodes, AutoReset, lambda x: Vectorize(x, 4)])
def test_a_part_of_the_timestep_with_another_shape_is_named(part, wrap, key):
    env = wrap(Miscounts(make("overcooked"), part))
    actions = jnp.zeros((4, 2) if isinstance(env, Vectorize) else 2, int)
    with pytest.raises(ValueError, match=f"`{part}` must (lead with|have the shape)"):
        env.step(key, env.reset(key)[1], actions)
