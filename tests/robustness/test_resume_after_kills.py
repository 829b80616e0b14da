"""A run that is killed with `kill -9` again and again, and resumed, ends as if it never was.

EQGRID_KILLS says how many runs are tried (default 4); each is killed about three times.
"""

import os
import random
import signal
import time

import pytest
from run_files import check_equal

pytestmark = pytest.mark.robustness
STEPS = ("--total-steps", "40000", "--eval-every", "512")
RUNS = int(os.environ.get("EQGRID_KILLS", "4"))


def is_complete(folder) -> bool:
    return all((folder / name).exists() for name in ("result.json", "curve.png", "episode.gif"))


@pytest.fixture(scope="module", params=["plain", "--env.normalize-observation"])
def undisturbed(request, tmp_path_factory):
    return tmp_path_factory.mktemp("undisturbed") / request.param / "run"


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_end_is_the_same(begin, what_is_left, undisturbed, tmp_path, seed):
    """The same command is repeated, as by a scheduler, also before the first checkpoint."""
    more = [flag for flag in (undisturbed.parent.name,) if flag != "plain"]
    if not undisturbed.exists():
        _, error = begin(*STEPS, *more, "--out", str(undisturbed)).communicate(timeout=300)
        assert error == ""
    luck, kills = random.Random(seed), 0
    folder = tmp_path / "run"
    for _ in range(20):
        process = begin(*STEPS, *more, "--out", "run", "--resume")
        time.sleep(luck.uniform(0, 12))
        if kills < 4:
            process.send_signal(signal.SIGKILL)
        _, error = process.communicate(timeout=300)
        what_is_left(folder)
        assert error == ""
        kills += process.returncode == -signal.SIGKILL
        if is_complete(folder):  # a kill may also come after the last file
            break
    assert is_complete(folder)
    check_equal(folder, undisturbed)


def test_a_run_that_was_killed_before_its_first_checkpoint(begin, tmp_path):
    folder = tmp_path / "run"
    # Its first checkpoint would come after minutes.
    late = ("--eval-every", "20000000", "--out", "run")
    process = begin(*late, "--total-steps", "100000000")
    deadline = time.monotonic() + 300
    while not (folder / "config.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    process = begin(*late, "--total-steps", "512", "--resume")
    _, error = process.communicate(timeout=300)
    assert (process.returncode, error) == (0, "")
    assert is_complete(folder)
