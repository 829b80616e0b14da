"""The command line of `eqgrid play`: what it refuses, and how its server ends."""

import csv
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

from agents import load_trajectories, save_policy, trained_policy
from agents.files import shipped
from eqgrid import make
from eqgrid_lab.base import RunError, UsageError
from eqgrid_lab.settings import load_script, to_table
from eqgrid_play.games import Header, Journal, SeatRecord, StepLine
from eqgrid_play.web import _play_command as _play

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


run = _play.run


@pytest.fixture
def served(monkeypatch):
    """The arguments of the servers that would have been started."""
    calls = []
    monkeypatch.setattr(_play, "_server", lambda: lambda *args: calls.append(args))
    return calls


SEAT = SeatRecord("somebody", True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--env.name", "body"], "is not a grid world"),
        (["--port", "70000"], "--port must be"),
        (["--try"], "add --study FILE.toml"),
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
    with pytest.raises(UsageError, match="cannot act in room"):
        run([str(policy), "--env.name", "goals", "--out", str(tmp_path / "games")])


def test_partners_are_named_without_folders_of_the_server(tmp_path, served):
    files = [tmp_path / name / "policy.safetensors" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        shutil.copy(shipped("policies/ring.safetensors"), file)
    flags = ["--env.layout", "ring", "--no-browser", "--port", "0", "--out", str(tmp_path / "out")]
    run([*map(str, files), "shipped:ring", *flags])
    menu = served[0][0].menu
    names = [offer.name for offer in menu.offers("ring").values()]
    assert names[:3] == ["one/policy.safetensors", "two/policy.safetensors", "shipped:ring"]


def test_policies_of_a_changed_script_are_partners(tmp_path, served):
    script, file = tmp_path / "mine.py", tmp_path / "mine.safetensors"
    text = shipped("ippo.py").read_text(encoding="utf-8")
    assert text.count("(kind, width=self.width)") == 1
    script.write_text(text.replace("(kind, width=self.width)", "(kind, width=24)"))
    config = load_script(script)()
    env = config.eval_env(config.env.build(train=False), 1)
    policy = trained_policy(config.policy(env, jax.random.key(0)), env)
    save_policy(file, policy, {"run": to_table(config)})
    flags = [str(file), "--no-browser", "--port", "0", "--out", str(tmp_path / "games")]
    with pytest.raises(UsageError, match=r"your own script 'mine\.py': add --script"):
        run(flags)
    run([*flags, "--script", str(script)])
    names = {x.name for x in served[0][0].menu.offers("cramped").values()}
    assert "mine.safetensors" in names


def test_a_folder_offers_the_policies_that_can_act_in_the_world(tmp_path, served):
    folder = tmp_path / "policies"
    (folder / "run").mkdir(parents=True)
    for name, to in (("ring", "run/policy"), ("cramped", "second"), ("biped", "third")):
        source = ROOT / "experiments" / "policies" / f"{name}.safetensors"
        shutil.copy(source, folder / f"{to}.safetensors")
    (folder / "notes.txt").write_text("")
    flags = [str(folder), "--no-browser", "--port", "0"]
    run([*flags, "--env.name", "overcooked", "--out", str(tmp_path / "games")])
    names = {x.name for x in served[0][0].menu.offers("cramped").values()}
    assert {"run", "second.safetensors"} <= names
    assert "third.safetensors" not in names
    with pytest.raises(UsageError, match=r"No policy in the folder .* can act in room"):
        run([*flags, "--env.name", "goals", "--out", str(tmp_path / "other")])


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

    monkeypatch.setattr(_play.importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'eqgrid\[play\]'"):
        run([])


def test_episodes_of_a_killed_server_are_written_later(tmp_path, capsys):
    header = Header({"layout": "ring"}, "ring", 1, (SEAT, SEAT), 6.0, "2026-01-01T00:00:00")
    for name in ("one", "two", "empty"):
        journal = Journal(tmp_path / f"{name}.jsonl", header)
        for step in range(3 if name != "empty" else 0):
            journal.add(StepLine([step, 5], [0.0, 0.0], step / 6))
    (tmp_path / "one.npz").write_text("written before")
    run(["--finish", str(tmp_path)])
    assert "missing episodes that were written: 1" in capsys.readouterr().out
    assert (tmp_path / "one.npz").read_text() == "written before"
    episode = load_trajectories(tmp_path / "two.npz", make("overcooked", layout="ring"))
    assert episode.action.tolist() == [[0, 5], [1, 5], [2, 5]]
    assert not (tmp_path / "empty.npz").exists()
    run(["--finish", str(tmp_path)])
    assert "missing episodes that were written: 0" in capsys.readouterr().out
    (tmp_path / "damaged.jsonl").write_text("")
    with pytest.raises(RunError, match=r"1 games cannot be read: damaged\.jsonl"):
        run(["--finish", str(tmp_path)])
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="has no game"):
        run(["--finish", str(tmp_path / "nothing")])


PLAN = """
title = "Small"
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "an agent that never moves"
"""


def test_a_study_goes_on_with_what_it_was_begun_with(tmp_path, served):
    plan, out = tmp_path / "plan.toml", tmp_path / "study"
    flags = ["--study", str(plan), "--out", str(out), "--no-browser", "--port", "0"]
    plan.write_text(PLAN.replace("ring", "nowhere"))
    with pytest.raises(UsageError, match="known are"):
        run(flags)
    assert not out.exists()
    plan.write_text(PLAN)
    with pytest.raises(UsageError, match="--most-games 100"):
        run([*flags, "--most-games", "99"])
    run(flags)
    run(flags)
    settings = {"--delay": "delay", "--ticks-per-second": "ticks_per_second"}
    for flag, name in (settings | {"--env.horizon": "world"}).items():
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
fallback = "an agent that never moves"
name = "together"
[[stage.game]]
layout = "ring"
partner = "an agent that never moves"
name = "alone"
[[stage]]
kind = "questions"
question = [{ name = "fluent", text = "Was it fluent?" }]
"""


def test_bots_try_a_plan(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(TRIAL)
    flags = ["--study", str(tmp_path / "plan.toml"), "--try", "--env.horizon", "12"]
    run([*flags, "--out", str(tmp_path / "out")])
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


def test_who_runs_a_study_is_no_participant_of_it(tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(_play, "_server", lambda: lambda *_: until(lambda: opened))
    monkeypatch.setattr(_play.webbrowser, "open", opened.append)
    (tmp_path / "plan.toml").write_text(PLAN)
    run(["--study", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--port", "0"])
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
    assert not errors
    assert not list(out.glob("*.jsonl"))
