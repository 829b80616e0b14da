"""Recorded human games: each is replayed from its first state by its actions alone."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import differences
from kitchen_checks import unchecked

from eqgrid.envs.overcooked import (
    KITCHENS,
    Overcooked,
    human_games,
    read_games,
    to_trajectories,
    trajectories_from_reference,
)
from eqgrid.grid import World

reason = "needs the [parity] extra: pip install -e '.[test,parity]'"
package = pytest.importorskip("overcooked_ai_py", reason=reason)
pandas = pytest.importorskip("pandas", reason=reason)
pytestmark = pytest.mark.parity

FOLDER = Path(package.__file__).parent / "data" / "human_data"
GAMES, TRANSITIONS, DELIVERIES = 76, 91_102, 1_363
HALVES = {
    ("cramped", "train"): 8,
    ("cramped", "test"): 8,
    ("asymmetric", "train"): 9,
    ("asymmetric", "test"): 8,
    ("ring", "train"): 8,
    ("ring", "test"): 8,
    ("forced", "train"): 6,
    ("forced", "test"): 6,
    ("circuit", "train"): 8,
    ("circuit", "test"): 7,
}


@eqx.filter_jit
def replay(env: Overcooked, state: World, actions: jax.Array) -> tuple[World, jax.Array]:
    """The states after each step, and the rewards, from the first state and the actions alone."""

    def step(world: World, action: jax.Array) -> tuple[World, tuple[World, jax.Array]]:
        timestep, world = env.step(jax.random.key(0), world, action)
        return world, (world, timestep.reward[0])

    return jax.lax.scan(step, state, actions)[1]


@pytest.mark.slow
@pytest.mark.parametrize("kitchen", list(KITCHENS))
def test_replays_every_recorded_transition(kitchen):
    games = human_games(kitchen=kitchen)
    longest = max(game.num_steps for game in games)
    for game in games:
        # The same length for all games, for one compilation; the last state is the table's own.
        more = longest - game.num_steps
        actions = jnp.pad(game.action, ((0, more), (0, 0)), constant_values=4)
        first = jax.tree.map(lambda x: x[0], game.state)
        worlds, rewards = replay(Overcooked(game.layout, horizon=longest), first, actions)
        assert game.final_state is not None
        recorded = jax.tree.map(
            lambda x, last: jnp.concatenate([x[1:], last[None]]), game.state, game.final_state
        )
        recorded = eqx.tree_at(lambda x: x.time, recorded, jnp.arange(game.num_steps) + 1)
        ours = jax.tree.map(lambda x, game=game: x[None, : game.num_steps], (worlds, rewards))
        assert differences(ours, jax.tree.map(lambda x: x[None], (recorded, game.reward))) == {}


def test_all_games_are_read():
    """pandas, which runs the code of a pickle, finds the same numbers of games, steps and soups."""
    found = {}
    for split in ("train", "test"):
        games = human_games(split)
        table = pandas.read_pickle(FOLDER / f"clean_{split}_trials.pickle")
        assert sum(game.num_steps for game in games) == len(table)
        assert sum(float(game.reward.sum()) for game in games) == 4 * table.reward.sum()
        assert len(games) == len(table.groupby(["layout_name", "workerid_num", "run"]))
        for game in games:
            found[game.kitchen, split] = found.get((game.kitchen, split), 0) + 1
            assert game.split == split
            assert (np.diff(game.time) > 0).all()
            assert game.time[-1] == pytest.approx(180.6, abs=0.1)
    assert found == HALVES
    assert sum(found.values()) == GAMES


def test_totals():
    games = human_games()
    assert sum(game.num_steps for game in games) == TRANSITIONS
    assert sum(float(game.reward.sum()) for game in games) == 20 * DELIVERIES


def test_the_same_games_as_trajectories_and_from_other_files(tmp_path):
    games = human_games("test", kitchen="forced")
    table = pandas.read_pickle(FOLDER / "clean_test_trials.pickle")
    table = table[table.layout_name == "random0"]
    with unchecked():  # a DataFrame is no Mapping
        read = trajectories_from_reference(table, games[0].layout)
    ours = to_trajectories(games)
    # A pair's order may differ; the first game of the table is one of ours.
    first = int(read.length[0])
    matching = [
        game
        for game in games
        if game.num_steps == first and bool((game.action == read.action[:first]).all())
    ]
    assert len(matching) == 1
    assert eqx.tree_equal(
        matching[0].state, jax.tree.map(lambda x: x[:first], read.state), typematch=True
    )
    assert int(ours.length.sum()) == len(table) == len(read.action)
    assert float(read.reward[:, 0].sum()) * 4 == float(ours.reward[:, 0].sum())

    table.to_csv(tmp_path / "games.csv", index=False)
    table.to_json(tmp_path / "games.json")
    (tmp_path / "rows.json").write_text(json.dumps(json.loads(table.to_json(orient="records"))))
    for name in ("games.csv", "games.json", "rows.json"):
        again = {game.trial: game for game in read_games(tmp_path / name)}
        for game in games:
            other = again[game.trial]
            assert eqx.tree_equal(game.state, other.state)
            np.testing.assert_array_equal(game.action, other.action)
            np.testing.assert_array_equal(game.reward, other.reward)
            assert game.players == other.players


def test_a_pickle_of_newer_pandas_is_refused_by_name(tmp_path):
    path = tmp_path / "games.pickle"
    pandas.DataFrame({"state": ["x"], "reward": [1.0]}).to_pickle(path)
    with pytest.raises(ValueError, match="Save other tables as CSV, JSON or Parquet"):
        read_games(path)
