"""The environments and networks that the settings of IPPO build."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from command_lines import parse
from scripts import shipped_script

from eqgrid_lab import Kitchen
from agents import IndependentParameters, SharedParameters
from eqgrid import ShapedReward, iter_wrappers
from eqgrid_lab.settings import default_settings


def test_shaping_decreases_over_the_steps_of_all_environments():
    base = dataclasses.replace(default_settings(shipped_script("ippo"), Kitchen()), num_envs=4)
    for shaping, steps, expected in ((0.0, 80, 0.0), (5.0, 80, 2.5), (1.0, 800, 0.95)):
        config = dataclasses.replace(base, shaping=shaping, shaping_steps=steps)
        env: Any = config.train_env()
        shaped = next(x for x in iter_wrappers(env.env) if isinstance(x, ShapedReward))
        np.testing.assert_allclose(shaped.schedule(jnp.asarray(10)), expected, rtol=1e-6)


def test_agents_are_told_who_they_are():
    config = dataclasses.replace(default_settings(shipped_script("ippo"), Kitchen()), num_envs=2)
    told = dataclasses.replace(config, agent_id=True)
    resets = (eqx.filter_jit(x.train_env().reset) for x in (config, told))
    (plain, _), (observation, _) = (reset(jax.random.key(0)) for reset in resets)
    np.testing.assert_array_equal(observation[..., :-2], plain)
    np.testing.assert_array_equal(observation[0, :, -2:], [[1, 0], [0, 1]])


def test_parameters_are_shared_or_not():
    for kind, team in (("shared", SharedParameters), ("independent", IndependentParameters)):
        config = parse("--parameters", kind, "--num-envs", "2")
        env = config.train_env()
        policy = eqx.filter_eval_shape(config.policy, env, jax.random.key(0))
        assert isinstance(policy.actor, team)
        assert isinstance(policy.critic, team)
