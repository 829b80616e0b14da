"""The course of a study: what each person sees next, and what becomes of it."""

import asyncio
import dataclasses
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, final
from urllib.parse import quote

from agents.runs.display._errors import UsageError

from .._hall import Hall
from .._menu import PERSON
from .._session import Session
from ._people import People, Person
from ._plan import Consent, Games, Plan, PlannedGame, Question, Questions, Reading, Tutorial

FULL = "All places are taken at the moment. Please come back in some minutes."
STOPPED = "The study has been stopped. Thank you for your interest."
_SILENT = 10.0
"""After how many seconds without a word nobody is paired with a person who waits."""
_ABSENT = 60.0
"""After how many seconds without a word a person gives up the place in the study."""


@final
@dataclasses.dataclass
class _Waiting:
    """Somebody who waits for another person."""

    person: int
    since: float
    seen: float


@final
class Course:
    """A study that goes on.

    It knows who plays which game; all else is in the data, so that people come back after a restart
    of the server to where they were.
    """

    def __init__(self, plan: Plan, people: People, hall: Hall):
        """**Arguments:**

        - `plan`: the plan.
        - `people`: the data.
        - `hall`: the games.

        **Raises:** `UsageError` when there is no such layout or partner.
        """
        self.plan, self.people, self.hall = plan, people, hall
        self.stopped, self._closing = False, False
        self._playing: dict[int, tuple[str, str]] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._opening: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        for game in plan.games():
            self._check(game)

    def join(self, id: str | None) -> tuple[Person, str]:
        """Adds a person. **Raises:** `UsageError` when there is no place."""
        if self.stopped:
            raise UsageError(STOPPED)
        present = self.people.present(_ABSENT) | self._playing.keys()
        if len(present) >= self.plan.most_people:
            raise UsageError(FULL)
        before = id is not None and self.people.known(id)
        person, token = self.people.join(id)
        self.people.note(person.person, "joined", "an id that came before" if before else "")
        return person, token

    async def show(self, person: Person) -> dict[str, Any]:
        """What the page of a person shows: a text, questions, a game, a wait, or the end.

        **Raises:** `UsageError` and `OSError` when a game cannot be opened.
        """
        self.people.seen(person.person)
        if person.outcome is not None or person.stage >= len(self.plan.stage):
            return self._end(person)
        stage = self.plan.stage[person.stage]
        place = {"stage": person.stage, "stages": len(self.plan.stage)}
        if isinstance(stage, Consent):
            return {**place, "kind": "consent", **_texts(stage), "agree": stage.agree}
        if isinstance(stage, Reading):
            return {**place, "kind": "text", **_texts(stage)}
        if isinstance(stage, Questions):
            return {**place, "kind": "questions", "title": stage.title, **_asked(stage.question)}
        if isinstance(stage, Games) and person.asked:
            return {**place, "kind": "questions", "title": "", **_asked(stage.after)}
        if self.stopped and person.person not in self._playing:
            raise UsageError(STOPPED)
        note = stage.text if isinstance(stage, Tutorial) else ""
        number = self.people.num_ended(person.person, person.stage)
        return {**place, "note": note, "number": number, **await self._game(person, stage)}

    def answer(self, person: Person, answers: Mapping[str, str | int | None]) -> str | None:
        """Takes the answers of a person, or the word that a text was read, and goes on.

        **Returns:** why they cannot be accepted, in a sentence; `None` if they can.
        """
        if person.outcome is not None or person.stage >= len(self.plan.stage):
            return None
        stage = self.plan.stage[person.stage]
        if isinstance(stage, Consent):
            if answers.get("agree") != "yes":
                self._finish(person, "declined")
                return None
            self.people.note(person.person, "agreed")
        asked: Sequence[Question] = ()
        if isinstance(stage, Questions):
            asked = stage.question
        elif isinstance(stage, Games) and person.asked:
            asked = stage.after
        elif isinstance(stage, Games | Tutorial):
            return "The game comes first."
        unknown = set(answers) - {question.name for question in asked} - {"agree"}
        if unknown:
            return "There is no such question."
        for question in asked:
            if (problem := question.problem(answers.get(question.name))) is not None:
                return problem
        game = person.game if person.asked else -1
        given = {question.name: answers.get(question.name) for question in asked}
        self.people.answer(person.person, person.stage, game, given)
        for question in asked:
            if question.right is not None and str(given[question.name]) != question.right:
                self.people.note(person.person, "missed a check", question.name)
        if person.asked:
            self._next_game(person)
        else:
            self._next_stage(person)
        return None

    def order(self, person: int, stage: int) -> list[int]:
        """The order in which a person plays the games of a stage."""
        games = self.plan.stage[stage]
        assert isinstance(games, Games)
        numbers = list(range(len(games.game)))
        if games.order == "counterbalanced":
            first = (person - 1) % len(numbers)
            return numbers[first:] + numbers[:first]
        if games.order == "drawn":
            random.Random(f"{self.plan.seed}/{person}/{stage}").shuffle(numbers)
        return numbers

    def players(self, file: str) -> list[int]:
        """The people in a game."""
        return [person for person, (name, _) in self._playing.items() if name == file]

    async def close(self) -> None:
        """Ends the games that go on, which their people play anew when the server is back, and
        waits until everything is noted.
        """
        self._closing = True
        await self.hall.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check(self, game: PlannedGame) -> None:
        if game.layout not in self.hall.menu.layouts:
            known = ", ".join(self.hall.menu.layouts)
            raise UsageError(f"The plan has the layout {game.layout!r}; known are {known}.")
        names = {offer.name for offer in self.hall.menu.offers(game.layout).values()}
        agents = self.hall.menu.place(game.layout).env.num_agents
        for partner in filter(None, (game.partner, game.fallback)):
            if partner != PERSON and partner not in names:
                raise UsageError(
                    f"The plan has the partner {partner!r} in {game.layout!r}, where there are "
                    f"{', '.join(repr(name) for name in sorted(names))} and 'person'."
                )
        if game.seat != "drawn" and game.seat >= agents:
            seats = f"{game.layout!r} has {agents} seats, from 0"
            raise UsageError(f"The plan has the seat {game.seat}, but {seats}.")

    async def _game(self, person: Person, stage: Tutorial | Games) -> dict[str, Any]:
        """The game of a person, which goes on, or is opened now, or waits for another person."""
        if person.person in self._playing:
            return self._show_game(person)
        if person.person in self._opening:  # by another window, or by who came second
            return {"kind": "waiting", "seconds": 0}
        planned, number = self._planned(person, stage)
        if planned.partner != PERSON:
            await self._open(planned, [person], number, planned.partner)
            return self._show_game(person)
        queue = self._waiting.setdefault(f"{person.stage}/{number}", [])
        now = time.monotonic()
        queue[:] = [x for x in queue if self._is_there(x, now)]
        own = next((x for x in queue if x.person == person.person), None)
        other = next((x for x in queue if x.person != person.person), None)
        if other is not None:
            queue[:] = [x for x in queue if x.person not in (person.person, other.person)]
            pair = [self.people.get(other.person), person]
            await self._open(planned, pair, number, PERSON)
            return self._show_game(person)
        if own is None:
            own = _Waiting(person.person, now, now)
            queue.append(own)
            self.people.note(person.person, "waits")
        own.seen = now
        left = self.plan.patience - (now - own.since)
        if left > 0:
            return {"kind": "waiting", "seconds": round(left)}
        queue.remove(own)
        self.people.note(person.person, "nobody came")
        await self._open(planned, [person], number, planned.fallback)
        return self._show_game(person)

    def _is_there(self, waiting: _Waiting, now: float) -> bool:
        busy = waiting.person in self._playing or waiting.person in self._opening
        return not busy and now - waiting.seen < _SILENT

    def _planned(self, person: Person, stage: Tutorial | Games) -> tuple[PlannedGame, int]:
        if isinstance(stage, Tutorial):
            return stage.game, 0
        number = self.order(person.person, person.stage)[person.game]
        return stage.game[number], number

    def _show_game(self, person: Person) -> dict[str, Any]:
        name, token = self._playing[person.person]
        return {"kind": "game", "game": name, "token": token}

    async def _open(
        self, planned: PlannedGame, people: Sequence[Person], number: int, partner: str
    ) -> None:
        """Opens a game for one person, or for two in the first seats; all others are partners."""
        offers = self.hall.menu.offers(planned.layout)
        keys = {offer.name: key for key, offer in offers.items()}
        agents = self.hall.menu.place(planned.layout).env.num_agents
        seats = [keys[planned.fallback if partner == PERSON else partner]] * agents
        if len(people) > 1:
            own = list(range(len(people)))
        elif planned.seat == "drawn":
            drawn = f"{self.plan.seed}/{people[0].person}/{people[0].stage}/{number}"
            own = [random.Random(drawn).randrange(agents)]
        else:
            own = [planned.seat]
        for seat in own:
            seats[seat] = PERSON
        names = [f"person {x.person}" for x in people]
        numbers = {x.person for x in people}
        self._opening |= numbers
        try:
            file = await self.hall.open(planned.layout, seats, names, blinded=True)
        finally:
            self._opening -= numbers
        session = self.hall.sessions[file]
        for seat, person in zip(own, people, strict=True):
            token = session.tokens[seat]
            assert token is not None
            self._playing[person.person] = (file, token)
            self.people.begin_game(
                {
                    "person": person.person,
                    "stage": person.stage,
                    "game": person.game,
                    "attempt": self.people.num_ended(person.person, person.stage),
                    "name": planned.name or planned.partner,
                    "layout": planned.layout,
                    "partner": partner,
                    "seat": seat,
                    "file": file,
                }
            )
        task = asyncio.create_task(self._follow(file, session, [x.person for x in people]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, file: str, session: Session, people: Sequence[int]) -> None:
        """Waits for the end of a game, and notes it."""
        await session.over.wait()
        outcome = "finished" if session.game.finished else "left"
        score, steps = session.game.score, session.game.steps
        self.people.end_game(file, score, steps, outcome, session.latencies())
        for number in people:
            self._playing.pop(number, None)
            person = self.people.get(number)
            if person.outcome is None and not (self._closing and outcome == "left"):
                self._after_game(person, score, outcome)

    def _after_game(self, person: Person, score: float, outcome: str) -> None:
        stage = self.plan.stage[person.stage]
        if isinstance(stage, Games):
            if stage.after:
                self.people.move(person.person, person.stage, person.game, asked=True)
            else:
                self._next_game(person)
        elif isinstance(stage, Tutorial):
            if outcome == "finished" and score >= stage.score:
                self._next_stage(person)
            elif self.people.num_ended(person.person, person.stage) >= stage.attempts:
                self._finish(person, "failed")

    def _next_game(self, person: Person) -> None:
        stage = self.plan.stage[person.stage]
        assert isinstance(stage, Games)
        if person.game + 1 < len(stage.game):
            self.people.move(person.person, person.stage, person.game + 1)
        else:
            self._next_stage(person)

    def _next_stage(self, person: Person) -> None:
        self.people.move(person.person, person.stage + 1)
        if person.stage + 1 >= len(self.plan.stage):
            self._finish(person, "finished")

    def _finish(self, person: Person, outcome: str) -> None:
        self.people.end(person.person, outcome)
        self.people.note(person.person, outcome)

    def _end(self, person: Person) -> dict[str, Any]:
        outcome = person.outcome or "finished"
        found: dict[str, Any] = {"kind": "end", "outcome": outcome}
        if outcome == "finished":
            address = self.plan.redirect.replace("{id}", quote(person.id or "", safe=""))
            found |= {"code": self.plan.code, "redirect": address.replace("{code}", self.plan.code)}
        return found


def _texts(stage: Consent | Reading) -> dict[str, Any]:
    return {"title": stage.title, "text": stage.text}


def _asked(questions: Sequence[Question]) -> dict[str, Any]:
    """The questions, without the right answers to checks."""
    fields = ("name", "text", "kind", "points", "low", "high", "options", "optional")
    return {"questions": [{name: getattr(x, name) for name in fields} for x in questions]}
