"""Two people of a study who play with each other."""

import asyncio
import contextlib
import time

import pytest
from playing import NOBODY, join_game, press, receive_until, until
from studies import (
    PAIRS,
    Participant,
    client_of,
    join,
    report_of,
    runner_of,
    write_game,
)

from eqgrid_lab import Kitchen
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import Menu, Rules, read_journal
from eqgrid_play.study import WaitingRoom, _study_runner

PATIENT = PAIRS.replace("patience = 1", "patience = 20")

TWO = (
    PAIRS
    + f"""
name = "first"
[[stage.game]]
layout = "ring"
partner = "person"
fallback = "{NOBODY}"
name = "second"
"""
)


@contextlib.contextmanager
def begun(client, found):
    """The connection of a person who has begun a game."""
    with client.websocket_connect(f"/api/games/{found['game']}") as socket:
        join_game(socket, found["token"])
        press(socket)
        yield socket


def play_together(client, *games):
    """Plays a game of several people to its end."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(begun(client, found)) for found in games]
        for socket in sockets:
            receive_until(socket, status="over")


def test_two_people_who_wait_play_together(menu, tmp_path):
    runner = runner_of(menu, tmp_path, PAIRS)
    with client_of(runner) as client:
        one, two = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        second = two.now()
        first = one.until("game")
        assert first["game"] == second["game"]
        assert first["token"] != second["token"]
        play_together(client, first, second)
        assert one.until("end")["outcome"] == two.until("end")["outcome"] == "finished"
    assert [x["partner"] for x in runner.people.rows("games")] == ["person", "person"]


def test_people_with_slow_connections_do_not_meet(menu, tmp_path):
    """Of three people, the second and the third have a sum of latencies within the limit."""
    plan = PATIENT.replace("patience", "partner_latency = 300\npatience")
    runner = runner_of(menu, tmp_path, plan)
    with client_of(runner) as client:
        slow, fair, fast = (
            Participant(client, measured={"latency_ms": latency}) for latency in (280, 200, 100)
        )
        assert slow.now()["kind"] == fair.now()["kind"] == "waiting"
        assert fast.now()["kind"] == "game"
        assert fair.until("game")["game"] == fast.now()["game"]
        assert slow.now()["kind"] == "waiting"
    assert [x["latency_ms"] for x in runner.people.rows("people")] == [280, 200, 100]


def test_who_waits_in_vain_plays_with_the_fallback(menu, tmp_path):
    runner = runner_of(menu, tmp_path, PAIRS)
    with client_of(runner) as client:
        person = Participant(client)
        assert person.now()["kind"] == "waiting"
        time.sleep(1.1)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"
    assert [x["partner"] for x in runner.people.rows("games")] == [NOBODY]
    assert "nobody came" in [row[2] for row in runner.people.table("events")[1]]


def test_people_with_other_orders_play_together(menu, tmp_path):
    """The order of the person who comes second begins with the other game, and is changed."""
    runner = runner_of(menu, tmp_path, TWO)
    with client_of(runner) as client:
        one, _, two = (Participant(client) for _ in range(3))
        assert [runner.order(person, 0) for person in (1, 2, 3)] == [[0, 1], [0, 1], [1, 0]]
        assert one.now()["kind"] == "waiting"
        for _ in range(2):
            two.now()
            games = one.until("game"), two.until("game")
            play_together(client, *games)
            until(lambda games=games: not runner.players(games[0]["game"]))
            one.now()
        assert one.until("end")["outcome"] == two.until("end")["outcome"] == "finished"
    names = [(x["person"], x["name"], x["game"], x["number"]) for x in runner.people.rows("games")]
    games = [("first", 0, 0), ("second", 1, 1)]
    assert sorted(names) == [(person, *game) for person in (1, 3) for game in games]


MIXED = (
    PATIENT
    + f"""
