"""A server that is killed while a person plays."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from playing import NOBODY, until
from websockets.sync.client import connect

from eqgrid_play.study import open_people
from eqgrid_play.web import _study_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLAN = f"""
title = "Small"
[[stage]]
kind = "consent"
keys = true
text = "May we record keys?"
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "{NOBODY}"
"""


def begin_game(address):
    """Agrees to take part. **Returns:** the page of the game."""
    headers = {"x-token": "t" * 48}
    with httpx.Client(base_url=address, headers=headers, timeout=100) as client:
        client.post("api/study/join", json={"token": "t" * 48})
        at = client.get("api/study/now").json()["at"]
        client.post("api/study/answer", json={"at": at, "answers": {"agree": "yes"}})
        found = []
        until(lambda: found.append(client.get("api/study/now").json()) or "game" in found[-1])
        return found[-1]


def play(address, found, keys, kill):
    """Presses and releases a key before each of some steps and reports all frames, then calls
    `kill` after further steps.
    """
    waiting, last = [*keys], None
    with connect(f"{address.replace('http', 'ws', 1)}api/games/{found['game']}") as socket:

        def send(**message):
            socket.send(json.dumps(message))

        send(type="join", token=found["token"])
        while last is None or last > 0:
            message = json.loads(socket.recv(timeout=100))
            if message["type"] == "frame":
                send(type="shown", frame=message["number"], after=0.0, focus=True)
            if message.get("step") or "Press any" in message.get("text", ""):
                if waiting:
                    key = waiting.pop(0)
                    send(type="press", choice=0, action=1, key=key, time=1.0)
                    send(type="key", key=key, time=2.0, down=False)
                else:
                    last = 3 if last is None else last - 1
        kill()


def exported(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_steps_and_keys_of_a_killed_server_are_exported(tmp_path, own_caches):
    (tmp_path / "plan.toml").write_text(PLAN)
    out = tmp_path / "out"
    eqgrid = Path(sys.executable).with_name("eqgrid")
    command = [eqgrid, "study", "run", tmp_path / "plan.toml"]
    flags = ["--out", out, "--port", "0", "--no-browser", "--ticks-per-second", "10"]
    keys = [f"Key{letter}" for letter in "ABCDEFGH"]
    with subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, text=True, env=own_caches
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1].split("?")[0]
            play(address, begin_game(address), keys, process.kill)
        finally:
            process.kill()
    _study_command.run(["export", str(out)])
    with open_people(out) as people:
        assert [x["outcome"] for x in people.rows("games")] == [None]
    rows = exported(out, "keys")
    assert [x["key"] for x in rows if x["event"] == "press"] == keys
    assert [x["event"] for x in rows] == ["press", "release"] * len(keys)
    used = [int(x["step"]) for x in rows if x["step"]]
    steps = {int(x["step"]): x for x in exported(out, "steps")}
    assert [*steps] == [*range(1, len(steps) + 1)]
    assert len(steps) >= max(used) >= len(used) - 1
    assert {steps[x]["action"] for x in used} == {"1"}
    assert steps[1]["latency_ms"]
    explained = json.loads((out / "dictionary.json").read_text())
    for name in ("steps", "keys"):
        assert [*explained[name]] == [*exported(out, name)[0]]
