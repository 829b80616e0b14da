"""Tests a study: bots complete its plan before people take part."""

import asyncio
import random
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import msgspec
from rich.console import Console
from rich.text import Text

from eqgrid_lab.show import print_table

from ..games import PERSON, GameServer, Press
from ._export import report
from ._people import People, Row
from ._plan import Entry, Plan
from ._stages import Question
from ._study_runner import StudyRunner

_WORDS_PER_MINUTE = 200
_MOST_WALKS = 6
"""The maximum number of walks through a plan in each half of a trial."""
_POLL = 0.01
"""The interval of polling, in seconds."""


def try_plan(plan: Plan, people: People, server: GameServer, console: Console) -> None:
    """Lets bots walk through a plan, first alone and then in groups, and prints tables of their
    walks.

    The first bot of each half declines. All other bots press random keys, give random answers, but
    the right ones where others exclude a person, and pass a tutorial after one game.

    **Arguments:**

    - `plan`: the plan.
    - `people`: the data of the trial.
    - `server`: the games, whose clocks do not wait between steps.
    - `console`: prints the tables.
    """
    rows = [
        [str(i), str(x.__struct_config__.tag), Text(x.summary())] for i, x in enumerate(plan.stage)
    ]
    print_table(console, ("stage", "kind", "content"), rows, words=3)
    replace = msgspec.structs.replace
    stages = (replace(x, score=0.0) if x.score else x for x in plan.stage)
    easy = replace(plan, stage=tuple(stages), entry=Entry(), partner_latency=0.0)
    walks = asyncio.run(_walk_all(easy, people, server))
    games = people.rows("games")
    lines = []
    for half in dict.fromkeys(walk.half for walk in walks):
        own = [x for x in walks if x.half == half]
        done = [x for x in own if x.end["outcome"] == "finished"]
        minutes = [x.minutes(games, server.ticks_per_second) for x in done]
        spread = f"{min(minutes):.1f} to {max(minutes):.1f}" if minutes else ""
        lines.append([half, str(len(own)), str(len(done)), spread])
    print_table(console, ("bots", "began", "finished", "minutes"), lines)
    console.print(
        f"minutes: games at {server.ticks_per_second:g} steps per second, waits, and texts at "
        f"{_WORDS_PER_MINUTE} words per minute, without the time for answers"
    )
    for end in {str(x.end["outcome"]): x.end for x in walks}.values():
        link = f"{end['outcome']}: code {end['code'] or '-'}, link {end['redirect'] or '-'}"
        console.print(link, markup=False, highlight=False, soft_wrap=True)
    report(people, console)
    for text in _warnings(plan):
        console.print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)


def _warnings(plan: Plan) -> Iterator[str]:
    """What may be missing in a plan, and what bots cannot test."""
    kinds = {x.__struct_config__.tag for x in plan.stage}
    entry = plan.entry != Entry()
    exclude = any(x.exclude for stage in plan.stage for x in stage.questions)
    possible = ["declined"] * ("consent" in kinds) + ["excluded"] * (entry or exclude)
    possible += ["failed"] * ("tutorial" in kinds) + ["expired"] * (plan.most_minutes > 0)
    complete = {name for name, ending in plan.ending.items() if ending.code or ending.redirect}
    bare = [f"`{name}`" for name in (*possible, "left", "stopped") if name not in complete]
    if bare and (plan.code or plan.redirect or plan.parameters):
        yield f"people get neither a code nor a link if they are {', '.join(bare)}: see `ending`"
    if entry or exclude or plan.partner_latency:
        yield "bots do not test `entry`, `exclude` and `partner_latency`: take part yourself"


@final
class _Walk(NamedTuple):
    """A bot's way through a study.

    - `half`: the half of the trial, as printed: alone or in groups.
    - `person`: the number of the bot as a person of the study.
    - `words`: the number of words that the bot read.
    - `end`: the content of the last page.
    """

    half: str
    person: int
    words: int
    end: dict[str, object]

    def minutes(self, games: list[Row], ticks_per_second: float) -> float:
        """How long a person would need for the games, the waits and the words."""
        own = [x for x in games if x["person"] == self.person]
        seconds = sum((x["steps"] or 0) / ticks_per_second + (x["waited_s"] or 0) for x in own)
        return seconds / 60 + self.words / _WORDS_PER_MINUTE


