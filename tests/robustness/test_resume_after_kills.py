"""A run that is killed with `kill -9` again and again, and resumed, ends as if it never was.

Nine runs are killed three times each: while they start, compile or train, and while they write a
checkpoint.
"""

import random
import signal
import time
from pathlib import Path

import pytest
from run_files import check_equal, files

pytestmark = pytest.mark.robustness
STEPS = ("--total-steps", "40000", "--eval-every", "512")
KINDS = {
    "plain": (),
    "normalised": ("--env.normalize-observation",),
    "recurrent": ("--network", "gru", "--ppo.chunk-length", "16"),
    "seeds": ("--num-seeds", "2", "--env.normalize-observation"),
}
RUNS = [(kind, seed) for kind in KINDS for seed in range(3 if kind == "plain" else 2)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return tmp_path_factory.mktemp("undisturbed")


def wait_for(moment: str, process, folder: Path, luck: random.Random) -> None:
    """Waits for a moment of a run, or for its end."""
    log, checkpoints = folder / "metrics.csv", folder / "checkpoints"
    begin = log.stat().st_mtime_ns if log.exists() else 0
    while moment != "any" and process.poll() is None:
        if moment == "training" and log.exists() and log.stat().st_mtime_ns > begin:
            break
        if moment == "checkpoint" and any(checkpoints.glob("*.partial")):
            return
        time.sleep(0.0002)
    time.sleep(luck.uniform(0, 12 if moment == "any" else 3))


@pytest.mark.parametrize(("kind", "seed"), RUNS)
def test_the_end_is_the_same(begin, what_is_left, folders, tmp_path, kind, seed):
    """The same command is repeated, as by a scheduler, also before the first checkpoint."""
    whole, folder, luck = folders / kind, tmp_path / "run", random.Random(f"{kind}-{seed}")
    args = (*STEPS, *KINDS[kind])
    if not whole.exists():
        _, error = begin(*args, "--out", str(whole)).communicate(timeout=400)
        assert error == ""
    kills = 0
    for moment in ("any", "checkpoint", "training", None):
        process = begin(*args, "--out", "run", "--resume")
        if moment is not None:
            wait_for(moment, process, folder, luck)
            process.send_signal(signal.SIGKILL)
        _, error = process.communicate(timeout=400)
        what_is_left(folder)
        assert error == ""
        kills += process.returncode == -signal.SIGKILL
    assert process.returncode == 0
    assert kills >= 2
    for left in folder.rglob("*.partial"):
        left.unlink()
    assert files(folder) == files(whole)
    check_equal(folder, whole)
