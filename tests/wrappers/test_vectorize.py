import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from drift import Drift
from race import Race
from wrapper_checks import assert_close, assert_same, rollout, sample_actions

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


def test_is_filter_vmap_with_a_name(key):
    one = AutoReset(TimeLimit(Race(), 3))
    keys = jax.random.split(key, 4)
    assert_same(Vectorize(one, 4).reset(key), eqx.filter_vmap(one.reset)(keys))


def test_64_environments_start_apart(key):
    observation, _ = Vectorize(Race(), 64).reset(key)
    assert len(np.unique(observation["vector"][..., 0], axis=0)) == 64


def test_luck_differs_between_environments_and_steps(key):
    """The environments differ in their keys alone here: all start and act alike."""
    env = Vectorize(Drunkard(), 64)
    _, timesteps, _ = rollout(env, key, jnp.zeros((3, 64, 1), int))
    strides = np.diff(np.asarray(timesteps.observation[..., 0, 0]), axis=0, prepend=0.0)
    assert len(np.unique(strides)) == 3 * 64


class Drunkard(AbstractEnv):
    """A walk whose luck comes from the key of `step`."""

    table: jax.Array
    num_agents: int = eqx.field(static=True)
    action_space: Discrete

    def __init__(self, table=None):
        self.table = jnp.zeros(1) if table is None else table
        self.num_agents = 1
        self.action_space = Discrete(2)

    def reset(self, key):
        return self.observe(jnp.zeros(1)), jnp.zeros(1)

    def step(self, key, state, action):
        state = state + jax.random.uniform(key, (1,))
        info = {"total": self.table.sum()}
        timestep = TimeStep(
            self.observe(state), jnp.zeros(1), jnp.zeros(1, bool), jnp.asarray(False), info
        )
        return timestep, state

    def observe(self, state):
        return state[None]


def test_parameters_are_shared_and_not_split(key):
    """Even where an axis of a parameter happens to be as long as there are environments."""
    env = Vectorize(Drunkard(table=jnp.arange(4.0)), 4)
    _, timesteps, _ = rollout(env, key, jnp.zeros((1, 4, 1), int))
    np.testing.assert_array_equal(timesteps.info["total"], [[6.0] * 4])


def test_one_environment_is_a_batch_of_one(key):
    observation, state = Vectorize(CartPole(), 1).reset(key)
    assert observation.shape == (1, 1, 4)
    assert state.shape == (1, 4)


@pytest.mark.parametrize("num_envs", [0, -2])
def test_needs_an_environment(num_envs):
    with pytest.raises(ValueError, match=f"at least 1 environment, but got {num_envs}"):
        Vectorize(CartPole(), num_envs)


def test_equal_keys_give_equal_episodes(key):
    env = Vectorize(AutoReset(TimeLimit(Race(), 3)), 4)
    actions = sample_actions(env, key, 8)
    assert_same(rollout(env, key, actions), rollout(env, key, actions))


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
    with pytest.raises(ValueError, match=f"`{name}` must lead with 4 envs, 2 agents, but has the"):
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