@final
class _BotClock:
    """The clock of the study, by which bots wait. Its time passes only while all bots wait."""

    def __init__(self) -> None:
        self.now, self.bots, self.waiting = 0.0, 0, 0

    async def wait(self) -> None:
        """Lets a bot wait. A second passes if all other bots wait too."""
        self.waiting += 1
        await asyncio.sleep(_POLL)
        if self.waiting == self.bots:
            self.now += 1
        self.waiting -= 1


async def _walk_all(plan: Plan, people: People, server: GameServer) -> list[_Walk]:
    clock = _BotClock()
    runner = StudyRunner(plan, people, server, lambda: clock.now)
    # One round for each order of the games, as far as possible.
    num_rounds = min(_MOST_WALKS, max([2, *(len(stage.games) for stage in plan.stage)]))
    walks: list[_Walk] = []
    try:
        largest = max([2, *(x.people for x in plan.games() if x.partner == PERSON)])
        largest = min(largest, plan.most_people)
        for half, size in (("alone", 1), (f"groups of {largest}", largest)):
            walks.append(await _walk(runner, clock, half, declines=True))
            for _ in range(num_rounds):
                group = (_walk(runner, clock, half, declines=False) for _ in range(size))
                walks += await asyncio.gather(*group)
    finally:
        await runner.close()
    return walks


async def _walk(runner: StudyRunner, clock: _BotClock, half: str, *, declines: bool) -> _Walk:
    """Takes part in a study as the page of a person does."""
    token = secrets.token_hex(16)
    parameters = dict.fromkeys(runner.plan.parameters, "bot")
    number = runner.join(f"bot-{token[:6]}", token, parameters).person
    rng = random.Random(f"{runner.plan.seed}/{number}")
    read: dict[object, int] = {}
    clock.bots += 1
    while True:
        person = runner.people.get(number)
        assert person is not None
        found: dict[str, Any] = await runner.show(person)
        if found["kind"] == "end":
            clock.bots -= 1
            return _Walk(half, number, sum(read.values()), found)
        if found["kind"] == "waiting":
            await clock.wait()
            continue
        asked = runner.plan.stage[person.stage].questions if found["kind"] == "questions" else ()
        texts = (x for part in asked for x in (part.text, part.low, part.high, *part.options))
        lines = (str(found.get(name, "")) for name in ("title", "text", "note"))
        read[found["at"], found["kind"]] = sum(map(_word_count, (*lines, *texts)))
        if found["kind"] == "game":
            await _play(runner, found["game"], found["token"], rng)
            continue
        answers: dict[str, str | int | None] = {x.name: _answer(x, rng) for x in asked}
        agree = {"agree": "no" if declines else "yes"} if found["kind"] == "consent" else {}
        runner.answer(person, answers | agree)


async def _play(runner: StudyRunner, file: str, token: str, rng: random.Random) -> None:
    """Presses random keys until a game is over."""
    session = runner.server.sessions[file]
    seat = session.seat_of(token)
    assert seat is not None
    page = session.connect(seat)
    while not session.over.is_set() and await page.waiting.get() is not None:
        control = rng.choice(session.place.controls)
        session.hear(page)
        session.receive(page, Press(control.choice, control.action))
    while session.over.is_set() and runner.players(file):
        await asyncio.sleep(_POLL)


def _answer(question: Question, rng: random.Random) -> str | int:
    if question.exclude and question.right is not None:
        return question.right
    if question.kind == "scale":
        return rng.randint(1, question.points)
    return rng.choice(question.options) if question.kind == "choice" else "an answer of a bot"


def _word_count(text: str) -> int:
    return len(text.split())
