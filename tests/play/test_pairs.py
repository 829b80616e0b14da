"""Two people of a study who play with each other."""

import asyncio
import contextlib
import io
import json
import time

import pytest
from rich.console import Console
from studies import NOBODY, PAIRS, Participant, client_of, course_of, join, rows_of, until

from eqgrid_lab import Kitchen
from eqgrid_lab.base import UsageError
from eqgrid_lab.play import Menu, read_journal
from eqgrid_lab.settings import default_settings, shipped_script
from eqgrid_lab.study import WaitingRoom, _course, report
from eqgrid_lab.worlds import world_settings

LONG = Kitchen(layout="ring", horizon=400)

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


def play_together(client, *games):
    """Plays a game of several people to its end."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for found in games:
            path = f"/api/games/{found['game']}"
            sockets.append(stack.enter_context(client.websocket_connect(path)))
            sockets[-1].send_json({"type": "join", "token": found["token"]})
            sockets[-1].send_json({"type": "press", "choice": 0, "action": 1})
        for socket in sockets:
            while socket.receive_json().get("status") != "over":
                pass


def test_two_people_who_wait_play_together(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS)
    with client_of(course) as client:
        one, two = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        second = two.now()
        first = one.until("game")
        assert first["game"] == second["game"]
        assert first["token"] != second["token"]
        path = f"/api/games/{first['game']}"
        with client.websocket_connect(path) as a, client.websocket_connect(path) as b:
            for socket, found in ((a, first), (b, second)):
                socket.send_text(json.dumps({"type": "join", "token": found["token"]}))
                socket.send_text(json.dumps({"type": "press", "choice": 0, "action": 1}))
            for socket in (a, b):
                while socket.receive_json().get("status") != "over":
                    pass
        assert one.until("end")["outcome"] == two.until("end")["outcome"] == "finished"
    assert [x["partner"] for x in rows_of(course, "games")] == ["person", "person"]


def test_who_waits_in_vain_plays_with_the_fallback(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS)
    with client_of(course) as client:
        person = Participant(client)
        assert person.now()["kind"] == "waiting"
        time.sleep(1.1)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"
    assert [x["partner"] for x in rows_of(course, "games")] == [NOBODY]
    assert "nobody came" in [row[2] for row in course.people.table("events")[1]]


def test_people_with_other_orders_play_together(menu, tmp_path):
    """The order of the person who comes second begins with the other game, and is changed."""
    course = course_of(menu, tmp_path, TWO)
    with client_of(course) as client:
        one, _, two = (Participant(client) for _ in range(3))
        assert [course.order(person, 0) for person in (1, 2, 3)] == [[0, 1], [0, 1], [1, 0]]
        assert one.now()["kind"] == "waiting"
        for _ in range(2):
            two.now()
            games = one.until("game"), two.until("game")
            play_together(client, *games)
            while course.players(games[0]["game"]):
                time.sleep(0.05)
            one.now()
        assert one.until("end")["outcome"] == two.until("end")["outcome"] == "finished"
    names = [(x["person"], x["name"], x["game"], x["number"]) for x in rows_of(course, "games")]
    assert sorted(names) == [
        (1, "first", 0, 0),
        (1, "second", 1, 1),
        (3, "first", 0, 0),
        (3, "second", 1, 1),
    ]


MIXED = (
    PAIRS.replace("patience = 1", "patience = 20")
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
    course = course_of(menu, tmp_path, MIXED)
    with client_of(course) as client:
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
                    until(lambda game=game: not course.players(game["game"]))
            assert [person.until("end")["outcome"] for person in pair] == ["finished"] * 2
    rows = rows_of(course, "games")
    assert [x["partner"] for x in rows if x["name"] == "together"] == ["person"] * 4
    assert [x["name"] for x in rows if x["game"] == 0] == ["together"] * 2 + ["alone"] * 2


def test_who_comes_with_another_order_plays_first_with_a_person_who_waits(menu, tmp_path):
    course = course_of(menu, tmp_path, MIXED)
    with client_of(course) as client:
        one, _, two = (Participant(client) for _ in range(3))
        assert [course.order(person, 0) for person in (1, 2, 3)] == [[0, 1], [0, 1], [1, 0]]
        assert one.now()["kind"] == "waiting"
        two.now()
        assert one.until("game")["game"] == two.until("game")["game"]


def test_who_comes_after_the_first_game_of_another_has_the_next_order(menu, tmp_path):
    course = course_of(menu, tmp_path, MIXED)
    first, second, third = (join(course).person for _ in range(3))
    assert course.order(first, 0) == [0, 1]
    row = {"person": first, "stage": 0, "game": 0, "number": 0, "attempt": 0, "seat": 0}
    course.people.begin_game(
        row | {"name": "together", "layout": "ring", "partner": NOBODY, "file": "x"}
    )
    course.people.end_game("x", [0.0, 0.0], 8, "finished", {0: {}})
    assert course.order(second, 0) == course.order(third, 0) == [1, 0]


def test_three_people_play_together_and_two_of_them_if_nobody_else_comes(tmp_path):
    world = world_settings("goals", layout="room", num_agents=3, horizon=8)
    menu = Menu(default_settings(shipped_script("ippo"), world))
    plan = PAIRS.replace('"ring"', '"room"').replace("fallback", "people = 3\nfallback")
    course = course_of(menu, tmp_path, plan)
    with client_of(course) as client:
        for number in (3, 2):
            people = [Participant(client) for _ in range(number)]
            for person in people:
                person.now()
            games = [person.until("game") for person in people]
            assert len({x["game"] for x in games}) == 1
            play_together(client, *games)
            assert [person.until("end")["outcome"] for person in people] == ["finished"] * number
    rows = rows_of(course, "games")
    assert [x["partner"] for x in rows] == ["person"] * 5
    assert [x["people"] for x in rows] == [3, 3, 3, 2, 2]
    said = io.StringIO()
    report(course.people, Console(width=200, file=said))
    assert "person (3 together)" in said.getvalue()
    assert "person (2 together)" in said.getvalue()
    assert {x["seat"] for x in rows[:3]} == {0, 1, 2}
    seats = read_journal(tmp_path / f"{rows[3]['file']}.jsonl").header.seats
    assert sorted(x.human for x in seats) == [False, True, True]
    assert [x["detail"] for x in rows_of(course, "events") if x["event"] == "too few came"] == [""]


def test_nobody_plays_with_themselves_in_two_browsers(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS.replace("patience = 1", "patience = 20"))
    with client_of(course) as client:
        one, same, two = (Participant(client, id) for id in ("abc", "abc", "xyz"))
        assert [x.now()["kind"] for x in (one, same)] == ["waiting", "waiting"]
        assert two.now()["game"] == one.until("game")["game"]
        assert same.now()["kind"] == "waiting"


def test_who_left_a_game_of_two_is_stored(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_course, "_TOGETHER", (0.2, 20, 20))
    course = course_of(Menu(default_settings(shipped_script("ippo"), LONG)), tmp_path, PAIRS)
    with client_of(course) as client:
        people = Participant(client), Participant(client)
        for person in people:
            person.now()
        games = [person.until("game") for person in people]
        path = f"/api/games/{games[0]['game']}"
        with client.websocket_connect(path) as stays:
            with client.websocket_connect(path) as leaves:
                for socket, found in zip((stays, leaves), games, strict=True):
                    socket.send_text(json.dumps({"type": "join", "token": found["token"]}))
                    socket.send_text(json.dumps({"type": "press", "choice": 0, "action": 1}))
                while leaves.receive_json().get("step") != 3:
                    pass
            while stays.receive_json().get("status") != "over":
                pass
        until(lambda: not course.players(games[0]["game"]))
    one, two = rows_of(course, "games")
    assert (one["outcome"], two["outcome"]) == ("left", "left")
    assert one["left_by"] == two["left_by"] == str(two["seat"])
    assert (one["left_how"], one["left_s"]) == ("closed", two["left_s"])
    said = io.StringIO()
    report(course.people, Console(width=200, file=said))
    assert "1 of 1 games were left before their end: 1 closed" in said.getvalue()
    assert read_journal(tmp_path / f"{one['file']}.jsonl").left == (two["seat"],)


def test_a_fixed_order_is_kept(menu, tmp_path):
    fixed = TWO.replace('kind = "games"', 'kind = "games"\norder = "fixed"')
    course = course_of(menu, tmp_path, fixed)
    ahead = join(course)
    behind = join(course)
    row = {"person": 1, "stage": 0, "game": 0, "number": 0, "attempt": 0, "seat": 0}
    course.people.begin_game(
        row | {"name": "first", "layout": "ring", "partner": "person", "file": "x"}
    )
    course.people.end_game("x", [0.0, 0.0], 8, "finished", {0: {}})
    course.people.move(1, 0, 1)
    found = [asyncio.run(course.show(course.people.get(x.person))) for x in (ahead, behind)]
    assert [x["kind"] for x in found] == ["waiting", "waiting"]


def test_a_partner_who_does_not_come_costs_no_game(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_course, "_TOGETHER", (0.2, 0.2, 0.2))
    course = course_of(menu, tmp_path, PAIRS.replace("patience = 1", "patience = 2"))
    with client_of(course) as client:
        one, gone = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        gone.now()
        with_nobody = one.until("game")
        with client.websocket_connect(f"/api/games/{with_nobody['game']}") as socket:
            socket.send_text(json.dumps({"type": "join", "token": with_nobody["token"]}))
            socket.send_text(json.dumps({"type": "press", "choice": 0, "action": 1}))
            while (message := socket.receive_json()).get("status") != "over":
                pass
        assert "early" in message["text"]
        assert one.until("waiting")["at"] == "0.0.0"
        again = one.until("game", seconds=5)  # with the fallback
        assert again["game"] != with_nobody["game"]
        one.play(again)
        assert one.until("end")["outcome"] == "finished"
    outcomes = [(x["person"], x["partner"], x["outcome"]) for x in rows_of(course, "games")]
    assert sorted(outcomes) == [
        (1, NOBODY, "finished"),
        (1, "person", "not begun"),
        (2, "person", "not begun"),
    ]


def test_a_full_server_sends_nobody_out_of_the_waiting_room(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS.replace("patience = 1", "patience = 600"))
    with client_of(course) as client:
        one, two = Participant(client), Participant(client)
        assert one.now()["kind"] == "waiting"
        course.hall.most_games = 0
        answer = client.get("/api/study/now", headers=two.headers)
        assert "places are taken" in answer.json()["text"]
        course.hall.most_games = 100
        two.now()
        assert one.until("game")["game"] == two.until("game")["game"]
    events = [(x["person"], x["event"]) for x in rows_of(course, "events")]
    assert events == [(1, "joined"), (2, "joined"), (1, "waits"), (2, "waits")]


def test_seats_of_two_people_are_drawn(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS)
    people = [join(course) for _ in range(40)]
    planned = course.plan.stage[0].game[0]
    drawn = [course._seats(people[i : i + 2], planned, 0, "person")[0] for i in range(0, 40, 2)]
    assert {tuple(x) for x in drawn} == {(0, 1), (1, 0)}


def test_who_waits_is_told_at_once(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS.replace("patience = 1", "patience = 600"))

    async def wait():
        one, two = (join(course) for _ in range(2))
        await course.show(one)
        begun = time.perf_counter()
        waiting = asyncio.create_task(course.wait(one))
        await asyncio.sleep(0)
        await course.show(two)
        await waiting
        assert course.players((await course.show(one))["game"]) == [1, 2]
        seconds = time.perf_counter() - begun
        await course.close()
        return seconds

    asyncio.run(wait())


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
    now[0] = 10.5
    assert room.others(0, {4}) == [2]  # 1 is silent
    assert room.enter(1, 0)
    assert room.waited(1) == 0.0
    room.leave(2)
    room.leave(2)
    assert room.others(0, {4}) == [1]
    asyncio.run(room.wait(2, 60))  # who does not wait is not kept


def test_a_pair_has_no_seat_of_its_own(menu, tmp_path):
    with pytest.raises(UsageError, match="seats are random"):
        course_of(menu, tmp_path, PAIRS + "seat = 0\n")


def test_a_world_for_one_agent_has_no_pairs(menu, tmp_path, monkeypatch):
    place = menu.place("ring")
    monkeypatch.setattr(type(place.env), "num_agents", property(lambda _: 1))
    with pytest.raises(UsageError, match="2 people in 'ring', which is for 1"):
        course_of(menu, tmp_path, PAIRS)


def test_there_is_a_game_for_everybody(menu, tmp_path):
    with pytest.raises(UsageError, match="--most-games 101"):
        course_of(menu, tmp_path, "most_people = 101\n" + PAIRS)
