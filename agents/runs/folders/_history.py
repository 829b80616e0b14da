"""What a run did before this process, for a run that is resumed."""

import contextlib
import csv
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from rich.console import Console
from rich.markup import escape

from agents import CheckpointError, write_whole
from agents.runs._metadata import IDENTITY, read_metadata
from agents.runs._run_files import ABANDONED
from agents.runs.display._errors import RunError
from eqgrid import read_regular_file, read_regular_text

from ._results import MAX_RESULT_BYTES, csv_bytes

_EVALUATION = ("env_steps", "wall_seconds", "eval_return_mean", "eval_return_std")
_STAGE = ("stage", "stage_steps", "gate_passes")
"""The columns that a curriculum adds."""
_OF_A_CHECKPOINT = {"update", "env_steps", "eval_return_mean"}
"""The entries that the best checkpoint, and those that stay, must have."""


@final
@dataclasses.dataclass(frozen=True)
class History:
    """The part of a run that is over.

    **Arguments:**

    - `rows`: the whole rows of `metrics.csv` up to the checkpoint, and its header.
    - `json_rows`: those of `metrics.jsonl`, if there is one.
    - `evaluations`: the results of the evaluations in them.
    - `best_return`: the return that the best checkpoint was chosen by.
    - `wall_seconds`, `train_seconds`: how long all of it took.
    - `abandoned`: checkpoints that do not belong to it, and what they are called from now on.
    """

    rows: bytes = b""
    json_rows: bytes = b""
    evaluations: tuple[dict[str, float], ...] = ()
    best_return: float = -np.inf
    wall_seconds: float = 0.0
    train_seconds: float = 0.0
    abandoned: tuple[tuple[Path, Path], ...] = ()

    def write_into(self, folder: Path) -> None:
        """Brings the logs and the checkpoints of a run to where it goes on.

        **Raises:** `OSError` when they cannot be written.
        """
        for path, new in self.abandoned:
            os.replace(path, new)
        write_whole(folder / "metrics.csv", self.rows)
        if self.json_rows:
            write_whole(folder / "metrics.jsonl", self.json_rows)

    def print_abandoned(self, console: Console) -> None:
        """Prints which checkpoints do not count any more."""
        for path, new in self.abandoned:
            console.print(
                f"{path.name} is not from the steps that this run goes on from: it is kept as "
                f"{escape(str(new))}",
                highlight=False,
                soft_wrap=True,
            )

    @property
    def env_steps(self) -> int:
        """How many steps it had made."""
        return int(self.evaluations[-1]["env_steps"]) if self.evaluations else 0


def read_history(folder: Path, position: Mapping[str, Any], identity: Mapping[str, Any]) -> History:
    """Reads what a run wrote before the state that it goes on from; later rows, and half a row,
    will be written again. What was best in an earlier stage is not the best any more.

    **Arguments:**

    - `folder`: the folder of the run.
    - `position`: the metadata of the checkpoint of that state.
    - `identity`: the entry of its checkpoints about this run.

    **Raises:** `OSError` when it cannot be read, `RunError` when it is no log of a run.
    """
    updates = position["update"]
    abandoned = dict(_abandoned(folder / "checkpoints", updates, identity))
    best = folder / "checkpoints" / "best.safetensors"
    with _reading(folder / "metrics.jsonl") as path:
        json_rows = _read_json_rows(path, updates)
    with _reading(folder / "metrics.csv") as path:
        rows = _read_rows(path, updates)
        evaluations = tuple(_evaluation(row) for row in rows)
        train_seconds = float(rows[-1]["train_seconds"]) if rows else 0.0
    return History(
        rows=csv_bytes(rows),
        json_rows=json_rows,
        evaluations=evaluations,
        best_return=-np.inf if best in abandoned else _best_return(best, position.get("stage")),
        wall_seconds=evaluations[-1]["wall_seconds"] if evaluations else 0.0,
        train_seconds=train_seconds,
        abandoned=tuple(abandoned.items()),
    )


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """**Raises:** `RunError` when what is read from a log is not what a run writes."""
    try:
        yield path
    except (ValueError, KeyError, TypeError, RecursionError, csv.Error) as error:
        raise RunError(
            f"The file {str(path)!r} is damaged: remove it to go on without its rows."
        ) from error


def _abandoned(
    folder: Path, updates: int, identity: Mapping[str, Any]
) -> Iterator[tuple[Path, Path]]:
    """The checkpoints of later states, which this run may never reach, or of other runs."""
    for path in (folder / "best.safetensors", *sorted(folder.glob("step-*.safetensors"))):
        try:
            metadata = read_metadata(path)
        except CheckpointError:
            continue  # there is none, or it is damaged, which is an error where it is used
        of_this_run = metadata.get(IDENTITY) == identity and metadata.keys() >= _OF_A_CHECKPOINT
        if not of_this_run or metadata["update"] > updates:
            steps = metadata.get("env_steps", 0)
            name = f"{path.stem.partition('-')[0]}-{steps:012}{path.suffix}"
            yield path, path.with_name(name + ABANDONED)


def _read_rows(path: Path, updates: int) -> list[dict[str, str]]:
    """The whole rows of the log of a run, up to an update."""
    text = read_regular_text(path, MAX_RESULT_BYTES) if path.exists() else ""
    header, *lines = text.splitlines(keepends=True) or [""]
    names = next(csv.reader([header]), [])
    rows = csv.reader(line for line in lines if line.endswith("\n"))
    whole = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    return [row for row in whole if int(row["update"]) <= updates]


def _evaluation(row: dict[str, str]) -> dict[str, float]:
    numbers = {name: float(row[name]) for name in _EVALUATION}
    counts = {name: int(row[name]) for name in ("env_steps", *_STAGE) if name in row}
    return numbers | counts


def _read_json_rows(path: Path, updates: int) -> bytes:
    if not path.exists():
        return b""
    lines = read_regular_file(path).splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    return b"".join(line for line in whole if json.loads(line)["update"] <= updates)


def _best_return(path: Path, stage: int | None) -> float:
    try:
        metadata = read_metadata(path)
    except CheckpointError:
        return -np.inf  # the next evaluation finds a new one
    if metadata.get("stage") != stage:
        return -np.inf
    return metadata.get("chosen_by", metadata["eval_return_mean"])
