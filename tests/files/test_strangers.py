"""Methods that were judged with strangers: their data and tables, and the held-out policies."""

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from heldout import strangers

from agents.commands._heldout import HELD_OUT, read_held_out
from agents.runs._shipped import shipped
from agents.runs.single._policies import read_policy
from eqgrid.envs.overcooked import KITCHENS

PAGE = (Path(__file__).parents[2] / "docs" / "partners.md").read_text(encoding="utf-8")
POLICIES = json.loads(shipped("heldout/policies/policies.json").read_text())


def read(name):
    with shipped(f"heldout/{name}").open(newline="") as file:
        return list(csv.DictReader(file))


def test_there_is_every_held_out_policy_in_every_kitchen_and_none_is_replaced():
    named = {x.name for x in read_held_out(HELD_OUT)[0] if x.kind == "policy"}
    assert list(POLICIES) == list(KITCHENS)
    for kitchen, policies in POLICIES.items():
        folder = shipped(f"heldout/policies/{kitchen}")
        assert {path.stem for path in folder.iterdir()} == set(policies) == named
        for name, about in policies.items():
            file = folder / f"{name}.safetensors"
            assert hashlib.sha256(file.read_bytes()).hexdigest() == about["sha256"]
            run = read_policy(file, None).metadata["run"]
            assert (run["algorithm"], run["env"]["layout"]) == (name.split("-")[0], kitchen)
            assert run["seed"] == about["seed"] >= 1001


def test_the_tables_are_those_of_the_data():
    rows, budgets = read("strangers.csv"), read("budgets.csv")
    assert strangers.ranking(rows, budgets) in PAGE
    assert strangers.details(rows, "e3t") in PAGE


def test_scores_against_a_loop():
    rng = np.random.default_rng(0)
    partners = {"people": 3, "scripts": 9, "policies": 2, "other seeds": 3}
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
                dict(
                    zip(
                        strangers.RETURN,
                        ("m", "ring", str(seed), partner, str(seat), str(own[n, seat])),
                        strict=True,
                    )
                )
                for n, partner in enumerate(partners)
                for seat in range(2)
            ]
            means = np.sort(own.mean(axis=1))
            means = means[2:-2] if measure == "scripts" else means  # a quarter of 9 is 2
            expected.setdefault(measure, []).append(means.mean())
    for measure, own in expected.items():
        np.testing.assert_allclose(strangers.scores(rows, measure), own)
    assert not len(strangers.scores(rows, "itself"))


@pytest.mark.slow
def test_a_page_is_trained_judged_and_goes_on(tmp_path, monkeypatch, capsys):
    flags = ["--flags=--total-steps=16384", "--flags=--num-envs=16", "--flags=--final-episodes=4"]
    page = strangers.EXPERIMENTS / "ippo.py"
    study = strangers.Study(
        str(page),
        tuple(flag.removeprefix("--flags=") for flag in flags),
        ("ring",),
        2,
        tmp_path,
    )
    strangers.run(study)
    said = capsys.readouterr().out
    rows = strangers._read(tmp_path / "returns.csv")
    assert {row["method"] for row in rows} == {"ippo"}
    assert len(rows) == 2 * 2 + 2 * 2 * (9 + 5 + 5)
    (spent,) = strangers._read(tmp_path / "budgets.csv")
    assert spent["steps"] == "16384"
    assert "| with other seeds | " in said
    monkeypatch.setattr(strangers.subprocess, "run", lambda *_, **__: pytest.fail("done twice"))
    strangers.run(study)
    assert strangers._read(tmp_path / "returns.csv") == rows


def test_what_is_no_method(monkeypatch):
    with pytest.raises(SystemExit, match="error: nobody is neither a page nor one of e3t, fcp"):
        strangers.run(strangers.Study("nobody"))
