"""Menus, servers and recorded games for the tests of this folder."""

import asyncio
import time

from eqgrid_play.games import GameServer, Header, Journal, LiveGame, Place, Program, SeatRecord

NOBODY, NOBODY_WORDS = "stay", "an agent that never moves"
PROGRAMS = {}
"""The games that servers have compiled, by world and team."""


def server_of(menu, folder, ticks_per_second=60, most_games=4, **options):
    """A server with a fast clock, which compiles no game that another server of the menu has."""
    server = GameServer(
        menu, folder, ticks_per_second=ticks_per_second, most_games=most_games, **options
    )
    server._programs = PROGRAMS
    return server


class Time:
    """Time that passes only while somebody waits or works."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds
        await asyncio.sleep(0.001)  # others run, too


def until(check, seconds=100):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def receive_until(socket, **wanted):
    """The next message of a server that has these fields."""
    while True:
        message = socket.receive_json()
        if all(message.get(name) == value for name, value in wanted.items()):
            return message


def join_game(socket, token):
    socket.send_json({"type": "join", "token": token})


def press(socket, action=1):
    socket.send_json({"type": "press", "choice": 0, "action": action})


def write_journal(path, settings, steps, seed=5, presses=lambda step: (step % 4, 5)):
    """A game of two people: the first one walks around, and the second one interacts."""
    seats = (SeatRecord("one", True), SeatRecord("two", True))
    place = Place.of(settings)
    head = Header(place.policy_world, place.title, seed, seats, 6.0, "2026-01-01T00:00:00")
    journal = Journal(path, head)
    game = LiveGame(Program(place.env, [None, None], place.idle), seed, journal)
    for step in range(steps):
        for hands, action in zip(game.hands, presses(step), strict=True):
            hands.press(0, action)
        game.step(step / 6)
    game.close("left")
