"""Recorded human games: each is replayed from its first state by its actions alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, pad_to, replay
from kitchen_checks import stack, unchecked
from raw_games import package, read_games

from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.people import HumanGame, human_games
from eqgrid.grid import Layout, World

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(package is None, reason="needs the [parity] extra"),
]

GAMES, TRANSITIONS, DELIVERIES = 76, 91_102, 1_363
NAMES = {
    "cramped_room": "cramped",
    "asymmetric_advantages": "asymmetric",
    "coordination_ring": "ring",
    "random0": "forced",
    "random3": "circuit",
}


def read(split: str | None) -> tuple[HumanGame, ...]:
    with unchecked():  # which is much faster; the tests of made-up tables check types
        return human_games(split)


def record_of(games: tuple[HumanGame, ...], layout: Layout, steps: int) -> World:
    """The states of all games, also after their last steps, in grids of one size."""
    record = blank_record(layout, len(games), steps + 1)
    for game, recorded in enumerate(games):
        count, height, width = recorded.state.cells.object.shape
        for time, world in ((slice(count), recorded.state), (count, recorded.final_state)):
            record.cells.object[game, time, :height, :width] = world.cells.object
            record.cells.timer[game, time, :height, :width] = world.cells.timer
            record.bodies.position[game, time] = world.bodies.position
            record.bodies.direction[game, time] = world.bodies.direction
            record.bodies.held[game, time] = world.bodies.held
            record.time[game, time] = world.time
    return record


@pytest.mark.slow
def test_replays_every_recorded_transition():
    games = read(None)
    layouts = pad_to([game.layout for game in games])
    steps = max(len(game.action) for game in games)
    record = record_of(games, layouts[0], steps)
    actions = np.full((len(games), steps, 2), 4)
    rewards = np.zeros((len(games), steps, 2), np.float32)
    played = np.zeros((len(games), steps), bool)
    for game, recorded in enumerate(games):
        count = len(recorded.action)
        actions[game, :count], rewards[game, :count] = recorded.action, recorded.reward
        played[game, :count] = True

    envs = stack([Overcooked(layout, horizon=steps) for layout in layouts])
    worlds, told = replay(envs, at(record, slice(None), 0), jnp.asarray(actions), planes=False)

    assert len(games) == GAMES
    assert played.sum() == TRANSITIONS
    assert {game.kitchen for game in games} == set(NAMES.values())
    assert rewards[..., 0].sum() == 5 * DELIVERIES
    theirs = at(record, slice(None), slice(1, None))
    assert differences((worlds, told["reward"]), (theirs, rewards), played) == {}


@pytest.mark.parametrize("split", ["test", pytest.param("train", marks=pytest.mark.slow)])
def test_the_games_are_those_that_pandas_reads(split):
    """They begin as their layouts do."""
    own = {game.trial: game for game in read(split)}
    recorded = read_games([split])
    assert {raw.trial for raw in recorded} == own.keys()
    for game in own.values():
        assert eqx.tree_equal(jax.tree.map(lambda x: x[0], game.state), game.layout.start)
    for raw in recorded:
        game = own[raw.trial]
        assert game.kitchen == NAMES[raw.name]
        np.testing.assert_array_equal(game.reward, raw.rewards[:, None].repeat(2, 1))
        np.testing.assert_array_equal(game.time, raw.times)
        np.testing.assert_array_equal(game.action, raw.actions)
        for step in range(0, len(raw.rewards), 10):
            state = raw.states[step]
            world = jax.tree.map(lambda x, i=step: np.asarray(x[i]), game.state)
            places = {tuple(thing["position"][::-1]) for thing in state["objects"].values()}
            assert {*map(tuple, np.argwhere(world.cells.object).tolist())} == places
            for seat, player in enumerate(state["players"]):
                assert world.bodies.position[seat].tolist() == player["position"][::-1]
                assert bool(world.bodies.held[seat]) == bool(player.get("held_object"))
