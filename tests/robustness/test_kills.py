"""Runs that are killed, terminated or interrupted at any moment, the first ones included."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.robustness,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]
LONGEST = 12.0  # seconds; learning begins after some 4 to 8 of them
NUMBER = 27


def wait_for_the_first_line(process) -> None:
    """Before the first line of the program, the interpreter starts, and does what it likes."""
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
    luck = random.Random(seed)
    number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[seed % 3]
    # A third of the moments are in the first second, where a process is most fragile.
    moment = luck.uniform(0, 1.0 if seed % 9 < 3 else LONGEST)
    again = [luck.uniform(0, 0.3) for _ in range(luck.choice([0, 1, 2]))]
    process = begin("--out", "run", "--total-steps", "100000000")
    wait_for_the_first_line(process)
    time.sleep(moment)
    process.send_signal(number)
    for pause in again:
        time.sleep(pause)
        process.send_signal(number)
    out, error = process.communicate(timeout=400)
    result = what_is_left(tmp_path / "run")
    if number == signal.SIGKILL:
        assert process.returncode == -9
        return
    assert "Traceback" not in error
    assert "Exception ignored" not in error
    assert process.returncode == 128 + number
    if result is None:
        assert not (tmp_path / "run").exists(), "nothing was learned, so nothing is left"
        assert error.startswith("error: interrupted")
        assert error.count("\n") == 1
    else:
        assert error == ""
        assert "steps" in out


def test_a_signal_in_a_callback_of_the_garbage_collector_prints_nothing():
    program = """
import gc, signal
from eqgrid_lab.base import Process

process = Process.listen()
process.begin()
gc.callbacks.append(lambda phase, _: phase == "start" and signal.raise_signal(signal.SIGTERM))
with process.stopping_at_once():
    gc.collect()
    gc.callbacks.clear()
    process.check()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Exception ignored" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("Stopped: SIGTERM")
