"""`human_games.py`, as a person uses it: what it writes, and how it says no."""

import io
import json

import equinox as eqx
import jax
import numpy as np
import pytest
import run_files
from command_lines import calling, check_refusal
from kitchen_checks import unchecked
from PIL import Image
from saved_policies import write_policy

from agents import write_table
from eqgrid import make, record_play
from eqgrid.envs.overcooked import ScriptedCook
from eqgrid.envs.overcooked.people import games_from_table
from eqgrid.envs.overcooked.reference import trajectories_to_reference
from eqgrid_lab.commands import _human_games, empty_kitchen, human_games_command, share_of_time

pytestmark = pytest.mark.slow

GAMES = 3


@pytest.fixture(scope="module")
def played():
    world, cook = make("overcooked", layout="cramped"), ScriptedCook("cramped", "greedy")
    return record_play(
        world, (cook, cook), jax.random.split(jax.random.key(0), GAMES), max_steps=400
    )


@pytest.fixture(scope="module")
def table(played, tmp_path_factory):
    path = tmp_path_factory.mktemp("games") / "games.parquet"
    layout = make("overcooked", layout="cramped").layout
    with unchecked():
        write_table(path, trajectories_to_reference(played, layout, layout_name="cramped_room"))
    return path


call = calling(human_games_command)


def test_games_are_counted_drawn_and_videoed(call, played, table, tmp_path):
    code, said = call("--games", table, "--video", 1, "--out", "seen")
    assert code == 0
    folder = tmp_path / "seen"
    assert {path.name for path in folder.iterdir()} == {
        *("human_games.json", "games.csv", "where-cramped.png", "game-1.gif")
    }
    rows = run_files.table(folder / "games.csv")
    assert [row["number"] for row in rows] == ["0", "1", "2"]
    rewards = np.split(np.asarray(played.reward[:, 0]), GAMES)
    for row, own in zip(rows, rewards, strict=True):
        assert float(row["return"]) == own.sum()
        assert row["steps"] == "400"
    (people,) = json.loads((folder / "human_games.json").read_text())["kitchens"]["cramped"]
    assert (people["games"], people["steps"]) == (GAMES, GAMES * 400)
    assert people["return"]["mean"] == pytest.approx(np.mean([x.sum() for x in rewards]))
    stays = (np.asarray(played.action) == 4).mean()
    assert people["stay"]["mean"] == pytest.approx(stays)
    with Image.open(folder / "game-1.gif") as video:
        assert 1 < getattr(video, "n_frames", 1) <= 401
    assert "people" in said


def test_policies_are_shown_beside_people(call, table, tmp_path):
    write_policy(tmp_path / "own.safetensors", "--env.horizon", "30")
    code, said = call("own.safetensors", "--games", table, "--episodes", 2, "--out", "seen")
    assert code == 0
    kitchens = json.loads((tmp_path / "seen" / "human_games.json").read_text())["kitchens"]
    people, policy = kitchens["cramped"]
    assert (policy["who"], policy["games"], policy["steps"]) == ("own", 2, 60)
    assert people["return"]["mean"] > policy["return"]["mean"] == 0
    assert "return" in said
    assert "*" in said  # an untrained policy is not like the scripted cooks


@pytest.mark.parametrize("seat", [0, 1])
def test_shares_of_time_are_those_of_a_loop(played, seat):
    shape = make("overcooked", layout="cramped").layout.tiles.shape
    count = np.zeros(shape)
    for row, col in np.asarray(played.state.bodies.position)[:, seat]:
        count[row, col] += 1
    np.testing.assert_allclose(share_of_time(played, shape, seat), count / count.sum())


def test_no_cook_stands_in_an_empty_kitchen():
    """One cook is drawn in the other picture, in one cell, and nothing else differs."""
    kitchen = make("overcooked", layout="XPXX\nO1 X\nXDSX")
    empty = empty_kitchen(kitchen.layout)
    cell = len(empty) // 3
    drawn = kitchen.render(kitchen.layout.start, cell_pixels=cell)[: 3 * cell]
    differs = (empty != drawn).any(axis=-1)
    assert differs[cell : 2 * cell, cell : 2 * cell].any()
    differs[cell : 2 * cell, cell : 2 * cell] = False
    assert not differs.any()


@pytest.mark.parametrize(("seconds", "pause"), [(0.15, 150), (1.0, 120)])
def test_a_video_is_as_fast_as_the_game(played, seconds, pause):
    """Games of agents count steps: their videos have the usual speed."""
    layout = make("overcooked", layout="cramped").layout
    with unchecked():
        table = trajectories_to_reference(played, layout, layout_name="cramped_room")
        table["time_elapsed"] = [seconds * step for step in table["cur_gameloop"]]
        game = games_from_table(table)[0]
    last = jax.tree.map(lambda x: x[9], game.state)
    game = eqx.tree_at(
        lambda x: (x.state, x.reward, x.time, x.final_state),
        game,
        (*jax.tree.map(lambda x: x[:9], (game.state, game.reward, game.time)), last),
        is_leaf=lambda x: x is None,
    )
    with Image.open(io.BytesIO(_human_games.video_of(game))) as video:
        assert (video.n_frames, video.info["duration"]) == (10, pause)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--games", "missing.csv"), "missing.csv"),
        (("--games", "games.txt"), "must end in"),
        (("--kitchen", "ring"), "ring"),
        (("--video", 3), "--video must be below 3"),
        (("--split", "half"), "--split"),
    ],
)
def test_bad_arguments_get_one_sentence(call, table, tmp_path, args, sentence):
    args = args if "--games" in args else ("--games", table, *args)
    check_refusal(call(*args, "--out", "seen"), sentence, codes=(2,))
    assert not (tmp_path / "seen").exists()
