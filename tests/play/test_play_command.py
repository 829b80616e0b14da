"""The commands `eqgrid play`, `watch` and `study`: what they refuse, and how their server ends."""

import csv
import importlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import jax
import pytest
from playing import until

from eqgrid_lab import Kitchen
from agents import (
    CheckpointError,
    PolicyWorld,
    actor_critic,
    load_trajectories,
    save_policy,
    trained_policy,
)
from agents.files import _checkpoint, shipped
from eqgrid import Vectorize, make
from eqgrid_lab.base import UsageError, import_file
from eqgrid_lab.folders import locked
from eqgrid_play.games import Header, Journal, Place, SeatRecord, StepLine
from eqgrid_play.web import _app, _server, _study_command, _watch_command
from eqgrid_play.web._play_command import run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served(monkeypatch):
    """The arguments of the servers that would have been started."""
    calls = []
    monkeypatch.setattr(_app, "serve", lambda *args: calls.append(args))
    return calls


SEAT = SeatRecord("somebody", True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--env.name", "body"], "is not a grid world"),
        (["--port", "70000"], "--port must be"),
        (["--hosts", "https://example.org"], "is not a host name"),
        (["--hosts", "example.org:8443"], "is not a host name without a port"),
    ],
)
def test_bad_input_gets_a_sentence(flags, says, tmp_path):
    with pytest.raises(UsageError, match=re.escape(says)):
        run([*flags, "--no-browser", "--out", str(tmp_path / "games")])
    assert not (tmp_path / "games").exists()


def test_a_policy_of_another_world_is_refused(tmp_path):
    policy = ROOT / "experiments" / "policies" / "ring.safetensors"
    with pytest.raises(UsageError, match="cannot play here: it was trained in overcooked"):
        run([str(policy), "--env.name", "goals", "--out", str(tmp_path / "games")])


def test_partners_are_named_without_folders_of_the_server(tmp_path, served):
    files = [tmp_path / name / "policy.safetensors" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        shutil.copy(shipped("policies/cramped.safetensors"), file)
    flags = ["--env.layout", "ring", "--no-browser", "--port", "0", "--out", str(tmp_path / "out")]
    run([*map(str, files), "shipped:ring", *flags])
    menu = served[0][0].menu
    offers = [*menu.offers("ring").values()]
    assert [x.words for x in offers[:3]] == [
        "a trained agent (one)",
        "a trained agent (two)",
        "a trained agent",
    ]
    assert [x.name for x in offers[:3]] == [*map(str, files), "shipped:ring"]


SCRIPT = """
from agents import MLP, AbstractNetwork

class Mine(AbstractNetwork):
    mlp: MLP

    def __init__(self, in_shape, out_size, *, final_scale, key):
        self.mlp = MLP(in_shape, out_size, width=8, final_scale=final_scale, key=key)

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return self.mlp(x, carry)
"""


def test_policies_with_networks_of_a_script_are_partners(tmp_path, served):
    script, file = tmp_path / "mine.py", tmp_path / "mine.safetensors"
    script.write_text(SCRIPT)
    place = Place.of(Kitchen())
    envs, network = Vectorize(place.env, 1), import_file(script).Mine
    policy = trained_policy(actor_critic(envs, jax.random.key(0), network=network), envs)
    save_policy(file, policy, world=place.policy_world)
    flags = [str(file), "--no-browser", "--port", "0", "--out", str(tmp_path / "games")]
    with pytest.raises(CheckpointError, match="a 'Mine', which eqgrid does not know"):
        run(flags)
    run([*flags, "--script", str(script)])
    offers = served[0][0].menu.offers("cramped").values()
    assert "a trained agent (mine)" in {x.words for x in offers}


def test_each_named_policy_is_read_once(tmp_path, served, monkeypatch):
    read, paths = _checkpoint.read_regular_file, []

    def count(path, *limit):
        paths.append(path)
        return read(path, *limit)

    monkeypatch.setattr(_checkpoint, "read_regular_file", count)
    files = [tmp_path / f"{name}.safetensors" for name in ("one", "two")]
    for file in files:
        shutil.copy(shipped("policies/ring.safetensors"), file)
    names = [*map(str, files), f"{files[0]}+delay=2"]
    run([*names, "--no-browser", "--port", "0", "--out", str(tmp_path / "games")])
    offers = [*served[0][0].menu.offers("ring").values()]
    assert [x.name for x in offers[:3]] == names
    assert [x.words for x in offers[:3]] == [
        "a trained agent (1)",
        "a trained agent (2)",
        "a trained agent, 2 steps late",
    ]
    assert [paths.count(file) for file in files] == [1, 1]


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"{port} .*: choose another --port"):
            run(["--port", str(port), "--no-browser", "--out", str(tmp_path / "games")])
    assert not (tmp_path / "games").exists()


