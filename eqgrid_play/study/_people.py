"""The folder of a study: its plan, its settings, and its data in one SQLite file."""

import contextlib
import datetime
import hashlib
import json
import math
import secrets
import sqlite3
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

from rich.console import Console

from agents import write_atomic
from eqgrid_lab.base import UsageError
from eqgrid_lab.folders import locked, open_results, write_json
from eqgrid_lab.show import open_console

Cell: TypeAlias = str | int | float | None
"""A value in a table of SQLite."""
Row: TypeAlias = dict[str, Any]
"""A row of a table, by column."""

DATA = "study.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS people (
    person INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, token TEXT UNIQUE NOT NULL,
    started TEXT NOT NULL,
    finished TEXT, stage INTEGER NOT NULL DEFAULT 0, game INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0, outcome TEXT, seen TEXT NOT NULL, same_as INTEGER,
    parameters TEXT, code TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
    latency_ms REAL, bonus REAL);
CREATE TABLE IF NOT EXISTS answers (
    person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, stage INTEGER NOT NULL,
    game INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT, shown TEXT,
    at TEXT NOT NULL, UNIQUE (person, stage, game, question));
CREATE TABLE IF NOT EXISTS pages (
    person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, stage INTEGER NOT NULL,
    game INTEGER NOT NULL, kind TEXT NOT NULL, shown TEXT NOT NULL, answered TEXT,
    UNIQUE (person, stage, game, kind));
CREATE TABLE IF NOT EXISTS orders (
    person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, stage INTEGER NOT NULL,
    numbers TEXT NOT NULL, names TEXT NOT NULL, at TEXT NOT NULL, UNIQUE (person, stage));
CREATE TABLE IF NOT EXISTS games (
    person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, stage INTEGER NOT NULL,
    game INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL,
    layout TEXT NOT NULL,
    partner TEXT NOT NULL, seat INTEGER NOT NULL, file TEXT NOT NULL, score REAL, steps INTEGER,
    outcome TEXT, latency_ms REAL, at TEXT NOT NULL, mean_score REAL, left_by TEXT, left_how TEXT,
    left_s REAL, waited_s REAL, people INTEGER, actions INTEGER, longest_idle_s REAL,
    disconnections INTEGER, reloads INTEGER, hidden INTEGER, hidden_s REAL,
    ended TEXT, reason TEXT);
