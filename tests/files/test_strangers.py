"""Methods that were judged with strangers: their data and tables, and the held-out policies."""

import dataclasses
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from heldout import strangers
from run_files import table

from agents import checksum, read_metadata
from agents.files import shipped
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import RunError
from eqgrid_lab.commands import HELD_OUT, read_held_out
from eqgrid_lab.show import bootstrap_crossplay

LOG = (Path(__file__).parents[2] / "docs/log/2026-11-partners.md").read_text(encoding="utf-8")
POLICIES = json.loads(shipped("heldout/policies/policies.json").read_text())

SMALL = "--total-steps 512 --num-envs 4 --ppo.rollout-length 32 --env.horizon 40 --eval-episodes 4"
SMALL = (*SMALL.split(), "--final-episodes", "8", "--eval-every", "128")
"""As in other tests, which find what was compiled for these."""


def read(name):
    return table(shipped(f"heldout/{name}"))


def test_there_is_every_held_out_policy_in_every_kitchen_and_none_is_replaced():
    named = {x.name for x in read_held_out(HELD_OUT)[0] if x.kind == "policy"}
    assert list(POLICIES) == list(KITCHENS)
    for kitchen, policies in POLICIES.items():
        folder = shipped(f"heldout/policies/{kitchen}")
        assert {path.stem for path in folder.iterdir()} == set(policies) == named
        for name, about in policies.items():
            file = folder / f"{name}.safetensors"
            assert checksum(file) == about["sha256"]
            run = read_metadata(file)["run"]
            assert (run["algorithm"], run["env"]["layout"]) == (name.split("-")[0], kitchen)
            assert run["seed"] == about["seed"] >= 1001


def test_the_tables_are_those_of_the_data():
    rows, budgets = read("strangers.csv"), read("budgets.csv")
    assert strangers.ranking(rows, budgets) in LOG
    assert strangers.details(rows, "e3t") in LOG


def test_scores_against_a_loop():
    rng = np.random.default_rng(0)
    rows, expected = [], {}
    scripts = [x.name for x in read_held_out(HELD_OUT)[0] if x.kind != "policy"]
    names = {
        "people": [f"proxy-{n}" for n in range(3)],
        "scripts": scripts,
        "policies": ["ippo-small", "mappo-wide"],
    }
    for seed in range(4):
        for measure, partners in names.items():
            own = rng.uniform(0, 300, (len(partners), 2)).round(4)
            rows += [
                {"seed": str(seed), "partner": partner, "return": str(own[n, seat])}
                for n, partner in enumerate(partners)
                for seat in range(2)
            ]
            means = np.sort(own.mean(axis=1))
            means = means[2:-2] if measure == "scripts" else means  # a quarter of 9 is 2
            expected.setdefault(measure, []).append(means.mean())
    for measure, own in expected.items():
        np.testing.assert_allclose(strangers.scores(rows, measure), own)
    assert not len(strangers.scores(rows, "itself"))


def test_a_population_has_beginners_and_experts(tmp_path):
    curves = {"seed-0": (1, 40, 90, 120, 160), "seed-1": (0, 0, 0)}
    for seed, returns in curves.items():
        (tmp_path / seed / "checkpoints").mkdir(parents=True)
        for n in range(1, 1 + len(returns)):
            (tmp_path / seed / f"checkpoints/step-{n:012}.safetensors").touch()
        rows = [f"{n},{value}" for n, value in enumerate(returns, start=1)]
        lines = "\n".join(["env_steps,eval_return_mean", *rows])
        (tmp_path / seed / "metrics.csv").write_text(lines)
    found = [(x.parents[1].name, int(x.stem[-2:])) for x in strangers.stages(tmp_path)]
    assert found == [("seed-0", 1), ("seed-0", 3), ("seed-0", 5), ("seed-1", 1), ("seed-1", 3)]
    (tmp_path / "seed-2").mkdir()
    with pytest.raises(SystemExit, match="seed-2 has no checkpoints: remove"):
        strangers.stages(tmp_path)


