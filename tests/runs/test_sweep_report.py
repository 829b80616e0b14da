"""The table of a sweep is ranked by what the study was told."""

import optuna
import pytest
from optuna.trial import TrialState, create_trial
from rich.console import Console
from run_files import table

from eqgrid_lab.runs._report import draw_sweep, print_points, write_table


@pytest.fixture
def trials():
    kinds = {
        "rate": optuna.distributions.FloatDistribution(0.0, 1.0),
        "layout": optuna.distributions.CategoricalDistribution(["ring", "cramped"]),
    }
    study = optuna.create_study(direction="maximize")
    for rate, values in {0.1: [1.0, 4.0], 0.2: [3.0, 3.5], 0.3: None}.items():
        trial = create_trial(
            params={"rate": rate, "layout": "ring"},
            distributions=kinds,
            value=None if values is None else sum(values) / 2,
            state=TrialState.FAIL if values is None else TrialState.COMPLETE,
            user_attrs={"values": values, "env_steps": 7},
        )
        study.add_trial(trial)
    return study.trials


def test_every_point_has_its_rank(trials, tmp_path):
    write_table(tmp_path / "table.csv", trials, "eval_return_mean")
    best, second, last = table(tmp_path / "table.csv")
    assert [row["point"] for row in (best, second, last)] == ["1", "0", "2"]
    assert [row["rank"] for row in (best, second, last)] == ["1", "2", "3"]
    assert (best["rate"], best["layout"], best["env_steps"]) == ("0.2", "ring", "7")
    assert (last["eval_return_mean"], last["state"]) == ("", "fail")


def test_points_are_printed_best_first(trials):
    console = Console(width=120, record=True)
    print_points(console, trials, "eval_return_mean")
    lines = console.export_text().splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["1", "0.2", "ring", "3.25"],
        ["2", "0.1", "ring", "2.50"],
        ["3", "0.3", "ring", "fail"],
    ]
    assert lines[1].rstrip().endswith("1")


def test_a_picture(trials, tmp_path):
    draw_sweep(tmp_path / "sweep.png", trials, "eval_return_mean")
    draw_sweep(tmp_path / "nothing.png", trials[-1:], "eval_return_mean")
    for name in ("sweep.png", "nothing.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
