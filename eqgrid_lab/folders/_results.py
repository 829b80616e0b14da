"""Writes results as JSON and CSV, and reads the history of a run that is resumed."""

import contextlib
import csv
import dataclasses
import io
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import msgspec
import numpy as np
from rich.console import Console

from agents import write_atomic
from eqgrid import read_regular_text

from ..base import RunError, Table, UsageError, read_metadata
from ..show import csv_text
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
        yield folder, results_console()


def results_console() -> Console:
    """A console, with a width of 160 characters if standard output is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 160, emoji=False)


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
    with _reading(path):
        text = read_regular_text(path, MAX_RESULT_BYTES)
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row] or [names]
        if not {*names} <= {*header}:
            raise ValueError(f"it has no columns {', '.join(names)}")
        if rows and not text.endswith("\n") and len(rows[-1]) < len(header):
            rows.pop()
        return [dict(zip(header, row, strict=True)) for row in rows]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Path]:
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


_EVALUATION = ("env_steps", "wall_seconds", "eval_return_mean", "eval_return_std")
"""Columns that each evaluation has."""
_COUNTS = {"update", "env_steps", "stage", "stage_steps", "gate_passes"}
"""Columns of `metrics.csv` with integers."""


@final
@dataclasses.dataclass(frozen=True)
class History:
    """The history of a run up to the checkpoint from which it resumes; by default, of a new run.

    **Arguments:**

    - `rows`: the header and the complete rows of `metrics.csv` up to the checkpoint.
    - `evaluations`: the numbers in `rows`.
    - `best_return`: the mean return by which the best checkpoint was chosen.
    - `wall_seconds`, `train_seconds`: the wall-clock time and the training time so far, in seconds.
    """

    rows: bytes = b""
    evaluations: tuple[dict[str, float], ...] = ()
    best_return: float = -np.inf
    wall_seconds: float = 0.0
    train_seconds: float = 0.0

    def write_into(self, folder: Path) -> None:
        """Truncates the logs of a run to this history.

        **Arguments:**

        - `folder`: the folder of the run.

        **Raises:** `OSError` when a file cannot be written.
        """
        write_atomic(folder / "metrics.csv", self.rows)

    @property
    def env_steps(self) -> int:
        """The number of environment steps at its last evaluation."""
        return int(self.evaluations[-1]["env_steps"]) if self.evaluations else 0


def read_history(folder: Path, position: Table) -> History:
    """Reads the history of a run up to the checkpoint from which it resumes.

    Later rows and incomplete rows are left out, since the resumed run writes them again. For the
    same reason, the best checkpoint does not count if it is later. In a curriculum, it counts only
    if it is from the current stage.

    **Arguments:**

    - `folder`: the folder of the run.
    - `position`: the metadata of the checkpoint.

    **Returns:** the history.

    **Raises:** `OSError` when a log cannot be read, `RunError` when it is damaged, and
    `CheckpointError` when the best checkpoint is.
    """
    updates = position["update"]
    best = folder / "checkpoints" / "best.safetensors"
    with _reading(folder / "metrics.csv") as path:
        rows = read_csv(path, "update", *_EVALUATION) if path.exists() else []
        rows = [row for row in rows if int(row["update"]) <= updates]
        evaluations = tuple(
            {name: (int if name in _COUNTS else float)(text) for name, text in row.items() if text}
            for row in rows
        )
        train_seconds = float(rows[-1]["train_seconds"]) if rows else 0.0
    best_return = -np.inf
    if best.exists():
        metadata = read_metadata(best)
        if metadata["update"] <= updates and metadata.get("stage") == position.get("stage"):
            best_return = metadata.get("chosen_by", metadata["eval_return_mean"])
    return History(
        rows=csv_bytes(rows),
        evaluations=evaluations,
        best_return=best_return,
        wall_seconds=evaluations[-1]["wall_seconds"] if evaluations else 0.0,
        train_seconds=train_seconds,
    )