SAVES_SLOWLY = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(1)
    pathlib.Path("saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
pathlib.Path("ready").touch()
time.sleep(600)
"""


def test_a_training_saves_before_a_study_ends(tmp_path):
    (tmp_path / "mine.py").write_text(SAVES_SLOWLY)
    command = [sys.executable, strangers.__file__, "mine.py", "--out", "study"]
    study = subprocess.Popen(command, cwd=tmp_path)
    try:
        while not (tmp_path / "ready").exists():
            assert study.poll() is None
            time.sleep(0.1)
        study.terminate()
        assert study.wait(60) == 143
        assert (tmp_path / "saved").exists()
    finally:
        study.kill()


@pytest.mark.slow
def test_methods_are_trained_and_judged_once(tmp_path, monkeypatch, capsys):
    population = ("--num-seeds", "2", "--checkpoint-every", "256", *SMALL)
    fcp = dataclasses.replace(strangers.METHODS["fcp"], population=population)
    monkeypatch.setitem(strangers.METHODS, "fcp", fcp)
    everybody = strangers.Study(("self-play",), SMALL, ("cramped",), 2, out=tmp_path)
    flags = (*SMALL, "--ppo.num-minibatches", "4")
    people = strangers.Study(("fcp",), flags, ("cramped",), 1, "people", tmp_path)
    strangers.run(everybody)
    assert "| with other seeds | " in capsys.readouterr().out
    strangers.run(people)
    assert "| **trained with itself alone**, 2 seeds | " in capsys.readouterr().out
    rows, budgets = (strangers._read(tmp_path / f"{x}.csv") for x in ("returns", "budgets"))
    assert Counter(row["method"] for row in rows) == {
        "self-play": 2 * 2 + 2 * 2 * (9 + 5 + 5),  # seeds; scripts, policies and people
        "fcp": 5 * 2,
    }
    assert {row["seed"] for row in rows if row["method"] == "self-play"} == {"0", "1"}
    steps = {x["method"]: int(x["steps"]) for x in budgets}
    assert steps == {"self-play": 512, "fcp": 3 * 512}, "those of the partners count"
    config = tomllib.loads((tmp_path / "fcp/cramped/seed-0/config.toml").read_text())
    taught = {Path(x).parents[1] for x in config["partners"]["policies"]}
    assert taught == {tmp_path / f"fcp/cramped/population/seed-{n}" for n in range(2)}
    monkeypatch.setattr(strangers.subprocess, "Popen", lambda *_, **__: pytest.fail("done twice"))
    strangers.run(everybody)
    strangers.run(people)
    assert strangers._read(tmp_path / "returns.csv") == rows


@pytest.fixture
def called(monkeypatch):
    """The commands that would be called."""
    commands = []
    monkeypatch.setattr(strangers, "_call", lambda *x: commands.append([*map(str, x)]))
    return commands


def test_ippo_trains_all_seeds_at_once_and_what_was_interrupted_goes_on(tmp_path, called):
    for name, seeds in (("self-play", ["--num-seeds 2"]), ("e3t", ["--seed 0", "--seed 1"])):
        method, study = strangers.METHODS[name], strangers.Study((name,), num_seeds=2)
        runs = strangers.train(study, method, tmp_path / name, "ring")
        assert [" ".join(command[-5:-3]) for command in called] == seeds
        assert [command[-2] for command in called] == [str(run) for run in runs]
        called.clear()
        for run in runs:
            (run / "checkpoints").mkdir(parents=True)
            (run / "checkpoints/last.safetensors").touch()
            (run / "config.toml").write_text("total_steps = 8")
            (run / "result.json").write_text('{"env_steps": 4}')
        strangers.train(study, method, tmp_path / name, "ring")
        assert [command[1:] for command in called] == [["--resume", str(run)] for run in runs]
        called.clear()
        for run in runs:
            (run / "checkpoints/last.safetensors").unlink()  # killed before it was written
        strangers.train(study, method, tmp_path / name, "ring")
        assert [command[-2:] for command in called] == [[str(x), "--overwrite"] for x in runs]
        called.clear()
        (runs[0] / "result.json").write_text('{"env_steps": 8}')
        strangers.train(study, method, tmp_path / name, "ring")
        assert len(called) == len(runs) - 1
        other = dataclasses.replace(study, flags=("--width", "16"))
        with pytest.raises(SystemExit, match="has runs of other flags: choose another --out"):
            strangers.train(other, method, tmp_path / name, "ring")
        called.clear()


def test_a_script_that_is_not_shipped_is_named_to_the_judges(tmp_path, called):
    for name, script in (("kick-start", "kick_start.py"), ("e3t", None), ("clone", None)):
        method, study = strangers.METHODS[name], strangers.Study((name,), num_seeds=1)
        runs = strangers.train(study, method, tmp_path / name, "ring")
        given = [x for command in called for x in command if x.endswith(".safetensors")]
        assert [Path(x).name for x in given] == (["plan-ring.safetensors"] if script else [])
        assert len(called) == (name != "clone")
        called.clear()
        judged = strangers.judge(study, method, tmp_path / name, "ring", runs)
        assert judged == tmp_path / name / "ring/judged-1"
        assert len(called) == 3
        for command in called:
            named = [Path(x).name for x in command[1:] if x.endswith(".py")]
            assert named == ([script] if script else [])
        called.clear()


def test_agents_of_generated_kitchens_are_trained_once_and_judged_in_every_kitchen(
    tmp_path, called
):
    method, study = strangers.METHODS["generated"], strangers.Study((), num_seeds=1)
    runs = strangers.train(study, method, tmp_path, "ring")
    assert runs == [tmp_path / "generated/seeds-1"]
    ((_, *flags),) = called
    assert flags[:2] == ["--env.layout", "generated"]
    called.clear()
    runs[0].mkdir(parents=True)
    (runs[0] / "config.toml").write_text("total_steps = 8")
    (runs[0] / "result.json").write_text('{"env_steps": 8}')
    assert strangers.train(study, method, tmp_path, "circuit") == runs
    assert not called
    judged = strangers.judge(study, method, tmp_path, "ring", runs)
    assert judged == tmp_path / "generated/judged-1/ring"
    assert all(command[command.index("--layout") + 1] == "ring" for command in called)
    assert len(called) == 3


def test_every_script_can_be_trained_in_generated_kitchens(tmp_path, monkeypatch, called):
    script = tmp_path / "mine.py"
    script.touch()
    monkeypatch.setattr(strangers, "collect", lambda _, *names: [names])
    monkeypatch.setattr(strangers, "budget", lambda _, *names: names)
    kept = []
    monkeypatch.setattr(strangers, "_replace", lambda _, rows: kept.extend(rows))
    study = strangers.Study((str(script),), kitchens=("ring",), generated=True, out=tmp_path)
    strangers.run(study)
    assert kept == [("mine-generated", "ring")] * 2
    training, judging = called[:5], called[5:]
    assert all(x[:3] == [str(script), "--env.layout", "generated"] for x in training)
    assert training[0][-2] == str(tmp_path / "mine-generated/generated/seed-0")
    assert len(judging) == 3
    assert all(x[x.index("--layout") + 1] == "ring" for x in judging)


def test_a_script_that_fails_ends_the_study(tmp_path, capfd):
    script = tmp_path / "mine.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(SystemExit) as failed:
        strangers.run(strangers.Study((str(script),), kitchens=("ring",), out=tmp_path / "out"))
    assert failed.value.code == 3


@pytest.mark.parametrize(
    ("methods", "settings", "sentence"),
    [
        (("e3t", "nobody"), {}, "nobody is neither a script nor one of e3t, noisy"),
        (("e3t",), {"num_seeds": 1}, "seeds play with each other: train at least"),
        (("a/mine.py", "b/mine.py"), {}, "two methods have the same name"),
    ],
)
def test_a_study_that_cannot_be_is_refused(
    methods, settings, sentence, tmp_path, monkeypatch, called
):
    monkeypatch.chdir(tmp_path)
    for name in ("a/mine.py", "b/mine.py", "a/e3t.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    with pytest.raises(SystemExit, match=f"error: {sentence}"):
        strangers.run(strangers.Study(methods, out=tmp_path, **settings))
    assert not called


def test_bad_tables_are_refused_before_anything_is_trained(tmp_path, called):
    table = tmp_path / "returns.csv"
    for text in ("method,kitchen\ne3t,ring\n", "method;kitchen;seed;partner;seat;return\n"):
        table.write_text(text)
        with pytest.raises(RunError, match=r"returns.csv' is damaged, .*: restore it, or move it"):
            strangers.run(strangers.Study(("e3t",), out=tmp_path))
    table.write_bytes(shipped("heldout/strangers.csv").read_bytes())
    with pytest.raises(SystemExit, match="has another number of seeds of e3t: choose another --"):
        strangers.run(strangers.Study(("e3t",), out=tmp_path, num_seeds=4))
    assert not called


def test_rows_replace_those_of_their_measures_alone(tmp_path):
    rows = read("strangers.csv")
    file = tmp_path / "returns.csv"
    strangers._replace(file, rows)
    people = [x for x in rows if x["method"] == "e3t" and x["partner"].startswith("proxy")]
    strangers._replace(file, [{**row, "return": "1.0"} for row in people])
    after = strangers._read(file)
    assert len(after) == len(rows)
    own = [x for x in after if x["method"] == "e3t" and x["kitchen"] == "ring"]
    assert strangers.scores(own, "people").mean() == 1
    assert strangers.scores(own, "policies").mean() > 100


def test_intervals_and_methods_that_lack_games():
    rows, budgets = read("strangers.csv"), read("budgets.csv")
    own = [x for x in rows if x["method"] == "e3t" and x["kitchen"] == "ring"]
    table = {(x["seed"], x["partner"]): float(x["return"]) for x in own}
    matrix = np.array([[table[str(a), f"seed-{b}"] for b in range(5)] for a in range(5)])
    assert strangers.interval(own, "other seeds") == bootstrap_crossplay(matrix)["cross_play"]
    few = [x for x in own if x["seed"] in "012" and x["partner"] not in ("seed-3", "seed-4")]
    assert strangers.interval(few, "other seeds") is None
    low, high = strangers.interval(own, "people")
    assert low < strangers.scores(own, "people").mean() < high
    fewer = [x for x in rows if (x["method"], x["kitchen"], x["seed"]) != ("e3t", "ring", "4")]
    assert "(`e3t`)" in strangers.ranking(fewer, budgets), "kitchens need not have as many seeds"
    no_people = [x for x in rows if x["kitchen"] != "ring" or not x["partner"].startswith("proxy")]
    assert strangers.ranking(no_people, budgets).count("\n") == 2, "all methods lack games"
