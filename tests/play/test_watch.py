"""Recorded games to watch: what is shown of them, and what policies think in them."""

import json
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import join_game, press, receive_until, server_of, write_journal
from starlette.testclient import TestClient

from eqgrid_lab import Kitchen, Partners
from agents import PolicyPartner
from eqgrid import RandomPartner
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import (
    Menu,
    TileSheet,
    read_recorded,
    scenes,
    think,
    whole_frame,
)
from eqgrid_play.web._app import build_app

pytestmark = pytest.mark.slow

WORLD = Kitchen(layout="ring", horizon=40)


@pytest.fixture(scope="module")
def menu():
    return Menu(WORLD)


def recorded(menu, folder, world=WORLD, steps=8, **played):
    """A game that was written into a folder, and read again."""
    write_journal(folder / "game.jsonl", world, steps, **played)
    (game,) = read_recorded([str(folder)], menu)
    return game


def test_a_journal_is_watched_as_it_was_played(menu, tmp_path):
    game = recorded(menu, tmp_path, steps=30)
    assert game.name == "game"
    assert game.seats == ("one", "two")
    assert game.action[:, 0].tolist() == [step % 4 for step in range(30)]
    assert game.states.time.tolist() == list(range(31))


def test_journals_of_other_worlds_are_watched(menu, tmp_path):
    game = recorded(menu, tmp_path, world_settings("rescue", layout="small"), 12)
    assert game.place.settings.name == "rescue"
    with pytest.raises(UsageError, match="Only a policy"):
        think(game, RandomPartner(game.place.env.action_space))


def test_every_agent_has_its_own_score(menu, tmp_path):
    """Each is paid for its own flag, which the second agent reaches."""
    rng = np.random.default_rng(0)
    walk = {"steps": 60, "seed": 0, "presses": lambda _: rng.integers(4, size=2).tolist()}
    game = recorded(menu, tmp_path, world_settings("goals", horizon=60), **walk)
    assert len(set(game.scores)) > 1
    assert game.scores == game.reward.sum(axis=0).tolist()
    shown = scenes(game, TileSheet())
    assert shown["frames"][-1].scores == game.scores
    assert shown["frames"][9].display["Step"] == "9 of 60"
    assert [x.scores for x in shown["frames"][:-1]] == [
        game.reward[:step].sum(axis=0).tolist() for step in range(60)
    ]


@pytest.mark.parametrize("source", ["nothing.jsonl", "nothing.npz", ""])
def test_what_cannot_be_watched_is_refused(menu, tmp_path, source):
    with pytest.raises((UsageError, OSError)):
        read_recorded([str(tmp_path / source)], menu)


def test_games_that_were_never_started_are_skipped_and_counted(menu, tmp_path, capsys):
    for name, steps in (("a", 0), ("b", 3), ("c", 0)):
        write_journal(tmp_path / f"{name}.jsonl", WORLD, steps)
    (game,) = read_recorded([str(tmp_path)], menu)
    assert game.name == "b"
    assert (
        "games without a step, which are skipped: 2 (a.jsonl, c.jsonl)" in capsys.readouterr().err
    )
    with pytest.raises(UsageError, match=r"nothing to watch except games without a step.*a\.jsonl"):
        read_recorded([str(tmp_path / "a.jsonl")], menu)


def change(path, old="", new="", **header):
    """Changes a journal and its checksums, as a program with other rules would write it."""
    text = re.sub(r',"check":\d+', "", path.read_text()).replace(old, new)
    first, *lines = text.splitlines()
    first = json.dumps(json.loads(first) | header)
    check, checked = zlib.crc32(first.encode()), [first]
    for line in lines:
        check = zlib.crc32(line.encode(), check)
        checked.append(f'{line[:-1]},"check":{check}}}')
    path.write_text("\n".join([*checked, ""]))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "x"},
        {"format": 99},
        {"files": {"gone.txt": "0"}},
        {"world": {"name": "overcooked", "arguments": {"layout": "cramped"}}},
        {"world": {"name": "overcooked", "arguments": {"layout": "kitchens/mine.txt"}}},
        {"world": {"name": "body"}},
    ],
)
def test_every_error_about_a_recording_names_its_file(menu, tmp_path, changes):
    write_journal(tmp_path / "a.jsonl", WORLD, 3)
    change(tmp_path / "a.jsonl", '"reward":[0.0,0.0]', '"reward":[7.0,0.0]')
    with pytest.raises(UsageError, match=r"a\.jsonl.*does not replay"):
        read_recorded([str(tmp_path)], menu)
    change(tmp_path / "a.jsonl", **changes)
    with pytest.raises(UsageError, match=r"a\.jsonl") as caught:
        read_recorded([str(tmp_path)], menu)
    assert "\n" not in str(caught.value)


