"""Environments of many runs that differ in their shaped reward."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from eqgrid import ShapedReward, iter_wrappers
from experiments._build import build_training_env, with_shaping
from experiments._config import default_config
from experiments._worlds import Kitchen


def weight_after(env, steps):
    shaped = next(x for x in iter_wrappers(env.env) if isinstance(x, ShapedReward))
    return shaped.schedule(jnp.asarray(steps))


def test_each_run_has_its_own_shaping():
    base = dataclasses.replace(default_config(Kitchen()), num_envs=4)
    choices = [(0.0, 80), (5.0, 80), (1.0, 800)]
    configs = [dataclasses.replace(base, shaping=x, shaping_steps=y) for x, y in choices]
    env, axes = with_shaping(build_training_env(base), configs)
    weights = eqx.filter_vmap(lambda env: weight_after(env, 10), in_axes=(axes,))(env)
    np.testing.assert_allclose(weights, [0.0, 2.5, 0.95], rtol=1e-6)
    alone = [weight_after(build_training_env(config), 10) for config in configs]
    np.testing.assert_array_equal(weights, alone)


def test_equal_shaping_has_no_axis():
    config = default_config(Kitchen())
    env = build_training_env(config)
    same, axes = with_shaping(env, [config, dataclasses.replace(config, seed=1)])
    assert same is env
    assert axes is None
