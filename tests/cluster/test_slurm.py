"""`eqgrid submit` on a real Slurm: disturbed runs equal undisturbed runs bit for bit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import call
from run_files import SMALL, check_equal

ROOT = Path(__file__).parents[2]
SLOW = str(ROOT / "tests" / "slow_run.py")

pytestmark = pytest.mark.slow


@pytest.fixture
def study(slurm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rest = {"SECONDS_OF_REST": "600", "END_OF_REST": str(tmp_path / "awake")}
    for name, value in (slurm.env | rest).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "study"


def wake() -> None:
    """Ends the rests of all runs, which come after each block."""
    Path("awake").touch()


def eqgrid(*words: object) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("eqgrid")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True)


def submit(*flags: str, command: tuple[str, ...] = SMALL) -> list[str]:
    """Submits jobs. **Returns:** the command that cancels them."""
    done = eqgrid("submit", "--out", "study", *flags, "--", sys.executable, SLOW, *command)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()[-1].split()[1:]


def saved(run: Path) -> bool:
    return (run / "checkpoints" / "last.safetensors").exists()


def check_undisturbed(study: Path, seeds: range) -> None:
    for seed in seeds:
        assert call(*SMALL, "--seed", seed, "--out", f"whole-{seed}") == 0
        check_equal(study / f"seed-{seed}", Path(f"whole-{seed}"))


def log(study: Path, name: str) -> str:
    return (study / "jobs" / f"{name}.log").read_text()


def test_a_killed_node_and_a_preemption_change_no_result(slurm, study):
    submit("--seeds", "0:6", "--at-once", "4")
    assert "ArrayTaskThrottle=4" in slurm.call("scontrol", "show", "jobs")

    # Two runs are on each node. The other node loses its power.
    slurm.until(lambda: sum(saved(study / f"seed-{seed}") for seed in range(4)) == 4)
    placed = slurm.call("squeue", "-h", "-r", "-t", "R", "-o", "%K %N").split()
    lost = {seed for seed, node in zip(placed[::2], placed[1::2], strict=True) if node == "other"}
    assert len(lost) == 2
    slurm.kill_node("other")
    slurm.until(lambda: "down" in slurm.call("sinfo", "-h", "-n", "other", "-o", "%T"))

    # A job of higher priority takes the first node.
    slurm.until(lambda: "RUNNING" in slurm.call("squeue", "-h", "-p", "low", "-o", "%T"))
    urgent = ("sbatch", "-p", "high", "--exclusive", "--wait", "-o", "/dev/null", "--wrap", "true")
    slurm.call(*urgent)
    requeued = re.findall(r"Restarts=([1-9])", slurm.call("scontrol", "show", "jobs"))
    assert len(requeued) >= 3

    wake()
    slurm.until(lambda: not slurm.call("squeue", "-h"))
    slurm.start_node("other")
    check_undisturbed(study, range(4))  # those that ran when the node was lost


def test_runs_of_an_array_continue_after_their_time_limit(slurm, study):
    submit("--seeds", "0:2", "--time", "3m")
    slurm.until(lambda: all(saved(study / f"seed-{i}") for i in range(2)))
    slurm.until(lambda: all("terminated after" in log(study, f"seed-{i}") for i in range(2)))
    slurm.until(lambda: len(slurm.call("squeue", "-h", "-r").splitlines()) == 2)
    wake()
    slurm.until(lambda: not slurm.call("squeue", "-h"))
    check_undisturbed(study, range(2))


def test_cancelled_runs_save_and_wait_for_the_next_submission(slurm, study):
    cancel = submit("--seeds", "0:2")
    slurm.until(lambda: all(saved(study / f"seed-{i}") for i in range(2)))
    assert eqgrid("report", "study").stdout.splitlines()[-1] == "2 running"
    slurm.call(*cancel)
    slurm.until(lambda: not slurm.call("squeue", "-h"))  # no job is queued again
    assert all("terminated after" in log(study, f"seed-{i}") for i in range(2))
    assert eqgrid("report", "study").stdout.splitlines()[-1] == "2 stopped"

    wake()
    submit("--seeds", "0:2")
    slurm.until(lambda: not slurm.call("squeue", "-h"))
    check_undisturbed(study, range(2))


def test_wrong_settings_are_not_repeated_and_rejected_jobs_are_one_sentence(slurm, study):
    wake()
    small = (*SMALL[:-2], "--total-steps", "256")
    submit("--vary", "width=0,8", command=small)
    slurm.until(lambda: not slurm.call("squeue", "-h"))
    wrong = "error: --width must be at least 1 and at most 65536, but is 0."
    shown = eqgrid("report", "study", "--out", "all").stdout.splitlines()
    assert shown[:2] == [f"study/width-0: stopped: {wrong}", "1 stopped, 1 complete"]
    assert log(study, "width-0") == f"{wrong}\n"  # it was started once

    rejected = eqgrid("submit", "--out", "new", "--slurm", "partition=none", "--", "true")
    assert (rejected.returncode, rejected.stdout) == (1, "")
    sentence = "Slurm did not accept the jobs: Batch job submission failed: Invalid partition name"
    assert rejected.stderr.startswith(f"error: {sentence} specified")
    assert rejected.stderr.count("\n") == 1
