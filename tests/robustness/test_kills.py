"""Runs that are terminated or interrupted at any moment, also twice, save and say how to go on."""

import random
import signal
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.robustness,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]
LONGEST = 20.0  # seconds; learning begins after some 4 to 12 of them
NUMBER = 12


def wait_until_it_listens(process) -> None:
    """Before the run begins, signals do what they do in any program of Python."""
    listens = 1 << (signal.SIGTERM - 1)
    status = Path(f"/proc/{process.pid}/status")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        line = next(x for x in status.read_text().splitlines() if x.startswith("SigCgt"))
        if int(line.split()[1], 16) & listens:
            return
        time.sleep(0.002)
    pytest.fail("the program does not listen to signals")


@pytest.mark.parametrize("seed", range(NUMBER))
def test_whatever_is_left_is_whole(begin, what_is_left, tmp_path, seed):
    luck, folder = random.Random(seed), tmp_path / "run"
    number = (signal.SIGTERM, signal.SIGINT)[seed % 2]
    # A third of the moments are in the first second, where a process is most fragile.
    moment = luck.uniform(0, 1.0 if seed % 6 < 2 else LONGEST)
    again = [luck.uniform(0, 0.3) for _ in range(luck.choice([0, 1, 2]))]
    process = begin("--out", "run", "--total-steps", "100000000")
    wait_until_it_listens(process)
    time.sleep(moment)
    process.send_signal(number)
    for pause in again:
        time.sleep(pause)
        process.send_signal(number)
    out, error = process.communicate(timeout=400)
    what_is_left(folder)
    assert process.returncode == 128 + number, error
    if (folder / "checkpoints" / "last.safetensors").exists():
        assert error == ""
        assert out.count("to continue: ") == out.count(" --out run --resume\n") == 1
    else:
        assert not folder.exists(), "nothing was learned, so nothing is left"
        assert error == "error: interrupted before training started, so no files were written.\n"