def test_without_its_extra_it_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'eqgrid\[play\]'"):
        run([])


def test_the_world_is_that_of_the_first_policy_wherever_it_stands(tmp_path, served, capsys):
    flags = ["--no-browser", "--port", "0", "--env.horizon", "12"]
    run([*flags, "shipped:ring", "shipped:cramped", "--out", str(tmp_path / "one")])
    run([*flags, "--env.layout", "forced", "shipped:ring", "--out", str(tmp_path / "two")])
    switch = "--env.no-normalize-observation"
    run([switch, "shipped:plan-ring", *flags, "--out", str(tmp_path / "three")])
    envs = [args[0].menu.place(args[0].menu.layouts[0]).settings for args in served]
    assert [env.layout for env in envs] == ["ring", "forced", "ring"]
    assert {env.horizon for env in envs} == {12}
    with pytest.raises(SystemExit) as end:
        run(["--port", "0", "shipped:ring", "--help"])
    assert end.value.code == 0
    assert re.search(r"--env.layout STR[^-]*default: ring", capsys.readouterr().out)


def watch(*args):
    _watch_command.run([*map(str, args), "--no-browser", "--port", "0"])


def test_episodes_of_a_killed_server_are_written_later(tmp_path, served, capsys):
    world = PolicyWorld("overcooked", {"layout": "ring"})
    header = Header(world, "ring", 1, (SEAT, SEAT), 6.0, "2026-01-01T00:00:00")
    for name in ("one", "two", "empty"):
        journal = Journal(tmp_path / f"{name}.jsonl", header)
        for step in range(3 if name != "empty" else 0):
            journal.add(StepLine([step, 5], [0.0, 0.0], step / 6))
    (tmp_path / "one.npz").write_text("written before")
    with locked(tmp_path):
        watch(tmp_path)
    assert not (tmp_path / "two.npz").exists()
    watch(tmp_path, "--policies", "shipped:ring", shipped("policies/biped.safetensors"))
    assert capsys.readouterr().out.count(".npz") == 1
    assert (tmp_path / "one.npz").read_text() == "written before"
    episode = load_trajectories(tmp_path / "two.npz", make("overcooked", layout="ring"))
    assert episode.action.tolist() == [[0, 5], [1, 5], [2, 5]]
    assert not (tmp_path / "empty.npz").exists()
    games = served[1][0]
    assert [game.name for game in games.recorded] == ["one", "two"]
    assert games.policies(games.recorded[0].place)[0].words == "a trained agent"
    (tmp_path / "damaged.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"damaged\.jsonl"):
        watch(tmp_path)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="has no game"):
        watch(tmp_path / "nothing")
    with pytest.raises(UsageError, match="Name recorded games"):
        watch()


PLAN = """
title = "Small"
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "stay"
"""


