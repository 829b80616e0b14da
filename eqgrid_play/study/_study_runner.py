"""Runs a study: decides what each person sees next, opens games, and records their ends."""

import asyncio
import contextlib
import dataclasses
import datetime
import json
import random
import re
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import final
from urllib.parse import quote

from eqgrid_lab.base import UsageError

from ..games import PERSON, GameServer, Rules, Session
from ._people import Cell, People, Person, Row, new_code, utc_now
from ._plan import FIELD, Ending, Plan
from ._stages import Consent, Games, Move, PlannedGame, Tutorial, is_blank

_SILENT = 10.0
"""A waiting person whose page is silent for this many seconds is not paired."""


@final
@dataclasses.dataclass
class _Waiting:
    """A waiting person: the stage, when the wait began, and when the page last sent a request."""

    stage: int
    since: float
    seen: float
    called: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


@final
class WaitingRoom:
    """People who wait for another person at the same stage."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        """**Arguments:**

        - `now`: returns the time in seconds, with any origin.
        """
        self._now = now
        self._waiting: dict[int, _Waiting] = {}

    def enter(self, person: int, stage: int) -> bool:
        """Records that a person waits at a stage.

        **Returns:** whether the person is new in the room, or returns after silence.
        """
        own, now = self._waiting.get(person), self._now()
        new = own is None or own.stage != stage or self._is_silent(own)
        if new or own is None:
            own = self._waiting[person] = _Waiting(stage, now, now)
        own.seen = now
        return new

    def leave(self, person: int) -> None:
        """Removes a person from the room, and ends the person's `wait`."""
        own = self._waiting.pop(person, None)
        if own is not None:
            own.called.set()

    def waited(self, person: int) -> float:
        """The number of seconds that a person has waited; 0 for a person who does not wait."""
        own = self._waiting.get(person)
        return 0.0 if own is None else self._now() - own.since

    def others(self, stage: int, busy: Collection[int]) -> list[int]:
        """The people who wait at a stage, the longest wait first. Silent people are left out.

        **Arguments:**

        - `stage`: the stage.
        - `busy`: people to leave out.
        """
        found = [
            (own.since, other)
            for other, own in self._waiting.items()
            if other not in busy
            if own.stage == stage and not self._is_silent(own)
        ]
        return [other for _, other in sorted(found)]

    async def wait(self, person: int, seconds: float) -> None:
        """Waits until a person leaves the room, for at most `seconds`. Returns immediately if the
        person is not in the room.
        """
        own = self._waiting.get(person)
        if own is not None:
            end = self._now() + seconds
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(own.called.wait(), seconds)
            own.seen += max(0.0, self._now() - end)  # the server stood still, not the page

    def _is_silent(self, own: _Waiting) -> bool:
        return self._now() - own.seen >= _SILENT


FULL = "All places are taken. Please come back in a few minutes."
NO_ID = "This link does not contain your id. Please use the link that you received."
STOPPED = "The study has been stopped. Thank you for your interest."
_ENDINGS = {
    "finished": "You have reached the end. Thank you for taking part!",
    "excluded": "Thank you for your interest.",
    "declined": "You chose not to take part. You can close this page.",
    "failed": "The study ends here for you, because you did not pass the tutorial.",
    "left": "You have stopped taking part. Thank you for your time.",
    "expired": "The time for this study is over. Thank you for your time.",
    "stopped": STOPPED,
}
_MISSED = "missed a check"  # the event of a wrong answer to an attention check
_REASONS = {
    "browser": "This study does not work in your browser: please open your link in {browsers}.",
    "screen": "This study needs a screen of at least {screen} pixels: please open your link on a "
    "larger screen, such as the screen of a computer.",
    "latency": "Your connection is too slow for the games of this study: please reload this page "
    "with a better connection, for example without a VPN or a download.",
}
"""Sentences for people who are excluded by `Plan.entry`."""
_ABSENT = 90.0
"""A person without a request for this many seconds no longer counts as present."""
_ALONE = (60.0, 60.0, 600.0)
"""`Rules.patience` of a game with one person."""
_TOGETHER = (30.0, 20.0, 60.0)
"""`Rules.patience` of a game of several people, who wait for each other."""
_NOTE_AGAIN, _MOST_ATTEMPTS = 1.0, 5
"""The seconds between two attempts to record a result, and the most attempts while the server
closes, after the first one.
"""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.3, 5.0
"""The minimum and maximum duration of the long-poll of a waiting page, in seconds."""


