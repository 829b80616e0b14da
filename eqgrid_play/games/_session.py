"""Sessions: live games with their clock, and the pages that are connected to them."""

import asyncio
import contextlib
import math
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import NamedTuple, final

import msgspec

from eqgrid.grid import agent_colours
from eqgrid_lab.base import reason
from eqgrid_lab.worlds import kitchen_layout

from ._ahead import steps_ahead
from ._display import QUIET, display, score_texts
from ._journal import EventLine, FrameLine, KeyLine
from ._live_game import Conduct, LiveGame
from ._menu import Place
from ._messages import (
    WATCHER,
    Frame,
    FromPage,
    Hidden,
    Hold,
    Key,
    Leave,
    Opening,
    Pause,
    Press,
    Refusal,
    Screen,
    Shown,
    Status,
    TileSheet,
    ToPage,
    to_text,
    whole_frame,
)


@final
class Clock:
    """Ticks at a fixed rate.

    A tick that comes late does not move the ticks after it: they follow at least half a period
    apart, until they are on time again. People therefore never see two steps at once. A tick that
    is more than a second late moves all ticks after it, and people see a pause.
    """

    def __init__(
        self,
        ticks_per_second: float,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        """**Arguments:**

        - `ticks_per_second`: the rate.
        - `now`: returns the time in seconds, with any origin.
        - `sleep`: waits for some seconds.
        """
        self.period = 1 / ticks_per_second
        self._now, self._sleep = now, sleep

    async def ticks(self) -> AsyncIterator[float]:
        """Yields how long each tick came after the moment for which it was planned, in seconds. The
        first tick comes after one period.
        """
        due = planned = self._now() + self.period
        while True:
            await self._sleep(max(0.0, planned - self._now()))
            now = self._now()
            yield max(0.0, now - planned)
            due = self.period + (now if now - due > _LONGEST_DELAY else due)
            planned = max(due, now + self.period / 2, self._now())


_LONGEST_DELAY = 1.0
"""By how many seconds a tick may be late before it moves the ticks after it."""


_LONGEST_QUEUE = 120
_MOST_LATENCIES = 20_000
_SLOW = 50.0
"""The latency from which a page gets steps ahead, in milliseconds."""
_LATE = 0.02
"""A server whose steps are late by this many seconds has no time for steps ahead."""
_SILENT = 3.0
"""A page without a message for this many seconds counts as lost, even if its connection is open.
Pages send a message every two seconds.
"""
_UNHEARD = (
    "The server has not heard from this page for some seconds, so the game is paused. It continues "
    "when the connection is back."
)
_POLL_SECONDS = 0.25
"""A waiting game checks for lost connections after at most this many seconds."""
_AFTER_STANDSTILL = 10.0
"""If the server stood still for more than `_LONGEST_DELAY`, as on a busy machine after a restart,
connections that are lost in the next seconds do not count as lost by people: a page connects again
if nothing comes from the server for some seconds.
"""
_GONE, _NOT_JOINED, _IDLE = range(3)
"""Indices of `Rules.patience`."""


@final
class Page:
    """A connected page.

    Messages wait in a queue, so that a slow connection never delays the game.

    **Arguments:**

    - `seat`: the seat of the page, or `WATCHER`.
    - `heard`: the time of its last message.
    """

    def __init__(self, seat: int, heard: float):
        self.seat, self.heard, self.screen = seat, heard, Screen()
        self.waiting: asyncio.Queue[str | None] = asyncio.Queue(_LONGEST_QUEUE)
        self.latency = 0.0
        """The latency of the last frame that the page has shown, in milliseconds."""
        self._sent: dict[int, tuple[int, float]] = {}  # frames that the page has not yet shown

    def number_frame(self, step: int, now: float) -> int:
        """A number for the frame after a step, which is sent now. The number is random, so that a
        page cannot return it before the frame has arrived.
        """
        number = 1 + secrets.randbelow(2**31 - 1)
        self._sent[number] = step, now
        if len(self._sent) > _LONGEST_QUEUE:
            del self._sent[next(iter(self._sent))]
        return number

    def take_frame(self, number: int) -> tuple[int, float] | None:
        """The step and the time of the frame with this number; `None` for an unknown number, or one
        that was returned before.
        """
        return self._sent.pop(number, None)

    def post(self, message: ToPage) -> bool:
        """Queues a message. **Returns:** whether the queue had room for the message."""
        try:
            self.waiting.put_nowait(to_text(message))
        except asyncio.QueueFull:
            return False
        return True

    def close(self) -> None:
        """Ends the connection after the queued messages."""
        while self.waiting.full():  # drop a message to make room for the end marker
            self.waiting.get_nowait()
        self.waiting.put_nowait(None)


@final
class Rules(NamedTuple):
    """The rules of a game for its people.

    - `free`: whether people may pause and end the game, and see the names of their partners.
    - `patience`: the number of seconds for which the game waits for people who lost the connection,
        for people who have never connected, and for connected people who have not pressed a key.
    - `goal`: the score at which the game ends; `None` to play to the end of the episode.
    - `keys`: whether key presses and releases are recorded with the clock times of the page.
    """

    free: bool = True
    patience: tuple[float, float, float] = (60.0, 600.0, 1800.0)
    goal: float | None = None
    keys: bool = False


FREE = Rules()
"""The rules of a game outside a study."""


@final
class Session:
    """A game with its clock and its pages.

    The game begins when every person has pressed a key or button. It waits while a person has
    paused it. It also waits for a person who is not connected, until this person is back and has
    pressed a key or button. A page without messages makes the game wait too, since a connection can
    be lost without being closed.
    """

    def __init__(
        self,
        place: Place,
        names: Sequence[str],
        game: LiveGame,
        tiles: TileSheet,
        clock: Clock,
        rules: Rules = FREE,
        now: Callable[[], float] = time.perf_counter,
        best: MutableMapping[Place, float] | None = None,
    ):
        """**Arguments:**

        - `place`: the world.
        - `names`: the name of the player in each seat, as shown to people.
        - `game`: the game before its first step.
        - `tiles`: the pictures of cells, which sessions may share.
        - `clock`: the clock.
        - `rules`: the rules for people.
        - `now`: returns the time in seconds, with any origin.
        - `best`: the best mean return of people in each world, which the game updates.
        """
        self.place, self.names, self.game = place, list(names), game
        self.tokens = [None if hands is None else secrets.token_urlsafe(16) for hands in game.hands]
        self.watch_token = secrets.token_urlsafe(16)
        self._latencies: dict[int, list[float]] = {}
        self.over = asyncio.Event()
        self.period, self._rate = clock.period, round(1 / clock.period, 3)
        self._tiles, self._clock, self._rules, self._now = tiles, clock, rules, now
        self._pages: list[Page] = []
        self._compiled, self._changed = False, asyncio.Event()
        self._waited_seconds = [0.0, 0.0, 0.0]  # for each reason in `Rules.patience`
        self._ready: set[int] = set()  # seats that have pressed a key since they connected
        self._joined: set[int] = set()  # seats that have connected at least once
        self._paused_by: int | None = None
        self._ended_early, self._has_next = False, False
        self.left: tuple[int, ...] = ()
        self._started: float | None = None
        self._last_waits: dict[int, str] | None = None  # `_waited_for` as of the last message
        self._waits_since: dict[int, float | None] = {}
        self._best = {} if best is None else best
        self._best_before: float | None = None  # as of the end of the game
        self._error: OSError | None = None  # the reason why the game cannot be recorded
        # When the server last ran this game, and when it last stood still.
        self._ran, self._stood_still = now(), -math.inf
        self._is_late = False  # whether the last step came late

    def seat_of(self, token: str) -> int | None:
        """The seat of a token: `WATCHER` for `watch_token`, and `None` for an unknown token."""
        for seat, own in enumerate(self.tokens):
            if own is not None and secrets.compare_digest(own.encode(), token.encode()):
                return seat
        known = secrets.compare_digest(self.watch_token.encode(), token.encode())
        return WATCHER if known else None

    def connect(self, seat: int) -> Page:
        """Connects a page and sends it the game. An older page of the same seat gets a last message
        and is disconnected.
        """
        for other in [x for x in self._pages if x.seat == seat != WATCHER]:
            other.post(Status("replaced", "This game continues in another window."))
            self.disconnect(other, "replaced")
        page = Page(seat, self._now())
        if seat != WATCHER and (hands := self.game.hands[seat]) is not None:
            hands.conduct.connect()
        self._joined.add(seat)
        self._pages.append(page)
        page.post(self._opening(seat))
        self._send_frame(page, self._frame())
        self._changed.set()
        self._send_status()
        return page

    def disconnect(self, page: Page, why: str = "lost") -> None:
        """Ends the connection of a page; for `why`, see `Conduct.absent`."""
        if page not in self._pages:
            return
        self._pages.remove(page)
        page.close()
        hands = None if page.seat == WATCHER else self.game.hands[page.seat]
        if hands is not None:
            hands.release()
            if not (self.over.is_set() or self._ended()):
                hands.conduct.disconnect(why, self._now(), excused=self._is_slow())
        self._ready.discard(page.seat)
        self._changed.set()

    def hear(self, page: Page) -> None:
        """Records the time of a message of a page, of any kind."""
        was_silent = self._is_silent(page)
        page.heard = self._now()
        if page.seat != WATCHER and (hands := self.game.hands[page.seat]) is not None:
            hands.hear()
        if was_silent:
            self._changed.set()

    def receive(self, page: Page, message: FromPage) -> None:
        """Handles a message of a page. Messages of watchers have no effect."""
        if page.seat == WATCHER or page not in self._pages or self.over.is_set():
            return
        hands = self.game.hands[page.seat]
        assert hands is not None
        try:
            key = self._note(page, message)
        except OSError as error:
            self._error = error
            self._changed.set()
            return
        if isinstance(message, Hidden):
            hands.conduct.hide(message.on, self._now())
        elif isinstance(message, Press | Hold):
            if not self._is_known(message):
                page.post(Refusal("There is no such action."))
            elif self._paused_by is not None:
                return
            elif isinstance(message, Hold):
                hands.hold(message.choice, message.action, message.number)
            else:
                hands.press(message.choice, message.action, message.number, key)
                if page.seat not in self._ready:
                    self._ready.add(page.seat)
                    self._changed.set()
                    self._send_status()
        elif isinstance(message, Leave) and self._rules.free:
            self.leave([page.seat], "ended")
        elif isinstance(message, Pause) and self._rules.free:
            self._paused_by = page.seat if message.on else None
            for own in self.game.hands:
                if own is not None:
                    own.release()
            self._changed.set()
            self._send_status()

    def _note(self, page: Page, message: FromPage) -> int | None:
        """Records a key or a frame that was shown in the journal.

        **Returns:** the number of the key in the journal, if it was recorded.

        **Raises:** `OSError` when the journal cannot be written.
        """
        if isinstance(message, Shown) and (sent := page.take_frame(message.frame)) is not None:
            step, since = sent
            latency = page.latency = round(1000 * (self._now() - since), 3)
            if latency >= _SLOW and not self.game.steps:
                steps_ahead(self.place, self.game, self._tiles)  # which begins to compile them
            own = self._latencies.setdefault(page.seat, [])
            if len(own) < _MOST_LATENCIES:
                own.append(latency)
            after = math.inf if message.after is None else round(message.after, 3)
            shown, time = after if after <= latency else None, self._game_time(since)
            self.game.note(FrameLine(step, page.seat, time, latency, shown, message.focus))
        elif isinstance(message, Key | Press) and message.key and self._rules.keys:
            down = message.down if isinstance(message, Key) else True
            pressed = KeyLine(message.key, down, page.seat, message.time, self._game_time())
            return self.game.note_key(pressed)
        return None

    def latencies(self) -> dict[int, float | None]:
        """The median latency of the person in each seat in milliseconds, as in `FrameLine`."""
        return {
            seat: round(statistics.median(own), 3) if (own := self._latencies.get(seat)) else None
            for seat in sorted(self._people())
        }

    def conduct(self, seat: int) -> Conduct:
        """The `Conduct` of the person in a seat."""
        hands = self.game.hands[seat]
        assert hands is not None
        return hands.conduct

    @property
    def finished(self) -> bool:
        """Whether the game is complete: the episode has ended, or all people have reached
        `Rules.goal`.
        """
        goal = self._rules.goal
        if goal is None or self.game.finished:
            return self.game.finished
        scores = self.game.scores
        return all(scores[seat] >= goal for seat in self._people())

    @property
    def broken(self) -> bool:
        """Whether the game was stopped because it could not be recorded."""
        return self._error is not None

    def leave(self, seats: Iterable[int] = (), how: str = "") -> None:
        """Ends the game before its last step.

        **Arguments:**

        - `seats`: the seats of the people who leave the game or never came.
        - `how`: how they leave (see the column `left_how` of studies); by default, the state of
            their pages.
        """
        if not self._ended():
            self._ended_early, self.left = True, tuple(sorted(seats))
            for seat in self.left:
                if (hands := self.game.hands[seat]) is not None:
                    own = hands.conduct
                    why = how or own.absent or self._waited_for().get(seat, "")
                    own.left = (why, self._waits_since.get(seat, self._game_time()))
        self._changed.set()

    def invite(self) -> None:
        """Tells the people of a finished game that the next game is open."""
        self._has_next = True
        self._send_status()

    async def run(self) -> None:
        """Plays the game to its end.

        **Raises:** `OSError` when the game cannot be recorded; it then ends.
        """
        try:
            compiling = asyncio.ensure_future(asyncio.to_thread(self.game.compile))
            while not compiling.done():
                await self._wait_for(asyncio.shield(compiling), _POLL_SECONDS)
            await compiling
            self._compiled = True
            await self._play()
            if self._error is not None:
                raise self._error
        except OSError as error:
            self._error = error
            raise
        finally:
            before = self._best_before = self._best.get(self.place)
            if self.finished and self._people():
                own = statistics.fmean(self.game.scores)
                self._best[self.place] = own if before is None else max(own, before)
            self.over.set()
            for seat in self._people():
                self.conduct(seat).hide(False, self._now())
            try:
                self.game.close("finished" if self.finished else "left", self.left)
            finally:
                self._send_status()

    async def _play(self) -> None:
        while not self._ended():
            self._record_pauses()
            if self._halted():
                await self._wait()
                continue
            while self._is_preparing() and not self._ended():
                await self._wait_for(asyncio.sleep(_POLL_SECONDS), _POLL_SECONDS)
                self._send_status()
            busy = 0.0
            async for late in self._clock.ticks():
                self._excuse(late + max(0.0, busy - self.period))
                self._is_late = late > _LATE
                if self._ended() or self._halted():
                    break
                begin = self._now()
                self._started = begin if self._started is None else self._started
                self.game.step(begin - self._started)
                frame = self._frame()
                for page in list(self._pages):
                    if not self._send_frame(page, frame):
                        self.disconnect(page)  # the page is too slow; it may connect again
                busy = self._now() - begin
                if self._ended():
                    break

    async def _wait(self) -> None:
        """Waits until the game can continue, and ends the game when its patience is over."""
        while self._halted() and not self._ended():
            self._record_pauses()
            self._changed.clear()
            reason, since = self._reason(), self._now()
            seconds = min(_POLL_SECONDS, max(0.0, self._patience_left()))
            await self._wait_for(self._changed.wait(), seconds)
            # A server that stood still may have messages to read, so it counts a short time only.
            self._waited_seconds[reason] += min(self._now() - since, _LONGEST_DELAY)
            if self._waited_seconds[reason] >= self._rules.patience[reason] and self._halted():
                self.leave(self._lost() or self._waited_for())
        self._waited_seconds = [0.0, 0.0, 0.0]

    async def _wait_for(self, event: Awaitable[object], seconds: float) -> None:
        """Waits for an event, but at most for some seconds."""
        begin = self._now()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event, seconds)
        self._excuse(max(0.0, self._now() - begin - seconds))

    def _excuse(self, seconds: float) -> None:
        """Excuses the silence of pages while the server stood still, since it read no messages."""
        self._ran = self._now()
        for page in self._pages:
            page.heard = min(page.heard + seconds, self._ran)
        if seconds > _LONGEST_DELAY:
            self._stood_still = self._ran

    def _is_slow(self) -> bool:
        """Whether the server stands still, or did so a short time ago."""
        now, interval = self._now(), max(self.period, _POLL_SECONDS)
        stands_still = now - self._ran > interval + _LONGEST_DELAY
        return stands_still or now - self._stood_still < _AFTER_STANDSTILL

    def _reason(self) -> int:
        """Why the game waits, as an index of `Rules.patience`."""
        if not self._lost():
            return _IDLE
        return _GONE if self._people() <= self._joined else _NOT_JOINED

    def _patience_left(self) -> float:
        """The number of seconds for which the game still waits, for the current reason."""
        reason = self._reason()
        return self._rules.patience[reason] - self._waited_seconds[reason]

    def _record_pauses(self) -> None:
        """Writes an event for each person for whom the game begins or stops waiting, and sends the
        status to all pages. Also releases the keys of people who are not connected.
        """
        before, now = self._last_waits or {}, self._waited_for()
        if self._last_waits == now:
            return
        self._last_waits = now
        for seat in sorted(now.keys() - before.keys()):
            if now[seat] != "idle" and (hands := self.game.hands[seat]) is not None:
                hands.release()
            self._waits_since[seat] = self._game_time()
            self._write_event("paused", seat, now[seat])
        for seat in sorted(before.keys() - now.keys()):
            self._waits_since.pop(seat)
            self._write_event("resumed", seat, before[seat])
        self._send_status()

    def _write_event(self, event: str, seat: int, why: str) -> None:
        if (seconds := self._game_time()) is not None:
            self.game.note(EventLine(event, seat, "away" if why == "idle" else why, seconds))

    def _game_time(self, at: float | None = None) -> float | None:
        """The seconds from the beginning of the game to a time, by default now; `None` before the
        beginning.
        """
        at = self._now() if at is None else at
        if self._started is None or at < self._started:
            return None
        return round(at - self._started, 4)

    def _ended(self) -> bool:
        return self.finished or self._ended_early or self.broken

    def _is_preparing(self) -> bool:
        """Whether the first step waits until steps ahead are compiled."""
        return self.game.is_compiling and not self.game.steps

    def _halted(self) -> bool:
        return bool(self._waited_for())

    def _waited_for(self) -> dict[int, str]:
        """Why the game waits for people, by their seats: the reasons of `EventLine`, or `idle` for
        a connected person who has not pressed a key.
        """
        pages = {page.seat: page for page in self._pages}
        found: dict[int, str] = {}
        for seat in self._people():
            if seat not in pages:
                found[seat] = "away"
            elif self._is_silent(pages[seat]):
                found[seat] = "silent"
            elif self._paused_by == seat:
                found[seat] = "pause"
            elif seat not in self._ready:
                found[seat] = "idle"
        return found

    def _lost(self) -> set[int]:
        """The seats of the people whose pages are disconnected or silent."""
        return {seat for seat, why in self._waited_for().items() if why in ("away", "silent")}

    def _is_silent(self, page: Page) -> bool:
        return self._now() - page.heard >= _SILENT

    def _people(self) -> set[int]:
        return {seat for seat, hands in enumerate(self.game.hands) if hands is not None}

    def _is_known(self, message: Press | Hold) -> bool:
        if isinstance(message, Hold) and message.action is None:
            return message.choice < self.place.idle.size
        return any(
            (control.choice, control.action) == (message.choice, message.action)
            for control in self.place.controls
        )

    def _send_status(self) -> None:
        """Sends all pages their `Status`."""
        for page in list(self._pages):
            if not page.post(self._status(page.seat)):
                self.disconnect(page)

    def _status(self, seat: int) -> Status:
        if self.over.is_set() and self._error is not None:
            why = f"it cannot be recorded: {reason(self._error)}"
            return Status("over", f"The game has stopped, since {why}.")
        if self.over.is_set():
            ended = "The game is over" if self.finished else "The game has ended early"
            own, mean = score_texts(self.game.scores, seat)
            score = own if mean is None else f"{own} (mean of all agents: {mean})"
            together = self._has_next and len(self._people()) > 1
            more = " The other person plays again." if together else ""
            text = f"{ended}, with a score of {score}.{more}"
            best = self._best_before if self._rules.free else None
            return Status("over", text, finished=self.finished, best=best)
        if not self._compiled:
            is_kitchen = kitchen_layout(self.place.world) is not None
            return Status("preparing", f"Loading the {'kitchen' if is_kitchen else 'world'}.")
        if self._paused_by is not None:
            return Status("paused", "Paused. Press P to continue.")
        why = self._waited_for()
        if why.get(seat) == "silent":
            return Status("waiting", _UNHEARD)
        if not why and self._is_preparing():
            return Status("preparing", "Preparing the first steps.")
        if not why:
            return Status("playing", "")
        began, lost = self._started is not None, self._lost()
        missing = not began and not self._people() <= {page.seat for page in self._pages}
        if seat not in why:
            left = self._patience_left() if began and lost else None
            return Status("waiting", self._waiting_text(), missing, left)
        here = "" if began or lost or len(self._people()) == 1 else self._present_text()
        verb = "continue" if began else "begin"
        return Status("waiting", f"{here}Press any of your keys or buttons to {verb}.", missing)

    def _waiting_text(self) -> str:
        """A sentence for a person who waits for other people."""
        lost = self._lost()
        if self._started is not None and lost:
            who = "Your partner has" if len(lost) == 1 else "Your partners have"
            return f"{who} lost the connection."
        if self._started is None and not lost:
            return f"{self._present_text()}The game begins when everyone has pressed a key."
        other = "the other person" if self._rules.free else "your partner"
        return f"Waiting for {'the others' if len(self._people()) > 2 else other}."

    def _present_text(self) -> str:
        one = "The other person is" if self._rules.free else "Your partner is"
        return f"{'All people are' if len(self._people()) > 2 else one} here. "

    def _opening(self, seat: int) -> Opening:
        shown = self._rules.free or seat == WATCHER
        names = self.names if shown else ["partner"] * len(self.names)
        keys = self._rules.keys and seat != WATCHER
        return opening_of(self.place, names, seat, self._rate, keys)

    def _frame(self) -> Frame:
        game = self.game
        layout = self.place.drawn_layout
        people = sorted(self._people())
        frame = whole_frame(
            layout, game.state, game.steps, game.scores, self._tiles, game.acted, people
        )
        if not self._is_late and any(page.latency >= _SLOW for page in self._pages):
            ahead = steps_ahead(self.place, game, self._tiles)
            frame = msgspec.structs.replace(frame, ahead=ahead)
        return frame

    def _send_frame(self, page: Page, frame: Frame) -> bool:
        """Posts the changes since the last frame of a page. **Returns:** as `Page.post`."""
        hands = None if page.seat == WATCHER else self.game.hands[page.seat]
        taken = 0 if hands is None else hands.taken
        number = 0 if hands is None else page.number_frame(frame.step, self._now())
        shown = display(self.place, frame, page.seat, self._rate)
        changes = page.screen.update(frame, self._tiles, shown, page.seat, taken, number)
        return page.post(changes)


def opening_of(
    place: Place, seats: list[str], seat: int, ticks_per_second: float, keys: bool = False
) -> Opening:
    """The facts of a game in a world for a page; the arguments are as in `Opening`."""
    height, width = place.grid.shape
    colours = [agent_colours(i + 1)[0] for i in range(place.env.num_agents)]
    colours[0], colours[max(0, seat)] = colours[max(0, seat)], colours[0]
    return Opening(
        title=place.title,
        height=height,
        width=width,
        seat=seat,
        seats=seats,
        colours=colours,
        controls=place.controls if seat != WATCHER else (),
        ticks_per_second=ticks_per_second,
        pictures=place.rule_pictures,
        notes=list(place.settings.how_to_play(place.world)),
        quiet=QUIET,
        keys=keys,
        optimum=place.optimum,
    )
