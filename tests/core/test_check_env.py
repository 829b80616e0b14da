"""The test-kit: what is sound passes, and each broken rule is one sentence."""

import dataclasses
import re
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import pytest
from cart_pole import CartPole
from kitchen_checks import unchecked
from race import Race

from agents.policies._heads import head_for
from eqgrid import (
    AbstractEnv,
    AbstractSpace,
    AutoReset,
    Box,
    Discrete,
    LogEpisodes,
    TimeLimit,
    TimeStep,
    check_env,
)
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


def seeing(timestep, vector):
    """With another vector in both observations."""
    seen = {**timestep.observation, "vector": vector}
    return eqx.tree_at(lambda t: (t.observation, t.final_observation), timestep, (seen, seen))


@final
class Words(AbstractSpace):
    """A space of its own, for which no agent knows a distribution."""

    def sample(self, key):
        return jnp.zeros(())

    def contains(self, x):
        return jnp.ones((), bool)


def with_bounds(low, high):
    """A box whose bounds were changed after it was built."""
    return eqx.tree_at(lambda b: (b.low, b.high), Box(0.0, 1.0, (2,)), (low, high))


SPACES = {
    "no space": 3,
    "own space": Words(),
    "no numbers": Box(0.0, 1.0, (2, 0)),
    "endless box": with_bounds(jnp.zeros(2), jnp.full(2, jnp.inf)),
    "whole box": with_bounds(jnp.zeros(2, int), jnp.ones(2, int)),
}


class Broken(AbstractEnv):
    """A race in which one thing is wrong."""

    race: Race
    fault: str = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    action_space: Any

    def __init__(self, fault):
        self.race, self.fault = Race(), fault
        self.num_agents = 0 if fault == "nobody" else 3
        self.action_space = SPACES.get(fault, Discrete(3))

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
            case "endless view":
                timestep = seeing(timestep, timestep.observation["vector"] / 0.0)
            case "growing":
                state = dataclasses.replace(state, time=state.time.astype(float))
        return timestep, state


FAULTS = {
    "own space": "action_space must be Discrete, MultiDiscrete or Box",
    "no numbers": "An action must have at least one number",
    "endless box": "The bounds of a Box must be finite",
    "whole box": "The bounds of a Box must be floats",
    "endless view": "Observations must be finite numbers",
    "nobody": "num_agents must be a whole number of at least 1",
    "no space": "action_space must be Discrete, MultiDiscrete or Box",
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


@pytest.mark.parametrize("fault", SPACES)
def test_agents_refuse_the_same_spaces(fault):
    with unchecked(), pytest.raises(ValueError, match="must"):
        head_for(SPACES[fault])


def test_what_is_no_environment_is_said():
    with unchecked(), pytest.raises(ValueError, match="is no AbstractEnv"):
        check_env("overcooked")
