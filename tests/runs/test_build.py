"""Environments of many runs that differ in their shaped reward."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import parse

from eqgrid_lab import Kitchen
from agents import IndependentParameters, SharedParameters
from eqgrid import ShapedReward, iter_wrappers
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs._members import stack_envs
from eqgrid_lab.settings import default_settings, shipped_script


def weight_after(env, steps):
    shaped = next(x for x in iter_wrappers(env.env) if isinstance(x, ShapedReward))
    return shaped.schedule(jnp.asarray(steps))


def test_each_run_has_its_own_shaping():
    base = dataclasses.replace(default_settings(shipped_script("ippo"), Kitchen()), num_envs=4)
    choices = [(0.0, 80), (5.0, 80), (1.0, 800)]
    configs = [dataclasses.replace(base, shaping=x, shaping_steps=y) for x, y in choices]
    env, axes = stack_envs(base.train_env(), configs)
    weights = eqx.filter_vmap(lambda env: weight_after(env, 10), in_axes=(axes,))(env)
    np.testing.assert_allclose(weights, [0.0, 2.5, 0.95], rtol=1e-6)
    alone = [weight_after(config.train_env(), 10) for config in configs]
    np.testing.assert_array_equal(weights, alone)


def test_equal_shaping_has_no_axis():
    config = default_settings(shipped_script("ippo"), Kitchen())
    env = config.train_env()
    same, axes = stack_envs(env, [config, dataclasses.replace(config, seed=1)])
    assert same is env
    assert axes is None


def test_agents_are_told_who_they_are_and_what_time_is_left():
    config = dataclasses.replace(default_settings(shipped_script("ippo"), Kitchen()), num_envs=2)
    told = dataclasses.replace(config, agent_id=True, time_left=True)
    resets = (eqx.filter_jit(x.train_env().reset) for x in (config, told))
    (plain, _), (observation, _) = (reset(jax.random.key(0)) for reset in resets)
    np.testing.assert_array_equal(observation[..., :-3], plain)
    np.testing.assert_array_equal(observation[0, :, -3:], [[1, 1, 0], [1, 0, 1]])


def test_the_time_is_not_told_in_pictures():
    with pytest.raises(UsageError, match="--time-left is for features"):
        parse("--time-left", "--env.observation", "planes")


def test_parameters_are_shared_or_not():
    for kind, team in (("shared", SharedParameters), ("independent", IndependentParameters)):
        config = parse("--parameters", kind, "--num-envs", "2")
        env = config.train_env()
        policy = eqx.filter_eval_shape(config.policy, env, jax.random.key(0))
        assert isinstance(policy.actor, team)
        assert isinstance(policy.critic, team)
