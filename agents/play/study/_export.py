"""The data of a study as tables, and a report about them."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from agents import write_table, write_whole
from agents.evaluation._statistics import bootstrap_interval
from agents.runs.display._errors import UsageError
from agents.runs.display._table import print_table
from agents.runs.folders._folder import locked
from agents.runs.folders._results import write_json

from .._journal import SUFFIX
from .._menu import PERSON
from ._people import DICTIONARY, People

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets take a text that begins so for a formula."""
_TYPES = {"INTEGER": "int64", "REAL": "float64", "TEXT": "string"}
"""The types of Parquet for those of SQLite."""


def export(people: People, folder: Path) -> list[Path]:
    """Writes every table as CSV and Parquet, and a dictionary of their columns.

    In CSV, a text that a spreadsheet would take for a formula has an apostrophe before it.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the files.

    **Returns:** the files.
    """
    written = []
    for name in DICTIONARY:
        columns, rows = people.table(name)
        types = {column: _TYPES[x] for column, x in people.types(name).items()}
        write_whole(folder / f"{name}.csv", _csv(columns, rows).encode())
        write_table(folder / f"{name}.parquet", _by_column(columns, rows), types)
        written += [folder / f"{name}.csv", folder / f"{name}.parquet"]
    write_json(folder / "dictionary.json", DICTIONARY)
    return [*written, folder / "dictionary.json"]


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow(
            f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
            for cell in row
        )
    return text.getvalue()


def _by_column(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


def forget(people: People, folder: Path, id: str) -> int:
    """Deletes everything about a person: rows, and the files of the person's games.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the games.
    - `id`: the id with which the person came, or the number of the person.

    **Returns:** the number of files that were deleted.

    **Raises:** `UsageError` when there is no such person, or the study goes on.
    """
    is_number = id.isascii() and id.isdecimal() and len(id) < 19 and str(int(id)) == id
    number = int(id) if is_number else 0
    if not people.known(id) and people.get(number) is None:
        raise UsageError(f"There is nobody with the id or number {id!r:.100} in the study.")
    with locked(folder):
        names = [folder / file for file in people.files(id)]
        paths = [Path(f"{x}{suffix}") for x in names for suffix in (SUFFIX, ".parquet", ".npz")]
        there = [path for path in paths if path.exists()]
        for path in there:  # files first: whoever is cut off here can do it again
            path.unlink()
        people.forget(id)
    return len(there)


def report(people: People, console: Console) -> None:
    """Prints returns by partner with intervals, answers, drop-outs and latencies."""
    everybody, games = _rows(people, "people"), _rows(people, "games")
    ends = [person["outcome"] or "not finished" for person in everybody]
    counts = ", ".join(f"{ends.count(x)} {x}" for x in sorted(set(ends)))
    console.print(f"{len(everybody)} people: {counts or 'nobody yet'}")
    _print_games(console, [x for x in games if x["outcome"] == "finished"])
    left = sum(x["outcome"] == "left" for x in games)
    waits = [x["latency_ms"] for x in games if x["latency_ms"] is not None]
    if waits:
        low, high = np.percentile(waits, [50, 95])
        console.print(f"latency: median {low:.0f} ms, 95% of games below {high:.0f} ms")
    console.print(f"{left} of {len(games)} games were left before their end")
    _print_answers(console, _rows(people, "answers"), games)


def _rows(people: People, name: str) -> list[dict[str, Any]]:
    columns, rows = people.table(name)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _with_whom(game: dict[str, Any]) -> tuple[str, str, str]:
    """What tells games apart: a fallback is another partner in the same game."""
    return game["layout"], game["name"], game["partner"]


def _print_games(console: Console, games: Sequence[dict[str, Any]]) -> None:
    """Returns by layout, game and partner: the mean over people of their mean, with its interval;
    of two people who play together, that over pairs, since they share their score.
    """
    rows = []
    for layout, name, partner in sorted(set(map(_with_whom, games))):
        own = [x for x in games if _with_whom(x) == (layout, name, partner)]
        scores: dict[Any, list[float]] = {}
        for game in own:
            scores.setdefault(game["file" if partner == PERSON else "person"], []).append(
                game["score"]
            )
        means = np.asarray([np.mean(x) for x in scores.values()])
        low, high = bootstrap_interval(means, np.mean)
        interval = f"{low:.1f} to {high:.1f}" if len(means) > 1 else ""
        people = len({x["person"] for x in own})
        mean = f"{means.mean():.1f}"
        rows.append([layout, Text(name), Text(partner), str(people), mean, interval])
    if rows:
        titles = ("layout", "game", "partner", "people", "mean return", "95% interval")
        print_table(console, titles, rows)


def _print_answers(
    console: Console, answers: Sequence[dict[str, Any]], games: Sequence[dict[str, Any]]
) -> None:
    """What was answered to each question, after each game."""
    played = {(x["person"], x["stage"], x["game"]): f"{x['name']} ({x['partner']})" for x in games}
    told: dict[tuple[str, str], list[str]] = {}
    for row in answers:
        after = played.get((row["person"], row["stage"], row["game"]), "")
        if row["answer"] is not None:
            told.setdefault((row["question"], after), []).append(str(row["answer"]))
    table = [
        [Text(question), Text(after), str(len(given)), Text(_summary(given))]
        for (question, after), given in told.items()
    ]
    if table:
        print_table(console, ("question", "after", "answers", "what they say"), table)


def _summary(given: Sequence[str]) -> str:
    if all(x.isdecimal() for x in given):
        return f"mean {np.mean([float(x) for x in given]):.2f}"
    if len(set(given)) <= 8:
        kinds = sorted(set(given))
        return ", ".join(f"{given.count(x)} {json.dumps(x, ensure_ascii=False)}" for x in kinds)
    return "texts"
