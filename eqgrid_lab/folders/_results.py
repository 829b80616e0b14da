"""Folders of results, and the files in them."""

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from agents import write_whole

from ..base import UsageError
from ..show import csv_text
from ._folder import locked, made_folder, names_in

MAX_RESULT_BYTES = 2**28
"""The maximum size of a result that is read back: 256 MiB."""


@contextlib.contextmanager
def open_results(name: str, out: Path | None) -> Iterator[tuple[Path, Console]]:
    """Context manager that makes a folder of results, and opens a console.

    A new folder that is empty at the end is removed.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`, to which the time is appended, and a number if
        it exists.
    - `out`: the folder to use instead, which must be new or empty.

    **Returns:** the folder and the console, inside the context.

    **Raises:** `UsageError` when `out` is not empty, or another process writes into it, and
    `RunError` when the folder cannot be written.
    """
    new = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with made_folder(new, out) as folder, locked(folder) if out else contextlib.nullcontext():
        if names_in(folder):
            raise UsageError(
                f"The folder {str(folder)!r} exists and is not empty: choose another --out."
            )
        yield folder, results_console()


def results_console() -> Console:
    """A console that is wide enough for most lines where standard output is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 160, emoji=False)


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes a result as JSON; infinite numbers and NaN become `null`.

    **Raises:** `OSError` when the file cannot be written.
    """
    write_whole(path, msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as CSV, without rounding numbers.

    **Raises:** `OSError` when the file cannot be written.
    """
    write_whole(path, csv_bytes(rows))


def csv_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Encodes rows as CSV with a header, and a column for every key that occurs in a row."""
    return csv_text(rows, header=bool(rows)).encode()


def shown_path(path: str | Path) -> str:
    """A path relative to the current folder if it is inside, and only its name otherwise.

    Each path in a comma-separated list is shortened in this way.
    """
    if not os.path.exists(path) and "," in str(path):
        return ",".join(shown_path(part.strip()) for part in str(path).split(","))
    relative = os.path.relpath(path)
    return Path(path).name if relative.startswith(os.pardir) else relative


def without_folders(value: Any) -> Any:
    """A JSON value in which every absolute path is replaced by its name, at any depth."""
    if isinstance(value, dict):
        return {key: without_folders(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(x) for x in value]
    if not isinstance(value, str) or "\n" in value:
        return value
    parts = [value] if os.path.exists(value) else value.split(",")
    is_path = any(os.path.isabs(part.strip()) for part in parts)
    return ",".join(Path(part.strip()).name for part in parts) if is_path else value


def escape_markdown(text: str) -> str:
    """Escapes an untrusted text for one line of Markdown, so that it has no markup or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#!|&~$])", r"\\\1", " ".join(text.split()))
