"""The command lines of training, called in a test's own process."""

import contextlib
import functools
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eqgrid_lab import Experiment
from eqgrid_lab.base import Process, exit_code_of
from eqgrid_lab.runs import run_command_line
from eqgrid_lab.settings import parse as parse_flags, shipped_script

_LISTEN = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
HEARS_CTRL_C = (sys.executable, "-c", _LISTEN)
"""Begins the command of a Python process that hears Ctrl-C, which background jobs of a shell, and
so perhaps these tests, ignore. That is undone in the new process: what runs between fork and exec
can wait for other threads forever.
"""


@contextlib.contextmanager
def listening() -> Iterator[Process]:
    """A process that remembers a Ctrl-C, as that of a command line does, until the end."""
    process = Process()
    before = signal.signal(signal.SIGINT, process._receive)
    try:
        yield process
    finally:
        signal.signal(signal.SIGINT, before)


def parse(*args: str, algorithm: str | type[Experiment] = "ippo") -> Any:
    """The settings of a command line."""
    script: Any = shipped_script(algorithm) if isinstance(algorithm, str) else algorithm
    return parse_flags(script, args)


def call(*args: object, algorithm: str | type[Experiment] = "ippo") -> int:
    """Calls `ippo.py`, or another script, with these arguments.
    A script that is not among those of eqgrid is given by its class.

    **Returns:** the exit code.
    """
    with pytest.MonkeyPatch.context() as patch, listening() as process:
        patch.setattr("sys.argv", ["prog", *map(str, args)])
        experiment: Any = shipped_script(algorithm) if isinstance(algorithm, str) else algorithm
        try:
            return run_command_line(experiment, process)
        except SystemExit as stop:  # of tyro
            return int(stop.code or 0)


def call_and_hear(
    capsys: pytest.CaptureFixture[str],
    *args: object,
    algorithm: str | type[Experiment] = "ippo",
) -> tuple[int, str]:
    """The same.

    **Returns:** the exit code, and what was said: the errors, where there are any.
    """
    code = call(*args, algorithm=algorithm)
    said = capsys.readouterr()
    return code, said.err or said.out


def check_refusal(heard: tuple[int, str], words: str, *, codes: tuple[int, ...] = (1, 2)) -> None:
    """A command ended with one of these exit codes, and printed a message with these words, of
    eqgrid or of tyro.
    """
    code, said = heard
    assert code in codes, said
    assert "Traceback" not in said
    assert words in " ".join(said.replace("│", " ").split())


def exit_code(command: types.ModuleType) -> int:
    """Calls a program with the arguments in `sys.argv`.

    **Returns:** the exit code.
    """
    return exit_code_of(lambda: command.run(sys.argv[1:]), Process(), "--episodes")


def hear(
    capsys: pytest.CaptureFixture[str], command: Callable[[], None], *args: object
) -> tuple[int, str]:
    """Calls a command of `eqgrid_lab.commands` with these arguments.

    **Returns:** the exit code, and what was said: the errors, where there are any.
    """
    with pytest.MonkeyPatch.context() as patch:
        # The signals and the output of this process are those of the tests.
        patch.setattr(Process, "listen", Process)
        patch.setattr("sys.argv", ["prog", *map(str, args)])
        with pytest.raises(SystemExit) as stop:
            command()
    said = capsys.readouterr()
    return stop.value.code, said.err or said.out


def calling(command: Callable[[], None] | None = None) -> Any:
    """A fixture: a function that calls a command, or `ippo.py`, in an empty folder, and returns
    the exit code and what was said.
    """

    @pytest.fixture
    def call(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> Callable[..., tuple[int, str]]:
        monkeypatch.chdir(tmp_path)
        if command is None:
            return functools.partial(call_and_hear, capsys)
        return functools.partial(hear, capsys, command)

    return call
