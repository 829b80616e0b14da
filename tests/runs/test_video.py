"""Videos: they show an episode from its first state to the one after its last step."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from agents import PartnerTeam
from eqgrid import (
    AbstractAutoReset,
    AbstractEnv,
    AbstractWrapper,
    AbstractWrapperState,
    AutoReset,
    LogEpisodes,
    RecordedPartner,
    Vectorize,
    make,
)
from eqgrid.typing import PyTree
from eqgrid_lab.show import video_episode

FORWARD, RIGHT = 2, 1


def lazily(env):
    return AutoReset(env, lazy=True)


def recorded(world, actions, horizon, reset=lazily):
    """The states and the scores of the video of a game in which the agent takes these actions."""
    shown = []

    def draw(states, scores):
        shown.append((states, scores))
        return b"GIF"

    team = PartnerTeam([RecordedPartner(jnp.asarray(actions)[:, None], RIGHT)])
    envs = Vectorize(reset(LogEpisodes(world)), 1)
    assert video_episode(team, envs, draw, jax.random.key(0), horizon) == b"GIF"
    return shown[0]


@pytest.mark.parametrize("horizon", [30, None])
def test_it_ends_with_the_goal_and_the_whole_return(horizon):
    """Five steps east, a turn, and five steps south, in a room of 8 x 8 cells."""
    world = make("minigrid", layout="empty")
    actions = [FORWARD] * 5 + [RIGHT] + [FORWARD] * 5
    states, scores = recorded(world, actions, horizon)
    path = [(1, x) for x in range(1, 7)] + [(y, 6) for y in range(1, 7)]
    assert list(map(tuple, np.asarray(states.bodies.position)[:, 0].tolist())) == path
    assert len(scores) == len(path)
    assert scores[:-1] == [0.0] * (len(path) - 1)
    (_, state), step = world.reset(jax.random.key(0)), eqx.filter_jit(world.step)
    for action in actions:
        timestep, state = step(jax.random.key(0), state, jnp.array([action]))
    assert scores[-1] == timestep.reward.item() > 0.9


def test_a_video_of_an_episode_that_is_cut_ends_with_the_last_state():
    states, scores = recorded(make("minigrid", layout="empty"), [RIGHT] * 4, 3)
    assert states.time.tolist() == [0, 1, 2, 3]
    assert scores == [0.0] * 4


@final
class CountedState(AbstractWrapperState):
    env_state: PyTree
    episode: Int[Array, ""]


@final
class Counted(AbstractAutoReset):
    """A reset of one's own, with the number of the episode in its state and a start of its own:
    the agent is not in the corner.
    """

    env: AbstractEnv

    def reset(self, key):
        state = CountedState(self._start(key), jnp.asarray(0))
        return self.observe(state), state

    def step(self, key, state, action):
        timestep, stepped = self.env.step(key, state.env_state, action)
        start = self._start(key)
        after = jax.tree.map(lambda new, old: jnp.where(timestep.done, new, old), start, stepped)
        state = CountedState(after, state.episode + timestep.done.astype(int))
        return dataclasses.replace(timestep, observation=self.observe(state)), state

    def observe(self, state):
        return self.env.observe(state.env_state)

    def _start(self, key):
        _, state = self.env.reset(key)
        place = jnp.asarray([[6, 3]], jnp.int8)
        return eqx.tree_at(lambda x: x.env_state.bodies.position, state, place)


@final
class ShowsEpisode(AbstractWrapper):
    """Reads the state of `Counted`."""

    env: AbstractEnv

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        info = timestep.info | {"number": state.episode}
        return dataclasses.replace(timestep, info=info), state

    def observe(self, state):
        return self.env.observe(state)


def test_a_video_starts_as_a_reset_of_ones_own_does():
    """Its last state is not shown, since the reset replaces it."""
    world = make("minigrid", layout="empty")
    actions = [FORWARD] * 3
    states, scores = recorded(world, actions, 30, lambda x: ShowsEpisode(Counted(x)))
    assert states.bodies.position[:, 0].tolist() == [[6, 3], [6, 4], [6, 5]]
    assert scores == [0.0] * 3
