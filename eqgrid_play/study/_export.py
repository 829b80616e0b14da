"""The data of a study as tables, and a report about them."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from agents import write_atomic
from eqgrid_lab.base import UsageError
from eqgrid_lab.folders import locked, write_json
from eqgrid_lab.show import bootstrap_interval, print_table

from ..games import EPISODE_SUFFIX, PERSON, SUFFIX
from ._people import DICTIONARY, Cell, People, Row
from ._recorded import RECORDED, recorded_tables

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that spreadsheets read as formulas."""
_UNFINISHED = "not finished"
_ENDS = ("finished", "failed", "left", "expired", "stopped", _UNFINISHED, "excluded", "declined")
"""All outcomes, in the order of their precedence for people with several rows."""


def export(people: People, folder: Path) -> list[Path]:
    """Writes every table as CSV, and a dictionary of the columns. The tables `steps`
    and `keys` are read from the journals of the games. The file of the table `bonus` has no names
    of columns, as crowd-working sites expect it.

    The files have an apostrophe before each text that a spreadsheet would read as a formula.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the files, with the journals.

    **Returns:** the files.

    **Raises:** `UsageError` when a journal is damaged, and `OSError`.
    """
    write_json(folder / "dictionary.json", DICTIONARY | RECORDED)
    written = [folder / "dictionary.json"]
    tables = {name: people.table(name) for name in DICTIONARY}
    for name, rows in recorded_tables(people, folder).items():
        tables[name] = list(RECORDED[name]), rows
    tables["bonus"] = [], tables["bonus"][1]
    for name, (columns, rows) in tables.items():
        written.append(folder / f"{name}.csv")
        write_atomic(written[-1], _as_csv(columns, rows).encode())
    return written


def _as_csv(columns: Sequence[str], rows: Sequence[tuple[Cell, ...]]) -> str:
    """Formats a table as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if columns:
        writer.writerow(columns)
    for row in rows:
        writer.writerow(
            f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in row
        )
    return text.getvalue()


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute a text. A negative number is a number."""
    return text.startswith(_FORMULA) and not text.removeprefix("-").isdecimal()


def forget(people: People, folder: Path, id: str) -> int:
    """Deletes all data about a person: the rows of the tables and the files of the person's games.

    **Arguments:**

    - `people`: the data.
    - `folder`: the folder of the games.
    - `id`: the id or the number of the person.

    **Returns:** the number of files that were deleted.

    **Raises:** `UsageError` when there is no such person, or the study is running.
    """
    is_number = id.isascii() and id.isdecimal() and len(id) < 19 and str(int(id)) == id
    number = int(id) if is_number else 0
    if people.first(id) is None and people.get(number) is None:
        raise UsageError(f"The study has no person with the id or number {id!r:.100}.")
    with locked(folder):
        names = [folder / file for file in people.journals(id)]
        paths = [Path(f"{x}{suffix}") for x in names for suffix in (SUFFIX, EPISODE_SUFFIX)]
        there = [path for path in paths if path.exists()]
        for path in there:  # before the rows, so that an interrupted call can be repeated
            path.unlink()
        people.forget(id)
    return len(there)


def report(people: People, console: Console) -> None:
    """Prints returns by partner with intervals, orders, answers, drop-outs and latencies. Browsers
    with the same id count as one person.
    """
    everybody = people.rows("people")
    # `who` is the first number of a person who came from several browsers.
    first = {row["person"]: row["same_as"] or row["person"] for row in everybody}
    games = [row | {"who": first[row["person"]]} for row in people.rows("games")]
    answers = [row | {"who": first[row["person"]]} for row in people.rows("answers")]
    ends = outcomes(everybody)
    counts = ", ".join(f"{number} {end}" for end, number in ends.items())
    console.print(f"{sum(ends.values())} people: {counts or 'nobody yet'}")
    if len(everybody) > sum(ends.values()):
        again = len(everybody) - sum(ends.values())
        console.print(f"browsers with a repeated id: {again}; see `same_as` in `people`")
    _print_games(console, [x for x in games if x["outcome"] == "finished"])
    played = [x for x in games if x["outcome"] in ("finished", "left")]
    _print_orders(console, played)
    _print_waits(console, played)
    latencies = [x["latency_ms"] for x in games if x["latency_ms"] is not None]
    if latencies:
        median, high = np.percentile(latencies, [50, 95])
        console.print(f"latency: median {median:.0f} ms, 95% of games below {high:.0f} ms")
    left = {x["file"]: x["left_how"] or "unknown" for x in games if x["outcome"] == "left"}
    reasons = ", ".join(f"{number} {how}" for how, number in Counter(left.values()).items())
    files = {x["file"] for x in games}
    ending = f": {reasons}" if reasons else ""
    console.print(f"{len(left)} of {len(files)} games were left before their end{ending}")
    _print_answers(console, answers, games)


