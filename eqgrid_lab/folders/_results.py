"""Writes results as JSON and CSV, and reads tables back."""

import contextlib
import csv
import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from agents import write_atomic
from eqgrid import read_regular_text

from ..base import RunError, Table, UsageError
from ..show import csv_text, open_console
from ._folder import locked, made_folder, names_in

MAX_RESULT_BYTES = 2**28
"""The maximum size of a result that is read back: 256 MiB."""


@contextlib.contextmanager
def open_results(name: str, out: Path | None) -> Iterator[tuple[Path, Console]]:
    """Context manager that makes a folder of results, and opens a console.

    A new folder that is empty at the end is removed.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`. The time is appended, and a number if the folder
        exists.
    - `out`: the folder to use instead, which must be new or empty.

    **Returns:** the folder and the console, inside the context.

    **Raises:** `UsageError` when `out` is not empty, or another process writes into it, and
    `RunError` when the folder cannot be written.
    """
    name = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with made_folder(name, out) as folder, locked(folder) if out else contextlib.nullcontext():
        if names_in(folder):
            raise UsageError(
                f"The folder {str(folder)!r} exists and is not empty: choose another --out."
            )
        yield folder, open_console()


def write_json(path: Path, result: Table) -> None:
    """Writes a result as JSON; infinite numbers and NaN become `null`.

    **Raises:** `OSError` when the file cannot be written.
    """
    write_atomic(path, msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Writes rows as CSV, without rounding numbers.

    **Raises:** `OSError` when the file cannot be written.
    """
    write_atomic(path, csv_bytes(rows))


def csv_bytes(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Encodes rows as CSV. The header has every key that occurs in a row; without rows, there is no
    header.
    """
    return csv_text(rows, header=bool(rows)).encode()


def read_csv(path: Path, *names: str) -> list[dict[str, str]]:
    """Reads the rows of a CSV file that eqgrid has written.

    The last row is left out if it is incomplete, as after a kill.

    **Arguments:**

    - `path`: the file.
    - `names`: columns that the file must have, unless it is empty.

    **Raises:** `OSError` when the file cannot be read, and `RunError` when its columns are not
    separated by commas, a column is missing, or a row has too few or too many values.
    """
    with reading(path):
        text = read_regular_text(path, MAX_RESULT_BYTES)
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row] or [names]
        if not {*names} <= {*header}:
            raise ValueError(f"it has no columns {', '.join(names)}")
        if rows and not text.endswith("\n") and len(rows[-1]) < len(header):
            rows.pop()
        return [dict(zip(header, row, strict=True)) for row in rows]


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Path]:
    """Context manager for reading a log.

    **Raises:** `RunError` when the content of the log is not what a run writes.
    """
    try:
        yield path
    except (ValueError, KeyError, TypeError, RecursionError, csv.Error) as error:
        raise RunError(
            f"The file {str(path)!r} is damaged, or was changed by another program: restore it, or "
            "move it away to continue without it."
        ) from error


def shown_path(path: str | Path) -> str:
    """A short form of a path: relative to the current folder if it is inside, and only the name
    otherwise. In a comma-separated list, each path is shortened.
    """
    if not os.path.exists(path) and "," in str(path):
        return ",".join(shown_path(part.strip()) for part in str(path).split(","))
    relative = os.path.relpath(path)
    return Path(path).name if relative.startswith(os.pardir) else relative