CREATE TABLE IF NOT EXISTS events (
    person INTEGER REFERENCES people ON DELETE CASCADE, at TEXT NOT NULL, event TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS turns (
    person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, stage INTEGER NOT NULL,
    turn INTEGER NOT NULL, UNIQUE (person, stage));
CREATE TABLE IF NOT EXISTS tokens (
    token TEXT PRIMARY KEY, person INTEGER NOT NULL REFERENCES people ON DELETE CASCADE);
CREATE VIEW IF NOT EXISTS codes AS
    SELECT person AS rowid, person, id, code, outcome, finished FROM people
    WHERE outcome IS NOT NULL;
CREATE VIEW IF NOT EXISTS bonus AS
    SELECT min(person) AS rowid, id, printf('%.2f', max(bonus)) AS amount FROM people
    WHERE bonus > 0 AND id IS NOT NULL GROUP BY id;
"""
_NUMBER = "CAST(person AS TEXT)"
_PLAYED = "outcome IN ('finished', 'left')"
_NO_END = "outcome = NULL, finished = NULL, code = '', reason = ''"
_LOCK_TIMEOUT = 0.2
"""The number of seconds that a statement waits while another process has locked the file."""
_SEEN_INTERVAL = 5.0
"""The minimum number of seconds between two writes of a person's `seen` time."""
DICTIONARY = {
    "people": {
        "person": "number of the person, from 1",
        "id": "the id in the address that the person opened, if any",
        "same_as": "the number of the first person with this id, if the id is repeated, for "
        "example in another browser",
        "parameters": "other parameters of the address that the plan names, as JSON",
        "started": "when the person arrived (UTC)",
        "finished": "when the person reached the end or left (UTC)",
        "stage": "the stage at which the person is, from 0",
        "outcome": "`finished`, `declined`, `excluded`, `failed` (the tutorial), `left` (stopped "
        "taking part), `expired` (no time left), `stopped` (with the study), or empty",
        "reason": "why the person was excluded: `browser`, `screen` or `latency` at the entry, as "
        "the page claims, or the question with the wrong answer, such as `question age`",
        "code": "the code on the last page of the person: the code of the plan, or the person's "
        "own random code; empty before the end, or if there was none",
        "latency_ms": "the median milliseconds of some requests at the entry, as the page claims; "
        "empty without a limit in the plan, and for people excluded at the entry",
        "bonus": "the bonus so far, by the rule of the plan; empty before the first game ends",
        "seen": "when the page of the person last contacted the server (UTC)",
    },
    "codes": {
        "person": "number of a person whose study has ended",
        "id": "the id in the address, if any",
        "code": "the code on the last page, as in `people`; empty if there was none",
        "outcome": "how the study ended, as in `people`",
        "finished": "when it ended (UTC)",
    },
    "bonus": {
        "id": "the id in the address; a repeated id has one line, with its largest bonus. The file "
        "has no line with the names of the columns, for crowd-working sites",
        "amount": "the bonus of `people`; people without an id or a bonus are left out",
    },
    "pages": {
        "person": "number of the person",
        "stage": "the stage of the page, from 0",
        "game": "the number of the game in its stage, from 0 in the order of play; -1 in a stage "
        "without games",
        "kind": "`consent`, `text`, `game`, `questions`, `waiting` (for other "
        "people, or while the game is opened) or `end`",
        "shown": "when the server first sent it to the person (UTC)",
        "answered": "when the person answered, agreed, declined or continued (UTC); empty for a "
        "page without a button for it",
    },
    "orders": {
        "person": "number of the person",
        "stage": "the stage of the games, from 0",
        "numbers": "the assigned order: the `number` of each game, as JSON. A person may play in "
        "another order with people who wait, or leave before the first game",
        "names": "the `name` of each game in this order, as JSON",
        "at": "when the order was assigned, on reaching the stage (UTC)",
    },
    "answers": {
        "person": "number of the person",
        "stage": "the stage of the question, from 0",
        "game": "the number of the preceding game in the stage, from 0; -1 if there is none",
        "question": "the name of the question",
        "answer": "the answer",
        "shown": "when the page with the question was first sent to the person (UTC)",
        "at": "when it was given (UTC)",
    },
    "games": {
        "person": "number of the person",
        "stage": "the stage of the game, from 0",
        "game": "the number of the game in its stage, from 0 in the order of play",
        "number": "the number of the game in its stage, from 0 in the order of the plan",
        "attempt": "how often this game was played before, as an attempt at a tutorial",
        "name": "the name of the game in the plan",
        "layout": "the layout",
        "partner": "the partners of the person",
        "people": "the number of people who play it; agents have all other seats",
        "seat": "the seat of the person, from 0",
        "file": "the name of the journal, without suffix",
        "score": "the return of the person's own agent",
        "mean_score": "the mean return of all agents, which is not `score` if each agent has its "
        "own reward",
        "steps": "the number of steps that were played",
        "outcome": "`finished`; `left` before its end; `not begun` if no step was played, or `cut` "
        "by the end of the server or a full disk and then played again; empty if the server was "
        "killed",
        "left_by": "the seats of the people who left it before its end, or did not come, such as "
        "`0` or `0, 1`",
        "left_how": "how they left it: `left` the study, `closed` the page, `lost` the connection, "
        "`silent` connection, `idle`, or `absent` from the beginning",
        "left_s": "when the first of them left, in seconds since the game began; empty before it",
        "waited_s": "for how many seconds the person waited for another one before the game",
        "actions": "the number of steps in which the person did something",
        "longest_idle_s": "the longest time in which the person did nothing, in seconds",
        "disconnections": "how often the connection was lost, without losses shortly after the "
        "server stood still",
        "reloads": "how often the person closed or reloaded the page, and came back",
        "hidden": "how often the page was hidden, as by another tab",
        "hidden_s": "for how many seconds it was hidden",
        "latency_ms": "the median of `latency_ms` in `steps`, also over the frames before the "
        "first step",
        "at": "when the game was opened (UTC)",
        "ended": "when it ended (UTC); empty if the server was killed",
        "reason": "why it ended: `episode` (complete), `goal` (the score of a tutorial), `server` "
        "(stopped), `disk` (a step could not be written), or how people left it, as in `left_how`; "
        "empty if the server was killed",
    },
    "events": {
        "person": "number of the person, if the event concerns one",
        "at": "when it happened (UTC)",
        "event": "what happened",
        "detail": "more about it",
    },
}
"""The meaning of each column of the tables of the database."""
_CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Letters of codes, without those that look alike."""


def utc_now() -> str:
    """The time in UTC, to milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def new_code() -> str:
    """A random code for a person, such as `K7QF-2MXW-9TRA`."""
    parts = ("".join(secrets.choice(_CODE_LETTERS) for _ in range(4)) for _ in range(3))
    return "-".join(parts)


@final
class Person(NamedTuple):
    """A person in a study.

    - `person`: the number of the person, from 1.
    - `id`: the id from the address, if any.
    - `stage`: the stage at which the person is, from 0.
    - `game`: the number of the game in this stage, from 0 in the order of play.
    - `asked`: whether the person is answering the questions after this game.
    - `outcome`: how the study ended for the person; `None` if it has not ended.
    - `started`: when the person arrived, in UTC.
    - `parameters`: the other parameters of the address that the plan names.
    - `code`: the code on the last page; empty if there is none.
    - `reason`, `latency_ms`, `bonus`: as in the table `people`; an unknown latency is infinite.
    """

    person: int
    id: str | None
    stage: int
    game: int
    asked: bool
    outcome: str | None
    started: str
    parameters: dict[str, str]
    code: str
    reason: str
    latency_ms: float
    bonus: float | None


@final
class People:
    """The database of a study: its people, answers, games and events.

    SQLite (in WAL mode) hands every change to the operating system before the server reads the next
    message, so a crash of the server loses nothing.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic):
        """**Arguments:**

        - `folder`: the folder of the database; the file is created if it does not exist.
        - `now`: returns the time in seconds, with any origin.

        **Raises:** `sqlite3.Error` when the database is damaged or cannot be written, and
        `UsageError` when it was created by another version of eqgrid.
        """
        file = folder / DATA
        # The timeout is short, since a waiting statement blocks the event loop and all games.
        self._db = sqlite3.connect(
            file, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA foreign_keys=ON")
        query = "SELECT name FROM pragma_table_info(?)"
        tables = {name: {x for (x,) in self._db.execute(query, (name,))} for name in DICTIONARY}
        if any(own and DICTIONARY[name].keys() - own for name, own in tables.items()):
            self._db.close()
            raise UsageError(
                f"The study in {str(folder)!r} was started with another version of eqgrid: use "
                "that version."
            )
        self._db.executescript(_TABLES)
        self._now = now
        self._last_heard = self._last_heard_times()
        self._last_written: dict[int, float] = {}
        first = [("study", secrets.token_hex(4)), ("overview", secrets.token_urlsafe(16))]
        self._db.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?)", first)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs its body in one transaction, and rolls back on an error."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def fact(self, name: str) -> str | None:
        """A fact about the study: `study` is a unique name of the study, `overview` the token of
        the experimenter, and `stopped` is set while the study is stopped.
        """
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def set_fact(self, name: str, value: str | None) -> None:
        """Sets a fact about the study; the value `None` deletes the fact."""
        self._db.execute("DELETE FROM facts WHERE name = ?", (name,))
        if value is not None:
            self._db.execute("INSERT INTO facts VALUES (?, ?)", (name, value))

    def join(self, id: str | None, token: str, parameters: Mapping[str, str] = {}) -> Person:
        """Adds a person, whose page is recognised by the token."""
        same = self._db.execute("SELECT min(person) FROM people WHERE id = ?", (id,)).fetchone()
        row = (id, _digest(token), utc_now(), utc_now(), *same, json.dumps(parameters))
        names = "id, token, started, seen, same_as, parameters"
        self._db.execute(f"INSERT INTO people ({names}) VALUES (?, ?, ?, ?, ?, ?)", row)
        found = self.find(token)
        assert found is not None
        return found

    def find(self, token: str) -> Person | None:
        """The person with a token."""
        own = (_digest(token),)
        where = "person = (SELECT person FROM tokens WHERE token = ?)"
        return self._find_person("token = ?", own) or self._find_person(where, own)

    def add_token(self, person: int, token: str) -> None:
        """Adds a further token of a person, as for another browser."""
        self._db.execute("INSERT INTO tokens VALUES (?, ?)", (_digest(token), person))

    def get(self, person: int) -> Person | None:
        """The person with a number."""
        return self._find_person("person = ?", (person,))

    def first(self, id: str | None) -> Person | None:
        """The first person who came with this id, if any."""
        return self._find_person("id = ? ORDER BY person", (id,))

    def present(self, seconds: float) -> set[int]:
        """The people who have not reached the end and whose pages sent a request in the last
        `seconds`.
        """
        return {who for who, at in self._last_heard.items() if self._now() - at < seconds}

    def record_request(self, person: int) -> None:
        """Records that the page of a person sent a request."""
        self._last_heard[person] = self._now()
        if self._now() - self._last_written.get(person, -math.inf) > _SEEN_INTERVAL:
            self._last_written[person] = self._now()
            self._db.execute("UPDATE people SET seen = ? WHERE person = ?", (utc_now(), person))

    def move(self, person: int, stage: int, game: int = 0, asked: bool = False) -> None:
        """Sets the position of a person in the plan."""
        row = (stage, game, asked, person)
        self._db.execute("UPDATE people SET stage = ?, game = ?, asked = ? WHERE person = ?", row)

    def enter(self, person: int, latency_ms: float | None) -> None:
        """Records that a person meets the conditions of the plan, and clears an earlier outcome."""
        query = f"UPDATE people SET latency_ms = ?, {_NO_END} WHERE person = ?"
        self._db.execute(query, (latency_ms, person))

    def end(self, person: int, outcome: str, code: str = "", reason: str = "") -> None:
        """Records how the study ended for a person, and the code on the person's last page."""
        self._last_heard.pop(person, None)
        row = (outcome, code, reason, utc_now(), person)
        names = "outcome = ?, code = ?, reason = ?, finished = ?"
        self._db.execute(f"UPDATE people SET {names} WHERE person = ?", row)

    def reopen_stopped(self) -> None:
        """Clears the outcome `stopped` of all people, so that they can continue."""
        self._db.execute(f"UPDATE people SET {_NO_END} WHERE outcome = 'stopped'")

    def show(self, person: int, stage: int, game: int, kind: str) -> None:
        """Records that a page was sent to a person, unless it was sent before. The arguments are
        columns of the table `pages`.
        """
        row = (person, stage, game, kind, utc_now())
        self._db.execute("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?, ?, NULL)", row)

    def answer(
        self,
        person: int,
        stage: int,
        game: int,
        answers: Mapping[str, Cell],
        kind: str = "questions",
    ) -> None:
        """Stores the answers on a page, which may be none. A later answer to the same question
        replaces the earlier answer.

        **Arguments:**

        - `person`, `stage`, `game`, `kind`: as in the table `pages`.
        - `answers`: the answer to each question.
        """
        now, page = utc_now(), (person, stage, game, kind)
        where = "person = ? AND stage = ? AND game = ? AND kind = ?"
        self._db.execute(f"UPDATE pages SET answered = ? WHERE {where}", (now, *page))
        found = self._db.execute(f"SELECT shown FROM pages WHERE {where}", page).fetchone()
        shown = None if found is None else found[0]
        rows = [(person, stage, game, name, x, shown, now) for name, x in answers.items()]
        self._db.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def begin_game(self, row: Mapping[str, Cell]) -> None:
        """Adds the row of a person for a game that begins.

        **Arguments:**

        - `row`: the columns of the table `games` that are known at the beginning.
        """
        names = ", ".join(row)
        values = ", ".join("?" * len(row))
        query = f"INSERT INTO games ({names}, at) VALUES ({values}, ?)"
        self._db.execute(query, (*row.values(), utc_now()))

    def end_game(
        self,
        file: str,
        scores: Sequence[float],
        steps: int,
        outcome: str,
        conduct: Mapping[int, Mapping[str, Cell]],
    ) -> None:
        """Completes the rows of a game that has ended.

        **Arguments:**

        - `file`: the name of the journal.
        - `scores`: the return of each agent.
        - `steps`: the number of steps that were played.
        - `outcome`: why the game ended.
        - `conduct`: further columns of the person in each seat.
        """
        ended = {"mean_score": statistics.fmean(scores), "steps": steps, "outcome": outcome}
        for seat, own in conduct.items():
            row = {"score": scores[seat], **ended, **own}
            names = ", ".join(f"{name} = ?" for name in row)
            query = f"UPDATE games SET {names} WHERE file = ? AND seat = ?"
            self._db.execute(query, (*row.values(), file, seat))

    def turn(
        self, person: int, stage: int, present: Collection[int], orders: int, people: int
    ) -> int:
        """The turn of a person at a stage, from 0, which is stored on the first call. The person
        plays in the order with the number `turn % orders`.

        A new turn has the order that is least frequent among the people who have completed the
        stage or are present. Up to `people` people share a turn. A person joins the last turn while
        all people in it are present and have not yet played a game of the stage.

        **Arguments:**

        - `person`: the number of the person.
        - `stage`: the stage.
        - `present`: the people who are present.
        - `orders`: the number of orders.
        - `people`: the maximum number of people who share a turn.
        """
        query = "SELECT turn FROM turns WHERE person = ? AND stage = ?"
        known = self._db.execute(query, (person, stage)).fetchone()
        if known is not None:
            return known[0]
        query = (
            "SELECT turn, person, people.stage FROM turns JOIN people USING (person) "
            "WHERE turns.stage = ? ORDER BY turn"
        )
        rows = self._db.execute(query, (stage,)).fetchall()
        last = rows[-1][0] if rows else -1
        in_last = [(who, now_in) for turn, who, now_in in rows if turn == last]
        waiting = [who for who, now_in in in_last if now_in == stage and who in present]
        joins = len(waiting) == len(in_last) < people
        if joins and not any(self.played(who, stage) for who in waiting):
            turn = max(last, 0)  # 0 for the first person
        else:
            taken = [
                turn % orders for turn, who, now_in in rows if now_in > stage or who in present
            ]
            turn = min(range(last + 1, last + 1 + orders), key=lambda x: taken.count(x % orders))
        self._db.execute("INSERT INTO turns VALUES (?, ?, ?)", (person, stage, turn))
        return turn

    def order(self, person: int, stage: int) -> list[int] | None:
        """The order that `assign` stored for a person at a stage, if any."""
        query = "SELECT numbers FROM orders WHERE person = ? AND stage = ?"
        row = self._db.execute(query, (person, stage)).fetchone()
        return None if row is None else json.loads(row[0])

    def assign(self, person: int, stage: int, numbers: Sequence[int], names: Sequence[str]) -> None:
        """Stores the order of the games of a stage for a person; see the table `orders`."""
        row = (person, stage, json.dumps(numbers), json.dumps(names, ensure_ascii=False), utc_now())
        self._db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)

    def played(self, person: int, stage: int, column: str = "number") -> list[Any]:
        """A column of the games of a stage that a person has played, in order."""
        query = f"SELECT {column} FROM games WHERE person = ? AND stage = ? AND {_PLAYED}"
        return [row[0] for row in self._db.execute(query, (person, stage))]

    def set_bonus(self, person: int, stages: Collection[int], each: float, most: float) -> None:
        """Sets the bonus of a person, for `each` point in the games of some stages."""
        query = f"SELECT stage, score FROM games WHERE person = ? AND {_PLAYED}"
        points = sum(x for stage, x in self._db.execute(query, (person,)) if stage in stages)
        bonus = round(min(most, max(0.0, each * points)), 2)
        self._db.execute("UPDATE people SET bonus = ? WHERE person = ?", (bonus, person))

    def consents(self, person: int) -> dict[int, str]:
        """When a person answered each consent page, by stage."""
        query = "SELECT stage, answered FROM pages WHERE person = ? AND kind = 'consent'"
        return dict(self._db.execute(f"{query} AND answered IS NOT NULL", (person,)).fetchall())

    def note(self, person: int | None, event: str, detail: str = "") -> None:
        """Adds an event."""
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?)", (person, utc_now(), event, detail)
        )

    def journals(self, id: str) -> list[str]:
        """The names of the journals of all people with an id. If no person has the id, it is read
        as the number of a person.
        """
        query = f"SELECT file FROM games WHERE person IN ({self._same_person(id)})"
        return [row[0] for row in self._db.execute(query, (id,))]

    def forget(self, id: str) -> None:
        """Deletes all rows about the people with an id, or about the person with this number."""
        self._db.execute(f"DELETE FROM people WHERE person IN ({self._same_person(id)})", (id,))
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.execute("VACUUM")

    def table(self, name: str) -> tuple[list[str], list[tuple[Cell, ...]]]:
        """The columns and rows of a table of `DICTIONARY`."""
        columns = list(DICTIONARY[name])
        query = f"SELECT {', '.join(columns)} FROM {name} ORDER BY rowid"
        return columns, self._db.execute(query).fetchall()

    def rows(self, name: str) -> list[Row]:
        """The rows of a table of `DICTIONARY`."""
        columns, rows = self.table(name)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _same_person(self, id: str) -> str:
        """A query for the people with an id, or for the person with this number."""
        return f"SELECT person FROM people WHERE {'id' if self.first(id) else _NUMBER} = ?"

    def _last_heard_times(self) -> dict[int, float]:
        """When the pages of the people who have not reached the end last sent a request, by the
        clock of `now`. The time after the last request of all people does not count, since the
        server may not have run.
        """
        rows = self._db.execute("SELECT person, outcome, seen FROM people").fetchall()
        seen = {who: datetime.datetime.fromisoformat(at).timestamp() for who, _, at in rows}
        last, now = max(seen.values(), default=0.0), self._now()
        return {who: now - (last - seen[who]) for who, outcome, _ in rows if outcome is None}

    def _find_person(self, where: str, values: Sequence[Cell]) -> Person | None:
        names = "person, id, stage, game, asked, outcome, started, parameters, code, reason"
        names += ", coalesce(latency_ms, 9e999), bonus"
        query = f"SELECT {names} FROM people WHERE {where}"
        row = self._db.execute(query, values).fetchone()
        if row is None:
            return None
        person, id, stage, game, asked, outcome, started, text, *rest = row
        parameters = json.loads(text or "{}")
        return Person(person, id, stage, game, bool(asked), outcome, started, parameters, *rest)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


