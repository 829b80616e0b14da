"""Reading recorded games: made-up tables in every form."""

import csv
import importlib.util
import json

import equinox as eqx
import jax
import numpy as np
import pandas
import pytest
from human_tables import CRAMPED, changed, episodes, new_table, old_table
from kitchen_checks import refused, unchecked

from eqgrid.envs.overcooked import Overcooked, load_layout
from eqgrid.envs.overcooked.people import (
    _files,
    games_from_table,
    human_games,
    read_games,
    trajectories_from_games,
)
from eqgrid.envs.overcooked.reference import trajectories_from_reference

LENGTH = (60, 45)
GAMES = episodes(CRAMPED, LENGTH)
PAID = load_layout("cramped")
"""The same kitchen, in which a soup pays 20."""


@pytest.fixture(scope="module")
def old():
    with unchecked():
        return old_table(GAMES, CRAMPED)


@pytest.fixture(scope="module")
def new():
    with unchecked():
        return new_table(episodes(PAID, LENGTH), PAID)


def numbered(games):
    """The games with the steps of each counted from 0, as in the tables of 2019."""
    steps = np.concatenate([np.arange(n) for n in LENGTH]).astype(np.int32)
    return eqx.tree_at(lambda x: x.state.time, games, jax.numpy.asarray(steps))


def test_a_table_of_2019_is_read(old):
    with unchecked():
        games = games_from_table(old, split="train")
        whole = trajectories_from_games(games)
    assert [len(game.action) for game in games] == [*LENGTH]
    assert eqx.tree_equal(whole, numbered(GAMES))
    first, second = games
    assert (first.kitchen, first.split) == ("cramped", "train")
    assert first.trial == "cramped_room/run-1/4"
    assert first.players == ("run-1/4/0", "run-1/4/1")
    assert second.players == ("run-1/7/0", "run-1/7/1")
    assert first.human == (True, True)
    assert float(first.reward[:, 0].sum()) == 5
    assert np.allclose(first.time, 0.15 * np.arange(1, 61))
    assert eqx.tree_equal(first.layout, CRAMPED)
    # What follows the last step of the first game is how the second begins.
    begins = jax.tree.map(lambda x: x[0], second.state)
    assert eqx.tree_equal(first.final_state.cells, begins.cells)
    assert eqx.tree_equal(first.final_state.bodies, begins.bodies)
    assert int(first.final_state.time) == 60


def test_a_table_of_2019_is_a_table_of_the_reference(old):
    with unchecked():
        assert eqx.tree_equal(trajectories_from_reference(old, CRAMPED), numbered(GAMES))


def test_a_table_of_2020_is_read(new):
    mixed = new | {"player_1_is_human": ["True"] * 105}
    with unchecked():
        first, second = games_from_table(mixed)
    assert eqx.tree_equal(trajectories_from_games([first, second]), episodes(PAID, LENGTH))
    assert (first.kitchen, first.split, first.trial) == ("cramped", None, "a")
    assert second.players == ("p", "r")
    assert second.human == (False, True)
    assert float(first.reward[:, 0].sum()) == 20
    assert first.final_state is None
    assert eqx.tree_equal(first.layout, PAID)


def write_csv(path, table):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])


def write_json_rows(path, table):
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    path.write_text(json.dumps(rows), encoding="utf-8")


def write_json_by_row(path, table):
    """As pandas does."""
    columns = {name: dict(enumerate(column)) for name, column in table.items()}
    path.write_text(json.dumps(columns), encoding="utf-8")


def write_parquet(path, table):
    interop = pytest.importorskip("eqgrid.interop")
    path.write_bytes(interop.to_parquet(table))


def with_mark(write):
    """The same writer, with a byte order mark before the text."""

    def write_marked(path, table):
        write(path, table)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    return write_marked


WRITERS = {
    "csv": (write_csv, "games.csv"),
    "json": (lambda path, table: path.write_text(json.dumps(table)), "games.json"),
    "rows": (write_json_rows, "games.json"),
    "marked csv": (with_mark(write_csv), "games.csv"),
    "marked json": (with_mark(write_json_rows), "games.json"),
    "by row": (write_json_by_row, "games.json"),
    "parquet": (write_parquet, "games.parquet"),
}


@pytest.mark.parametrize("form", ["old", "new"])
@pytest.mark.parametrize(("write", "name"), WRITERS.values(), ids=WRITERS)
def test_files_are_read_as_their_tables(write, name, form, tmp_path, request):
    table = request.getfixturevalue(form)
    write(tmp_path / name, table)
    with unchecked():
        assert eqx.tree_equal(read_games(tmp_path / name), games_from_table(table))


