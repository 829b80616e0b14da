"""A trial of a study: bots walk through its plan before people do."""

import asyncio
import random
import secrets
from typing import Any, NamedTuple, final

import msgspec
from rich.console import Console
from rich.text import Text

from ..play import PERSON, Hall, Press
from ..show import print_table
from ._course import Course
from ._export import report
from ._people import People, Row
from ._plan import Games, Plan, Question, Questions, Tutorial

_WORDS_PER_MINUTE = 200
_MOST_BOTS = 6
"""How often at most a plan is walked through in each half of a trial."""
_POLL = 0.01
"""How many seconds apart a bot that waits looks for a game."""


def try_plan(plan: Plan, people: People, hall: Hall, console: Console) -> None:
    """Lets bots walk through a plan, first alone and then together, and prints what they did. The
    first bot of each half declines.

    Bots press random keys, give random answers, and pass a tutorial after one game.

    **Arguments:**

    - `plan`: the plan.
    - `people`: the data of the trial.
    - `hall`: the games, whose clocks do not wait between steps.
    - `console`: where it is printed.
    """
    rows = [[str(i), *_described(stage)] for i, stage in enumerate(plan.stage)]
    print_table(console, ("stage", "kind", "content"), rows, words=3)
    passed = (
        msgspec.structs.replace(x, score=0.0) if isinstance(x, Tutorial) else x for x in plan.stage
    )
    easy = msgspec.structs.replace(plan, stage=tuple(passed))
    walks = asyncio.run(_walk_all(easy, people, hall))
    games = people.rows("games")
    lines = []
    for half in dict.fromkeys(walk.half for walk in walks):
        own = [x for x in walks if x.half == half]
        done = [x for x in own if x.end["outcome"] == "finished"]
        minutes = [_minutes(x, games, hall.ticks_per_second) for x in done]
        spread = f"{min(minutes):.1f} to {max(minutes):.1f}" if minutes else ""
        lines.append([half, str(len(own)), str(len(done)), spread])
    print_table(console, ("bots", "began", "finished", "minutes"), lines)
    console.print(
        f"minutes: games at {hall.ticks_per_second:g} steps per second, waits, and texts at "
        f"{_WORDS_PER_MINUTE} words per minute, without the time for answers"
    )
    for end in {str(x.end["outcome"]): x.end for x in walks}.values():
        link = f"{end['outcome']}: code {end['code'] or '-'}, link {end['redirect'] or '-'}"
        console.print(link, markup=False, highlight=False, soft_wrap=True)
    report(people, console)


def _described(stage: object) -> tuple[str, Text]:
    """The kind of a stage, and its content in a line."""
    if isinstance(stage, Games):
        names = ", ".join(f"{x.name or x.partner} ({x.layout})" for x in stage.game)
        return "games", Text(f"{names}; {stage.order}; {len(stage.after)} questions after each")
    if isinstance(stage, Tutorial):
        return "tutorial", Text(f"{stage.game.layout} until {stage.score:g}; bots need one game")
    if isinstance(stage, Questions):
        return "questions", Text(", ".join(x.name for x in stage.question))
    text = str(getattr(stage, "text", ""))
    return type(stage).__name__.lower().replace("reading", "text"), Text(f"{_words(text)} words")


@final
class _Walk(NamedTuple):
    """A bot's way through a study: alone or in a group, its number, the words that it read, and the
    last page.
    """

    half: str
    person: int
    words: int
    end: dict[str, object]


def _minutes(walk: _Walk, games: list[Row], ticks_per_second: float) -> float:
    own = [x for x in games if x["person"] == walk.person]
    seconds = sum((x["steps"] or 0) / ticks_per_second + (x["waited_s"] or 0) for x in own)
    return seconds / 60 + walk.words / _WORDS_PER_MINUTE


@final
class _Time:
    """The seconds for which bots wait, which pass while all bots wait."""

    def __init__(self) -> None:
        self.now, self.bots, self.waiting = 0.0, 0, 0

    async def wait(self) -> None:
        """Lets a bot wait a little."""
        self.waiting += 1
        await asyncio.sleep(_POLL)
        if self.waiting == self.bots:
            self.now += 1
        self.waiting -= 1


async def _walk_all(plan: Plan, people: People, hall: Hall) -> list[_Walk]:
    time = _Time()
    course = Course(plan, people, hall, lambda: time.now)
    times = min(_MOST_BOTS, max([2, *(len(x.game) for x in plan.stage if isinstance(x, Games))]))
    walks: list[_Walk] = []
    try:
        largest = max([2, *(x.people for x in plan.games() if x.partner == PERSON)])
        largest = min(largest, plan.most_people)
        for half, size in (("alone", 1), (f"groups of {largest}", largest)):
            walks.append(await _walk(course, time, half, declines=True))
            for _ in range(times):
                group = (_walk(course, time, half, declines=False) for _ in range(size))
                walks += await asyncio.gather(*group)
    finally:
        await course.close()
    return walks


async def _walk(course: Course, time: _Time, half: str, *, declines: bool) -> _Walk:
    """Takes part as the page of a person does."""
    token = secrets.token_hex(16)
    parameters = dict.fromkeys(course.plan.parameters, "bot")
    number = course.join(f"bot-{token[:6]}", token, parameters).person
    chosen = random.Random(f"{course.plan.seed}/{number}")
    read: dict[object, int] = {}
    time.bots += 1
    while True:
        person = course.people.get(number)
        assert person is not None
        found: dict[str, Any] = await course.show(person)
        if found["kind"] == "end":
            time.bots -= 1
            return _Walk(half, number, sum(read.values()), found)
        if found["kind"] == "waiting":
            await time.wait()
            continue
        asked = [Question(**x) for x in found.get("questions", ())]
        texts = (x for part in asked for x in (part.text, part.low, part.high, *part.options))
        said = (str(found.get(name, "")) for name in ("title", "text", "note"))
        read[found["at"], found["kind"]] = sum(map(_words, (*said, *texts)))
        if found["kind"] == "game":
            await _play(course, found["game"], found["token"], chosen)
            continue
        answers: dict[str, str | int | None] = {x.name: _answer(x, chosen) for x in asked}
        agree = {"agree": "no" if declines else "yes"} if found["kind"] == "consent" else {}
        course.answer(person, answers | agree)


async def _play(course: Course, file: str, token: str, chosen: random.Random) -> None:
    """Presses random keys until a game is over."""
    session = course.hall.sessions[file]
    seat = session.seat_of(token)
    assert seat is not None
    page = session.connect(seat)
    while not session.over.is_set() and await page.waiting.get() is not None:
        control = chosen.choice(session.place.controls)
        session.hear(page)
        session.receive(page, Press(control.choice, control.action))
    while session.over.is_set() and course.players(file):
        await asyncio.sleep(_POLL)


def _answer(question: Question, chosen: random.Random) -> str | int:
    if question.kind == "scale":
        return chosen.randint(1, question.points)
    return chosen.choice(question.options) if question.kind == "choice" else "an answer of a bot"


def _words(text: str) -> int:
    return len(text.split())
