"""The search with Optuna: points train together, and none is lost."""

import math
import time
from pathlib import Path

import numpy as np
import optuna
import pytest
import sweep
from optuna.trial import TrialState
from run_files import SMALL, table

from agents import NonFiniteLoss
from eqgrid_lab.settings import parse


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize")


@pytest.mark.slow
def test_a_search_goes_on_and_its_table_has_the_best_point_first(study, capsys, monkeypatch):
    command = (*SMALL, "--num-seeds", "2", "--at-once", "2", "--out", "mine", "--points")
    sweep.main((*command, "2"))
    first = table(Path("mine/points.csv"))
    sweep.main((*command, "3"))
    rows = table(Path("mine/points.csv"))
    assert {row["point"] for row in rows} == {"0", "1", "2"}
    assert [row for row in rows if row["point"] != "2"] == first
    assert Path("mine/slice.png").stat().st_size > 10_000
    values = [float(row["eval_return_mean"]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert "best of 3 points" in capsys.readouterr().out
    monkeypatch.setattr(sweep, "returns_of", None)  # nothing is trained again
    sweep.main((*command, "3"))
    # The points train together as they do alone.
    config = parse(sweep.Sweep, (*SMALL, "--num-seeds", "2"))
    monkeypatch.undo()
    for row in rows[:1]:
        names = ("learning_rate", "entropy_coefficient")
        study.enqueue_trial({name: float(row[name]) for name in names})
        [alone] = sweep.returns_of(config, [study.ask()])
        assert math.isclose(alone, float(row["eval_return_mean"]), rel_tol=0.2, abs_tol=0.05)


def test_a_point_with_a_loss_that_is_no_number_is_left_out(study, monkeypatch, capsys):
    config = parse(sweep.Sweep, ("--num-seeds", "2"))
    trials = [study.ask() for _ in range(3)]

    def returns_of(_, left):
        if len(left) == 3:
            raise NonFiniteLoss(1, "the value loss", run=3)  # the second seed of the second point
        return np.asarray([float(trial.number) for trial in left])

    monkeypatch.setattr(sweep, "returns_of", returns_of)
    assert sweep.train_all(config, study, trials).tolist() == [0.0, 2.0]
    assert [trial.state for trial in study.trials][1] == TrialState.PRUNED
    assert "not a finite number" in capsys.readouterr().out


def test_only_points_of_processes_that_died_are_trained_again(study):
    for age in (1.0, 10_000.0):
        trial = study.ask()
        sweep.suggest(trial)
        trial.set_user_attr("seen", time.time() - age)
    sweep.retry(study, sweep.lost(study))
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.RUNNING, TrialState.FAIL, TrialState.WAITING]
    assert sweep.suggest(study.ask()) == study.trials[1].params
