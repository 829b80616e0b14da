"""Loggers, which write one row of metrics per block of updates. All loggers use the same names."""

import csv
import errno
import importlib
import importlib.util
import io
import json
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias, final, runtime_checkable

from agents import write_atomic
from eqgrid import read_regular_text

from ..base import WANDB_ID, RunError, Table, UsageError

Row: TypeAlias = Mapping[str, Any]
# To add a logger, add a name here, a class below, and a line in `open_loggers`. Add the files that
# it writes into the folder of a run to `_PATTERN` in `base/_run_files.py`, for --overwrite.
LoggerName: TypeAlias = Literal["jsonl", "tensorboard", "wandb"]

_EXTRAS = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""The library of each logger that needs an extra of eqgrid with the logger's name."""


@runtime_checkable
class Logger(Protocol):
    """The interface of loggers, which write rows of metrics.

    - `path`: the file or folder that the logger writes.
    """

    path: Path

    def write(self, row: Row) -> None:
        """Writes one row.

        **Raises:** `OSError` when the row cannot be written; later rows may still be written.
        """
        ...

    def close(self) -> None:
        """Closes the logger; does nothing by default."""


def csv_text(rows: Sequence[Row], *, header: bool) -> str:
    """Formats rows as CSV.

    **Arguments:**

    - `rows`: the rows. The columns are the keys of all rows.
    - `header`: whether the first line has the names of the columns.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def finite(row: Row) -> Table:
    """The row with `None` in place of infinite numbers and NaN, which JSON cannot represent."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _plotted(row: Row) -> Table:
    """The finite entries of a row, which can be plotted."""
    return {name: value for name, value in finite(row).items() if value is not None}


@final
class Csv(Logger):
    """Writes rows to a CSV file, with a header."""

    def __init__(self, path: Path, written: bytes = b""):
        """**Arguments:**

        - `path`: the file.
        - `written`: the header and the complete rows that the file already has.
        """
        self.path, self._lines = path, _Lines(path, written)

    def write(self, row: Row) -> None:
        self._lines.add(csv_text([row], header=self._lines.empty))


@final
class JsonLines(Logger):
    """Writes rows to a JSON Lines file, one object per line."""

    def __init__(self, path: Path, written: bytes = b""):
        self.path, self._lines = path, _Lines(path, written)

    def write(self, row: Row) -> None:
        self._lines.add(json.dumps(finite(row)) + "\n")


