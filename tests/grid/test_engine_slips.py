"""Slips in a world of one's own: each works, or is one sentence."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
import pytest
from small_worlds import BARE, small_world

from eqgrid_lab import Evaluation
from agents import PPO, init_train_state
from eqgrid import AutoReset, LogEpisodes, Vectorize
from eqgrid.envs.goals import Goals
from eqgrid.grid import (
    AbstractPhase,
    Direction,
    Features,
    Go,
    Layout,
    LocalCollision,
    Move,
    OwnPosition,
    RuleEvents,
    Stay,
    WeightedEventReward,
)
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import check_limits
from eqgrid_lab.worlds import WorldSettings, world_settings

ROOM = Layout.parse("#####\n#1  #\n#####", BARE)


class Run(Move):
    """A move with a name of its own."""


@final
class Cheer(AbstractPhase):
    """Fires for everybody; or for nobody knows whom."""

    forgets: bool = False

    def __call__(self, step):
        if self.forgets:
            return step.then(step.world, Cheer)
        return step.then(step.world, Cheer, jnp.ones(step.world.num_agents, bool))


@final
class Weep(AbstractPhase):
    """What no world has among its phases."""

    def __call__(self, step):
        return step.then(step.world, Weep, jnp.ones(step.world.num_agents, bool))


def room(*phases, **options):
    return small_world(
        ROOM,
        actions=(Run(Direction.EAST), Stay()),
        phases=(Go(LocalCollision()), *phases),
        observation=Features((OwnPosition(),)),
        horizon=3,
        **options,
    )


def first_step(env, key, action=0):
    _, state = env.reset(key)
    return env.step(key, state, jnp.asarray([action]))


def test_a_move_of_a_subclass_moves(key):
    _, world = first_step(room(), key)
    assert world.bodies.position.tolist() == [[1, 2]]
    assert world.bodies.direction.tolist() == [Direction.EAST]


def test_a_rule_needs_for_whom_it_fired(key):
    with pytest.raises(ValueError, match=r"step.then needs both a rule and the agents"):
        first_step(room(Cheer(forgets=True)), key)


@pytest.mark.parametrize(("phases", "known"), [((), "none"), ((Cheer(),), "Cheer")])
def test_an_event_that_cannot_happen_is_said(phases, known, key):
    names = ("tears",)
    reward = WeightedEventReward({"tears": 1.0}, names)
    env = room(*phases, events=RuleEvents(tears=Weep), reward=reward)
    words = f"'tears' can never happen, since no phase fires Weep: .* fire are {known}"
    with pytest.raises(ValueError, match=words):
        first_step(env, key)


def test_an_event_of_a_parent_of_the_rule_happens(key):
    names = ("any",)
    env = room(
        Cheer(),
        events=RuleEvents(any=AbstractPhase),
        reward=WeightedEventReward({"any": 1.0}, names),
    )
    assert first_step(env, key)[0].reward.tolist() == [1.0]


def test_a_world_without_events_is_evaluated(key):
    world, env = room(), Vectorize(AutoReset(LogEpisodes(room(), totals=("events",))), 2)
    totals = world_settings("goals").totals(world)
    evaluation = Evaluation(env, env, key[None], totals=totals)
    state = eqx.filter_vmap(lambda key: init_train_state(PPO(rollout_length=8), env, key))(
        key[None]
    )
    assert evaluation(state)["eval_length_mean"].tolist() == [3]


def dive(depth: int = -7, horizon: int = 5):
    return Goals("room", horizon=horizon)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a run."""

    env: WorldSettings


def test_a_whole_number_of_ones_own_world_is_taken():
    check_limits(Settings(world_settings(dive)))
    with pytest.raises(UsageError, match=r"--env.horizon must be at least 1"):
        check_limits(Settings(world_settings("goals", horizon=0)))
