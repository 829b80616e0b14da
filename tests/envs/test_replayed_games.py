"""A recording is accepted only if all rewards are those of the game, of every agent and step."""

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from learners import Clock

from eqgrid import RecordedPartner, record_play
from eqgrid_lab.base import UsageError
from eqgrid_play.games import Header, Recording, SeatRecord, replay

PLACE, SEED = SimpleNamespace(env=Clock()), 3


@pytest.fixture(scope="module")
def recording():
    """A game in which all steps pay differently, and the second agent earns more in each."""
    action = np.tile(np.array([[0, 1], [1, 2], [0, 2]], np.int32), (3, 1))
    team = [RecordedPartner(jnp.asarray(action), 0)] * 2
    game = record_play(PLACE.env, team, jax.random.key(SEED)[None], max_steps=9)
    reward = np.asarray(game.reward)
    steps = len(reward)
    assert steps > 4
    assert (reward[:, 1] > reward[:, 0]).all()
    assert len(np.unique(reward[:, 1])) == steps
    seats = (SeatRecord("one", True), SeatRecord("other", False))
    header = Header({"name": "clock"}, "clock", SEED, seats, 6.0, "2026-01-01T00:00:00")
    return Recording(
        path=Path("game.jsonl"),
        header=header,
        action=action[:steps],
        reward=reward,
        time=np.arange(steps, dtype=np.float32),
        source=[["press", ""]] * steps,
        keys=(),
        frames=(),
        events=(),
        end=None,
        left=(),
    )


def with_changes(reward, *changes):
    """The rewards, with a number added to some of them, by step and agent."""
    reward = reward.copy()
    for place, more in changes:
        reward[place] += more
    return reward


def test_the_rewards_of_a_game_are_accepted(recording):
    episode, _ = replay(PLACE, recording)
    np.testing.assert_array_equal(episode.reward, recording.reward)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: with_changes(x, ((0, 0), 1)),
        lambda x: with_changes(x, ((0, 1), 1)),
        lambda x: with_changes(x, ((-1, 1), 1)),
        lambda x: with_changes(x, ((2, 1), 1e-3)),
        lambda x: with_changes(x, ((2, 0), 1), ((2, 1), -1)),  # with the same sum in each step
        lambda x: with_changes(x, ((1, 1), 1), ((3, 1), -1)),  # with the same sum of each agent
        lambda x: x[:, ::-1],
        lambda x: x[::-1],
        lambda x: x[[1, 0, *range(2, len(x))]],
        lambda x: x[:-1],
        lambda x: x.mean(axis=1, keepdims=True),
    ],
)
def test_other_rewards_or_another_order_are_refused(recording, change):
    other = msgspec.structs.replace(recording, reward=change(recording.reward))
    with pytest.raises(UsageError, match="does not replay"):
        replay(PLACE, other)
