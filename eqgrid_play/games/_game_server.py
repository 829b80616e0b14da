"""All games of a server: opening, running and recording them."""

import asyncio
import datetime
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import final

from eqgrid_lab.base import UsageError, reason

from ._journal import SUFFIX, Header, Journal, SeatRecord, read_journal, write_recording
from ._live_game import LiveGame, Program
from ._menu import PERSON, Menu, Offer, Place
from ._messages import TileSheet
from ._session import FREE, Clock, Rules, Session
from ._watch import Recorded

_KEPT = 256
"""The number of finished games that can still be watched."""


@final
class GameServer:
    """All games of a server.

    **Arguments:**

    - `menu`: the worlds and partners.
    - `folder`: the folder of the files of games.
    - `ticks_per_second`: the rate of the clocks of games.
    - `most_games`: the maximum number of simultaneous games; 0 to offer only games to watch.
    - `most_per_client`: the maximum number of simultaneous games of one network address; by
        default `most_games`.
    - `recorded`: games to watch.
    - `sleep`: waits for some seconds, for the clocks.
    - `now`: returns the time in seconds, with any origin, for the clocks and the games.
    """

    def __init__(
        self,
        menu: Menu,
        folder: Path,
        *,
        ticks_per_second: float,
        most_games: int,
        most_per_client: int | None = None,
        recorded: Sequence[Recorded] = (),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.perf_counter,
    ):
        self.menu, self.folder, self.recorded = menu, folder, tuple(recorded)
        self.sessions: dict[str, Session] = {}
        self.tiles = TileSheet()
        self.ticks_per_second, self.most_games = ticks_per_second, most_games
        self._sleep, self._now = sleep, now
        self.most_per_client = most_per_client or most_games
        self._opening: list[str] = []  # the clients whose games are being opened
        self._programs: dict[tuple[Place, tuple[str, ...]], Program] = {}
        self._policies: dict[Place, list[Offer]] = {}
        self._best: dict[Place, float] = {}
        # By the name of the game: its client, its layout and seats, and the next game with them.
        self._clients: dict[str, str] = {}
        self._requests: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._next_games: dict[str, asyncio.Task[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self,
        layout: str,
        seats: Sequence[str],
        people: Sequence[str] = (),
        rules: Rules = FREE,
        client: str = "",
    ) -> str:
        """Opens a game.

        **Arguments:**

        - `layout`: one of the layouts of the menu.
        - `seats`: the player in each seat: `"person"`, or the key of an offer of the menu.
        - `people`: the recorded names of the people, in the order of their seats.
        - `rules`: the rules for people.
        - `client`: the network address that opens the game; if empty, `most_per_client` does not
            apply.

        **Returns:** the name of the game in `sessions`.

        **Raises:** `UsageError` when the layout or a partner does not exist or the server is full,
        with a message for the user; `OSError` when the game cannot be recorded.
        """
        running = [x for x, session in self.sessions.items() if not session.over.is_set()]
        clients = [*self._opening, *(self._clients[x] for x in running)]
        if len(clients) >= self.most_games:
            raise UsageError("All places are taken. Please try again in a minute.")
        if client and clients.count(client) >= self.most_per_client:
            raise UsageError("Your network address has too many games. Please end one of them.")
        self._opening.append(client)
        try:
            name = await self._open(layout, seats, people, rules)
            self._clients[name] = client
            return name
        finally:
            self._opening.remove(client)

    async def again(self, name: str) -> str:
        """Opens the next game with the same layout and seats. All people of a game get the same
        next game.

        **Arguments:**

        - `name`: the name of the game that is over.

        **Returns:** and **Raises:** as `open`.
        """
        if name not in self._next_games:
            opening = self.open(*self._requests[name], client=self._clients[name])
            self._next_games[name] = asyncio.create_task(opening)
        try:
            # Shielded, since other people wait for the same task.
            next_name = await asyncio.shield(self._next_games[name])
        except Exception:
            self._next_games.pop(name, None)
            raise
        if name in self.sessions:
            self.sessions[name].invite()
        return next_name

    async def _open(
        self, layout: str, seats: Sequence[str], people: Sequence[str], rules: Rules
    ) -> str:
        if layout not in self.menu.layouts:
            raise UsageError("There is no such layout.")
        place = await asyncio.to_thread(self.menu.place, layout)
        offers = await asyncio.to_thread(self.menu.offers, layout)
        if len(seats) != place.env.num_agents or any(x not in {PERSON, *offers} for x in seats):
            raise UsageError("There is no such partner, or the number of players is wrong.")
        partners = [None if seat == PERSON else offers[seat] for seat in seats]
        name = f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        seed = secrets.randbelow(2**31)
        people_left = iter(people)
        names = [next(people_left, "person") if x is None else x.words for x in partners]
        program = await asyncio.to_thread(self._program, place, tuple(seats), partners)
        who = tuple(
            SeatRecord(own, offer is None, None if offer is None else offer.sha256)
            for own, offer in zip(names, partners, strict=True)
        )
        header = header_of(place, who, seed, self.ticks_per_second)
        journal = Journal(self.folder / f"{name}{SUFFIX}", header)
        game = LiveGame(program, seed, journal)
        clock = Clock(self.ticks_per_second, self._now, self._sleep)
        session = Session(place, names, game, self.tiles, clock, rules, self._now, self._best)
        self.sessions[name] = session
        self._requests[name] = (layout, tuple(seats))
        self._forget_old_games()
        task = asyncio.create_task(self._play(name, session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return name

    def _program(
        self, place: Place, seats: tuple[str, ...], offers: Sequence[Offer | None]
    ) -> Program:
        """The compiled program for a world and a team, cached."""
        if (place, seats) not in self._programs:
            partners = [None if offer is None else offer.partner for offer in offers]
            self._programs[place, seats] = Program(place.env, partners, place.idle)
        return self._programs[place, seats]

    def policies(self, place: Place) -> list[Offer]:
        """The policies whose action probabilities and values can be shown in a world."""
        if place not in self._policies:
            self._policies[place] = [x for x in self.menu.in_place(place) if x.sha256 is not None]
        return self._policies[place]

    async def close(self) -> None:
        """Ends all running games, and waits until their files are written."""
        for session in self.sessions.values():
            session.leave()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _play(self, name: str, session: Session) -> None:
        """Plays a game and writes its episode. A failure to write is reported on standard error."""
        try:
            await session.run()
            if session.game.steps:
                await asyncio.to_thread(self._write_episode, name, session.place)
        except (OSError, UsageError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            print(f"error: the game {name} cannot be written: {why}", file=sys.stderr)

    def _write_episode(self, name: str, place: Place) -> Path:
        recording = read_journal(self.folder / f"{name}{SUFFIX}")
        return write_recording(place, recording, name, self.folder)

    def _forget_old_games(self) -> None:
        """Removes all but the last `_KEPT` finished games."""
        over = [name for name, session in self.sessions.items() if session.over.is_set()]
        for name in over[: max(0, len(over) - _KEPT)]:
            del self.sessions[name], self._requests[name], self._clients[name]
            self._next_games.pop(name, None)


def header_of(
    place: Place, seats: tuple[SeatRecord, ...], seed: int, ticks_per_second: float
) -> Header:
    """The first line of the journal of a game that begins now; arguments as in `Header`."""
    return Header(
        world=place.policy_world,
        layout=place.title,
        seed=seed,
        seats=seats,
        ticks_per_second=ticks_per_second,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        eqgrid=version("eqgrid"),
    )