PLAN = "plan.toml"
"""The copy of the plan in the folder of a study."""
SETTINGS = "study.json"
"""The world, clock and partners with which the study was started."""


@contextlib.contextmanager
def open_study(
    plan: Path, settings: Mapping[str, object], out: Path | None
) -> Iterator[tuple[Path, Console]]:
    """Context manager that makes the folder of a study, or opens the folder of an existing study.

    **Arguments:**

    - `plan`: the file of the plan.
    - `settings`: all other settings that must not change during a study.
    - `out`: the folder; `None` for a new folder in `runs/`.

    **Returns:** the folder and a console.

    **Raises:** `UsageError` as `open_results`, and when the study was started with another plan or
    other settings.
    """
    if out is None or not (out / DATA).is_file():
        with open_results("study", out) as (folder, console):
            write_atomic(folder / PLAN, plan.read_bytes())
            write_json(folder / SETTINGS, dict(settings))
            yield folder, console
        return
    with locked(out):
        study = f"The study in {str(out)!r}"
        try:
            before = json.loads((out / SETTINGS).read_bytes())
            same = (out / PLAN).read_bytes() == plan.read_bytes()
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{study} cannot continue: its {PLAN} or {SETTINGS} cannot be read."
            ) from error
        if not same:
            raise UsageError(f"{study} was started with a different plan: see its {PLAN}.")
        now = json.loads(json.dumps(settings))  # tuples become lists, as in the file
        if changed := [x for x in {**before, **now} if before.get(x) != now.get(x)]:
            names = ", ".join(changed)
            raise UsageError(
                f"{study} was started with different settings of {names}: see its {SETTINGS}."
            )
        yield out, open_console()


@contextlib.contextmanager
def people_in(folder: Path) -> Iterator[People]:
    """Context manager with the database in a folder, which is created if it does not exist.

    **Raises:** `UsageError` when the database is damaged, cannot be written, or was created by
    another version of eqgrid.
    """
    try:
        with contextlib.closing(People(folder)) as people:
            yield people
    except sqlite3.Error as error:
        raise UsageError(f"The study in {str(folder)!r} cannot be used: {error}.") from error


@contextlib.contextmanager
def open_people(folder: Path) -> Iterator[People]:
    """Context manager with the database of an existing study.

    **Raises:** `UsageError` as `people_in`, and when the folder has no study.
    """
    if not (folder / DATA).is_file():
        raise UsageError(f"The folder {str(folder)!r} has no study: it lacks {DATA}.")
    with people_in(folder) as people:
        yield people