@final
class TensorBoard(Logger):
    """Writes event files for TensorBoard, with environment steps on the horizontal axis."""

    def __init__(self, path: Path, first_step: int = 0):
        """**Arguments:**

        - `path`: the folder of the event files.
        - `first_step`: the first environment step that this process may write. TensorBoard hides
            the events of earlier processes from this step on.
        """
        self.path = path
        self._writer = _import("tensorboard").SummaryWriter(str(path), purge_step=first_step)

    def write(self, row: Row) -> None:
        for name, value in _plotted(row).items():
            self._writer.add_scalar(name, value, row["env_steps"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


@final
class WeightsAndBiases(Logger):
    """Logs to Weights & Biases; its environment variables apply, such as `WANDB_MODE=offline`."""

    def __init__(
        self,
        path: Path,
        name: str,
        settings: Mapping[str, object],
        id_file: Path,
        group: str | None = None,
    ):
        """**Arguments:**

        - `path`: the folder for the files of Weights & Biases.
        - `name`: the name of the run.
        - `settings`: the settings of the run, which Weights & Biases shows as its configuration.
        - `id_file`: the file with the id of the run at Weights & Biases, which is continued. A
            missing file is written with a new id.
        - `group`: the name of the group of runs to which the run belongs, if any.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        wandb = _import("wandb")
        try:
            if not id_file.exists():
                write_atomic(id_file, uuid.uuid4().hex[:12].encode())
            self._run = wandb.init(
                id=read_regular_text(id_file).strip(),
                resume="allow",
                allow_val_change=True,  # a resumed run may be longer
                project=os.environ.get("WANDB_PROJECT", "eqgrid"),
                name=name,
                group=group,
                reinit="create_new",  # one process logs the runs of all seeds
                dir=str(path.resolve()),  # absolute, for the separate process of wandb
                config=dict(settings),
                settings=wandb.Settings(silent=True, console="off"),
            )
        except wandb.errors.Error as error:
            line = str(error).partition("\n")[0]
            raise RunError(
                f"Weights & Biases cannot be used ({line:.200}): set WANDB_MODE=offline, or leave "
                "out --log wandb."
            ) from error

    def write(self, row: Row) -> None:
        self._run.log(_plotted(row), step=int(row["env_steps"]))

    def close(self) -> None:
        self._run.finish()


@final
class Labelled(Logger):
    """Writes the rows of one run to a logger that several runs share, after the entries of a label.

    `close` does not close the shared logger, since other runs still write to it.
    """

    def __init__(self, logger: Logger, label: Row):
        self.path, self._logger, self._label = logger.path, logger, label

    def write(self, row: Row) -> None:
        self._logger.write({**self._label, **row})


def check_installed(names: Sequence[LoggerName]) -> None:
    """Checks that the libraries of loggers are installed.

    **Raises:** `UsageError` when a library is missing.
    """
    for name in names:
        if name in _EXTRAS and importlib.util.find_spec(_EXTRAS[name]) is None:
            raise UsageError(
                f"--log {name} needs a library that is not installed: pip install 'eqgrid[{name}]'."
            )


def open_loggers(
    folder: Path,
    names: Sequence[LoggerName],
    *,
    csv_rows: bytes,
    json_rows: bytes,
    env_steps: int,
    settings: Mapping[str, object],
    group: str | None = None,
) -> list[Logger]:
    """Opens the loggers of a run: `metrics.csv`, which is always written, and any others.

    **Arguments:**

    - `folder`: the folder of the run.
    - `names`: the other loggers.
    - `csv_rows`, `json_rows`: the contents of `metrics.csv` and `metrics.jsonl` of a resumed run.
    - `env_steps`: the number of environment steps that a resumed run has already done.
    - `settings`: the settings of the run.
    - `group`: the name of the group of runs to which the run belongs, for Weights & Biases.

    **Returns:** the loggers, `metrics.csv` first.

    **Raises:** `RunError` when a logger cannot be opened.
    """
    more: dict[LoggerName, Callable[[], Logger]] = {
        "jsonl": lambda: JsonLines(folder / "metrics.jsonl", json_rows),
        "tensorboard": lambda: TensorBoard(folder / "tensorboard", env_steps + 1),
        "wandb": lambda: WeightsAndBiases(
            folder / "wandb",
            folder.resolve().name if group is None else f"{group}/{folder.name}",
            settings,
            folder / WANDB_ID,
            group,
        ),
    }
    return [Csv(folder / "metrics.csv", csv_rows), *(more[name]() for name in dict.fromkeys(names))]


@final
class _Lines:
    """A file to which complete lines are appended.

    If a line cannot be written, as on a full disk, no part of the line stays in the file. The line
    is written together with the next line.
    """

    def __init__(self, path: Path, written: bytes):
        self._path, self._written, self._pending = path, written, b""

    @property
    def empty(self) -> bool:
        return not (self._written or self._pending)

    def add(self, line: str) -> None:
        self._pending += line.encode()
        content = self._pending
        with self._path.open("ab", buffering=0) as file:
            start = len(self._written)
            if file.seek(0, os.SEEK_END) < start:  # the file was removed or shortened
                content, start = self._written + content, 0
            try:
                file.truncate(start)
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(start)
                raise
        self._written += self._pending
        self._pending = b""


def _import(name: str) -> ModuleType:
    """Imports the library of a logger when the logger is opened."""
    return importlib.import_module(_EXTRAS[name])
