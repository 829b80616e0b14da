"""The test-kit: what is sound passes, and each broken rule is one sentence."""

import dataclasses
import re
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import pytest
from cart_pole import CartPole
from kitchen_checks import unchecked
from race import Race

from eqgrid import AbstractEnv, AutoReset, Discrete, LogEpisodes, TimeLimit, TimeStep, check_env
from eqgrid.envs.goals import Goals
from eqgrid.envs.overcooked import Overcooked

WORLDS = [
    Overcooked("cramped", horizon=20),
    Overcooked("ring", dynamics="interactive", observation="features"),
    Goals("rooms", num_agents=3, horizon=30),
    Race(),
    TimeLimit(CartPole(), 30),
    AutoReset(LogEpisodes(Goals(horizon=10))),
]


@pytest.mark.slow
@pytest.mark.parametrize("env", WORLDS, ids=lambda env: type(env).__name__)
def test_what_is_sound_passes(env):
    check_env(env, steps=60)


def changed(timestep, **changes):
    return TimeStep(
        **{
            name: changes.get(name, getattr(timestep, name))
            for name in ("observation", "reward", "terminated", "truncated", "info")
        }
    )


class Broken(AbstractEnv):
    """A race in which one thing is wrong."""

    race: Race
    fault: str = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    action_space: Any

    def __init__(self, fault):
        self.race, self.fault = Race(), fault
        self.num_agents = 0 if fault == "nobody" else 3
        self.action_space = 3 if fault == "no space" else Discrete(3)

    def reset(self, key):
        observation, state = self.race.reset(key)
        if self.fault == "transposed":
            observation = {"vector": observation["vector"].T, "picture": observation["picture"]}
        return observation, state

    def observe(self, state):
        seen = self.race.observe(state)
        if self.fault == "other view":
            seen = {**seen, "vector": seen["vector"] + 1.0}
        return seen

    def step(self, key, state, action):
        timestep, state = self.race.step(key, state, action)
        match self.fault:
            case "whole rewards":
                timestep = changed(timestep, reward=timestep.reward.astype(int))
            case "one reward":
                timestep = changed(timestep, reward=timestep.reward.sum())
            case "numbers of ends":
                timestep = changed(timestep, truncated=jnp.asarray(0))
            case "endless":
                ends_now = timestep.info["events"][:, 1].astype(bool)
                timestep = changed(timestep, terminated=timestep.terminated & ends_now)
            case "infinite":
                timestep = changed(timestep, reward=timestep.reward / 0.0)
            case "growing":
                state = dataclasses.replace(state, time=state.time.astype(float))
        return timestep, state


FAULTS = {
    "nobody": "num_agents must be a whole number of at least 1",
    "no space": "action_space must be Discrete or Box",
    "transposed": "must lead with 3 agents, but has the shape",
    "other view": "observe(state) must be the observation that",
    "whole rewards": "reward must be of floats",
    "one reward": "reward must have the shape (3,), but has ()",
    "numbers of ends": "truncated must be of truth values",
    "endless": "terminated must stay true",
    "infinite": "reward must be finite",
    "growing": "leave the structure, shapes and dtypes of the state",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_broken_rule_is_one_sentence(fault):
    with unchecked(), pytest.raises(ValueError, match=re.escape(FAULTS[fault])) as refusal:
        check_env(Broken(fault), steps=30)
    lines = str(refusal.value).splitlines()
    assert all(line.endswith(".") for line in lines)
    assert sum(FAULTS[fault] in line for line in lines) >= 1


def test_what_is_no_environment_is_said():
    with unchecked(), pytest.raises(ValueError, match="is no AbstractEnv"):
        check_env("overcooked")
