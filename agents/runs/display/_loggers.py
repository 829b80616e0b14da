"""Where the numbers of a run go: a row for every block of updates, with equal names everywhere."""

import csv
import errno
import importlib
import importlib.util
import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final, runtime_checkable

from ._errors import RunError, UsageError

Row: TypeAlias = Mapping[str, Any]
LoggerName: TypeAlias = Literal["jsonl", "tensorboard", "wandb"]

_EXTRAS = {"tensorboard": "tensorboardX", "wandb": "wandb"}


@runtime_checkable
class Logger(Protocol):
    """Somewhere that rows are written to.

    - `path`: the file or folder that they go to.
    """

    path: Path

    def write(self, row: Row) -> None:
        """Writes one row.

        **Raises:** `OSError` when that cannot be done now; the next row is then tried as usual.
        """
        ...

    def close(self) -> None:
        """Ends what is still under way; nothing unless a logger needs it."""


def csv_text(rows: Sequence[Row], *, header: bool) -> str:
    """Rows of a table, with a column for every key of a row, and with its header if wanted."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def finite(row: Row) -> dict[str, Any]:
    """A row with `None` in the place of numbers that are not finite, as JSON has none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _shown(row: Row) -> dict[str, Any]:
    """The entries of a row that a picture can show: the finite ones."""
    return {name: value for name, value in finite(row).items() if value is not None}


@final
class Csv(Logger):
    """A table, with a header."""

    def __init__(self, path: Path, written: bytes = b""):
        """**Arguments:**

        - `written`: the whole rows that are in the file already, and the header.
        """
        self.path, self._lines = path, _Lines(path, written)

    def write(self, row: Row) -> None:
        self._lines.add(csv_text([row], header=self._lines.empty))


@final
class JsonLines(Logger):
    """An object on each line."""

    def __init__(self, path: Path, written: bytes = b""):
        self.path, self._lines = path, _Lines(path, written)

    def write(self, row: Row) -> None:
        self._lines.add(json.dumps(finite(row)) + "\n")


@final
class TensorBoard(Logger):
    """Event files that TensorBoard shows, against environment steps."""

    def __init__(self, path: Path, first_step: int = 0):
        """**Arguments:**

        - `first_step`: what an earlier process wrote from here on is not shown any more.
        """
        self.path = path
        self._writer = _import("tensorboard").SummaryWriter(str(path), purge_step=first_step)

    def write(self, row: Row) -> None:
        for name, value in _shown(row).items():
            self._writer.add_scalar(name, value, row["env_steps"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


@final
class WeightsAndBiases(Logger):
    """A run of Weights & Biases. Its own environment variables set where it goes, such as
    `WANDB_PROJECT`, and `WANDB_MODE=offline`.
    """

    def __init__(self, path: Path, name: str, settings: Mapping[str, Any]):
        """**Arguments:**

        - `path`: the folder for its files.
        - `name`: the name of the run.
        - `settings`: the settings of the run, for its page.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        wandb = _import("wandb")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "eqgrid"),
                name=name,
                dir=str(path),
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
        self._run.log(_shown(row), step=int(row["env_steps"]))

    def close(self) -> None:
        self._run.finish()


@final
class Labelled(Logger):
    """Rows of one run in a log of several: each begins with the label of the run. Other runs write
    into that log, too, so it stays open.
    """

    def __init__(self, logger: Logger, label: Row):
        self.path, self._logger, self._label = logger.path, logger, label

    def write(self, row: Row) -> None:
        self._logger.write({**self._label, **row})


def check_installed(names: Sequence[LoggerName]) -> None:
    """**Raises:** `UsageError` when the library of a logger is not installed."""
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
    settings: Mapping[str, Any],
) -> list[Logger]:
    """Opens `metrics.csv`, which is always written, and what else is asked for.

    **Arguments:**

    - `folder`: the folder of the run.
    - `names`: what else is asked for.
    - `csv_rows`, `json_rows`: the rows of a run that goes on, as they are in its files.
    - `env_steps`: how many steps it had made.
    - `settings`: the settings of the run.

    **Raises:** `RunError` when one cannot be opened.
    """
    more: dict[LoggerName, Callable[[], Logger]] = {
        "jsonl": lambda: JsonLines(folder / "metrics.jsonl", json_rows),
        "tensorboard": lambda: TensorBoard(folder / "tensorboard", env_steps),
        "wandb": lambda: WeightsAndBiases(folder / "wandb", folder.resolve().name, settings),
    }
    return [Csv(folder / "metrics.csv", csv_rows), *(more[name]() for name in dict.fromkeys(names))]


@final
class _Lines:
    """A file that grows by whole lines. Where a line cannot be written, as on a full disk, nothing
    of it stays in the file, and it is written together with the next one.
    """

    def __init__(self, path: Path, written: bytes):
        self._path, self._written, self._waiting = path, written, b""

    @property
    def empty(self) -> bool:
        return not (self._written or self._waiting)

    def add(self, line: str) -> None:
        self._waiting += line.encode()
        content = self._waiting
        with self._path.open("ab", buffering=0) as file:
            there = len(self._written)
            if file.seek(0, os.SEEK_END) < there:  # somebody removed the file, or made it shorter
                content, there = self._written + content, 0
            try:
                file.truncate(there)
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(there)
                raise
        self._written += self._waiting
        self._waiting = b""


def _import(name: str) -> Any:
    """The library of a logger, which is imported when the logger is opened."""
    return importlib.import_module(_EXTRAS[name])
