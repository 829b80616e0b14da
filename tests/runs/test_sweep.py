"""The search with Optuna: points train together, and none is lost."""

import contextlib
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
import sweep
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from run_files import SMALL, table

from agents import NonFiniteLoss
from eqgrid_lab.settings import read_settings

FLAGS = [
    x for pair in zip(SMALL[::2], SMALL[1::2], strict=True) for x in pair if "--eval" not in pair[0]
]
NAMES = ("learning_rate", "entropy_coefficient")
KILLED = """
import os, signal, eqgrid_lab, sweep

def train(config, trials):
    for trial in trials:
        sweep.suggest(trial)
    os.kill(os.getpid(), signal.SIGKILL)

sweep.train = train
sweep.main(eqgrid_lab.parse(sweep.Sweep))
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize")


def search(*args):
    return sweep.main(read_settings(sweep.Sweep, args))


@pytest.mark.slow
def test_a_search_goes_on_and_its_table_has_the_best_point_first(study, capsys, monkeypatch):
    command = (*FLAGS, "--num-seeds", "2", "--at-once", "2", "--out", "mine", "--points")
    assert search(*command, "2") == 0
    first = table(Path("mine/points.csv"))
    assert search(*command, "3") == 0
    rows = table(Path("mine/points.csv"))
    assert {row["point"] for row in rows} == {"0", "1", "2"}
    assert [row for row in rows if row["point"] != "2"] == first
    assert Path("mine/slice.png").stat().st_size > 10_000
    values = [float(row["eval_return_mean"]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert "best of 3 points" in capsys.readouterr().out
    monkeypatch.setattr(sweep, "train", None)  # nothing is trained again
    assert search(*command, "3") == 0
    # The points train together as they do alone.
    config = read_settings(sweep.Sweep, (*FLAGS, "--num-seeds", "2"))
    monkeypatch.undo()
    study.enqueue_trial({name: float(rows[0][name]) for name in NAMES})
    [alone] = sweep.train(config, [study.ask()])
    assert math.isclose(alone, values[0], rel_tol=0.2, abs_tol=0.05)


def test_a_point_with_a_loss_that_is_no_number_is_left_out(study, monkeypatch, capsys):
    config = read_settings(sweep.Sweep, ("--num-seeds", "2"))
    trials = [study.ask() for _ in range(3)]

    def train(_, left):
        if len(left) == 3:
            raise NonFiniteLoss(1, "the value loss", run=3)  # the second seed of the second point
        return np.asarray([float(trial.number) for trial in left])

    monkeypatch.setattr(sweep, "train", train)
    assert sweep.train_finite(config, study, trials).tolist() == [0.0, 2.0]
    assert [trial.state for trial in study.trials][1] == TrialState.PRUNED
    assert "not a finite number" in capsys.readouterr().out


@pytest.mark.parametrize("journal", [False, True])
def test_another_process_trains_the_points_of_one_that_was_killed(study, monkeypatch, journal):
    flags = ["--points", "4", "--at-once", "2", "--out", "mine"]
    flags += ["--storage", "study.log"] if journal else []
    scripts = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", KILLED, *flags]
    killed = subprocess.run(command, env=scripts, capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    if journal:
        with Path("study.log").open("ab") as file:
            file.write(b'{"op_code":6,"worker_id":"')  # as of a process that died while it wrote
        # Optuna alone appends its next record to this half, and cannot read the file any more.
        shutil.copy("study.log", "damaged.log")
        damaged = JournalStorage(JournalFileBackend("damaged.log"))
        for _ in range(2):
            with contextlib.suppress(AttributeError, ValueError):
                optuna.load_study(study_name="mine", storage=damaged).ask()
        with pytest.raises(ValueError, match="delimiter"):
            JournalStorage(JournalFileBackend("damaged.log"))

    def train(_, trials):
        return np.asarray([sweep.suggest(trial)["learning_rate"] for trial in trials])

    monkeypatch.setattr(sweep, "train", train)
    assert search(*flags) == 0
    assert len(table(Path("mine/points.csv"))) == 2, "the other process may still be alive"
    monkeypatch.setattr(sweep, "_LOST", 0.0)
    assert search(*flags) == 0
    rows = table(Path("mine/points.csv"))
    assert len(rows) == 4
    trials = sweep.open_study(read_settings(sweep.Sweep, flags)).trials
    lost, again = (
        [x.params for x in trials if x.state == state]
        for state in (TrialState.FAIL, TrialState.COMPLETE)
    )
    assert len(lost) == 2
    assert all(point in again for point in lost)


def test_points_of_a_process_that_is_interrupted_are_free_at_once(study, monkeypatch):
    def train(_, trials):
        sweep.suggest(trials[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "train", train)
    flags = ("--points", "1", "--out", "mine")
    with pytest.raises(SystemExit, match="130"):
        search(*flags)
    monkeypatch.setattr(sweep, "train", lambda _, trials: np.ones(len(trials)))
    assert search(*flags) == 0
    assert len(table(Path("mine/points.csv"))) == 1
