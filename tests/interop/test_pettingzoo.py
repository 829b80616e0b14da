"""The adapter to PettingZoo: its own tests, and equality with the environment itself."""

import copy
import dataclasses
import itertools

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from alone import episode
from compilations import counted
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from pendulum import Pendulum
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    seed_test,
)
from pettingzoo.utils import parallel_to_aec
from race import Race
from signals import Signals

from eqgrid import AbstractSpace, AutoReset, LogEpisodes, TimeLimit, Vectorize, make
from eqgrid.envs.overcooked import Overcooked, random_starts
from eqgrid.interop import to_pettingzoo

# Features are real numbers, and nothing says how large they can be.
pytestmark = pytest.mark.filterwarnings("ignore:.*infinity. This is probably too:UserWarning")

WALKERS = make("goals", num_agents=12, horizon=15, shared=True)
COOKS = Overcooked("cramped", horizon=12, starts=random_starts(1))
HARVEST = make("harvest", layout="small", num_agents=4, horizon=40, cooldown=0)
WORLDS = {"walkers": WALKERS, "cooks": COOKS, "pendulum": Pendulum(), "harvest": HARVEST}
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


@worlds
def test_pettingzoo_accepts_it(world):
    parallel_api_test(to_pettingzoo(TimeLimit(world, 20)), num_cycles=30)
    parallel_seed_test(lambda: to_pettingzoo(TimeLimit(world, 20)), num_cycles=5)


@worlds
def test_pettingzoo_accepts_agents_that_act_one_after_the_other(world):
    api_test(parallel_to_aec(to_pettingzoo(TimeLimit(world, 20))), num_cycles=60)
    seed_test(lambda: parallel_to_aec(to_pettingzoo(TimeLimit(world, 20))), num_cycles=30)


@worlds
def test_spaces_have_the_dtypes_of_what_is_in_them(world):
    env = to_pettingzoo(world)
    observations, infos = env.reset(seed=0)
    assert infos == {name: {} for name in env.possible_agents}
    actions = {name: env.action_space(name).sample() for name in env.agents}
    observations, rewards, terminated, truncated, _ = env.step(actions)
    for name in env.possible_agents:
        space = env.observation_space(name)
        assert observations[name].dtype == space.dtype
        assert observations[name] in space
        assert observations[name].flags.writeable
        kinds = [type(x[name]) for x in (rewards, terminated, truncated)]
        assert kinds == [float, bool, bool]


def drawn_actions(env, count):
    """Actions of everybody, as PettingZoo's spaces draw them."""
    for i, name in enumerate(env.possible_agents):
        env.action_space(name).seed(i)
    return [
        {name: env.action_space(name).sample() for name in env.possible_agents}
        for _ in range(count)
    ]


@worlds
def test_an_episode_is_that_of_the_environment(world):
    env = to_pettingzoo(world)
    actions = drawn_actions(env, 40)
    first, timesteps, _ = episode(world, 7, [np.stack([*a.values()]) for a in actions])
    observations, _ = env.reset(seed=7)
    np.testing.assert_array_equal(np.stack([*observations.values()]), first)
    gone, hits = set(), 0
    for action, timestep in zip(actions, timesteps, strict=True):
        # In another order, which must not matter.
        action = {name: action[name] for name in reversed(env.agents)}
        there = [int(name.removeprefix("agent_")) for name in env.agents]
        told = env.step(action)
        for of_agents in told:
            assert [*of_agents] == [f"agent_{i}" for i in there]
        observations, rewards, terminated, truncated, infos = told
        rows = [[*x.values()] for x in (observations, rewards, terminated)]
        parts = (timestep.observation, timestep.reward, timestep.terminated)
        for row, part in zip(rows, parts, strict=True):
            np.testing.assert_array_equal(row, part[there])
        assert set(truncated.values()) == {bool(timestep.truncated)}
        for i, info in zip(there, infos.values(), strict=True):
            assert info.keys() == timestep.info.keys()
            assert all(isinstance(x, np.ndarray | np.generic) for x in info.values())
            for name, value in info.items():
                whole = timestep.info[name]  # of an agent, or of all of them
                np.testing.assert_array_equal(value, whole[i] if whole.ndim else whole)
        gone |= {name for name in terminated if terminated[name]}
        hits += sum(info["events"][2] for info in infos.values()) if world is HARVEST else 0
        assert env.agents == (
            [] if timestep.truncated else [name for name in env.possible_agents if name not in gone]
        )
        if not env.agents:
            break
    assert bool(gone) == (world is WALKERS)
    assert bool(hits) == (world is HARVEST)  # agents that are away stay in the game


class LeaveInTurn(Signals):
    """Agents with two choices, whose tasks end one after the other."""

    def step(self, key, state, action):
        timestep, state = super().step(key, state, action)
        over = jnp.arange(self.num_agents) < state[0]
        return dataclasses.replace(timestep, terminated=over), state


def test_agents_with_several_choices_leave_one_after_the_other():
    env = to_pettingzoo(LeaveInTurn(masked=False))
    env.reset(seed=0)
    for left in ([*env.possible_agents], ["agent_1"]):
        assert env.agents == left
        env.step({name: env.action_space(name).sample() for name in env.agents})
    assert not env.agents


