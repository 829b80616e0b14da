"""Loggers, which write a row of metrics for each seed after each block of updates. All loggers use
the same names.
"""

import csv
import io
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, final

from agents import write_atomic
from eqgrid.errors import import_optional

from ..base import WANDB_ID
from ._table import Row, csv_text

LoggerName: TypeAlias = Literal["tensorboard", "wandb"]


class Logger(Protocol):
    """Writes rows of metrics to the file or folder `path`."""

    path: Path

    def write(self, rows: Sequence[Row]) -> None:
        """Writes the rows of all seeds. After an `OSError`, later rows may still be written."""
        ...

    def close(self) -> None:
        """Closes the logger; does nothing by default."""


@final
class Csv(Logger):
    """Writes rows to a CSV file, which already has the header and the rows `written`. New keys
    become columns, which are empty in the rows before.
    """

    def __init__(self, path: Path, written: bytes = b""):
        self.path, self._text, self._size = path, written, len(written)
        self._columns = next(csv.reader(written.decode().splitlines()[:1]), [])

    def write(self, rows: Sequence[Row]) -> None:
        if {name for row in rows for name in row} <= {*self._columns}:
            self._text += csv_text(rows, header=False, columns=self._columns).encode()
        else:
            before = list(csv.DictReader(io.StringIO(self._text.decode(), newline="")))
            self._columns = list(dict.fromkeys(x for row in (*before, *rows) for x in row))
            self._text = csv_text([*before, *rows], header=True).encode()
            self._size = 0
        # The file has another size if it was removed, or if a full disk has cut a row.
        if self.path.exists() and 0 < self._size == self.path.stat().st_size:
            with self.path.open("ab") as file:
                file.write(self._text[self._size :])
        else:
            write_atomic(self.path, self._text)
        self._size = len(self._text)


@final
class TensorBoard(Logger):
    """Writes event files into a folder, with environment steps on the horizontal axis. TensorBoard
    hides the events of earlier processes from `first_step` on.
    """

    def __init__(self, path: Path, first_step: int):
        needs = "--log tensorboard needs tensorboardX"
        library = import_optional("tensorboardX", needs, "tensorboard")
        self.path, self._writer = path, library.SummaryWriter(str(path), purge_step=first_step)

    def write(self, rows: Sequence[Row]) -> None:
        for name, value in _plotted(rows).items():
            self._writer.add_scalar(name, value, rows[0]["env_steps"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


@final
class WeightsAndBiases(Logger):
    """Logs to Weights & Biases. Its environment variables apply, such as `WANDB_MODE=offline`. A
    resumed run continues the entry whose id is in its folder.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object]):
        wandb = import_optional("wandb", "--log wandb needs wandb", "wandb")
        self.path, id_file = folder / "wandb", folder / WANDB_ID
        if not id_file.exists():
            write_atomic(id_file, uuid.uuid4().hex[:12].encode())
        self._run = wandb.init(
            id=id_file.read_text().strip(),
            resume="allow",
            allow_val_change=True,  # a resumed run may be longer
            project=os.environ.get("WANDB_PROJECT", "eqgrid"),
            name=str(folder),
            reinit="create_new",  # in a notebook, one process logs several runs
            dir=str(folder.resolve()),  # absolute, for the separate process of wandb
            config=dict(settings),
            settings=wandb.Settings(silent=True, console="off"),
        )

    def write(self, rows: Sequence[Row]) -> None:
        self._run.log(_plotted(rows), step=int(rows[0]["env_steps"]))

    def close(self) -> None:
        self._run.finish()


def open_loggers(
    folder: Path, names: Sequence[LoggerName], rows: bytes, env_steps: int, settings: Row
) -> list[Logger]:
    """Opens the loggers of a run, `metrics.csv` first.

    **Arguments:**

    - `folder`, `settings`: the folder and the settings of the run.
    - `names`: the loggers in addition to `metrics.csv`.
    - `rows`, `env_steps`: the content of `metrics.csv`, and the number of steps of a resumed run.

    **Raises:** `ImportError` when the library of a logger is not installed.
    """
    loggers: list[Logger] = [Csv(folder / "metrics.csv", rows)]
    if "tensorboard" in names:
        loggers.append(TensorBoard(folder / "tensorboard", env_steps + 1))
    if "wandb" in names:
        loggers.append(WeightsAndBiases(folder, settings))
    return loggers


def _plotted(rows: Sequence[Row]) -> dict[str, Any]:
    """The entries of rows that can be plotted: no infinite number and no NaN. With several seeds,
    their names begin with the seed, as in `seed-3/eval_return_mean`.
    """
    return {
        name if len(rows) == 1 else f"seed-{row['seed']}/{name}": value
        for row in rows
        for name, value in row.items()
        if not isinstance(value, float) or math.isfinite(value)
    }
