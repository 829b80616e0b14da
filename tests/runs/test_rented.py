"""Machines that may disappear: --auto-resume, the task of SkyPilot, and copies of addresses."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_lines import call, call_and_hear, check_refusal
from run_files import SMALL, check_equal

from eqgrid_lab.base import (
    Stopped,
    _remote,
    local_path,
    mirrored,
    remove_copies,
    working_path,
)

ROOT = Path(__file__).parents[2]
QUICK = f"""
import runpy
from eqgrid_lab.base import _remote
_remote.SNAPSHOT_SECONDS = 0.5
runpy.run_path({str(ROOT / "tests" / "slow_run.py")!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True)
def no_copies(monkeypatch):
    for name in ("_LOCAL", "_COPIED"):
        monkeypatch.setattr(_remote, name, {})
    monkeypatch.setattr(_remote, "_TEMPORARY", set())
    yield
    remove_copies()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "--auto-resume resumes the run in --out: add --out, without --resume."),
        (("--sweep", "a.toml"), "--auto-resume cannot be given with --sweep"),
    ],
)
def test_bad_input_is_one_sentence(flags, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_refusal(call_and_hear(capsys, *SMALL, "--auto-resume", *flags), sentence, codes=(2,))


@pytest.mark.parametrize("kept", ["result.json", "seed-3/policy.safetensors"])
def test_results_without_a_checkpoint_are_not_replaced(kept, capsys, tmp_path):
    (tmp_path / "seed-3").mkdir()
    (tmp_path / kept).touch()
    heard = call_and_hear(capsys, *SMALL, "--auto-resume", "--out", tmp_path)
    check_refusal(heard, "is a result without a checkpoint to resume", codes=(2,))
    assert (tmp_path / kept).exists()


def test_a_signal_ends_the_wait_for_another_run_and_removes_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(_remote, "SNAPSHOT_SECONDS", 0.1)
    address = f"file://{tmp_path}/lab"
    folder = working_path(address)
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("one")
    with mirrored(folder):
        while "metrics.csv" not in (tmp_path / "lab" / "eqgrid-manifest.json").read_text():
            time.sleep(0.05)
        _remote._LOCAL.clear()
        copy = local_path(address)
        monkeypatch.setattr(_remote, "SNAPSHOT_SECONDS", 100)

        def stop():
            raise Stopped

        with pytest.raises(Stopped), mirrored(copy, check=stop):
            pass
    assert copy.exists()
    remove_copies()
    assert not copy.exists()


@pytest.mark.slow
def test_the_task_of_skypilot_continues_on_another_machine(tmp_path, monkeypatch):
    """Its `run` starts a run, continues it after the machine was lost, and does nothing at last."""
    task = yaml.safe_load((ROOT / "experiments" / "skypilot.yaml").read_text())
    assert task["resources"]["use_spot"]
    assert '/python ".[cuda,remote]"' in task["setup"]  # a wheel, as in the Dockerfile
    (tmp_path / "quick.py").write_text(QUICK)
    own = {"COMMAND": f"{sys.executable} {tmp_path / 'quick.py'} {' '.join(SMALL)}"}
    own |= {"OUT": f"file://{tmp_path}/lab", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert own.keys() >= task["envs"].keys()
    names = {"SKYPILOT_TASK_ID": "sky-managed-eqgrid_7-0", "SKYPILOT_NUM_NODES": "1"}
    names |= {"SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "127.0.0.1"}
    env = os.environ | own | names | {"SKYPILOT_JOB_RANK": "3"}

    def start(seconds_of_rest: str) -> "subprocess.Popen[str]":
        rest = env | {"SECONDS_OF_REST": seconds_of_rest}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(["bash", "-c", task["run"]], env=rest, **pipes)

    process, end = start("300"), time.monotonic() + 300
    try:
        while not list((tmp_path / "lab/seed-3/checkpoints").glob("last.safetensors@*")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(2)
    finally:
        process.kill()
        process.communicate()
    for copy in tmp_path.glob("eqgrid-*"):
        shutil.rmtree(copy)
    for shown in ("writing to file://", "is complete"):
        process = start("0")
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err, shown in out) == (0, "", True), out + err
    monkeypatch.chdir(tmp_path)
    assert call(*SMALL, "--seed", "3", "--out", "whole") == 0
    check_equal(local_path(f"file://{tmp_path}/lab/seed-3"), Path("whole"))
