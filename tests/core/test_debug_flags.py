"""jax's own checks: no random key is used twice, and no number is NaN on the way."""

import jax
import pytest
from learners import Clock
from race import Race

from agents import actor_critic, evaluate, record_episodes
from eqgrid import (
    AutoReset,
    ConstantPartner,
    LogEpisodes,
    NoisyPartner,
    OneOf,
    RandomPartner,
    ShapedReward,
    TimeLimit,
    Vectorize,
    WithPartner,
    check_env,
    make,
    play,
)
from eqgrid.envs.goals import GeneratedMazes, Goals
from eqgrid.envs.overcooked import Overcooked, random_starts
from eqgrid.grid import RandomLayouts
from eqgrid_lab.show import record

KITCHEN = make("overcooked", horizon=6, observation="features")
MAZES = GeneratedMazes()
WORLDS = {
    "starts": lambda: Overcooked("ring", horizon=6, starts=random_starts(0.5, counters=0.3)),
    "mazes": lambda: RandomLayouts(Goals(MAZES.example, horizon=6), MAZES),
    "wrappers": lambda: ShapedReward(AutoReset(LogEpisodes(KITCHEN)), 0.5),
    "lazy": lambda: AutoReset(LogEpisodes(KITCHEN), lazy=True),
    "partners": lambda: WithPartner(
        KITCHEN,
        OneOf([ConstantPartner(1), RandomPartner(KITCHEN.action_space)]),
        noise=(0.1, 0.5),
    ),
    "a key in the state": lambda: TimeLimit(Race(), 5),
    "ends of all kinds": Clock,
    "foraging": lambda: make("foraging", horizon=6),
    "warehouse": lambda: make("warehouse", horizon=6),
    "rescue": lambda: make("rescue", horizon=6),
    "overcooked_v2": lambda: make("overcooked_v2", horizon=6, random_reset=True),
}


@pytest.fixture(params=["key_reuse", "nans"], autouse=True)
def debugging(request):
    flag = {"key_reuse": jax.debug_key_reuse, "nans": jax.debug_nans}[request.param]
    with flag(True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_worlds_and_wrappers(name):
    check_env(WORLDS[name](), steps=8)


def test_check_env():
    check_env(TimeLimit(Race(), 3), steps=8)


def test_play(key):
    one = RandomPartner(KITCHEN.action_space)
    assert play(KITCHEN, (one, NoisyPartner(one, 0.5, KITCHEN.action_space)), key).finished


@pytest.mark.slow
def test_evaluations_recordings_and_videos(key):
    env = Vectorize(AutoReset(LogEpisodes(KITCHEN)), 1)
    build_key, *keys = jax.random.split(key, 4)
    policy = actor_critic(env, build_key)
    assert evaluate(policy, env, keys[0]).finished.all()
    assert record_episodes(policy, env, keys[1], max_steps=6).length == 6
    assert record(policy, env, keys[2], 6)[2].any()


def test_the_picture_of_a_notebook():
    assert "frames" in make("goals", horizon=4)._repr_html_()