def play(env, seed, count=6):
    told = [env.reset(seed=seed)]
    told += [
        env.step({name: action[name] for name in env.agents})
        for action in drawn_actions(env, count)
    ]
    return told


@pytest.mark.parametrize("world", [WALKERS, COOKS], ids=["walkers", "cooks"])
def test_an_episode_follows_from_its_seed(world):
    one, other = to_pettingzoo(world), to_pettingzoo(world)
    for seed in (3, None, None):
        assert data_equivalence(play(one, seed), play(other, seed), exact=True)
    starts = [np.stack([*one.reset(seed=seed)[0].values()]) for seed in range(8)]
    starts += [np.stack([*one.reset()[0].values()]) for _ in range(4)]
    assert len({start.tobytes() for start in starts}) > 9
    assert not data_equivalence(to_pettingzoo(world).reset()[0], to_pettingzoo(world).reset()[0])


def test_nothing_is_compiled_anew():
    play(to_pettingzoo(WALKERS), 0)
    another = make("goals", num_agents=12, horizon=9, shared=True)
    with counted() as compilations:
        env = to_pettingzoo(WALKERS)
        for seed in (1, 2, None):
            play(env, seed)
        play(to_pettingzoo(another), 3)
    assert not compilations


def test_a_copy_goes_on_alike():
    env = to_pettingzoo(WALKERS)
    assert data_equivalence(play(cloudpickle.loads(cloudpickle.dumps(env)), 0), play(env, 0))
    action = dict.fromkeys(env.agents, 1)
    assert data_equivalence(copy.deepcopy(env).step(action), env.step(action))


def test_entries_of_the_whole_episode_are_told_to_everybody():
    env = to_pettingzoo(LogEpisodes(COOKS))
    *_, infos = play(env, 0)[-1]
    lengths = {name: info["episode_length"] for name, info in infos.items()}
    assert {x.shape for x in lengths.values()} == {()}
    assert [info["episode_return"].shape for info in infos.values()] == [(), ()]
    lengths["agent_0"][...] = 5
    assert lengths["agent_1"] == 0


def test_a_picture_is_that_of_the_environment():
    env = to_pettingzoo(COOKS, render_mode="rgb_array")
    actions = drawn_actions(env, 3)
    env.reset(seed=7)
    for action in actions:
        env.step(action)
    *_, state = episode(COOKS, 7, [np.stack([*a.values()]) for a in actions])
    picture = COOKS.render(state)
    shown = env.render()[: len(picture), : picture.shape[1]]  # without a row that makes it even
    np.testing.assert_array_equal(shown, picture)
    assert env.metadata["render_fps"] == 8
    env.close()


class Everything(AbstractSpace):
    def sample(self, key):
        return jax.random.normal(key)

    def contains(self, x):
        return jnp.array(True)


class Vast(Pendulum):
    """With an action space that nobody knows."""

    action_space: AbstractSpace = Everything()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: to_pettingzoo(AutoReset(COOKS)), "leave it out"),
        (
            lambda: to_pettingzoo(Vectorize(COOKS, 2)),
            "needs one environment, but Vectorize is a batch of 2",
        ),
        (lambda: to_pettingzoo(Race()), "observation is of dict, but must be one array"),
        (lambda: to_pettingzoo(Vast()), "must be Discrete, MultiDiscrete or a Box"),
        (lambda: to_pettingzoo(COOKS, render_mode="human"), "choose 'rgb_array' or None"),
        (lambda: to_pettingzoo(Pendulum(), render_mode="rgb_array"), "choose None"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(build, says):
    with pytest.raises(ValueError, match=says) as error:
        build()
    assert "\n" not in str(error.value)


def test_wrong_actions_are_one_sentence():
    env = to_pettingzoo(COOKS)
    both = {"agent_0": 0, "agent_1": 5}
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(both)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        to_pettingzoo(COOKS, render_mode="rgb_array").render()
    env.reset(seed=0)
    for wrong in ({"agent_0": 0}, both | {"agent_2": 0}, {}):
        with pytest.raises(ValueError, match="an action for each of agent_0, agent_1, but got"):
            env.step(wrong)
    for bad in (6, -1, 1.5, None, "north", [0], [[1], [1, 2]]):
        with pytest.raises(ValueError, match=r"^agent_1 cannot do .*: .* of Discrete\(6\)\.$"):
            env.step({"agent_0": 0, "agent_1": bad})
    with pytest.raises(ValueError, match="pass render_mode='rgb_array'"):
        env.render()
    for _ in itertools.takewhile(lambda _: env.agents, range(20)):
        env.step(both)
    with pytest.raises(ResetNeeded, match="No episode is running"):
        env.step(both)


def test_numbers_of_other_dtypes_will_do():
    env = to_pettingzoo(Pendulum())
    env.reset(seed=0)
    observations, *_ = env.step({"agent_0": np.array([0.25], np.float64)})
    env.reset(seed=0)
    same, *_ = env.step({"agent_0": [0.25]})
    assert data_equivalence(observations, same, exact=True)
