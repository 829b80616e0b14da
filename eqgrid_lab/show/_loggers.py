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
from typing import Any, Literal, Protocol, TypeAlias, final

from agents import write_atomic
from eqgrid import read_regular_text

from ..base import WANDB_ID, RunError, Table, UsageError

Row: TypeAlias = Mapping[str, Any]
# To add a logger, add a name here, a class below, and a line in `open_loggers`.
LoggerName: TypeAlias = Literal["jsonl", "tensorboard", "wandb"]

_EXTRAS = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""The library of each logger that needs an extra of eqgrid with the logger's name."""


class Logger(Protocol):
    """The interface of loggers, which write rows of metrics to the file or folder `path`."""

    path: Path

    def write(self, row: Row) -> None:
        """Writes one row. After an `OSError`, later rows may still be written."""
        ...

    def close(self) -> None:
        """Closes the logger; does nothing by default."""


def csv_text(rows: Sequence[Row], *, header: bool, columns: Sequence[str] = ()) -> str:
    """Formats rows as CSV.

    **Arguments:**

    - `rows`: the rows. Missing values are empty.
    - `header`: whether the first line has the names of the columns.
    - `columns`: the first columns. Other keys of the rows follow.
    """
    text = io.StringIO(newline="")
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)])
    writer = csv.DictWriter(text, list(names))
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _finite(row: Row) -> Table:
    """The row with `None` in place of infinite numbers and NaN, which JSON cannot represent."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _plotted(row: Row) -> Table:
    """The finite entries of a row, which can be plotted."""
    return {name: value for name, value in _finite(row).items() if value is not None}


@final
class Csv(Logger):
    """Writes rows to a CSV file. New keys become columns, which are empty in the rows before."""

    def __init__(self, path: Path, written: bytes = b""):
        """`written` is the header and the rows that the file already has."""
        self.path, self._file, self._text = path, _File(path, written), written
        self._columns = next(csv.reader(written.decode().splitlines()[:1]), [])

    def write(self, row: Row) -> None:
        if new := [name for name in row if name not in self._columns]:
            rows = list(csv.DictReader(io.StringIO(self._text.decode(), newline="")))
            self._columns += new
            self._text = csv_text([*rows, row], header=True, columns=self._columns).encode()
        else:
            self._text += csv_text([row], header=False, columns=self._columns).encode()
        self._file.write(self._text)


@final
class JsonLines(Logger):
    """Writes rows to a JSON Lines file, which already has the lines `written`."""

    def __init__(self, path: Path, written: bytes = b""):
        self.path, self._file, self._text = path, _File(path, written), written

    def write(self, row: Row) -> None:
        self._text += json.dumps(_finite(row)).encode() + b"\n"
        self._file.write(self._text)


@final
class TensorBoard(Logger):
    """Writes event files into a folder, with environment steps on the horizontal axis. TensorBoard
    hides the events of earlier processes from `first_step` on.
    """

    def __init__(self, path: Path, first_step: int):
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
    """Logs to Weights & Biases; its environment variables apply, such as `WANDB_MODE=offline`. The
    folder of the run has the id of the run there, which a resumed run continues.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object], group: str | None):
        self.path, id_file, wandb = folder / "wandb", folder / WANDB_ID, _import("wandb")
        self.path.mkdir(exist_ok=True)
        if not id_file.exists():
            write_atomic(id_file, uuid.uuid4().hex[:12].encode())
        try:
            self._run = wandb.init(
                id=read_regular_text(id_file).strip(),
                resume="allow",
                allow_val_change=True,  # a resumed run may be longer
                project=os.environ.get("WANDB_PROJECT", "eqgrid"),
                name=folder.resolve().name if group is None else f"{group}/{folder.name}",
                group=group,
                reinit="create_new",  # one process logs the runs of all seeds
                dir=str(self.path.resolve()),  # absolute, for the separate process of wandb
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
    """Writes rows to a logger that several runs share, after the entries of a label, and leaves the
    logger open for the other runs.
    """

    def __init__(self, logger: Logger, label: Row):
        self.path, self._logger, self._label = logger.path, logger, label

    def write(self, row: Row) -> None:
        self._logger.write({**self._label, **row})


def check_installed(names: Sequence[LoggerName]) -> None:
    """**Raises:** `UsageError` when the library of a logger is missing."""
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

    - `folder`, `settings`: the folder and the settings of the run.
    - `names`: the other loggers.
    - `csv_rows`, `json_rows`: the contents of `metrics.csv` and `metrics.jsonl` of a resumed run.
    - `env_steps`: the number of environment steps that a resumed run has already done.
    - `group`: the name of the group of runs to which the run belongs, for Weights & Biases.

    **Returns:** the loggers, `metrics.csv` first.

    **Raises:** `RunError` when a logger cannot be opened.
    """
    more: dict[LoggerName, Callable[[], Logger]] = {
        "jsonl": lambda: JsonLines(folder / "metrics.jsonl", json_rows),
        "tensorboard": lambda: TensorBoard(folder / "tensorboard", env_steps + 1),
        "wandb": lambda: WeightsAndBiases(folder, settings, group),
    }
    return [Csv(folder / "metrics.csv", csv_rows), *(more[name]() for name in dict.fromkeys(names))]


@final
class _File:
    """A file that always has complete lines: if it cannot be written, it keeps its old content."""

    def __init__(self, path: Path, content: bytes):
        self._path, self._content = path, content

    def write(self, content: bytes) -> None:
        """Makes `content` the content of the file, by appending to it if possible."""
        size = len(self._content)
        is_intact = self._path.exists() and self._path.stat().st_size == size
        if is_intact and content.startswith(self._content):
            with self._path.open("ab", buffering=0) as file:
                try:
                    if file.write(content[size:]) < len(content) - size:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                except OSError:
                    file.truncate(size)
                    raise
        else:
            write_atomic(self._path, content)
        self._content = content


def _import(name: str) -> ModuleType:
    """Imports the library of a logger when the logger is opened."""
    return importlib.import_module(_EXTRAS[name])