name = "together"
[[stage.game]]
layout = "ring"
partner = "{NOBODY}"
name = "alone"
"""
)


def test_people_who_come_together_meet_between_games_with_agents(menu, tmp_path):
    """In both orders: two people who come together have the same one."""
    runner = runner_of(menu, tmp_path, MIXED)
    with client_of(runner) as client:
        for _ in range(2):
            pair = [Participant(client) for _ in range(2)]
            for _ in range(2):
                for person in pair:
                    person.now()
                games = [person.until("game") for person in pair]
                if games[0]["game"] == games[1]["game"]:
                    play_together(client, *games)
                else:
                    for person, game in zip(pair, games, strict=True):
                        person.play(game)
                for game in games:
                    until(lambda game=game: not runner.players(game["game"]))
            assert [person.until("end")["outcome"] for person in pair] == ["finished"] * 2
    rows = runner.people.rows("games")
    assert [x["partner"] for x in rows if x["name"] == "together"] == ["person"] * 4
    assert [x["name"] for x in rows if x["game"] == 0] == ["together"] * 2 + ["alone"] * 2


def test_who_comes_with_another_order_plays_first_with_a_person_who_waits(menu, tmp_path):
    runner = runner_of(menu, tmp_path, MIXED)
    with client_of(runner) as client:
        one, _, two = (Participant(client) for _ in range(3))
        assert [runner.order(person, 0) for person in (1, 2, 3)] == [[0, 1], [0, 1], [1, 0]]
        assert one.now()["kind"] == "waiting"
        two.now()
        assert one.until("game")["game"] == two.until("game")["game"]


def test_who_comes_after_the_first_game_of_another_has_the_next_order(menu, tmp_path):
    runner = runner_of(menu, tmp_path, MIXED)
    first, second, third = (join(runner).person for _ in range(3))
    assert runner.order(first, 0) == [0, 1]
    write_game(runner.people, first, "x", [0.0, 0.0], stage=0, name="together")
    assert runner.order(second, 0) == runner.order(third, 0) == [1, 0]


@pytest.mark.slow
def test_three_people_play_together_and_two_of_them_if_nobody_else_comes(tmp_path):
    world = world_settings("goals", layout="room", num_agents=3, horizon=8)
    plan = PAIRS.replace('"ring"', '"room"').replace("fallback", "people = 3\nfallback")
    runner = runner_of(Menu(world), tmp_path, plan)
    with client_of(runner) as client:
        for number in (3, 2):
            people = [Participant(client) for _ in range(number)]
            for person in people:
                person.now()
            games = [person.until("game") for person in people]
            assert len({x["game"] for x in games}) == 1
            play_together(client, *games)
            assert [person.until("end")["outcome"] for person in people] == ["finished"] * number
    rows = runner.people.rows("games")
    assert [x["partner"] for x in rows] == ["person"] * 5
    assert [x["people"] for x in rows] == [3, 3, 3, 2, 2]
    text = report_of(runner.people)
    assert "person (3 together)" in text
    assert "person (2 together)" in text
    assert {x["seat"] for x in rows[:3]} == {0, 1, 2}
    seats = read_journal(tmp_path / f"{rows[3]['file']}.jsonl").header.seats
    assert sorted(x.human for x in seats) == [False, True, True]
    assert [x["detail"] for x in runner.people.rows("events") if x["event"] == "too few came"] == [
        ""
    ]


def test_nobody_plays_with_themselves_in_two_browsers(menu, tmp_path):
    runner = runner_of(menu, tmp_path, PATIENT)
    with client_of(runner) as client:
        one, same, two = (Participant(client, id) for id in ("abc", "abc", "xyz"))
        assert [x.now()["kind"] for x in (one, same)] == ["waiting", "waiting"]
        assert two.now()["game"] == one.until("game")["game"]
        assert same.now()["kind"] == "waiting"


def test_who_left_a_game_of_two_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(_study_runner, "_TOGETHER", (0.2, 600, 600))
    runner = runner_of(Menu(Kitchen(layout="ring", horizon=400)), tmp_path, PAIRS)
    with client_of(runner) as client:
        people = Participant(client), Participant(client)
        for person in people:
            person.now()
        games = [person.until("game") for person in people]
        with begun(client, games[0]) as stays:
            with begun(client, games[1]) as leaves:
                receive_until(leaves, step=3)
            receive_until(stays, status="over")
        until(lambda: not runner.players(games[0]["game"]))
    one, two = runner.people.rows("games")
    assert (one["outcome"], two["outcome"]) == ("left", "left")
    assert one["left_by"] == two["left_by"] == str(two["seat"])
    assert (one["left_how"], one["left_s"]) == ("closed", two["left_s"])
    assert "1 of 1 games were left before their end: 1 closed" in report_of(runner.people)
    assert read_journal(tmp_path / f"{one['file']}.jsonl").left == (two["seat"],)


def test_a_fixed_order_is_kept(menu, tmp_path):
    fixed = TWO.replace('kind = "games"', 'kind = "games"\norder = "fixed"')
    runner = runner_of(menu, tmp_path, fixed)
    ahead, behind = (join(runner).person for _ in range(2))
    write_game(runner.people, ahead, "x", [0.0, 0.0], stage=0, name="first", partner="person")
    runner.people.move(ahead, 0, 1)
    found = [asyncio.run(runner.show(runner.people.get(x))) for x in (ahead, behind)]
    assert [x["kind"] for x in found] == ["waiting", "waiting"]


def test_a_partner_who_does_not_come_costs_no_game(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_study_runner, "_TOGETHER", (600.0, 600.0, 600.0))
    runner = runner_of(menu, tmp_path, PAIRS.replace("patience = 1", "patience = 2"))
    with client_of(runner) as client:
        one, gone = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        gone.now()
        with_nobody = one.until("game")
        with begun(client, with_nobody) as socket:
            session = runner.server.sessions[with_nobody["game"]]
            session._rules = Rules(free=False, patience=(0.2, 0.2, 0.2))
            assert "early" in receive_until(socket, status="over")["text"]
        assert one.until("waiting")["at"] == "0.0.0"
        again = one.until("game")  # with the fallback
        assert again["game"] != with_nobody["game"]
        one.play(again)
        assert one.until("end")["outcome"] == "finished"
    outcomes = [(x["person"], x["partner"], x["outcome"]) for x in runner.people.rows("games")]
    assert sorted(outcomes) == [
        (1, "person", "not begun"),
        (1, NOBODY, "finished"),
        (2, "person", "not begun"),
    ]


def test_a_full_server_sends_nobody_out_of_the_waiting_room(menu, tmp_path):
    runner = runner_of(menu, tmp_path, PATIENT)
    with client_of(runner) as client:
        one, two = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        runner.server.most_games = 0
        answer = client.get("/api/study/now", headers=two.headers)
        assert "places are taken" in answer.json()["text"]
        runner.server.most_games = 100
        two.now()
        assert one.until("game")["game"] == two.until("game")["game"]
    events = [(x["person"], x["event"]) for x in runner.people.rows("events")]
    assert events == [(1, "joined"), (2, "joined"), (1, "waits"), (2, "waits")]


def test_seats_of_two_people_are_drawn(menu, tmp_path):
    runner = runner_of(menu, tmp_path, PAIRS)
    people = [join(runner) for _ in range(40)]
    planned = runner.plan.stage[0].games[0]
    drawn = [runner._seats(people[i : i + 2], planned, 0, "person")[0] for i in range(0, 40, 2)]
    assert {tuple(x) for x in drawn} == {(0, 1), (1, 0)}


def test_who_waits_is_told_at_once(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_study_runner, "_LONGEST_WAIT", 600.0)
    runner = runner_of(menu, tmp_path, PATIENT)

    async def wait():
        one, two = (join(runner) for _ in range(2))
        await runner.show(one)
        waiting = asyncio.create_task(runner.wait(one))
        await asyncio.sleep(0)
        await runner.show(two)
        await waiting
        assert runner.players((await runner.show(one))["game"]) == [1, 2]
        await runner.close()

    asyncio.run(asyncio.wait_for(wait(), 100))


def test_the_waiting_room():
    now = [0.0]
    room = WaitingRoom(lambda: now[0])
    assert room.enter(1, 0)
    now[0] = 1.0
    assert room.enter(2, 0)
    assert room.enter(3, 1)
    assert room.enter(4, 0)
    assert not room.enter(4, 0)
    assert room.others(0, {4, 2}) == [1]
    assert room.others(0, {4}) == [1, 2]
    assert room.waited(1) == 1.0
    now[0] = _study_runner._SILENT + 0.5
    assert room.others(0, {4}) == [2]  # 1 is silent
    assert room.enter(1, 0)
    assert room.waited(1) == 0.0
    room.leave(2)
    room.leave(2)
    assert room.others(0, {4}) == [1]
    asyncio.run(room.wait(2, 60))  # who does not wait is not kept
    now[0] += 1

    async def stand_still():
        """As long as `_SILENT`, while 4 waits for an answer."""
        waiting = asyncio.create_task(room.wait(4, 0.01))
        await asyncio.sleep(0)
        now[0] += _study_runner._SILENT
        await waiting

    room.enter(4, 0)
    asyncio.run(stand_still())
    assert not room.enter(4, 0)


def test_a_world_for_one_agent_has_no_pairs(menu, tmp_path, monkeypatch):
    place = menu.place("ring")
    menu.offers("ring")  # policies for two agents
    monkeypatch.setattr(type(place.env), "num_agents", property(lambda _: 1))
    with pytest.raises(UsageError, match="2 people in 'ring', which is for 1"):
        runner_of(menu, tmp_path, PAIRS)
