"""A process that runs programs one after the other: what they import and compile is shared."""

import contextlib
import faulthandler
import os
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest


def run_program(folder: Path, program: Path, *arguments: str) -> None:
    """Runs `python program arguments` in a folder.

    **Raises:** what the program raises, and `RuntimeError` for an exit code that is not 0.
    """
    before = sys.argv, sys.path[:], sys.stdout, sys.stderr
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    faulthandler.dump_traceback_later(600, exit=True)
    try:
        with contextlib.chdir(folder):
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{program.name} ended with {end.code}") from None
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.argv, sys.path[:], sys.stdout, sys.stderr = before
        _forget_modules(folder)


def _forget_modules(folder: Path) -> None:
    """Forgets the modules of a program, so that the next one can have modules of the same name."""
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


def _enter(env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


@pytest.fixture(scope="session")
def reader(own_caches) -> Iterator[ProcessPoolExecutor]:
    """The process. It is replaced after 25 programs, so that memory is given back."""
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=_enter, initargs=(own_caches,), max_tasks_per_child=25
    ) as pool:
        yield pool
