import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from drift import Drift
from jaxtyping import Array, Int, PyTree
from race import Race
from wrapper_checks import assert_close, rollout, sample_actions

from agents import PPO, evaluate, init_train_state, train
from eqgrid import (
    AbstractAutoReset,
    AbstractEnv,
    AbstractWrapperState,
    AppendTimeLeft,
    AutoReset,
    ConstantPartner,
    Discrete,
    LogEpisodes,
    OneOf,
    TimeLimit,
    TimeStep,
    Vectorize,
    WithPartner,
    make,
)
from eqgrid.interop import to_gymnasium, to_gymnasium_vector

either = pytest.mark.parametrize("lazy", [False, True])


@pytest.mark.parametrize(
    ("core", "lazy"),
    [
        (Race(), False),
        (Drift(), False),
        pytest.param(Race(), True, marks=pytest.mark.slow),
        pytest.param(Drift(), True, marks=pytest.mark.slow),
    ],
)
def test_equals_a_loop_that_resets_by_hand(key, core, lazy):
    """With the same keys: the step's key is split into one for the step and one for the reset."""
    inner = TimeLimit(core, 4)
    env = AutoReset(inner, lazy=lazy)
    actions = sample_actions(env, key, 15)
    first, timesteps, states = rollout(env, key, actions)
    reset_key, scan_key = jax.random.split(key)
    step, reset = eqx.filter_jit(inner.step), eqx.filter_jit(inner.reset)
    observation, state = reset(reset_key)
    assert_close(first, (observation, state))
    ends = 0
    for i, step_key in enumerate(jax.random.split(scan_key, 15)):
        step_key, reset_key = jax.random.split(step_key)
        timestep, state = step(step_key, state, actions[i])
        observation = timestep.observation
        if timestep.done:
            observation, state = reset(reset_key)
            ends += 1
        got, got_state = jax.tree.map(lambda x, i=i: x[i], (timesteps, states))
        assert_close(got_state, state)
        assert_close(got.observation, observation)
        assert_close(got.final_observation, timestep.observation)
        for name in ("reward", "terminated", "truncated", "info"):
            assert_close(getattr(got, name), getattr(timestep, name))
    assert ends > 2


class Sorter(AbstractEnv):
    """An environment whose observation, and nothing else in it, is a sort."""

    num_agents: int = eqx.field(static=True, default=1)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = jax.random.uniform(key, (100,))
        return self.observe(state), state

    def step(self, key, state, action):
        state = jnp.sin(state) + action.astype(float)
        end = state[:1] > 1
        return TimeStep(self.observe(state), jnp.zeros(1), end, jnp.asarray(False), {}), state

    def observe(self, state):
        return jnp.sort(state)[None]


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [None, 4])
def test_the_final_observation_costs_nothing_where_nobody_reads_it(key, num_envs):
    env = AutoReset(Sorter())
    env = env if num_envs is None else Vectorize(env, num_envs)

    def everything(key, state, action):
        return env.step(key, state, action)

    def without_final(key, state, action):
        timestep, state = env.step(key, state, action)
        return timestep.observation, timestep.reward, timestep.done, state

    _, state = env.reset(key)
    action = sample_actions(env, key, 1)[0]
    sorts = [
        jax.jit(f).lower(key, state, action).compile().as_text().count(" sort(")
        for f in (everything, without_final)
    ]
    assert sorts == [2, 1]


class Tagged(AbstractEnv):
    """An environment whose state holds what is no JAX array."""

    num_agents: int = eqx.field(static=True, default=1)
    action_space: Discrete = Discrete(2)
    more: dict = eqx.field(default_factory=dict)

    def reset(self, key):
        state = {"rule": jnp.sin, "numbers": jnp.ones(2), "count": jnp.asarray(0), **self.more}
        return self.observe(state), state

    def step(self, key, state, action):
        state = {**state, "count": state["count"] + 1, "numbers": state["numbers"] + 1.0}
        end = state["count"][None] >= 3
        return TimeStep(self.observe(state), jnp.zeros(1), end, jnp.asarray(False), {}), state

    def observe(self, state):
        return state["rule"](state["numbers"])[None]


