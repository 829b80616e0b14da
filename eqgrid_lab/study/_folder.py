"""The folder of a study: its plan, the settings with which it was begun, and its data."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from agents import write_whole

from ..base import UsageError
from ..folders import locked, open_results, results_console, write_json
from ._people import DATA, People

PLAN = "plan.toml"
"""The copy of the plan in the folder."""
SETTINGS = "study.json"
"""The world, the clock and the partners with which it was begun."""


@contextlib.contextmanager
def open_study(
    plan: Path, settings: Mapping[str, Any], out: Path | None
) -> Iterator[tuple[Path, Console]]:
    """Context manager that makes the folder of a study, or opens that of one that goes on.

    **Arguments:**

    - `plan`: the file of the plan.
    - `settings`: all else that should not change in the middle of a study.
    - `out`: the folder; a new one in `runs/` if it is `None`.

    **Returns:** the folder and a console.

    **Raises:** `UsageError` as `open_results`, and when the study was begun with another plan or
    other settings.
    """
    if out is None or not (out / DATA).is_file():
        with open_results("study", out) as (folder, console):
            write_whole(folder / PLAN, plan.read_bytes())
            write_json(folder / SETTINGS, dict(settings))
            yield folder, console
        return
    with locked(out):
        _check_same(out, plan, settings)
        yield out, results_console()


def _check_same(out: Path, plan: Path, settings: Mapping[str, Any]) -> None:
    try:
        before = json.loads((out / SETTINGS).read_bytes())
        same = (out / PLAN).read_bytes() == plan.read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The study in {str(out)!r} cannot continue: its {PLAN} or {SETTINGS} cannot be read."
        ) from error
    if not same:
        raise UsageError(
            f"The study in {str(out)!r} was started with a different plan: see its {PLAN}."
        )
    now = json.loads(json.dumps(settings))
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise UsageError(
            f"The study in {str(out)!r} was started with different settings of "
            f"{', '.join(changed)}: see its {SETTINGS}."
        )


@contextlib.contextmanager
def people_in(folder: Path) -> Iterator[People]:
    """Context manager with the data in a folder, which are begun if there are none.

    **Raises:** `UsageError` when they are damaged, or cannot be written.
    """
    try:
        with contextlib.closing(People(folder)) as people:
            yield people
    except sqlite3.Error as error:
        raise UsageError(f"The study in {str(folder)!r} cannot be used: {error}.") from error


@contextlib.contextmanager
def open_people(folder: Path) -> Iterator[People]:
    """Context manager with the data of a study that was begun.

    **Raises:** `UsageError` as `people_in`, and when the folder has no study.
    """
    if not (folder / DATA).is_file():
        raise UsageError(f"The folder {str(folder)!r} has no study: it lacks {DATA}.")
    with people_in(folder) as people:
        yield people
