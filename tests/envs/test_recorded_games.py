"""Reading recorded games: a made-up table in the form of 2019, in the place of overcooked-ai."""

import importlib.util

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from kitchen_checks import unchecked

from eqgrid.envs.overcooked import Overcooked, Recipes, parse_kitchen
from eqgrid.envs.overcooked.people import _games, human_games
from eqgrid.envs.overcooked.reference import worlds_to_reference
from eqgrid_exact import replay, stored_plans

TEXT = "XXPXX\nO  2O\nX1  X\nXDXSX"
CRAMPED = parse_kitchen(TEXT, Recipes(orders=[("onion",) * 3], values=5.0))
LENGTH = (60, 45)
MOVES = ([0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "INTERACT")


@pytest.fixture(scope="module")
def played():
    """The actions, states and rewards of the best plan, cut into two games."""
    actions = stored_plans()["cramped", "classic", 400].joint_actions()[: sum(LENGTH)]
    states, rewards = replay(Overcooked(CRAMPED), actions)
    return np.asarray(actions), jax.tree.map(np.asarray, states), np.asarray(rewards)


@pytest.fixture
def install(played, tmp_path, monkeypatch):
    """Puts a package with these games in the place of overcooked-ai."""
    actions, states, rewards = played
    with unchecked():
        written = worlds_to_reference(jax.tree.map(jnp.asarray, states), CRAMPED)
    texts = [old_state(state) for state in written]
    table = {
        "cur_gameloop": [float(i) for n in LENGTH for i in range(n)],
        "joint_action": [str([MOVES[i] for i in joint]) for joint in actions.tolist()],
        "layout": [str(TEXT.split("\n"))] * len(texts),
        "layout_name": ["cramped_room"] * len(texts),
        "next_state": [*texts[1:], texts[-1]],
        "reward": rewards,
        "run": ["run-1"] * len(texts),
        "state": texts,
        "time_elapsed": [0.15 * (i + 1) for n in LENGTH for i in range(n)],
        "workerid_num": [pair for n, pair in zip(LENGTH, (4, 7), strict=True) for _ in range(n)],
    }
    mixed = pandas.DataFrame(table).iloc[[*range(1, len(texts)), 0]]

    def install(*splits):
        data = tmp_path / "overcooked_ai_py" / "data" / "human_data"
        data.mkdir(parents=True)
        package = tmp_path / "overcooked_ai_py" / "__init__.py"
        package.write_text("raise ImportError('it is imported')", encoding="utf-8")
        for split in splits:
            mixed.to_pickle(data / f"clean_{split}_trials.pickle")
        spec = importlib.util.spec_from_file_location("overcooked_ai_py", package)
        monkeypatch.setattr(_games.importlib.util, "find_spec", lambda name: spec)

    return install


def old_state(state) -> str:
    players = [
        {"position": [*x["position"]], "orientation": [*x["orientation"]]}
        | ({"held_object": old_object(x["held_object"])} if x["held_object"] else {})
        for x in state["players"]
    ]
    things = {",".join(map(str, x["position"])): old_object(x) for x in state["objects"]}
    return str({"players": players, "objects": things, "order_list": ["onion"]})


def old_object(thing):
    plain = {"name": thing["name"], "position": [*thing["position"]]}
    if thing["name"] == "soup":
        plain["state"] = ["onion", len(thing["_ingredients"]), max(thing["cooking_tick"], 0)]
    return plain


def test_games_of_2019_are_read(install, played):
    install("train")
    actions, states, rewards = played
    with unchecked():
        first, second = human_games("train")
    assert (first.kitchen, first.split) == ("cramped", "train")
    assert first.trial == "cramped_room/run-1/4"
    assert first.players == ("run-1/4/0", "run-1/4/1")
    assert second.players == ("run-1/7/0", "run-1/7/1")
    assert float(first.reward[:, 0].sum()) == 5
    assert eqx.tree_equal(first.layout, CRAMPED)
    begin = 0
    for game, length in zip((first, second), LENGTH, strict=True):
        own = slice(begin, begin + length)
        expected = jax.tree.map(lambda x, own=own: x[own], states)
        steps = np.arange(length, dtype=np.int32)  # each game counts its own steps
        expected = eqx.tree_at(lambda x: x.time, expected, steps)
        assert eqx.tree_equal(jax.tree.map(np.asarray, game.state), expected)
        np.testing.assert_array_equal(game.action, actions[own])
        np.testing.assert_array_equal(game.reward, np.repeat(rewards[own, None], 2, 1))
        np.testing.assert_allclose(game.time, 0.15 * np.arange(1, length + 1), rtol=1e-6)
        assert int(game.final_state.time) == length
        begin += length
    # What follows the last step of the first game is how the second begins.
    begins = jax.tree.map(lambda x: x[0], second.state)
    assert eqx.tree_equal(first.final_state.cells, begins.cells)
    assert eqx.tree_equal(first.final_state.bodies, begins.bodies)


def test_halves_and_kitchens_are_chosen(install):
    install("train", "test")
    with unchecked():
        both = human_games()
        assert [game.split for game in both] == ["train", "train", "test", "test"]
        assert eqx.tree_equal(human_games("test"), both[2:])
        for name in ("cramped", "cramped_room"):
            assert len(human_games("train", kitchen=name)) == 2
        with pytest.raises(ValueError, match="no games in 'forced': the kitchens here are cramped"):
            human_games("train", kitchen="forced")
        with pytest.raises(ValueError, match="no split 'all': choose train or test"):
            human_games("all")  # pyright: ignore[reportArgumentType]


def test_a_missing_package_is_one_sentence(install, monkeypatch):
    install()
    with pytest.raises(ValueError, match=r"no human games: install overcooked-ai==1\.1\.0"):
        human_games("train")
    monkeypatch.setattr(_games.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"not installed: pip install 'eqgrid(-core)?\[human\]'"):
        human_games()