def outcomes(everybody: Sequence[Row]) -> dict[str, int]:
    """The number of people with each outcome. Rows with the same id are one person, with the first
    of their outcomes in the order of `_ENDS`.

    **Arguments:**

    - `everybody`: the rows of the table `people`.
    """
    ends: dict[int, list[str]] = {}
    for row in everybody:
        who = row["same_as"] or row["person"]
        ends.setdefault(who, []).append(row["outcome"] or _UNFINISHED)
    found = [min(own, key=_ENDS.index) for own in ends.values()]
    return {end: found.count(end) for end in _ENDS if end in found}


def _group(game: Row) -> tuple[int, str, str, str]:
    """The row of the table of returns to which a game belongs. A game with its planned partner and
    the same game with its fallback are in different rows, and so are groups of different sizes.
    """
    together = game["people"] if game["partner"] == PERSON else None
    partner = game["partner"] if together is None else f"{PERSON} ({together} together)"
    return game["stage"], game["layout"], game["name"], partner


def _print_games(console: Console, games: Sequence[Row]) -> None:
    """Prints returns by stage, layout, game and partner: the mean over people, with an interval.

    Several games of a person are averaged first. For games of several people, the mean is over the
    games, since the scores of people who play together depend on each other.
    """
    rows = []
    # Agents with rewards of their own: a further column has the mean return of all agents.
    scores_differ = any(x["mean_score"] not in (None, x["score"]) for x in games)
    for group in sorted(set(map(_group, games))):
        own = [x for x in games if _group(x) == group]
        scores: dict[str | int, list[float]] = {}
        for x in own:
            by = "file" if x["partner"] == PERSON else "who"
            scores.setdefault(x[by], []).append(x["score"])
        means = np.asarray([np.mean(x) for x in scores.values()])
        low, high = bootstrap_interval(means, np.mean)
        interval = f"{low:.1f} to {high:.1f}" if len(means) > 1 else ""
        people = len({x["who"] for x in own})
        row = [str(group[0]), *map(Text, group[1:]), str(people), f"{means.mean():.1f}", interval]
        if scores_differ:
            of_all = [x["mean_score"] for x in own if x["mean_score"] is not None]
            row.append(f"{np.mean(of_all):.1f}" if of_all else "")
        rows.append(row)
    titles = ("stage", "layout", "game", "partner", "people", "mean return", "95% interval")
    if rows:
        print_table(console, (*titles, "of all agents") if scores_differ else titles, rows)


def _print_orders(console: Console, played: Sequence[Row]) -> None:
    """Prints the orders in which people played, for each stage with several games."""
    several = {x["stage"] for x in played if x["number"] > 0}
    orders: dict[tuple[int, int], dict[int, str]] = {}
    for x in sorted(played, key=lambda x: x["game"]):
        orders.setdefault((x["stage"], x["who"]), {}).setdefault(x["game"], x["name"])
    found = [(stage, ", ".join(own.values())) for (stage, _), own in orders.items()]
    rows = [
        [str(stage), Text(order), str(found.count((stage, order)))]
        for stage, order in sorted(set(found))
        if stage in several
    ]
    if rows:
        print_table(console, ("stage", "games in order", "people"), rows)


def _print_waits(console: Console, played: Sequence[Row]) -> None:
    """Prints how long people waited for another person, and how many found one."""
    met = [x for x in played if x["partner"] == PERSON]
    alone = [x for x in played if x["partner"] != PERSON and x["waited_s"]]
    waits = [x["waited_s"] or 0.0 for x in (*met, *alone)]
    if waits:
        games = len({x["file"] for x in met})
        console.print(
            f"{games} games with another person, {len(alone)} for which nobody came; waiting: "
            f"median {np.median(waits):.0f} s, at most {max(waits):.0f} s"
        )


def _print_answers(console: Console, answers: Sequence[Row], games: Sequence[Row]) -> None:
    """Prints a summary of the answers to each question of each stage, after each game. If a person
    answered in several browsers, the first answer counts.
    """
    played = {(x["person"], x["stage"], x["game"]): f"{x['name']} ({x['partner']})" for x in games}
    by_question: dict[tuple[int, str, str], dict[tuple[int, int], str]] = {}
    for row in answers:
        after = played.get((row["person"], row["stage"], row["game"]), "")
        if row["answer"] is not None:
            given = by_question.setdefault((row["stage"], row["question"], after), {})
            given.setdefault((row["who"], row["game"]), str(row["answer"]))
    table = [
        [
            str(stage),
            Text(question),
            Text(after),
            str(len(given)),
            Text(_summary([*given.values()])),
        ]
        for (stage, question, after), given in sorted(by_question.items(), key=lambda x: x[0][0])
    ]
    if table:
        print_table(console, ("stage", "question", "after", "answers", "what they say"), table)


def _summary(given: Sequence[str]) -> str:
    if all(x.isdecimal() for x in given):
        return f"mean {np.mean([float(x) for x in given]):.2f}"
    if len(set(given)) <= 8:
        kinds = sorted(set(given))
        return ", ".join(f"{given.count(x)} {json.dumps(x, ensure_ascii=False)}" for x in kinds)
    return "texts"
