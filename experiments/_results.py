"""Where the results of a command line go, and how they are written."""

import csv
import io
import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agents import write_whole
from experiments._errors import UsageError


def open_results(name: str, out: Path | None) -> tuple[Path, Console]:
    """Makes the folder of the results, and opens what to print on.

    **Arguments:**

    - `name`: what a new folder in `runs/` is called, before the time.
    - `out`: a folder that was asked for instead.

    **Raises:** `UsageError` when that one is the folder of a run.
    """
    if out is not None and (out / "config.toml").exists():
        raise UsageError(f"{str(out)!r} is the folder of a run: choose another --out.")
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    # Where nobody looks at a terminal, no line is broken in two.
    return folder, Console(width=None if sys.stdout.isatty() else 160, emoji=False)


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes a result; a number that is not finite becomes `null`, as JSON knows none."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in result.items()
    }
    write_whole(path, (json.dumps(finite, indent=2) + "\n").encode())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table; numbers are not rounded."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    write_whole(path, text.getvalue().encode())