def test_a_study_goes_on_with_what_it_was_begun_with(tmp_path, served):
    plan, out = tmp_path / "plan.toml", tmp_path / "study"
    flags = ["run", str(plan), "--out", str(out), "--no-browser", "--port", "0"]
    run = _study_command.run
    plan.write_text(PLAN.replace("ring", "nowhere"))
    with pytest.raises(UsageError, match="known are"):
        run(flags)
    assert not out.exists()
    plan.write_text(PLAN)
    run(flags)
    run(flags)
    settings = {"--ticks-per-second": "ticks_per_second", "--env.horizon": "world"}
    for flag, name in settings.items():
        with pytest.raises(UsageError, match=f"different settings of {name}: see its study.json"):
            run([*flags, flag, "3"])
    plan.write_text(PLAN + "name = 'another'\n")
    with pytest.raises(UsageError, match="started with a different plan"):
        run(flags)
    plan.write_text(PLAN)
    stored = (out / "study.json").read_text()
    (out / "study.json").write_text(stored.replace("{", '{"more": 1, ', 1))
    with pytest.raises(UsageError, match="different settings of more"):
        run(flags)
    (out / "study.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        run(flags)
    assert len(served) == 2
    tokens = [args[-1] for args in served]
    assert tokens[0] == tokens[1] != ""


TRIAL = """
title = "Trial"
redirect = "https://example.org/{code}?session={SESSION}"
parameters = ["SESSION"]
[[stage]]
kind = "consent"
text = "Do you agree?"
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "person"
fallback = "stay"
name = "together"
[[stage.game]]
layout = "ring"
partner = "stay"
name = "alone"
[[stage]]
kind = "questions"
question = [{ name = "fluent", text = "Was it fluent?", right = 7, exclude = true }]
"""


def test_bots_try_a_plan(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(TRIAL)
    flags = ["try", str(tmp_path / "plan.toml"), "--env.horizon", "12"]
    _study_command.run([*flags, "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert re.search(r"alone +3 +2 +1\.2 to 1\.2\n", said)  # a minute of waiting, and 24 steps
    assert re.search(r"groups of 2 +5 +4 +0\.2 to 0\.2\n", said)
    assert re.search(r"1 +alone, together +3 *\n1 +together, alone +3 *\n", said)
    assert "2 games with another person, 2 for which nobody came; waiting: median 0 s, " in said
    link = r"https://example\.org/\1\?session=bot"
    assert re.search(rf"finished: code (\w{{4}}-\w{{4}}-\w{{4}}), link {link}", said)
    with (tmp_path / "out" / "games.csv").open(newline="") as file:
        games = list(csv.DictReader(file))
    assert [(row["steps"], row["actions"]) for row in games] == [("12", "12")] * 12
    assert 59 < max(float(row["waited_s"] or 0) for row in games) < 70
    ends = "`declined`, `excluded`, `left`, `stopped`"
    assert f"warning: people get neither a code nor a link if they are {ends}: see" in said
    assert "warning: bots do not test `entry`, `exclude` and `partner_latency`" in said


def test_a_study_needs_an_action(capsys):
    for flags in ([], ["run"], ["begin", "plan.toml"], ["forget", "DIR"]):
        with pytest.raises(SystemExit) as end:
            _study_command.run(flags)
        assert end.value.code == 2
    with pytest.raises(UsageError, match="has no study"):
        _study_command.run(["report", "nowhere"])
    with pytest.raises(UsageError, match="--ticks-per-second must be"):
        _study_command.run(["try", "plan.toml", "--ticks-per-second", "90"])


def test_who_runs_a_study_is_no_participant_of_it(tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(_app, "serve", lambda *_: until(lambda: opened))
    monkeypatch.setattr(_server.webbrowser, "open", opened.append)
    (tmp_path / "plan.toml").write_text(PLAN)
    flags = ["--out", str(tmp_path / "out"), "--port", "0"]
    _study_command.run(["run", str(tmp_path / "plan.toml"), *flags])
    assert re.fullmatch(r"http://127.0.0.1:\d+/admin#[\w-]+", opened[0])
    assert re.search(r"Take part at http://127.0.0.1:\d+/\?id=ID\n", capsys.readouterr().out)


def test_the_server_runs_until_it_is_interrupted(tmp_path, own_caches):
    command = [Path(sys.executable).with_name("eqgrid"), "play", "--port", "0", "--no-browser"]
    out = tmp_path / "games"
    process = subprocess.Popen(
        [*command, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=own_caches,
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    with urllib.request.urlopen(address) as answer:
        assert b"Play together" in answer.read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0
    assert errors == "starting: the address follows in some seconds\n"
    assert not list(out.glob("*.jsonl"))
