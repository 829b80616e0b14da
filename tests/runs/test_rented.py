"""Machines that may disappear: the task of SkyPilot, and jobs in the background."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_lines import call
from run_files import SMALL, check_equal

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_task_of_skypilot_continues_on_another_machine(tmp_path, monkeypatch):
    """Its `run` starts a run, continues it after the machine was lost, and does nothing at last."""
    task = yaml.safe_load((ROOT / "experiments" / "skypilot.yaml").read_text())
    assert task["resources"]["use_spot"]
    assert '/python ".[cuda]"' in task["setup"]  # a wheel, as in the Dockerfile
    assert next(iter(task["file_mounts"])) in map(str, Path(task["envs"]["OUT"]).parents)
    script = ROOT / "tests" / "slow_run.py"
    own = {"COMMAND": f"{sys.executable} {script} {' '.join(SMALL)}", "OUT": f"{tmp_path}/lab"}
    own |= {"HOME": str(tmp_path), "BUCKET": "s3://my-bucket"}
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
        while not (tmp_path / "lab/seed-3/checkpoints/last.safetensors").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()
    for shown in ("continuing after", "is complete"):
        process = start("0")
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err, shown in out) == (0, "", True), out + err
    monkeypatch.chdir(tmp_path)
    assert call(*SMALL, "--seed", "3", "--out", "whole") == 0
    check_equal(tmp_path / "lab" / "seed-3", Path("whole"))
