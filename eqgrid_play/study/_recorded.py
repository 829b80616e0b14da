"""The steps and keys of all games of a study, from the journals of the games."""

import json
from collections.abc import Iterator
from pathlib import Path

from ..games import SUFFIX, Recording, read_journal
from ._people import Cell, People

RECORDED = {
    "steps": {
        "person": "number of the person",
        "file": "the game, as in `games`",
        "step": "the number of the step, from 1",
        "time_s": "when it was played, in seconds since the game began",
        "action": "the person's action, as a number; a list for worlds with several choices",
        "source": "where the action comes from: `press`, a press that came since the last step; "
        "`queue`, a press that came before the last step and waited; `hold`, a key that is held "
        "down; `none`, no key; `silence`, no message of the page came since the last step: the "
        "first step of a silence repeats the key that was held down, and all others are idle",
        "sent_s": "when the server sent the frame after the step, in seconds since the game began; "
        "empty, as the next three columns, after the step that ends the game, and if the page did "
        "not report the frame",
        "latency_ms": "the milliseconds from sending this frame to the report of the page that the "
        "frame was shown, by the clock of the server: both ways, and `shown_ms`",
        "shown_ms": "the milliseconds from the arrival of this frame at the page to the next "
        "repaint of the browser, as the page claims; empty if the claim is longer than "
        "`latency_ms`, or the page was hidden. With equal times for both ways, the frame was on "
        "the screen at `sent_s` + (`latency_ms` + `shown_ms`) / 2000",
        "focus": "1 if the page was visible and had the focus of the keyboard when it showed this "
        "frame, 0 if it was hidden or another window had the focus, as the page claims",
    },
    "keys": {
        "person": "number of the person",
        "file": "the game, as in `games`",
        "key": "the key, as `KeyboardEvent.code` of browsers names it, or the button of the page",
        "event": "`press` or `release`; a page that loses the focus releases all keys",
        "page_ms": "when it happened by the clock of the page, in milliseconds since 1970 (UTC), "
        "as the page claims",
        "server_s": "when the server received it, in seconds since the game began; empty before it",
        "step": "the number of the step, from 1, that used the press; empty for a release, and if "
        "no step used the press",
    },
}
"""The meaning of each column of the tables of recorded games."""


def recorded_tables(people: People, folder: Path) -> dict[str, list[tuple[Cell, ...]]]:
    """The rows of the tables in `RECORDED`: of all games with a journal, also of games that are
    running, or that the end of the server has cut.

    **Arguments:**

    - `people`: the data of the study.
    - `folder`: the folder of the journals.

    **Raises:** `UsageError` when a journal is damaged, and `OSError` when it cannot be read.
    """
    tables: dict[str, list[tuple[Cell, ...]]] = {name: [] for name in RECORDED}
    for game in people.rows("games"):
        journal = folder / f"{game['file']}{SUFFIX}"
        if journal.exists():  # `forget` may have been interrupted
            recording, who = read_journal(journal), (game["person"], game["file"])
            tables["steps"] += ((*who, *row) for row in _steps(recording, game["seat"]))
            tables["keys"] += ((*who, *row) for row in _keys(recording, game["seat"]))
    return tables


def _steps(recording: Recording, seat: int) -> Iterator[tuple[Cell, ...]]:
    # After a reload, the last frame is sent again. Its first display counts.
    shown = {
        x.frame: (x.time, x.latency_ms, x.shown_ms, None if x.focus is None else int(x.focus))
        for x in reversed(recording.frames)
        if x.seat == seat
    }
    for number, time in enumerate(recording.time.astype(float).tolist(), 1):
        action = json.dumps(recording.action[number - 1][seat].tolist())
        row = number, round(time, 4), action, recording.source[number - 1][seat]
        yield (*row, *shown.get(number, (None,) * 4))


def _keys(recording: Recording, seat: int) -> Iterator[tuple[Cell, ...]]:
    for key, step in recording.keys:
        if key.seat == seat:
            event = "press" if key.down else "release"
            yield key.key, event, key.page_ms, key.time, step
