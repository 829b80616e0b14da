"""A command that is given a pipe or a device for a file says so, and does not wait for its end."""

import os
import signal

import pytest
from command_lines import call_and_hear, check_refusal, hear

from agents import CheckpointError, load_policy, load_trajectories, read_metadata
from eqgrid import make, read_regular_file
from eqgrid_lab.commands import (
    evaluate_command,
)

pytestmark = pytest.mark.robustness
SECONDS = 300
NO_FILE = "it is not a file, but a folder, a pipe or a device"


@pytest.fixture(autouse=True)
def in_time():
    """A command that waits for a pipe fails, instead of holding up the tests."""

    def stop(*_):
        pytest.fail(f"it still waits after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["pipe", "zero"])
def endless(request, tmp_path, monkeypatch):
    """The name of a pipe that nobody writes into, or of a device that never ends."""
    monkeypatch.chdir(tmp_path)
    if request.param == "pipe":
        os.mkfifo("pipe")
    else:
        os.symlink("/dev/zero", "zero")
    return request.param


COMMANDS = {  # programs, or None for `ippo.py`, and their arguments
    "settings": (None, "--config", "FILE"),
    "kitchen": (None, "--env.layout", "FILE"),
    "policy": (evaluate_command, "FILE"),
}


@pytest.mark.parametrize(("module", "args"), [(x, y) for x, *y in COMMANDS.values()], ids=COMMANDS)
def test_a_command_says_that_it_is_no_file(capsys, endless, module, args):
    before = sorted(os.listdir())
    args = [arg.replace("FILE", endless) for arg in args]
    heard = hear(capsys, module, *args) if module else call_and_hear(capsys, *args)
    check_refusal(heard, NO_FILE)
    assert f"{endless}'" in heard[1]
    assert sorted(os.listdir()) == before


def test_a_library_call_says_so_too(endless, tmp_path):
    for read in (load_policy, read_metadata):
        with pytest.raises(CheckpointError, match=NO_FILE):
            read(endless)
    os.rename(endless, "games.npz")
    with pytest.raises(OSError, match=NO_FILE):
        load_trajectories("games.npz", make("goals"))


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(CheckpointError, match=r"it is larger than 17,179,869,184 bytes"):
        load_policy(tmp_path / "large")
    (tmp_path / "small").write_bytes(b"abc")
    assert read_regular_file(tmp_path / "small", 3) == b"abc"
    with pytest.raises(OSError, match="it is larger than 2 bytes"):
        read_regular_file(tmp_path / "small", 2)
