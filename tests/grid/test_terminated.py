"""Rewards, phases and endings see the same agents as events: not those that have terminated."""

from typing import final

import jax
import jax.numpy as jnp
import pytest

from eqgrid import LogEpisodes
from eqgrid.grid import (
    MOVES,
    AbstractEnding,
    AbstractPhase,
    AbstractReward,
    Go,
    GridWorld,
    Kind,
    Kinds,
    Layout,
    LocalCollision,
    RuleEvents,
    Stay,
)

KINDS = Kinds((Kind("floor", " "), Kind("wall", "#", solid=True), Kind("exit", "E")))
EAST, STAY = 2, 4


@final
class Arrive(AbstractPhase):
    def __call__(self, step):
        row, col = step.world.bodies.position.T
        return step.then(step.world, Arrive, step.layout.tiles[row, col] == KINDS.tile("exit"))


@final
class Greet(AbstractPhase):
    """Fires for all agents when an agent arrives."""

    def __call__(self, step):
        return step.then(step.world, Greet, jnp.full(2, step.by(Arrive).any()))


@final
class Team(AbstractReward):
    rule: type

    def __call__(self, step):
        return jnp.full(2, step.by(self.rule).sum(dtype=jnp.float32))


@final
class Arrived(AbstractEnding):
    def __call__(self, step):
        return step.by(Arrive)


@pytest.mark.parametrize(("rule", "paid"), [(Arrive, 1), (Greet, 2)])
def test_a_team_is_rewarded_once_for_an_agent_that_terminates(rule, paid):
    world = GridWorld(
        Layout.parse("######\n#1 2E#\n######", KINDS),
        actions=(*MOVES, Stay()),
        phases=(Go(LocalCollision()), Arrive(), Greet()),
        reward=Team(rule),
        shaping=Team(rule),
        events=RuleEvents(arrival=Arrive, greeting=Greet),
        ending=Arrived(),
        info={"arrivals": lambda step: step.by(Arrive).sum()},
        horizon=6,
    )
    env = LogEpisodes(world)
    _, state = env.reset(jax.random.key(0))
    rewards, shaped, arrivals, events = [], [], [], []
    for _ in range(6):
        timestep, state = env.step(jax.random.key(0), state, jnp.array([STAY, EAST]))
        rewards.append(timestep.reward.tolist())
        shaped.append(timestep.info["shaped_reward"].tolist())
        arrivals.append(int(timestep.info["arrivals"]))
        events.append(timestep.info["events"].tolist())
    nothing = [[0, 0]] * 5
    assert rewards == shaped == [[paid, paid], *nothing]
    assert arrivals == [1, 0, 0, 0, 0, 0]
    assert events == [[[0, 1], [1, 1]], *[[[0, 0], [0, 0]]] * 5]
    assert timestep.info["episode_return"].tolist() == [paid, paid]
