"""The test-kit: what is sound passes, and each broken rule is one sentence."""

import dataclasses
import re
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from cart_pole import CartPole
from kitchen_checks import unchecked
from race import Race

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

    @property
    def event_names(self):
        return ("sprint", "arrival", "fall")[: 3 if self.fault == "two of three events" else 2]

    def reset(self, key):
        observation, state = self.race.reset(key)
        match self.fault:
            case "python view":
                observation = {**observation, "share": 0.5}
            case "double view":
                observation = jax.tree.map(lambda x: x.astype(jnp.float64), observation)
            case "python state":
                state = dataclasses.replace(state, time=0)
            case "transposed":
                observation = {**observation, "vector": observation["vector"].T}
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
            case "python end":
                timestep = changed(timestep, truncated=False)
            case "no events":
                info = {k: x for k, x in timestep.info.items() if k != "events"}
                timestep = changed(timestep, info=info)
            case "one shaped reward":
                shaped = timestep.info["shaped_reward"].sum()
                timestep = changed(timestep, info={**timestep.info, "shaped_reward": shaped})
            case "resets itself":
                _, start = self.race.reset(key)
                pick = lambda new, old: jnp.where(timestep.done, new, old)  # noqa: E731
                state = jax.tree.map(pick, start, state)
                timestep = changed(timestep, observation=self.observe(state))
            case "growing":
                state = dataclasses.replace(state, time=state.time.astype(float))
        return timestep, state


FAULTS = {
    "python view": "The observation of reset holds 0.5 at ['share']: put jnp.asarray around it.",
    "python state": "The state of Broken holds 0 at .time, which is not an array",
    "python end": "The TimeStep of step holds False at .truncated: put jnp.asarray around it.",
    "two of three events": 'info["events"] must have the shape (3, 3), a column for each of',
    "no events": 'info["events"] must have the shape (3, 2), a column for each of event_names, but',
    "one shaped reward": 'info["shaped_reward"] must have the shape (3,), but has ().',
    "resets itself": "step must not reset the environment at the end of an episode",
    "own space": "action_space must be Discrete, MultiDiscrete or Box",
    "no numbers": "An action must have at least one number",
    "endless box": "The bounds of a Box must be finite",
    "whole box": "The bounds of a Box must be floats",
    "endless view": "Observations must be finite numbers",
    "nobody": "num_agents must be a whole number of at least 1",
    "no space": "action_space must be Discrete, MultiDiscrete or Box",
    "transposed": "must lead with 3 agents, but has the shape",
    "other view": "observe(state) must be the observation that",
    "whole rewards": "reward must have a float dtype",
    "one reward": "reward must have the shape (3,), but has ()",
    "numbers of ends": "truncated must have the dtype bool",
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


class Careless(AbstractEnv):
    """Draws twice from one key, in one of its methods."""

    where: str = eqx.field(static=True)
    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(2)

    def draw(self, key, where):
        first = jax.random.normal(key, (2,))
        return first + jax.random.normal(key, (2,)) if where == self.where else first

    def reset(self, key):
        state = self.draw(key, "reset")
        return self.observe(state), state

    def step(self, key, state, action):
        state = self.draw(key, "step")
        cut = jnp.asarray(False)
        return TimeStep(self.observe(state), state, jnp.zeros(2, bool), cut, {}), state

    def observe(self, state):
        return state[:, None]


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_key_that_is_used_twice_is_said(where):
    with pytest.raises(ValueError, match=f"^{where} uses a random key twice"):
        check_env(Careless(where), steps=2)
    check_env(Careless("nowhere"), steps=2)


class Restarting(AbstractEnv):
    """Counts to five and starts anew by itself; it may show the last number or the first one."""

    shows_last: bool = eqx.field(static=True)
    num_agents: int = eqx.field(static=True, default=1)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = (jnp.asarray(0), jnp.zeros(()))
        return self.observe(state), state

    def step(self, key, state, action):
        time = state[0] + 1
        last = time.astype(float)
        over = time == 5
        time = jnp.where(over, 0, time)
        state = (time, last if self.shows_last else time.astype(float))
        ends = jnp.asarray([False])
        return TimeStep(self.observe(state), jnp.zeros(1), ends, over, {}), state

    def observe(self, state):
        return state[1][None]


def test_an_adapter_may_reset_if_it_shows_what_came_last():
    check_env(Restarting(shows_last=True), steps=30)
    with pytest.raises(ValueError, match=r"^step must not reset the environment at the end"):
        check_env(Restarting(shows_last=False), steps=30)


def test_observations_of_double_precision_are_said():
    with unchecked(), jax.enable_x64(True), pytest.raises(ValueError, match="not be float64"):
        check_env(Broken("double view"), steps=2)


def test_what_is_no_environment_is_said():
    with unchecked(), pytest.raises(ValueError, match="is of the type str, and not"):
        check_env("overcooked")
    with unchecked(), pytest.raises(ValueError, match="no method `observe`, no field `num_agents`"):
        check_env(Discrete(2))