def test_only_the_chosen_kitchen_is_read(new):
    strange = {name: [*column, column[0]] for name, column in new.items()}
    strange["layout_name"][-1], strange["state"][-1] = "moon", "{"
    strange["trial_id"][-1] = "c"
    with unchecked():
        assert len(games_from_table(strange, kitchen="cramped")) == 2
        assert len(games_from_table(strange, kitchen="cramped_room")) == 2
        with pytest.raises(ValueError, match="unknown kitchen 'moon': give its layout"):
            games_from_table(strange)
        with pytest.raises(ValueError, match="Row 105: the state is not JSON"):
            games_from_table(strange, layouts={"moon": PAID})
        with pytest.raises(ValueError, match="no games in 'ring': the kitchens here are cramped"):
            games_from_table(strange, kitchen="ring")


def test_a_kitchen_of_ones_own_is_read(new):
    table = new | {"layout_name": ["mine"] * 105}
    with unchecked():
        (game, _) = games_from_table(table, layouts={"mine": PAID})
    assert game.kitchen == "mine"
    assert eqx.tree_equal(game.layout, PAID)


BAD = {
    "no time": (
        lambda t: {k: v for k, v in t.items() if k != "time_elapsed"},
        "no column 'time_elapsed'",
    ),
    "no rows": (lambda t: {name: [] for name in t}, "no games: the kitchens here are none"),
    "short": (lambda t: t | {"reward": t["reward"][:9]}, "columns of different lengths"),
    "odd time": (lambda t: changed(t, "time_elapsed", 3, "noon"), "Row 3: the time_elapsed is no"),
    "no layout": (lambda t: t | {"layout": ["7"] * 105}, "Row 0 has another grid than"),
    "odd next": (
        lambda t: changed(t, "next_state", 104, "[]"),
        "Row 104: The state must be",
    ),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_one_sentence(old, change, words):
    with refused(words):
        games_from_table(change(old))


def test_games_in_different_kitchens_are_not_joined(new):
    with unchecked():
        game = games_from_table(new)[0]
        other = eqx.tree_at(lambda x: x.layout, game, load_layout("ring"))
        with pytest.raises(ValueError, match="different kitchens"):
            trajectories_from_games([game, other])
        with pytest.raises(ValueError, match="no games to join"):
            trajectories_from_games([])


def test_trajectories_of_games_act_in_their_world(new):
    """What everything needs that takes `Trajectories`: observations of all steps."""
    with unchecked():
        games = trajectories_from_games(games_from_table(new))
    kitchen = Overcooked(PAID, observation="features96")
    assert jax.vmap(kitchen.observe)(games.state).shape[:2] == (105, 2)


# The installed package.


def install(folder, monkeypatch, tables):
    """Puts a package with these tables in the place of overcooked-ai."""
    data = folder / "overcooked_ai_py" / "data" / "human_data"
    data.mkdir(parents=True)
    package = folder / "overcooked_ai_py" / "__init__.py"
    package.write_text("raise ImportError('it is imported')", encoding="utf-8")
    for split, table in tables.items():
        pandas.DataFrame(table).to_pickle(data / f"clean_{split}_trials.pickle")
    spec = importlib.util.spec_from_file_location("overcooked_ai_py", package)
    monkeypatch.setattr(_files.importlib.util, "find_spec", lambda name: spec)


def test_the_installed_games_are_read_in_halves(old, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, {"train": old, "test": old})
    with unchecked():
        both = human_games()
        assert [game.split for game in both] == ["train", "train", "test", "test"]
        assert eqx.tree_equal(human_games("test"), both[2:])
        assert len(human_games("train", kitchen="cramped")) == 2
        with pytest.raises(ValueError, match="no games of the train half in 'forced'"):
            human_games("train", kitchen="forced")
        with pytest.raises(ValueError, match="no split 'all': choose train or test"):
            human_games("all")


def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, {})
    with pytest.raises(ValueError, match=r"no human games: install overcooked-ai==1\.1\.0"):
        human_games("train")
    monkeypatch.setattr(_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'eqgrid(-core)?\[human\]'"):
        human_games()


def test_a_path_may_be_half_of_the_data(old, tmp_path):
    path = tmp_path / "half.json"
    path.write_text(json.dumps(old))
    with unchecked():
        assert [game.split for game in human_games("test", path=path)] == ["test", "test"]
        assert [game.split for game in human_games(path=path)] == [None, None]


FILES = {
    "games.txt": (b"", r"must end in \.csv"),
    "games.csv": (b'a,b\n"1', "damaged, or no CSV"),
    "rows.csv": (b"a,b\n1\n", "as many cells as the first"),
    "latin.csv": (b"\xff", "It is not UTF-8"),
    "games.json": (b"{", "damaged, or no JSON"),
    "list.json": (b"[]", "a list of rows, or a list for each column"),
    "games.parquet": (b"PAR1", "damaged, or not a Parquet"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_one_sentence(name, tmp_path):
    content, words = FILES[name]
    (tmp_path / name).write_bytes(content)
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with refused(words) as caught:
        read_games(tmp_path / name)
    assert name in str(caught.value)


def test_a_file_that_is_none_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_games(tmp_path / "no.csv")
    with pytest.raises(ValueError, match=r"The folder '.*' has no \.parquet file"):
        read_games(tmp_path)
