"""`bc.py`, as a person uses it: models of recorded games, their files, and how it says no."""

import dataclasses
import json
import shutil
import tomllib

import jax
import numpy as np
import pytest
from command_lines import call_and_hear, check_refusal, parse
from hypothesis import given, strategies as st
from run_files import table
from scripts import shipped_script

from eqgrid_lab import Kitchen
from agents import PolicyPartner, StuckRule, load_policy, read_metadata, save_trajectories
from eqgrid import make, record_play
from eqgrid.envs.overcooked import ScriptedCook
from eqgrid_lab.base import UsageError
from eqgrid_lab.cloning import choose_held_out, read_recorded
from eqgrid_lab.partners import read_saved
from eqgrid_lab.settings import dump
from eqgrid_lab.show import median_seed

pytestmark = pytest.mark.slow

QUICK = ("--cloning.num-epochs", 2, "--episodes", 2, "--env.horizon", 20)


@pytest.fixture(scope="module")
def games(tmp_path_factory):
    """Eight games of scripted cooks in `cramped`."""
    world, cook = make("overcooked", layout="cramped"), ScriptedCook("cramped", "greedy")
    keys = jax.random.split(jax.random.key(0), 8)
    played = record_play(world, (cook, cook), keys, max_steps=400)
    path = tmp_path_factory.mktemp("games") / "games.npz"
    save_trajectories(path, played)
    return path


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Calls the command line in an empty folder; gives its exit code and what it said."""
    monkeypatch.chdir(tmp_path)

    return lambda *args: call_and_hear(capsys, *args, algorithm="bc")


def test_a_model_learns_and_leaves_its_files(call, games, tmp_path):
    args = ("--games", games, "--cloning.num-epochs", 20, "--episodes", 4)
    code, said = call(*args, "--out", "run")
    assert code == 0
    assert "8 human games" in said
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        *("config.toml", "metrics.csv", "result.json", "curve.png"),
        *("episode.gif", "policy.safetensors"),
    }
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["games"], result["held_out_games"], result["steps"]) == (8, 1, 7 * 400 * 2)
    [own], frequent = result["runs"], result["most_frequent_action"]
    assert own["accuracy"] > frequent["accuracy"] + 0.3
    assert own["cross_entropy"] < 0.6 * frequent["cross_entropy"]
    assert result["eval_return_mean"] == own["eval_return_mean"] > 60  # two greedy cooks earn 219
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + 20

    saved = read_saved(tmp_path / "run")
    assert (saved.file.metadata["algorithm"], saved.env.observation) == ("bc", "features96")
    partner = saved.partner(saved.place())
    assert isinstance(partner, StuckRule)
    assert partner.steps == 3
    metadata = read_metadata(tmp_path / "run" / "policy.safetensors")
    assert metadata["model_of_people"]["runs"] == [own]


def test_settings_that_a_run_stores_repeat_it(call, games, tmp_path):
    assert call("--games", games, *QUICK, "--stuck-steps", 0, "--out", "run")[0] == 0
    stored = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (stored["algorithm"], stored["stuck_steps"]) == ("bc", 0)
    before = load_policy(tmp_path / "run")
    assert call("--config", "run/config.toml", "--out", "again")[0] == 0
    after = load_policy(tmp_path / "again")
    for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(x, y)
    saved = read_saved(tmp_path / "run")
    assert isinstance(saved.partner(saved.place()), PolicyPartner), "without a stuck rule"


def test_seeds_that_are_trained_together_share_a_folder(call, games, tmp_path):
    args = ("--games", games, *QUICK)
    assert call(*args, "--num-seeds", 2, "--seed", 3, "--out", "both")[0] == 0
    assert call(*args, "--seed", 4, "--out", "one")[0] == 0
    both = json.loads((tmp_path / "both" / "result.json").read_text())
    one = json.loads((tmp_path / "one" / "result.json").read_text())
    assert both["seeds"] == [run["seed"] for run in both["runs"]] == [3, 4]
    assert both["median_seed"] in (3, 4)
    names = {path.name for path in (tmp_path / "both").glob("*.safetensors")}
    assert names == {"policy-3.safetensors", "policy-4.safetensors"}
    assert read_metadata(tmp_path / "both" / "policy-4.safetensors")["seed"] == 4
    # Each seed is as if it were trained alone, but for rounding.
    for name in ("cross_entropy", "accuracy"):
        assert both["runs"][1][name] == pytest.approx(one["runs"][0][name], rel=1e-4)
    logs = [table(tmp_path / name / "metrics.csv") for name in ("both", "one")]
    assert [row["epoch"] for row in logs[0]] == ["1", "1", "2", "2"]
    for row, alone in zip(logs[0][1::2], logs[1], strict=True):
        assert row["seed"] == alone["seed"] == "4"
        assert float(row["cross_entropy"]) == pytest.approx(float(alone["cross_entropy"]), rel=1e-4)


def test_a_model_may_remember(call, games, tmp_path):
    assert call("--games", games, *QUICK, "--network", "gru", "--out", "run")[0] == 0
    policy = load_policy(tmp_path / "run")
    assert jax.tree.leaves(policy.initial_carry())


def test_a_person_in_the_held_out_games_is_in_no_other():
    players = [("a", "b"), ("c", "d"), ("b", "e"), ("f", "g")]
    assert choose_held_out(players, 0.1) == (3,)
    assert choose_held_out([*players, ("e", "h")], 0.3) == (0, 2, 4)  # a, b, e and h met
    with pytest.raises(UsageError, match="no game can be held out"):
        choose_held_out([("a", "b"), ("b", "c")], 0.1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8),
    st.floats(0.01, 0.99),
)
def test_held_out_people_are_others(pairs, share):
    players = [(str(x), str(y)) for x, y in pairs]
    try:
        held_out = choose_held_out(players, share)
    except UsageError:
        return
    met = {person for i in held_out for person in players[i]}
    others = [pair for i, pair in enumerate(players) if i not in held_out]
    assert held_out
    assert not met & {person for pair in others for person in pair}


def test_what_a_model_observes_is_what_the_kitchen_shows(games):
    config = dataclasses.replace(shipped_script("bc")(), games=str(games))
    world = config.env.build(train=False)
    recorded = read_recorded(config, world)
    game = recorded.games[3]
    for step in (0, 17, 399):
        state = jax.tree.map(lambda x, step=step: x[step], game.state)
        seen = recorded.observations[3][step]
        np.testing.assert_array_equal(np.asarray(world.observe(state)), seen)


def test_only_games_of_the_kitchen_are_read_from_a_folder(games, tmp_path, capsys):
    """`ring` and `forced` have the same size, but only one of them can have made the steps."""
    for layout in ("ring", "forced"):
        world, cook = make("overcooked", layout=layout), ScriptedCook(layout, "greedy")
        keys = jax.random.split(jax.random.key(0), 2)
        played = record_play(world, (cook, cook), keys, max_steps=400)
        save_trajectories(tmp_path / f"{layout}.npz", played)
    shutil.copy(games, tmp_path / "cramped.npz")
    config = shipped_script("bc")()
    kitchen = Kitchen(layout="ring", observation="features96")
    config = dataclasses.replace(config, games=str(tmp_path), env=kitchen)
    recorded = read_recorded(config, config.env.build(train=False))
    assert {game.players[0] for game in recorded.games} == {"ring/0/0", "ring/1/0"}
    said = capsys.readouterr().err
    assert "cramped.npz' is of another world" in said
    assert "forced.npz' has games of another kitchen" in said


def test_the_default_has_the_median_return():
    results = [{"eval_return_mean": x} for x in (5.0, 1.0, 3.0, 4.0, 2.0)]
    assert median_seed(results) == 2
    assert median_seed(results[:4]) == 2  # the lower one of 3 and 4


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--env.layout", "corridor"), "--env.layout"),
        (("--env.dynamics", "interactive"), "classic rules"),
        (("--env.normalize-observation",), "omit --env.normalize-observation"),
        (("--network", "cnn"), "add --env.observation planes"),
        (("--games", "missing.npz"), "missing.npz"),
        (("--held-out", 0.99), "no game can be held out"),
        (("--env.layout", "ring"), "No games of this kitchen"),
    ],
)
def test_bad_settings_get_one_sentence_and_leave_nothing(call, games, tmp_path, args, sentence):
    if "--games" not in args:
        args = ("--games", games, *args)
    check_refusal(call(*args, "--out", "run"), sentence, codes=(2,))
    assert not (tmp_path / "run").exists()


def test_other_scripts_refuse_the_settings_of_models(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(dump(shipped_script("bc")()))
    with pytest.raises(UsageError, match=r"is for the algorithm 'bc', not for ippo"):
        parse("--config", str(path))