@final
class StudyRunner:
    """A running study.

    Only the running games and the waiting people are in memory. All other state is in the database,
    so people continue at the same place after a restart of the server.

    **Arguments:**

    - `plan`: the plan, which `check_plan` has accepted.
    - `people`: the database.
    - `server`: the games.
    - `now`: returns the time in seconds, with any origin, for people who wait.
    """

    def __init__(
        self,
        plan: Plan,
        people: People,
        server: GameServer,
        now: Callable[[], float] = time.monotonic,
    ):
        self.plan, self.people, self.server = plan, people, server
        self._bonus_stages = [i for i, x in enumerate(plan.stage) if isinstance(x, Games)]
        self._room = WaitingRoom(now)
        self._closing = False
        # All by the number of the person.
        self._playing: dict[int, tuple[str, str]] = {}  # the file of the game, the seat's token
        self._opening: set[int] = set()
        self._clients: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def stopped(self) -> bool:
        """Whether the study is stopped: nobody can join, and no new game begins."""
        return self.people.fact("stopped") is not None

    def stop(self, on: bool) -> None:
        """Stops the study (`on`), or continues it."""
        if on != self.stopped:
            with self.people.transaction():
                self.people.set_fact("stopped", "yes" if on else None)
                self.people.note(None, "stopped" if on else "goes on")
                if not on:
                    self.people.reopen_stopped()

    def join(
        self,
        id: str | None,
        token: str,
        parameters: Mapping[str, str] = MappingProxyType({}),
        client: str = "",
        excluded: str = "",
        latency_ms: float | None = None,
    ) -> Person:
        """Returns the person with this token. If the plan has `id_once`, returns an earlier person
        with this id. Otherwise, adds a new person.

        **Arguments:**

        - `id`: the id in the address, if any.
        - `token`: the secret token of the page.
        - `parameters`: the other parameters of the address.
        - `client`: the network address.
        - `excluded`: the reason of `Plan.entry`, if any. A person can come back without one.
        - `latency_ms`: the latency that the page has measured.

        **Raises:** `UsageError` when the study is full or stopped, too many people of the same
        network address take part, or the id is missing and the plan has `id_once`.
        """
        person, id = self.people.find(token), (id or "").strip() or None
        before = self.people.first(id)
        if person is None and self.plan.id_once:
            if id is None:
                raise UsageError(NO_ID)
            if before is not None:
                with self.people.transaction():
                    self.people.add_token(before.person, token)
                    self.people.note(before.person, "came back", "in another browser")
                person = before
        if person is not None and person.reason not in _REASONS:
            return person
        if person is None or not excluded:
            self._check_room(client)
        with self.people.transaction():
            if person is None:
                kept = {name: x for name, x in parameters.items() if name in self.plan.parameters}
                person = self.people.join(id, token, kept)
                self.people.note(person.person, "joined", "a repeated id" if before else "")
            if excluded:
                self._finish(person, "excluded", excluded)
            else:
                self.people.enter(person.person, latency_ms)
                self.people.record_request(person.person)
        self._clients[person.person] = client
        return self.people.get(person.person) or person

    def _check_room(self, client: str) -> None:
        """**Raises:** `UsageError` when nobody can join, or nobody else of a network address."""
        if self.stopped:
            raise UsageError(STOPPED)
        present = self.people.present(_ABSENT) | self._playing.keys()
        if len(present) >= self.plan.most_people:
            raise UsageError(FULL)
        clients = [self._clients.get(x) for x in present]
        if client and clients.count(client) >= self.server.most_per_client:
            raise UsageError(
                "Too many people on your network are taking part. Please come back later."
            )

    def place(self, person: Person) -> str:
        """A key for the person's position in the plan. A page sends the key with its answers, so a
        late answer is not stored for another position.
        """
        return f"{person.stage}.{person.game}.{int(person.asked)}"

    async def wait(self, person: Person) -> None:
        """Returns when a waiting person has a game, or after some seconds."""
        if person.person in self._opening:
            await asyncio.sleep(_SHORTEST_WAIT)
        else:
            await self._room.wait(person.person, _LONGEST_WAIT)

    async def show(self, person: Person) -> dict[str, object]:
        """The content of the page of a person: a text, questions, a game, a wait, or the end.

        **Raises:** `UsageError` and `OSError` when a game cannot be opened.
        """
        found = await self._page(person)
        in_games = found["kind"] != "end" and self.plan.stage[person.stage].games
        game = person.game if in_games else -1
        self.people.show(person.person, person.stage, game, str(found["kind"]))
        return found

    async def _page(self, person: Person) -> dict[str, object]:
        if person.outcome is not None or person.stage >= len(self.plan.stage):
            while self.plan.bonus and person.person in self._playing:  # until the score is recorded
                await asyncio.sleep(_SHORTEST_WAIT)
            return self._last_page(self.people.get(person.person) or person)
        if (outcome := self._forced_outcome(person)) is not None:
            self._finish(person, outcome)
            return self._last_page(self.people.get(person.person) or person)
        self.people.record_request(person.person)
        stage = self.plan.stage[person.stage]
        done = (person.game + person.asked / 2) / max(1, len(stage.games))
        progress = (person.stage + done) / len(self.plan.stage)
        page = stage.page(person.game, person.asked)
        if page["kind"] == "game":
            page = await self._current_game(person, page)
        return {"at": self.place(person), "progress": progress, **page}

    def answer(self, person: Person, answers: Mapping[str, str | int | None]) -> str | None:
        """Stores the answers of a person, and moves the person to the next page. A text has no
        answers.

        **Returns:** a sentence that explains why the answers are not valid; `None` if they are
        valid.
        """
        if person.outcome is not None or person.stage >= len(self.plan.stage):
            return None
        stage = self.plan.stage[person.stage]
        page = stage.page(person.game, person.asked)
        if page["kind"] == "game":
            return "Please play the game first."
        asked = stage.questions
        if set(answers) - {question.name for question in asked} - {"agree"}:
            return "There is no such question."
        for question in asked:
            if (problem := question.problem(answers.get(question.name))) is not None:
                return problem
        with self.people.transaction():
            given = {question.name: answers.get(question.name) for question in asked}
            given = {name: None if is_blank(x) else x for name, x in given.items()}
            game = person.game if person.asked else -1
            wrong = [x for x in asked if x.right is not None and given[x.name] != x.right]
            reason = next((f"question {x.name}" for x in wrong if x.exclude), "")
            given = {} if reason else given
            self.people.answer(person.person, person.stage, game, given, str(page["kind"]))
            if reason:
                self._finish(person, "excluded", reason)
                return None
            move = stage.after_answers(answers)
            if page["kind"] == "consent" and move == "next":
                self.people.note(person.person, "agreed")
            for question in wrong:
                self.people.note(person.person, _MISSED, question.name)
            self._move(person, move)
        return None

    def leave(self, person: Person) -> None:
        """Ends the study, and the current game, for a person who stops taking part."""
        if person.outcome is not None or person.stage >= len(self.plan.stage):
            return
        with self.people.transaction():
            self._finish(person, "left")
        if person.person in self._playing:
            file, token = self._playing[person.person]
            session = self.server.sessions[file]
            session.leave([session.tokens.index(token)], "left")

    def order(self, person: int, stage: int) -> list[int]:
        """The order in which a person plays the games of a stage.

        A person gets an order on reaching the stage. If the person leaves, another person gets this
        order, so all orders remain equally frequent. In a stage with games of several people,
        people who arrive together have the same order. A person may still play a later game first
        if another person waits for this game.
        """
        own = self.plan.stage[stage]
        indices = list(range(len(own.games)))
        if not own.order:
            return indices
        if (known := self.people.order(person, stage)) is not None:
            return known
        people = max((x.people for x in own.games if x.partner == PERSON), default=1)
        present = self.people.present(_ABSENT) | self._playing.keys()
        if own.order == "counterbalanced":
            turn = self.people.turn(person, stage, present, len(indices), people)
            first = turn % len(indices)
            indices = indices[first:] + indices[:first]
        elif own.order == "drawn":
            drawn = self.people.turn(person, stage, present, 1, people) if people > 1 else person
            random.Random(f"{self.plan.seed}/{drawn}/{stage}").shuffle(indices)
        names = [own.games[x].name or own.games[x].partner for x in indices]
        self.people.assign(person, stage, indices, names)
        return indices

    def players(self, file: str) -> list[int]:
        """The numbers of the people in a running game."""
        return [person for person, (name, _) in self._playing.items() if name == file]

    def overview(self) -> list[Row]:
        """The rows of the table `people`, with further columns for the experimenter.

        - `away`: whether the page of a person who has not reached the end is not connected.
        - `order`: the names of the games in the assigned order.
        - `missed`: the number of wrong answers to attention checks.
        - `file`, `watch`, `game`, `score`: the running game, if any: its file, the token of
            watching, its name and step, and the score of the person.
        """
        present = self.people.present(_ABSENT)
        orders: dict[int, list[str]] = {}
        for order in self.people.rows("orders"):
            orders.setdefault(order["person"], []).extend(json.loads(order["names"]))
        missed = Counter(x["person"] for x in self.people.rows("events") if x["event"] == _MISSED)
        games = {x["file"]: f"{x['name']} ({x['layout']})" for x in self.people.rows("games")}
        rows = self.people.rows("people")
        for row in rows:
            who = row["person"]
            row["order"] = orders.get(who, [])
            row["away"], row["missed"] = row["outcome"] is None and who not in present, missed[who]
            if row["outcome"] is None and who in self._playing:
                file, token = self._playing[who]
                session = self.server.sessions[file]
                seat, game = session.tokens.index(token), session.game
                row["away"] = bool(session.conduct(seat).absent)
                row |= {"game": f"{games[file]}, step {game.steps}", "score": game.scores[seat]}
                row |= {"file": file, "watch": session.watch_token}
        return rows

    async def close(self) -> None:
        """Ends the running games, and waits until their results are recorded. People play these
        games again after a restart of the server.
        """
        self._closing = True
        await self.server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- Games ------------------------------------------------------------------------------

    async def _current_game(self, person: Person, page: dict[str, object]) -> dict[str, object]:
        """Completes the page of a game: the running game of a person, a game that is opened now,
        or a wait for another person.
        """
        me = person.person
        opening = me in self._opening  # by another window, or by a partner who arrived later
        if not opening and me not in self._playing:
            await self._start_game(person)
        if me not in self._playing:
            return {"kind": "waiting", "text": self.plan.waiting}
        file, token = self._playing[me]
        note = f"{self._failure(person)} {page['note']}".strip()
        return {**page, "game": file, "token": token, "note": note}

    def _failure(self, person: Person) -> str:
        """As `Tutorial.failure`, for a person who has failed a tutorial; empty for all others."""
        stage = self.plan.stage[person.stage]
        scores = self.people.played(person.person, person.stage, "score")
        return stage.failure(scores) if isinstance(stage, Tutorial) and scores else ""

    async def _start_game(self, person: Person) -> None:
        """Opens the next game of a person, if possible.

        A game for which enough other people wait comes first. If the person's next game needs other
        people, the person waits. After `Plan.patience` seconds, the game begins with the people who
        are present, or with the fallback partner.
        """
        me, index = person.person, self._games_left(person)[0]
        games = self.plan.stage[person.stage].games
        planned = games[index]
        with_people = planned.partner == PERSON
        if with_people and self._room.enter(me, person.stage):
            self.people.note(me, "waits")
        for shared, people in self._groups(person):
            if len(people) == games[shared].people:
                await self._open(people, shared, PERSON)
                return
        if not with_people:
            await self._open([person], index, planned.partner)
            return
        if self._room.waited(me) < self.plan.patience:
            return
        people = dict(self._groups(person))[index]
        await self._open(people, index, PERSON if len(people) > 1 else planned.fallback)
        self.people.note(me, "too few came" if len(people) > 1 else "nobody came")

    def _games_left(self, person: Person) -> list[int]:
        """The games of a stage that a person has not yet played, in order. The only game of a
        stage is always left, since a person can play a tutorial several times.
        """
        order = self.order(person.person, person.stage)
        played = self.people.played(person.person, person.stage)
        return [index for index in order if index not in played] or order

    def _groups(self, person: Person) -> Iterator[tuple[int, list[Person]]]:
        """Yields the games that a person could play now with people who wait: the index of each
        game, and a group for it. A game qualifies if the person has not played it, and if it is the
        next game of at least one of these people.

        The group is this person and the people with the longest waits who also have the game left,
        within `Plan.partner_latency`. It may be too small. Browsers with the same id are one
        person.
        """
        busy = {person.person, *self._playing, *self._opening}
        found = (self.people.get(who) for who in self._room.others(person.stage, busy))
        candidates = [*(x for x in found if x is not None), person]
        stage = self.plan.stage[person.stage]
        # In a fixed order, only the next game of each person is possible.
        most = 1 if stage.order == "fixed" else None
        left = {x.person: self._games_left(x)[:most] for x in candidates}
        for index in dict.fromkeys(games[0] for games in left.values()):
            planned = stage.games[index]
            if planned.partner != PERSON or index not in left[person.person]:
                continue
            others: dict[str | int, Person] = {}
            for x in candidates:
                if index in left[x.person] and (x.id is None or x.id != person.id):
                    others.setdefault(x.id or x.person, x)
            others.pop(person.person, None)
            group, most = [person], self.plan.partner_latency
            for x in others.values():
                is_near = not most or all(x.latency_ms + y.latency_ms <= most for y in group)
                if is_near and len(group) < planned.people:
                    group.append(x)
            yield index, [*group[1:], person]

    async def _open(self, people: Sequence[Person], index: int, partner: str) -> None:
        """Opens a game for one or several people, and records the seat of each person."""
        at, ids = people[0].stage, [x.person for x in people]
        stage = self.plan.stage[at]
        planned = stage.games[index]
        own_seats, seats = self._seats(people, planned, index, partner)
        names = [f"person {who}" for _, who in sorted(zip(own_seats, ids, strict=True))]
        waited = [round(self._room.waited(who), 3) for who in ids]
        keys = any(x.keys for x in self.plan.stage[:at])
        patience = _ALONE if len(people) == 1 else _TOGETHER
        goal = stage.score if stage.score > 0 else None
        rules = Rules(free=False, patience=patience, goal=goal, keys=keys)
        self._opening |= {*ids}
        try:
            file = await self.server.open(planned.layout, seats, names, rules)
        finally:
            self._opening -= {*ids}
        session = self.server.sessions[file]
        now = [self.people.get(x) for x in ids]
        if any(x is None or x.outcome is not None for x in now):
            session.leave()  # a person stopped taking part while the game was being opened
            return
        try:
            with self.people.transaction():
                for seat, person, seconds in zip(own_seats, people, waited, strict=True):
                    row: dict[str, Cell] = {
                        "person": person.person,
                        "stage": at,
                        "game": person.game,
                        "number": index,
                        "attempt": self.people.played(person.person, at).count(index),
                        "name": planned.name or planned.partner,
                        "layout": planned.layout,
                        "partner": partner,
                        "people": len(people),
                        "seat": seat,
                        "file": file,
                        "waited_s": seconds,
                    }
                    self.people.begin_game(row)
        except sqlite3.Error:
            session.leave()  # the game has no row, so its result could not be stored
            raise
        for seat, who in zip(own_seats, ids, strict=True):
            token = session.tokens[seat]
            assert token is not None
            self._playing[who] = (file, token)
            self._room.leave(who)
        ending = self._await_end(file, session, dict(zip(ids, own_seats, strict=True)))
        task = asyncio.create_task(ending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _seats(
        self, people: Sequence[Person], planned: PlannedGame, index: int, partner: str
    ) -> tuple[list[int], list[str]]:
        """The seat of each person, and the player in each seat as `GameServer.open` expects it."""
        offers = self.server.menu.offers(planned.layout)
        keys = {offer.name: key for key, offer in offers.items()}
        agents = self.server.menu.place(planned.layout).env.num_agents
        seats = [keys[planned.fallback if partner == PERSON else partner]] * agents
        if planned.seat == "drawn":
            # The same people in the same game always get the same seats.
            parts = (self.plan.seed, *(x.person for x in people), people[0].stage, index)
            seed = "/".join(map(str, parts))
            own = random.Random(seed).sample(range(agents), len(people))
        else:
            own = [planned.seat]
        for seat in own:
            seats[seat] = PERSON
        return own, seats

    async def _await_end(self, file: str, session: Session, seats: Mapping[int, int]) -> None:
        """Waits for the end of a game and records it. A game without steps, or a game that was
        interrupted because the server closed, does not count, and its people play it again.
        """
        await session.over.wait()
        ended = utc_now()
        if session.finished and not session.broken:
            outcome = "finished"
        elif self._closing or session.broken:
            outcome = "cut"
        else:
            outcome = "left" if session.game.steps else "not begun"
        rows = {seat: {"ended": ended, **_conduct_row(session, seat)} for seat in seats.values()}
        attempts = 0
        while True:
            try:
                self._record_end(file, session, seats, outcome, rows)
                break
            except sqlite3.Error as error:
                attempts += 1
                if attempts == 1:
                    why = f"the end of {file} cannot be recorded yet: {error}"
                    print(f"error: {why}", file=sys.stderr)
            if self._closing and attempts > _MOST_ATTEMPTS:
                break
            await asyncio.sleep(_NOTE_AGAIN)
        for who in seats:
            self._playing.pop(who, None)

    def _record_end(
        self,
        file: str,
        session: Session,
        seats: Mapping[int, int],
        outcome: str,
        rows: Mapping[int, Mapping[str, Cell]],
    ) -> None:
        """Writes the end of a game to the database, and moves its people on."""
        scores, finished = session.game.scores, outcome == "finished"
        with self.people.transaction():
            self.people.end_game(file, scores, session.game.steps, outcome, rows)
            for who, seat in seats.items():
                if (bonus := self.plan.bonus) is not None:
                    self.people.set_bonus(who, self._bonus_stages, bonus.per_point, bonus.most)
                person = self.people.get(who)
                if person is None or person.outcome or outcome not in ("finished", "left"):
                    continue
                played = len(self.people.played(who, person.stage))
                stage = self.plan.stage[person.stage]
                self._move(person, stage.after_game(scores[seat], finished, played))

    # ---- Progress through the plan ----------------------------------------------------------

    def _move(self, person: Person, move: Move) -> None:
        """Moves a person to another place, or to the end."""
        if move == "questions":
            self.people.move(person.person, person.stage, person.game, asked=True)
        elif move == "next" and person.game + 1 < len(self.plan.stage[person.stage].games):
            self.people.move(person.person, person.stage, person.game + 1)
        elif move == "next":
            self.people.move(person.person, person.stage + 1)
            if person.stage + 1 >= len(self.plan.stage):
                self._finish(person, "finished")
        elif move != "again":
            self._finish(person, move)

    def _forced_outcome(self, person: Person) -> str | None:
        """The outcome of a person who cannot continue: `expired` if no time is left, `stopped` if
        the next game cannot begin in a stopped study. `None` for all other people.
        """
        if person.person in self._playing or person.person in self._opening:
            return None
        now = datetime.datetime.now(datetime.UTC)
        minutes = (now - datetime.datetime.fromisoformat(person.started)).total_seconds() / 60
        if 0 < self.plan.most_minutes < minutes:
            return "expired"
        page = self.plan.stage[person.stage].page(person.game, person.asked)
        return "stopped" if page["kind"] == "game" and self.stopped else None

    def _finish(self, person: Person, outcome: str, reason: str = "") -> None:
        self._room.leave(person.person)
        code = self._ending(outcome).code
        if outcome == "finished":
            code = code or new_code()
        self.people.end(person.person, outcome, code, reason)
        self.people.note(person.person, outcome, reason)

    def _ending(self, outcome: str) -> Ending:
        if outcome == "finished":
            return Ending(code=self.plan.code, redirect=self.plan.redirect)
        return self.plan.ending.get(outcome, Ending())

    def _last_page(self, person: Person) -> dict[str, object]:
        outcome = person.outcome or "finished"
        ending = self._ending(outcome)
        failure = self._failure(person) if outcome == "failed" else ""
        fields = {**person.parameters, "id": person.id or "", "code": person.code}
        texts = [failure, self._explanation(person), ending.text or _ENDINGS[outcome]]
        if self.plan.bonus and person.bonus is not None:
            texts.append(f"Your bonus is {person.bonus:.2f} {self.plan.bonus.currency}.")
        return {
            "kind": "end",
            "outcome": outcome,
            "text": "\n\n".join(filter(None, texts)),
            "code": person.code,
            "copy": self._consent_copy(person),
            # Each {field} in the address is replaced by its value, encoded for a URL.
            "redirect": re.sub(
                FIELD, lambda field: quote(fields.get(field[1], ""), safe=""), ending.redirect
            ),
        }

    def _explanation(self, person: Person) -> str:
        """A sentence for an excluded person that says why; empty for all others."""
        if not person.reason:
            return ""
        if person.reason in _REASONS:
            browsers = " or ".join(map(str.capitalize, self.plan.entry.browsers))
            screen = " by ".join(map(str, self.plan.entry.screen))
            return _REASONS[person.reason].format(browsers=browsers, screen=screen)
        asked = self.plan.stage[person.stage].questions
        text = next(x.text for x in asked if f"question {x.name}" == person.reason)
        return f"Because of your answer to “{text}”, the study ends here."

    def _consent_copy(self, person: Person) -> str:
        """The consent pages that a person has answered, for the person to keep."""
        parts = [f"{self.plan.title} (participant {person.person})"]
        for number, at in self.people.consents(person.person).items():
            if isinstance(stage := self.plan.stage[number], Consent):
                declined = (person.outcome, person.stage) == ("declined", number)
                answer = "I do not take part" if declined else stage.agree
                time = at[:16].replace("T", " ")
                parts += [stage.title, stage.text.strip(), f"Answer: {answer} ({time} UTC)"]
        return "\n\n".join(parts) if len(parts) > 1 else ""


def _conduct_row(session: Session, seat: int) -> dict[str, Cell]:
    """The end of a game and the conduct of a person in it, as columns of the table `games`."""
    own = session.conduct(seat)
    left = [x for other in session.left if (x := session.conduct(other).left) is not None]
    left_how = ", ".join(how for how, _ in left) or None
    return {
        "reason": _end_reason(session) or left_how or "server",
        "left_by": ", ".join(map(str, session.left)) or None,
        "left_how": left_how,
        "left_s": min((at for _, at in left if at is not None), default=None),
        "latency_ms": session.latencies()[seat],
        "actions": own.actions,
        "longest_idle_s": round(own.longest_idle * session.period, 3),
        "disconnections": own.disconnections,
        "reloads": own.reloads,
        "hidden": own.hidden,
        "hidden_s": round(own.hidden_s, 3),
    }


def _end_reason(session: Session) -> str:
    """Why a game ended, as in the table `games`; empty for a game that was left or stopped."""
    if session.broken:
        return "disk"
    if not session.finished:
        return ""
    return "episode" if session.game.finished else "goal"
