"""Films: they show an episode from its first state to the one after its last step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agents import PartnerTeam
from agents.runs.display._film import film_episode
from eqgrid import AutoReset, LogEpisodes, RecordedPartner, Vectorize, make

FORWARD, RIGHT = 2, 1


def filmed(world, actions, horizon):
    """The states and the scores of the film of a game in which the agent takes these actions."""
    shown = []

    def draw(states, scores):
        shown.append((states, scores))
        return b"GIF"

    team = PartnerTeam([RecordedPartner(jnp.asarray(actions)[:, None], RIGHT)])
    envs = Vectorize(AutoReset(LogEpisodes(world), lazy=True), 1)
    assert film_episode(team, envs, draw, jax.random.key(0), horizon) == b"GIF"
    return shown[0]


@pytest.mark.parametrize("horizon", [30, None])
def test_it_ends_with_the_goal_and_the_whole_return(horizon):
    """Five steps east, a turn, and five steps south, in a room of 8 x 8 cells."""
    world = make("minigrid", layout="empty")
    actions = [FORWARD] * 5 + [RIGHT] + [FORWARD] * 5
    states, scores = filmed(world, actions, horizon)
    path = [(1, x) for x in range(1, 7)] + [(y, 6) for y in range(1, 7)]
    assert list(map(tuple, np.asarray(states.bodies.position)[:, 0].tolist())) == path
    assert len(scores) == len(path)
    assert scores[:-1] == [0.0] * (len(path) - 1)
    _, state = world.reset(jax.random.key(0))
    for action in actions:
        timestep, state = world.step(jax.random.key(0), state, jnp.array([action]))
    assert scores[-1] == timestep.reward.item() > 0.9


def test_a_film_of_an_episode_that_is_cut_ends_with_the_last_state():
    states, scores = filmed(make("minigrid", layout="empty"), [RIGHT] * 4, 3)
    assert states.time.tolist() == [0, 1, 2, 3]
    assert scores == [0.0] * 4
