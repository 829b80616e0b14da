"""The command lines of training, called in a test's own process."""

import functools
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts import shipped_script

from eqgrid_lab.base import run_command
from eqgrid_lab.runs import _run
from eqgrid_lab.settings import PolicySettings, parse as parse_or_exit, read_settings

_LISTEN = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
HEARS_CTRL_C = (sys.executable, "-c", _LISTEN)
"""Begins the command of a Python process that hears Ctrl-C, which background jobs of a shell, and
so perhaps these tests, ignore. That is undone in the new process: what runs between fork and exec
can wait for other threads forever.
"""


def _script(algorithm: str | type[PolicySettings]) -> Any:
    return shipped_script(algorithm) if isinstance(algorithm, str) else algorithm


def parse(*args: str, algorithm: str | type[PolicySettings] = "ippo") -> Any:
    """The settings of a command line."""
    return read_settings(_script(algorithm), args)


def call(*args: object, algorithm: str | type[PolicySettings] = "ippo") -> int:
    """Calls the `main` of `ippo.py`, or of another script, with these arguments.
    A script that is not among those of eqgrid is given by its class.

    **Returns:** the exit code.
    """
    experiment = _script(algorithm)
    main = vars(sys.modules[experiment.__module__])["main"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run, "exit_at_once", sys.exit)  # the process is that of the tests
        return _exit_code(lambda: main(parse_or_exit(experiment, [*map(str, args)])))


def _exit_code(program: Callable[[], int | None]) -> int:
    try:
        return program() or 0
    except SystemExit as stop:
        return int(stop.code or 0)


def call_and_hear(
    capsys: pytest.CaptureFixture[str],
    *args: object,
    algorithm: str | type[PolicySettings] = "ippo",
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
    return _exit_code(lambda: run_command(command.run))


def hear(
    capsys: pytest.CaptureFixture[str], command: Callable[[], None], *args: object
) -> tuple[int, str]:
    """Calls a command of `eqgrid_lab.commands` with these arguments.

    **Returns:** the exit code, and what was said: the errors, where there are any.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["prog", *map(str, args)])
        code = _exit_code(command)
    said = capsys.readouterr()
    return code, said.err or said.out


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
