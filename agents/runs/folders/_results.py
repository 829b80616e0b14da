"""Where the results of a command line go, and how they are written."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agents import write_whole
from agents.runs.display._errors import UsageError
from agents.runs.display._loggers import csv_text, finite

from ._folder import locked, made_folder, names_in

MAX_RESULT_BYTES = 2**28
"""The largest result that is read again: 256 MiB."""


@contextlib.contextmanager
def open_results(name: str, out: Path | None) -> Iterator[tuple[Path, Console]]:
    """Makes the folder of the results, and opens what to print on. A folder into which nothing was
    written is removed.

    **Arguments:**

    - `name`: what a new folder in `runs/` is called, before the time; a number is added when that
        one is taken.
    - `out`: a folder that was asked for instead, new or empty.

    **Raises:** `UsageError` when there is something in `out`, or another process writes into it,
    and `RunError` when it cannot be written.
    """
    new = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with made_folder(new, out) as folder, locked(folder) if out else contextlib.nullcontext():
        if names_in(folder):
            raise UsageError(
                f"The folder {str(folder)!r} exists and is not empty: choose another --out."
            )
        # Lines are wrapped in terminals only.
        yield folder, Console(width=None if sys.stdout.isatty() else 160, emoji=False)


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes a result; a number that is not finite becomes `null`, as JSON has none."""
    write_whole(path, (json.dumps(finite(result), indent=2) + "\n").encode())


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes a table; numbers are not rounded."""
    write_whole(path, csv_bytes(rows))


def csv_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The text of a table, with a column for every key of a row."""
    return csv_text(rows, header=bool(rows)).encode()
