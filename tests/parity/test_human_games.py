"""Recorded human games: each is replayed from its first state by its actions alone."""

import ast
import importlib.util
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, pad_to, replay, stack
from kitchen_checks import unchecked

from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.people import HumanGame, human_games
from eqgrid.grid import Layout, World

reason = "needs the [parity] extra: pip install -e '.[test,parity]'"
pandas = pytest.importorskip("pandas", reason=reason)
# The package itself is not imported: only its data is read.
package = importlib.util.find_spec("overcooked_ai_py")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(package is None, reason=reason),
]

GAMES, TRANSITIONS, DELIVERIES = 76, 91_102, 1_363
NAMES = {
    "cramped_room": "cramped",
    "asymmetric_advantages": "asymmetric",
    "coordination_ring": "ring",
    "random0": "forced",
    "random3": "circuit",
}


@pytest.fixture(scope="module")
def games() -> tuple[HumanGame, ...]:
    with unchecked():  # which is much faster; the tests of made-up tables check types
        return human_games()


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
def test_replays_every_recorded_transition(games):
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


def test_every_game_begins_as_its_layout_does(games):
    for game in games:
        assert eqx.tree_equal(jax.tree.map(lambda x: x[0], game.state), game.layout.start)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_games_are_those_that_pandas_reads(games, split):
    """Rewards, times, moves, and what is where, read without anything of eqgrid."""
    path = Path(package.origin).parent / "data" / "human_data" / f"clean_{split}_trials.pickle"
    table = pandas.read_pickle(path)
    own = {game.trial: game for game in games if game.split == split}
    groups = table.groupby(["layout_name", "run", "workerid_num"])
    assert len(groups) == len(own)
    for (name, run, pair), rows in groups:
        rows = rows.sort_values("cur_gameloop")
        game = own[f"{name}/{run}/{pair}"]
        assert game.kitchen == NAMES[name]
        assert np.array_equal(game.reward, rows.reward.to_numpy(np.float32)[:, None].repeat(2, 1))
        assert np.array_equal(game.time, rows.time_elapsed.to_numpy(np.float32))
        interacts = np.asarray([x.count("INTERACT") for x in rows.joint_action])
        assert np.array_equal((game.action == 5).sum(axis=1), interacts)
        # Of every tenth state, read as Python.
        for step in range(0, len(rows), 10):
            state = ast.literal_eval(rows.state.iloc[step])
            world = jax.tree.map(lambda x, i=step: np.asarray(x[i]), game.state)
            places = {tuple(thing["position"][::-1]) for thing in state["objects"].values()}
            assert {*map(tuple, np.argwhere(world.cells.object).tolist())} == places
            for seat, player in enumerate(state["players"]):
                assert world.bodies.position[seat].tolist() == player["position"][::-1]
                assert bool(world.bodies.held[seat]) == bool(player.get("held_object"))


def test_the_halves_and_the_kitchens_are_parts_of_the_whole(games):
    trials = [(game.split, game.trial) for game in games]
    with unchecked():
        halves = [(x.split, x.trial) for split in ("train", "test") for x in human_games(split)]
    assert trials == halves
    assert len(set(trials)) == GAMES
    ring = human_games("test", kitchen="ring")
    assert [x.trial for x in ring] == [
        x.trial for x in games if (x.kitchen, x.split) == ("ring", "test")
    ]
