"""The data of a study as tables, and a report about them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from agents import write_table
from agents.evaluation._statistics import bootstrap_interval
from agents.runs.display._errors import UsageError
from agents.runs.display._table import print_table
from agents.runs.folders._results import write_csv, write_json

from .._journal import SUFFIX
from ._people import DATA, DICTIONARY, People


def open_people(folder: Path) -> People:
    """The data of a study. **Raises:** `UsageError` when the folder has none."""
    if not (folder / DATA).is_file():
        raise UsageError(f"The folder {str(folder)!r} has no study: it lacks {DATA}.")
    return People(folder)


def export(people: People, folder: Path) -> list[Path]:
    """Writes every table as CSV and Parquet, and a dictionary of their columns.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the files.

    **Returns:** the files.
    """
    written = []
    for name in DICTIONARY:
        columns, rows = people.table(name)
        table = [dict(zip(columns, row, strict=True)) for row in rows]
        write_csv(folder / f"{name}.csv", table or [dict.fromkeys(columns)])
        write_table(folder / f"{name}.parquet", _by_column(columns, rows))
        written += [folder / f"{name}.csv", folder / f"{name}.parquet"]
    write_json(folder / "dictionary.json", DICTIONARY)
    return [*written, folder / "dictionary.json"]


def _by_column(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def forget(people: People, folder: Path, id: str) -> int:
    """Deletes everything about a person: rows, and the files of the person's games.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the games.
    - `id`: the id with which the person came, or the number of the person.

    **Returns:** the number of files that were deleted.

    **Raises:** `UsageError` when there is no such person.
    """
    if not people.known(id) and not (id.isdecimal() and people.has(int(id))):
        raise UsageError(f"There is nobody with the id or number {id!r:.100} in the study.")
    deleted = 0
    for file in people.forget(id):
        for suffix in (SUFFIX, ".parquet", ".npz"):
            path = folder / f"{file}{suffix}"
            deleted += path.exists()
            path.unlink(missing_ok=True)
    return deleted


def report(people: People, console: Console) -> None:
    """Prints returns by partner with intervals, answers, drop-outs and latencies."""
    columns, rows = people.table("people")
    outcome = columns.index("outcome")
    ends = [row[outcome] or "not finished" for row in rows]
    counts = ", ".join(f"{ends.count(x)} {x}" for x in sorted(set(ends)))
    console.print(f"{len(rows)} people: {counts or 'nobody yet'}")
    names, games = people.table("games")
    found = [dict(zip(names, row, strict=True)) for row in games]
    _print_games(console, [x for x in found if x["outcome"] == "finished"])
    left = sum(x["outcome"] != "finished" for x in found)
    waits = [x["latency_ms"] for x in found if x["latency_ms"] is not None]
    if waits:
        low, high = np.percentile(waits, [50, 95])
        console.print(f"latency: median {low:.0f} ms, 95% of games below {high:.0f} ms")
    console.print(f"{left} of {len(found)} games were not finished")
    _print_answers(console, people)


def _print_games(console: Console, games: Sequence[dict[str, Any]]) -> None:
    """Returns by layout and game: the mean over people of their mean, with its interval."""
    rows = []
    for layout, name in sorted({(x["layout"], x["name"]) for x in games}):
        own = [x for x in games if (x["layout"], x["name"]) == (layout, name)]
        people = sorted({x["person"] for x in own})
        means = np.asarray(
            [np.mean([x["score"] for x in own if x["person"] == person]) for person in people]
        )
        low, high = bootstrap_interval(means, np.mean)
        interval = f"{low:.1f} to {high:.1f}" if len(people) > 1 else ""
        rows.append([layout, Text(name), str(len(people)), f"{means.mean():.1f}", interval])
    if rows:
        print_table(console, ("layout", "game", "people", "mean return", "95% interval"), rows)


def _print_answers(console: Console, people: People) -> None:
    columns, rows = people.table("answers")
    question, answer = columns.index("question"), columns.index("answer")
    table = []
    for name in dict.fromkeys(row[question] for row in rows):
        given = [row[answer] for row in rows if row[question] == name and row[answer] is not None]
        numbers = [float(x) for x in given if str(x).isdecimal()]
        if numbers and len(numbers) == len(given):
            says = f"mean {np.mean(numbers):.2f}"
        elif len(set(given)) <= 8:
            says = ", ".join(
                f"{given.count(x)} {json.dumps(x)}" for x in sorted(set(given), key=str)
            )
        else:
            says = "texts"
        table.append([Text(name), str(len(given)), Text(says)])
    if table:
        print_table(console, ("question", "answers", "what they say"), table)
