"""Harvest and Cleanup through the adapter to PettingZoo: agents that are away stay in the game."""

import jax
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test

from eqgrid import make
from eqgrid.envs.commons import MEASURES
from eqgrid.interop import to_pettingzoo

STEPS = 40


@pytest.mark.parametrize("name", ["harvest", "cleanup"])
def test_pettingzoo_accepts_it_and_nobody_leaves_before_the_end(name):
    world = make(name, layout="small", num_agents=4, horizon=STEPS, cooldown=0)
    env = to_pettingzoo(world)
    parallel_api_test(env, num_cycles=STEPS + 5)
    observations, _ = env.reset(seed=3)
    rng, everybody = np.random.default_rng(0), list(env.possible_agents)
    totals, was_hit = dict.fromkeys(MEASURES, 0.0), False
    for time in range(STEPS):
        assert env.agents == everybody
        actions = {agent: int(rng.choice([1, 5, 7])) for agent in everybody}
        observations, rewards, ended, cut, infos = env.step(actions)
        assert set(rewards) == set(observations) == set(everybody)
        assert not any(ended.values())
        assert set(cut.values()) == {time == STEPS - 1}
        totals = {name: total + float(infos["agent_0"][name]) for name, total in totals.items()}
        was_hit |= any(info["events"][2] for info in infos.values())
    assert was_hit
    assert totals["peace"] < len(everybody)
    assert env.agents == []


@pytest.mark.parametrize("name", ["harvest", "cleanup"])
def test_a_step_is_that_of_the_environment(name):
    world = make(name, layout="small", horizon=STEPS)
    env = to_pettingzoo(world)
    observations, _ = env.reset(seed=1)
    assert {agent: seen.shape for agent, seen in observations.items()} == {
        f"agent_{i}": world.reset(jax.random.key(0))[0].shape[1:] for i in range(3)
    }
    for agent, seen in observations.items():
        assert seen in env.observation_space(agent)
        assert env.action_space(agent).n == len(world.actions)