@either
def test_states_may_hold_functions(key, lazy):
    env = AutoReset(Tagged(), lazy=lazy)
    _, state = env.reset(key)
    step = eqx.filter_jit(env.step)
    counts = []
    for _ in range(7):
        _, state = step(key, state, jnp.zeros(1, int))
        counts.append((int(state["count"]), float(state["numbers"][0])))
    assert counts == [(n, n + 1) for n in (1, 2, 0, 1, 2, 0, 1)]
    assert state["rule"] is jnp.sin


@pytest.mark.parametrize("number", [1, 0.5, True, 1j])
def test_numbers_in_a_state_that_are_no_arrays_are_named(key, number):
    env = Tagged(more={"score": number})
    for build in (AutoReset, lambda env: Vectorize(env, 2), lambda e: Vectorize(AutoReset(e), 2)):
        with pytest.raises(TypeError, match=r"Tagged holds .* at \['score'\], which is not"):
            build(env).reset(key)


@pytest.mark.slow
def test_lazy_resets_give_the_same_episodes(key):
    """Runners that end at different times, twelve of them in each of two batches."""
    lazy, eager = (Vectorize(AutoReset(TimeLimit(Race(), 7), lazy=x), 12) for x in (True, False))
    keys = jax.random.split(key, 2)
    actions = sample_actions(eager, key, 20)
    seen = [eqx.filter_vmap(lambda key, e=e: rollout(e, key, actions))(keys) for e in (lazy, eager)]
    assert_close(*seen)
    done = np.asarray(seen[0][1].done)
    assert done.any()
    assert not (done.all(axis=-1) | ~done.any(axis=-1)).all(), "some end while others go on"


@either
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_lazy_resets_are_skipped_in_a_whole_batch(key, lazy, depth):
    env = AutoReset(TimeLimit(Race(), 7), lazy=lazy)
    _, state = env.reset(key)
    inputs, step = (key, state, sample_actions(env, key, 1)[0]), env.step
    for _ in range(depth):
        inputs = jax.tree.map(lambda x: jnp.stack([x] * 3), inputs)
        step = eqx.filter_vmap(step)
    text = eqx.filter_jit(step).lower(*inputs).as_text()
    assert ("stablehlo.case" in text) == lazy


@final
class NumberedState(AbstractWrapperState):
    env_state: PyTree
    episode: Int[Array, ""]


@final
class Numbered(AbstractAutoReset):
    """A reset of somebody's own, which keeps the number of the episode in its state."""

    env: AbstractEnv

    def reset(self, key):
        observation, state = self.env.reset(key)
        return observation, NumberedState(state, jnp.asarray(0))

    def step(self, key, state, action):
        step_key, reset_key = jax.random.split(key)
        timestep, stepped = self.env.step(step_key, state.env_state, action)
        fresh = self.env.reset(reset_key)[1]
        after = jax.tree.map(lambda new, old: jnp.where(timestep.done, new, old), fresh, stepped)
        state = NumberedState(after, state.episode + timestep.done.astype(int))
        return dataclasses.replace(timestep, observation=self.observe(state)), state

    def observe(self, state):
        return self.env.observe(state.env_state)


@pytest.mark.slow
def test_a_reset_of_ones_own_does_what_ours_does(key):
    inner = LogEpisodes(make("goals", num_agents=1, horizon=4))
    actions = sample_actions(AutoReset(inner), key, 20)
    first, expected, _ = rollout(AutoReset(inner), key, actions)
    own, timesteps, states = rollout(Numbered(inner), key, actions)
    assert_close(timesteps, expected)
    assert_close(own[0], first[0])
    np.testing.assert_array_equal(states.episode, np.cumsum(expected.done))

    envs, ppo = Vectorize(Numbered(inner), 4), PPO(rollout_length=8, num_minibatches=2)
    run = train(ppo, envs, init_train_state(ppo, envs, key), num_updates=2)
    assert (run.state.runner.env_state.episode >= 4).all()
    assert evaluate(run.state.policy, envs, key).finished.all()
    to_gymnasium_vector(Numbered(make("goals", num_agents=1)), 2).reset(seed=0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda env: AutoReset(env), "One AutoReset is enough"),
        (lambda env: TimeLimit(env, 5), "must be inside AutoReset"),
        (lambda env: AppendTimeLeft(env, 5), "must be inside AutoReset"),
        (lambda env: WithPartner(env, OneOf((ConstantPartner(4),))), "must be inside AutoReset"),
        (to_gymnasium, "leave it out"),
    ],
)
def test_a_reset_of_ones_own_is_refused_where_ours_is(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong(Numbered(make("goals", num_agents=1)))
