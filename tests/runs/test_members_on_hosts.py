"""Seeds in groups, on one process or several: each host is a process of this machine."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import call, call_and_hear, check_refusal
from processes import run_together
from run_files import SMALL, check_equal, result, rows
from safetensors.numpy import load_file

from eqgrid_lab.folders import locked
from eqgrid_lab.runs import _members

SEEDS = (*SMALL, "--num-seeds", "6")
PAIRS = (*SEEDS, "--seeds-at-once", "2")


def check_all_equal(folder: Path, whole: Path) -> None:
    """Two runs have the same results, and each of their seeds is equal to the bit."""
    assert rows(folder) == rows(whole)
    assert result(folder) == result(whole)
    for seed in range(6):
        check_equal(folder / f"seed-{seed}", whole / f"seed-{seed}")
    for first in (0, 2, 4):
        name = f"checkpoints/seeds-{first}.safetensors"
        one, other = load_file(folder / name), load_file(whole / name)
        assert all((one[leaf] == other[leaf]).all() for leaf in other)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run in one process on one device."""
    out = tmp_path_factory.mktemp("groups") / "whole"
    assert call(*PAIRS, "--out", out) == 0
    return out


@pytest.mark.slow
def test_a_lost_process_costs_only_its_own_seeds(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Process 0 listens for the others, and has two groups. It dies in the first of them.
    lost, other = run_together(tmp_path, 2, *PAIRS, "--out", "run", accident="0 1 SIGKILL")
    assert (lost[0], other) == (-9, (0, "", ""))
    check_equal(Path("run/seed-5"), whole / "seed-5")
    assert not Path("run/seed-0/result.json").exists()
    assert not Path("run/result.json").exists()
    for number in (1, 2, 3):
        shutil.copytree("run", f"run-{number}")
    assert call("--resume", "run-1") == 0
    check_all_equal(Path("run-1"), whole)
    for number in (2, 3):
        first, *others = run_together(tmp_path, number, "--resume", f"run-{number}")
        assert (first[0], first[2], others) == (0, "", [(0, "", "")] * (number - 1))
        check_all_equal(Path(f"run-{number}"), whole)


@pytest.mark.slow
def test_a_signal_stops_the_group_of_its_process(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Without --seeds-at-once, three processes have a group of two seeds each.
    said = run_together(tmp_path, 3, *SEEDS, "--out", "run", accident="1 1 SIGTERM")
    assert [(code, error) for code, _, error in said] == [(0, ""), (143, ""), (0, "")]
    assert not Path("run/result.json").exists()
    assert len(rows(Path("run/seed-2"))) == 1
    assert call("--resume", "run") == 0
    check_all_equal(Path("run"), whole)
    code, said = call_and_hear(capsys, "--resume", "run")
    assert (code, said.count("\n")) == (2, 1)
    assert "is complete, with 640 steps of each seed" in said


@pytest.mark.slow
def test_groups_of_two_seeds_and_of_one_continue(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    again = (*SMALL, "--num-seeds", "3", "--seeds-at-once", "2", "--out", "run", "--auto-resume")
    assert call(*again) == 0
    assert call(*again, "--total-steps", "1280") == 0
    assert "total_steps = 1280" in Path("run/config.toml").read_text()
    assert rows(Path("run"))[-1]["env_steps"] == rows(Path("run/seed-2"))[-1]["env_steps"] == "1280"
    assert call(*again, "--total-steps", "1280") == 0
    assert "the run run is complete" in capsys.readouterr().out
    with locked(Path("run/seed-2")):  # as while its group trains
        heard = call_and_hear(capsys, *SMALL, "--out", "run", "--overwrite")
        check_refusal(heard, "Another process is writing to the folder 'run/seed-2'", codes=(2,))
    assert Path("run/result.json").exists()


@pytest.mark.slow
def test_processes_without_a_shared_folder_end_with_one_sentence(tmp_path):
    first, other = run_together(tmp_path, 2, *PAIRS, "--out", "run", apart=True)
    assert (first[0], other) == (2, (2, "", ""))
    assert first[2].startswith("error: process 1 of 2: This process does not find the folder 'run'")
    assert not [*(tmp_path / "0").iterdir(), *(tmp_path / "1").iterdir()]


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_groups_that_have_learned_nothing_leave_no_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    real = _members.train

    def train(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(_members, "train", train)
    code, said = call_and_hear(capsys, *PAIRS, "--out", "run")
    assert (code, said.count("\n")) == (130, 1)
    assert "interrupted before training started" in said
    assert not list(tmp_path.iterdir())


def test_groups_need_a_local_folder(tmp_path, capsys):
    code, said = call_and_hear(capsys, *PAIRS, "--out", f"file://{tmp_path}/run")
    assert (code, said.count("\n")) == (2, 1)
    assert "--num-seeds with --distributed or --seeds-at-once does not support 'file:" in said
    assert not list(tmp_path.iterdir())


WORK = """
import re, equinox as eqx, jax
from eqgrid_lab.runs import Evaluator
from eqgrid_lab.runs._evaluator import EvaluatorOfMany
from agents import PPO, device_mesh, init_train_state, train
from agents.training import _train
from eqgrid import AutoReset, LogEpisodes, Vectorize, make

env = Vectorize(AutoReset(LogEpisodes(make("goals"))), 4)
ppo = PPO(rollout_length=8, num_epochs=1, num_minibatches=1)
for devices in (1, 2, 4):
    init = eqx.filter_vmap(lambda key: init_train_state(ppo, env, key))
    state = init(jax.random.split(jax.random.key(0), 8))
    _train._compiled_blocks.clear()
    mesh = device_mesh(devices) if devices > 1 else None
    state = train(ppo, env, state, num_updates=1, mesh=mesh).state
    evaluators = [Evaluator(env, jax.random.key(seed), float) for seed in range(8)]
    evaluation = EvaluatorOfMany(evaluators, mesh).program(state)
    for program in (next(iter(_train._compiled_blocks.values())), evaluation()):
        text, cost = program.compiled.as_text(), program.compiled.cost_analysis()
        assert not re.search("all-reduce|all-gather|all-to-all|collective|reduce-scatter", text)
        print(cost["flops"], cost["bytes accessed"])
"""


@pytest.mark.slow
def test_devices_divide_the_work():
    xla = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env=os.environ | {"XLA_FLAGS": xla},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    work = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
    for program in range(2):  # a block of training, and an evaluation
        for devices, own in zip((1, 2, 4), work[program::2], strict=True):
            assert own == pytest.approx([whole / devices for whole in work[program]], rel=0.1)
