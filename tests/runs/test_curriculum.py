"""The script of curricula: its gates, its stages, and runs that are killed in each of them."""

import subprocess
import sys
from pathlib import Path

import curriculum
import numpy as np
import pytest
from command_lines import call
from curriculum import Curriculum, Stage
from run_files import SMALL, check_equal, rows

from agents import PPO, read_metadata
from eqgrid_lab.settings import read_settings

STAGES = (Stage("short episodes", {"horizon": 10}, steps=512), Stage("long episodes"))
FLAGS = (*SMALL, "--total-steps", "1280", "--num-seeds", "2", "--devices", "1")
KILLED = f"""
import os, signal, sys
import curriculum, eqgrid_lab
from numpy import inf
from curriculum import Curriculum, Stage
from eqgrid_lab.runs import _run

_run._SAVE_SECONDS = 0.0
save, blocks = eqgrid_lab.Run.save, int(sys.argv.pop(1))

def save_and_die(run, state, result):
    save(run, state, result)
    if run.updates >= 2 * blocks:
        os.kill(os.getpid(), signal.SIGKILL)

eqgrid_lab.Run.save = save_and_die
curriculum.STAGES = {STAGES!r}
curriculum.main(eqgrid_lab.parse(Curriculum))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_in_each_stage_has_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(curriculum, "STAGES", STAGES)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert call(*FLAGS, "--out", whole, algorithm=Curriculum) == 0
    path = str(Path(curriculum.__file__).parent)
    for blocks in (1, 2, 4):  # in the first stage, at its end, and in the second stage
        command = [sys.executable, "-c", KILLED, str(blocks), *FLAGS, "--out", str(killed)]
        process = subprocess.run([*command, "--resume"], cwd=path, check=False)
        assert process.returncode == -9
        assert read_metadata(killed / "checkpoints/last.safetensors")["update"] == 2 * blocks
    assert call("--out", killed, "--resume", algorithm=Curriculum) == 0
    check_equal(killed, whole)
    log = rows(whole)
    assert [float(row["stage"]) for row in log] == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert [float(row["eval_length_mean"]) <= 10 for row in log[:4]] == [True] * 4
    stored = read_settings(Curriculum, ["--out", str(whole), "--resume"])
    assert stored.env == read_settings(Curriculum, FLAGS).env, "not the settings of a stage"
    assert isinstance(stored.ppo, PPO)


@pytest.mark.parametrize(
    ("returns", "ended"),
    [
        ([[30, 30]], False),
        ([[30, 30], [30, 30]], True),
        ([[30, 9], [30, 9], [9, 30], [9, 30]], True),  # a gate that is passed stays passed
        ([[30, 30], [9, 9], [30, 30]], False),
        ([[np.nan, 20], [20, 21], [21, 22]], True),
    ],
)
def test_each_seed_passes_the_gate_in_a_row(returns, ended):
    assert Stage("a", enough=20, evaluations=2).has_ended(np.asarray(returns), 100) == ended


def test_a_stage_ends_after_its_steps():
    assert Stage("a", enough=20, steps=100).has_ended(np.zeros((1, 1)), 100)
    assert not Stage("a", enough=20, steps=100).has_ended(np.zeros((5, 1)), 99)