def test_thoughts_are_the_probabilities_with_which_it_acts(menu, tmp_path):
    game = recorded(menu, tmp_path)
    built = Partners().build("shipped:ring", game.place)
    partner, saved = built.partner, built.saved
    assert isinstance(partner, PolicyPartner)
    found = think(game, partner)
    world = partner.env or game.place.env
    for step in range(8):
        state = jax.tree.map(lambda x, step=step: jnp.asarray(x[step]), game.states)
        output, _ = saved.policy.outputs(world.observe(state), saved.policy.initial_carry())
        expected = jax.nn.softmax(output)
        np.testing.assert_allclose(found.probabilities[step], expected, atol=1e-4)
    assert found.values is not None
    policy = saved.policy.actor_critic
    value = policy.value(world.observe(state), policy.initial_carry())
    np.testing.assert_allclose(found.values[7], value, atol=1e-3)


def test_a_model_of_people_has_no_values(menu, tmp_path):
    game = recorded(menu, tmp_path)
    clone = Partners().build("clone", game.place).partner
    assert think(game, clone).values is None


def test_the_page_gets_frames_that_add_up(menu, tmp_path):
    game = recorded(menu, tmp_path, steps=30)
    server = server_of(menu, tmp_path, recorded=[game])
    with TestClient(build_app(server, ["testserver"])) as client:
        (listed,) = client.get("/api/recordings").json()["games"]
        assert listed == {
            "title": "ring",
            "seats": ["one", "two"],
            "scores": [0, 0],
            "steps": 30,
            "started": "2026-01-01T00:00:00",
        }
        found = client.get("/api/recordings/0/scenes").json()
        cells, pictures = [-1] * 25, set()
        for step, frame in enumerate(found["frames"]):
            pictures |= set(map(int, frame["pictures"]))
            for place, number in frame["cells"]:
                cells[place] = number
            state = jax.tree.map(lambda x, step=step: x[step], game.states)
            whole = whole_frame(game.place.drawn_layout, state, step, [0.0], server.tiles)
            assert [*enumerate(cells)] == whole.cells
            assert [tuple(x) for x in frame["agents"]] == whole.agents
            assert set(cells) <= pictures
        assert found["actions"] == [["up", "down", "right", "left", "stay", "interact"]]
        assert found["policies"] == ["a trained agent", "a model of people", "an optimal plan"]
        thoughts = client.get("/api/recordings/0/thoughts/1").json()
        assert np.shape(thoughts["probabilities"]) == (31, 2, 6)
        for path in ("1/scenes", "0/thoughts/3", "1/thoughts/0"):
            answer = client.get(f"/api/recordings/{path}")
            assert answer.status_code == 400
            assert "There is no such" in answer.json()["text"]


def test_a_game_that_is_over_can_be_looked_at(menu, tmp_path):
    with TestClient(build_app(server_of(menu, tmp_path), ["testserver"])) as client:
        offers = {
            x["name"]: x["key"] for x in client.get("/api/layouts/0/partners").json()["offers"]
        }
        wish = {"layout": 0, "seats": ["person", offers["a program for all tasks"]]}
        made = client.post("/api/games", json=wish).json()
        query = {"token": made["tokens"][0]}
        assert client.get(f"/api/games/{made['game']}/scenes", params=query).status_code == 400
        with client.websocket_connect(f"/api/games/{made['game']}") as socket:
            join_game(socket, query["token"])
            press(socket)
            receive_until(socket, status="over")
        found = client.get(f"/api/games/{made['game']}/scenes", params=query).json()
        assert len(found["frames"]) == 41
        assert client.get(f"/api/games/{made['game']}/scenes").status_code == 400
