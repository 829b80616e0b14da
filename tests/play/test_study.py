"""Studies: plans, the way of people through them, and their data."""

import asyncio
import contextlib
import csv
import json
import re
import sqlite3
import time
from pathlib import Path

import pytest
from playing import NOBODY, join_game, press, receive_until, until
from studies import (
    ADMIN,
    PAIRS,
    SMALL,
    Participant,
    begin_game,
    client_of,
    join,
    people_in,
    problem_of_joining,
    recorded_rows,
    report_of,
    runner_of,
    stop,
    taking_part,
    write_game,
)

from eqgrid_lab import Kitchen
from eqgrid_lab.base import UsageError
from eqgrid_lab.folders import locked
from eqgrid_play.games import Menu
from eqgrid_play.study import (
    DATA,
    DICTIONARY,
    Question,
    _study_runner,
    export,
    forget,
    open_people,
    read_plan,
)

pytestmark = pytest.mark.slow

QUESTIONS = SMALL[SMALL.rindex('[[stage]]\nkind = "questions"') :]
RIGHT = {"attentive": "b", "remarks": None}
EXAMPLE = Path(__file__).parents[2] / "experiments" / "studies" / "example.toml"


@pytest.fixture(scope="module")
def long_menu():
    return Menu(Kitchen(layout="ring", horizon=400))


def take_part(client, id=None, fluent=6):
    person = Participant(client, id)
    assert person.now()["kind"] == "consent"
    assert person.answer(agree="yes").status_code == 200
    openings = []
    for _ in range(2):
        openings.append(person.play(person.until("game")))
        assert person.until("questions")["questions"][0]["name"] == "fluent"
        assert person.answer(fluent=fluent).status_code == 200
    questions = person.until("questions")["questions"]
    assert [x["name"] for x in questions] == ["attentive", "remarks"]
    assert "right" not in questions[0]
    assert person.answer(attentive="a", remarks="None.").status_code == 200
    return person, openings


def test_the_example_can_be_run(menu, tmp_path):
    runner = runner_of(menu, tmp_path, EXAMPLE.read_text(encoding="utf-8"))
    stages = [type(stage).__name__ for stage in runner.plan.stage]
    assert stages == ["Consent", "Reading", "Tutorial", "Games", "Questions"]
    assert [runner.order(join(runner).person, 3) for _ in range(2)] == [[0, 1], [1, 0]]


def test_the_plan_of_the_docs_can_be_played(menu, tmp_path):
    text = (EXAMPLE.parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    plan = runner_of(menu, tmp_path, re.findall(r"```toml\n(.*?)```", text, re.S)[0]).plan
    assert [game.layout for game in plan.games()] == ["cramped", "ring", "ring"]
    assert next(plan.games()).seat == 0  # an agent that never moves there would block the dishes


def test_a_person_goes_through_a_whole_study(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    with client_of(runner) as client:
        person, openings = take_part(client, "abc")
        end = person.now()
        assert (end["kind"], end["outcome"]) == ("end", "finished")
        assert end["redirect"] == "https://example.org/done?who=abc&code=C0DE"
    assert [x["seats"] for x in openings] == [["partner", "partner"]] * 2  # nobody is named
    assert openings[1]["seat"] == 1
    found = runner.people.rows("games")
    assert [x["name"] for x in found] == ["nobody", "program"]
    assert [x["partner"] for x in found] == [NOBODY, "greedy"]
    played = [(x["steps"], x["outcome"], x["latency_ms"] > 0) for x in found]
    assert played == [(8, "finished", True)] * 2
    answers = [row[3:5] for row in runner.people.table("answers")[1]]
    assert answers == [("fluent", "6"), ("fluent", "6"), ("attentive", "a"), ("remarks", "None.")]
    events = [row[2:] for row in runner.people.table("events")[1]]
    assert events == [
        ("joined", ""),
        ("agreed", ""),
        ("missed a check", "attentive"),
        ("finished", ""),
    ]
    assert [x["reason"] for x in found] == ["episode"] * 2
    (seen,) = runner.overview()
    assert (seen["order"], seen["missed"]) == (["nobody", "program"], 1)
    assert not seen["away"]
    assert all(x["at"] < x["ended"] for x in found)


def test_orders_are_counterbalanced_or_drawn(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    people = [join(runner).person for _ in range(3)]
    for _ in range(2):
        assert [runner.order(x, 1) for x in people] == [[0, 1], [1, 0], [0, 1]]
    (tmp_path / "drawn").mkdir()
    drawn = SMALL.replace('kind = "games"', 'kind = "games"\norder = "drawn"')
    runner = runner_of(menu, tmp_path / "drawn", drawn)
    for number in range(1, 200):
        runner.people.join(None, f"{number}")
    orders = [tuple(runner.order(person, 1)) for person in range(1, 200)]
    assert orders == [tuple(runner.order(person, 1)) for person in range(1, 200)]
    assert 70 < orders.count((0, 1)) < 130


def test_who_declines_uses_up_no_order(menu, tmp_path):
    """Of seven people three decline; the others are spread over both orders."""
    runner = runner_of(menu, tmp_path, SMALL)
    people = [join(runner) for _ in range(7)]
    for person in people:
        runner.answer(person, {"agree": "no" if person.person in (2, 4, 6) else "yes"})
    orders = [runner.order(person, 1) for person in (1, 3, 5, 7)]
    assert orders == [[0, 1], [1, 0], [0, 1], [1, 0]]


def test_orders_of_people_who_leave_are_given_again(menu, tmp_path):
    """Of ten people, those who begin with the first game leave in the first half."""
    runner = runner_of(menu, tmp_path, SMALL)
    stay = []
    for number in range(10):
        person = join(runner)
        runner.answer(person, {"agree": "yes"})
        order = runner.order(person.person, 1)
        if number < 5 and order == [0, 1]:
            runner.leave(runner.people.get(person.person))
        else:
            stay.append(order)
    assert abs(stay.count([0, 1]) - stay.count([1, 0])) <= 1


def test_an_id_takes_part_once_from_any_browser(menu, tmp_path):
    plan = "most_people = 1\nid_once = true\n" + SMALL
    with taking_part(menu, tmp_path, plan, "abc") as (first, runner):
        client = first.client
        again = Participant(client, "abc")
        assert again.until("game")["game"] == first.until("game")["game"]
        first.leave()
        assert Participant(client, "abc").now()["outcome"] == again.now()["outcome"] == "left"
        assert "does not contain your id" in problem_of_joining(client)
    assert [x["id"] for x in runner.people.rows("people")] == ["abc"]


def test_who_declines_is_asked_nothing_more(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    with client_of(runner) as client:
        person = Participant(client)
        person.answer(agree="no")
        assert person.now()["outcome"] == "declined"
        assert person.answer_at("0.0.0", agree="yes").status_code == 200
        assert person.now()["outcome"] == "declined"


def test_answers_are_checked(menu, tmp_path):
    with taking_part(menu, tmp_path) as (person, _):
        assert "play the game first" in person.answer_at("1.0.0", fluent=3).json()["text"]
        person.play(person.until("game"))
        person.until("questions")
        for wrong in (0, 8, "7", None, "x", " "):
            assert person.answer(fluent=wrong).status_code == 400
        assert "no such question" in person.answer(fluent=3, other=1).json()["text"]


BODIES = ["", "{}", "[]", '{"at": 1, "answers": {}}', "x" * 200_000, b"\xff", b"\x00"]
UNREADABLE = [
    b'{"at": "0.0.0", "answers": {"x": "\xff"}}',
    b'{"on\xff": true}',
    b'{"token": "\xff"}',
]


@pytest.mark.parametrize("body", [*BODIES, *UNREADABLE])
def test_malformed_answers_get_a_sentence(menu, tmp_path, body):
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        person = Participant(client)
        for path, headers in (
            ("study/answer", person.headers),
            ("study/join", {}),
            ("admin/stop", {"x-token": "secret"}),
        ):
            answer = client.post(f"/api/{path}", content=body, headers=headers)
            assert answer.status_code == 400
            assert answer.json()["text"]
        unknown = client.get("/api/study/now?wait=%ff", headers={"x-token": b"\xff"})
        assert unknown.status_code == 401


def test_a_tutorial_is_passed_or_not(menu, tmp_path):
    stage = f"""
[[stage]]
kind = "tutorial"
attempts = 2
score = 20
text = "Deliver one soup."
game = {{layout = "ring", partner = "{NOBODY}"}}
"""
    with client_of(runner_of(menu, tmp_path, f'title = "T"\n{stage}')) as client:
        person = Participant(client)
        for attempt in range(2):
            found = person.until("game")
            missing = "You reached 0 of 20 points. You have one try left. "
            assert found["note"] == missing * attempt + "Deliver one soup."
            person.play(found)
        end = person.until("end")
        assert end["outcome"] == "failed"
        assert end["text"].startswith("You reached 0 of 20 points. This was your last try.\n\nThe ")
    (tmp_path / "easy").mkdir()
    easy = f'title = "T"\n{stage.replace("score = 20", "score = 0")}'
    with client_of(runner_of(menu, tmp_path / "easy", easy)) as client:
        person = Participant(client)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"


def test_after_a_restart_people_go_on_where_they_were(menu, tmp_path):
    with taking_part(menu, tmp_path) as (person, runner):
        person.play(person.until("game"))
        person.until("questions")
    runner.people.close()
    runner = runner_of(menu, tmp_path, SMALL)
    with client_of(runner) as client:
        person.client = client
        assert person.now()["kind"] == "questions"
        person.answer(fluent=2)
        person.play(person.until("game"))


def test_a_game_that_the_end_of_the_server_cut_is_played_anew(menu, tmp_path):
    with taking_part(menu, tmp_path) as (person, runner):
        first = person.until("game")
        with person.client.websocket_connect(f"/api/games/{first['game']}") as socket:
            join_game(socket, first["token"])
            receive_until(socket, status="waiting")
    runner.people.close()
    runner = runner_of(menu, tmp_path, SMALL)
    with client_of(runner) as client:
        person.client = client
        again = person.until("game")
        assert again["game"] != first["game"]
        person.play(again)
        assert person.until("questions")["questions"][0]["name"] == "fluent"
    ends = [(x["outcome"], x["reason"]) for x in runner.people.rows("games")]
    assert ends == [("cut", "server"), ("finished", "episode")]


def test_ids_are_encoded_in_the_redirect(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    person = join(runner, "a&code=x é")
    runner.people.end(person.person, "finished", "C0DE")
    shown = asyncio.run(runner.show(runner.people.get(person.person)))
    assert shown["redirect"] == "https://example.org/done?who=a%26code%3Dx%20%C3%A9&code=C0DE"


def test_a_number_is_forgotten_only_if_it_is_nobodys_id(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    for id in ("2", "second", None):
        join(runner, id)
    forget(runner.people, tmp_path, "2")
    assert [row[:2] for row in runner.people.table("people")[1]] == [(2, "second"), (3, None)]
    forget(runner.people, tmp_path, "3")
    assert [row[:2] for row in runner.people.table("people")[1]] == [(2, "second")]
    assert join(runner).person == 4  # the number of nobody who was forgotten


def test_when_it_is_full_or_stopped_nobody_can_join(menu, tmp_path):
    runner = runner_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    with client_of(runner) as client:
        person = Participant(client)
        assert "come back" in problem_of_joining(client)
        wrong = {"x-token": "wrong"}
        assert client.post("/api/admin/stop", json={"on": True}, headers=wrong).status_code == 400
        assert client.get("/api/admin").status_code == 400
        assert client.get("/api/admin", headers=ADMIN).json()["people"][0]["stage"] == 0
        stop(client)
        assert "stopped" in problem_of_joining(client)
        person.answer(agree="yes")
        assert person.now()["outcome"] == "stopped"
        stop(client, on=False)
        assert person.until("game")


def test_people_of_a_study_choose_no_games(menu, tmp_path):
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        for path in ("/api/menu", "/api/layouts/0", "/api/recordings"):
            assert client.get(path).status_code == 404
        assert client.post("/api/games", content="{}").status_code == 404
        assert b"study.js" in client.get("/").content


def test_data_are_exported_reported_and_forgotten(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    with client_of(runner) as client:
        take_part(client, "Peter", fluent=6)
        take_part(client, "xyz", fluent=3)
        Participant(client, "gone")
    runner.people.close()
    people = people_in(tmp_path)
    for path in export(people, tmp_path):
        assert path.exists()
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows if row["question"] == "fluent"] == ["6", "6", "3", "3"]
    assert set(rows[0]) == set(DICTIONARY["answers"])
    with (tmp_path / "games.csv").open(newline="") as file:
        assert [row["layout"] for row in csv.DictReader(file)] == ["ring"] * 4
    text = report_of(people)
    assert "3 people: 2 finished, 1 not finished" in text
    assert "mean 4.50" in text
    assert "0 of 4 games were left before their end" in text
    journals = len(list(tmp_path.glob("*.jsonl")))
    assert forget(people, tmp_path, "Peter") >= 2
    assert len(list(tmp_path.glob("*.jsonl"))) == journals - 2
    assert "Peter" not in json.dumps([people.table(name) for name in DICTIONARY])
    people.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{DATA}*"))
    assert b"xyz" in content
    assert b"Peter" not in content
    with pytest.raises(UsageError, match="no person with the id"):
        forget(people_in(tmp_path), tmp_path, "Peter")


def test_the_data_survive_a_crash(menu, tmp_path):
    """What was answered is in the file before the next answer is read."""
    with (
        taking_part(menu, tmp_path),
        contextlib.closing(sqlite3.connect(tmp_path / DATA)) as other,
    ):
        assert other.execute("SELECT stage FROM people").fetchall() == [(1,)]
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("plan", "old", "new", "says"),
    [
        (SMALL, "title", "titel", "titel"),
        (SMALL, 'layout = "ring"', "", "layout"),
        (SMALL, 'right = "b"', 'right = "c"', "not one of its possible answers"),
        (SMALL, "https://", "javascript:", "https://"),
        (
            SMALL,
            'name = "program"\nseat = 1',
            f'[[stage.game]]\nlayout = "ring"\npartner = "{NOBODY}"\nname = "nobody"',
            "two games 'nobody'",
        ),
        (SMALL, "{id}", "{ID}", r"\{ID\} in a `redirect`; known are id, code"),
        (SMALL, "[[stage]]", "[[stage", "TOML"),
        (SMALL, 'name = "remarks"', 'name = "attentive"', "twice at the same stage"),
        (SMALL, "seat = 1", "seat = 2", "has 2 seats"),
        (PAIRS, "fallback", "name", "fallback"),
        (PAIRS, "fallback", "seat = 0\nfallback", "seats are random"),
    ],
)
def test_bad_plans_are_refused_in_a_sentence(menu, tmp_path, plan, old, new, says):
    with pytest.raises(UsageError, match=says) as caught:
        runner_of(menu, tmp_path, plan.replace(old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("blank", ["", " ", "\n\t ", "\u00a0", "\u200b", "\u3000 \ufeff"])
def test_blanks_are_no_answer(menu, tmp_path, blank):
    required = Question(name="x", text="X?", kind="text")
    assert required.problem(blank) == "Please answer all questions."
    assert required.problem(f"{blank}é{blank}") is None
    runner = runner_of(menu, tmp_path, f'title = "T"\n{QUESTIONS}')
    runner.answer(join(runner), {"attentive": "b", "remarks": blank})
    assert {x["question"]: x["answer"] for x in runner.people.rows("answers")} == {
        "attentive": "b",
        "remarks": None,
    }


def test_an_answer_counts_at_its_place_alone(menu, tmp_path):
    """That of an older window, or of a second click, changes nothing."""
    with taking_part(menu, tmp_path) as (person, runner):
        for game in range(2):
            person.play(person.until("game"))
            asked = person.until("questions")
            assert person.answer_at(asked["at"], fluent=5 + game).status_code == 200
            assert person.answer_at(asked["at"], fluent=1).status_code == 200
        assert person.until("questions")["questions"][0]["name"] == "attentive"
    assert [x["answer"] for x in runner.people.rows("answers")] == ["5", "6"]


def test_a_page_that_is_unknown_is_told_so(menu, tmp_path):
    """So that it joins anew, as after `forget`, or in another study at the same address."""
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        for method, path in (("GET", "now"), ("POST", "answer"), ("POST", "here")):
            answer = client.request(method, f"/api/study/{path}", headers={"x-token": "old"})
            assert answer.status_code == 401
            assert "not part of the study" in answer.json()["text"]


def test_studies_differ_by_a_name_of_their_own(menu, tmp_path):
    names = set()
    for folder in ("one", "two", "two"):
        (tmp_path / folder).mkdir(exist_ok=True)
        with client_of(runner_of(menu, tmp_path / folder, SMALL)) as client:
            names.add(client.get("/api/study").json()["study"])
    assert len(names) == 2


def test_an_empty_id_is_none(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    for id in ("", "  ", None):
        join(runner, id)
    assert [x["id"] for x in runner.people.rows("people")] == [None] * 3
    assert {x["detail"] for x in runner.people.rows("events")} == {""}


def test_a_tutorial_is_over_when_its_score_is_reached(long_menu, tmp_path):
    stage = """
[[stage]]
kind = "tutorial"
score = 3
game = {layout = "ring", partner = "greedy"}
"""
    runner = runner_of(long_menu, tmp_path, f'title = "T"\n{stage}')
    with client_of(runner) as client:
        person = Participant(client)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"
    [game] = runner.people.rows("games")
    assert (game["outcome"], game["reason"], game["score"]) == ("finished", "goal", 20)
    assert game["steps"] < 400


def test_the_overview_tells_who_plays_and_who_is_away(long_menu, tmp_path):
    with taking_part(long_menu, tmp_path) as (person, _):

        def seen():
            return person.client.get("/api/admin", headers=ADMIN).json()["people"][0]

        assert not seen()["away"]
        found = person.until("game")
        with person.client.websocket_connect(f"/api/games/{found['game']}") as socket:
            join_game(socket, found["token"])
            press(socket, action=0)
            receive_until(socket, step=3)
            now = seen()
            assert re.fullmatch(r"nobody \(ring\), step \d+", now["game"])
            assert (now["away"], now["file"], now["score"]) == (False, found["game"], 0)
        until(lambda: seen()["away"])
        person.leave()
        assert (seen()["away"], "game" in seen()) == (False, False)


WAYS_OUT = """
parameters = ["STUDY_ID"]
[ending.left]
code = "LEFT"
redirect = "https://example.org/left?who={id}&study={STUDY_ID}&code={code}"
[ending.expired]
text = "Too late."
"""


def test_people_stop_in_the_middle_of_a_game_and_get_a_link_of_their_own(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL.replace("[[stage]]", f"{WAYS_OUT}[[stage]]", 1))
    with client_of(runner) as client:
        person = Participant(client, "abc", STUDY_ID="7 x", OTHER="1")
        person.answer(agree="yes")
        found = person.until("game")
        assert found["note"] == "Game 1 of 2"
        assert found["progress"] == pytest.approx(1 / 3)
        for _ in range(2):
            person.leave()
        end = person.now()
        assert (end["outcome"], end["code"]) == ("left", "LEFT")
        assert end["redirect"] == "https://example.org/left?who=abc&study=7%20x&code=LEFT"
        until(lambda: not runner.players(found["game"]))
        assert person.now()["outcome"] == "left"
    assert json.loads(runner.people.rows("people")[0]["parameters"]) == {"STUDY_ID": "7 x"}


def test_what_people_did_in_a_game_is_stored(long_menu, tmp_path):
    plan = SMALL.replace('text = "May we?"', 'text = "May we record keys?"\nkeys = true')
    with taking_part(long_menu, tmp_path, plan) as (person, runner):
        found = person.until("game")
        for visit in range(2):
            with person.client.websocket_connect(f"/api/games/{found['game']}") as socket:
                join_game(socket, found["token"])
                assert socket.receive_json()["keys"]
                receive_until(socket, status="waiting")
                socket.send_json({"type": "hidden", "on": True})
                socket.send_json({"type": "key", "key": "KeyQ", "time": 5.0})
                up = {"type": "press", "choice": 0, "action": 0, "key": "ArrowUp"}
                for time_of_page in (6.0, 7.0, 8.0):  # of which two can wait for their steps
                    socket.send_json({**up, "time": time_of_page})
                socket.send_json({"type": "key", "key": "ArrowUp", "time": 9.0, "down": False})
                while socket.receive_json().get("step", 0) < 40 * (visit + 1):
                    pass
        person.leave()
        until(lambda: not runner.players(found["game"]))
    [game] = runner.people.rows("games")
    assert (game["outcome"], game["reason"], game["left_how"]) == ("left", "left", "left")
    assert (game["reloads"], game["disconnections"], game["hidden"]) == (1, 0, 2)
    assert game["left_by"] == str(game["seat"])
    assert game["hidden_s"] > 0.5
    assert 0.15 < game["longest_idle_s"] < game["left_s"]  # three presses in 40 steps
    keys = recorded_rows(runner.people, tmp_path, "keys")
    presses = [("KeyQ", 5.0), ("ArrowUp", 6.0), ("ArrowUp", 7.0), ("ArrowUp", 8.0)]
    sent = [*((*x, "press") for x in presses), ("ArrowUp", 9.0, "release")]
    assert [(x["key"], x["page_ms"], x["event"]) for x in keys] == 2 * sent
    steps = [x["step"] for x in keys if x["step"] is not None]
    # Two presses of each visit count, or all three if a step came between them.
    assert 4 <= len(steps) == game["actions"] <= 6
    assert keys[0]["step"] is keys[5]["step"] is None  # no key of the game
    stored = {x["step"]: x for x in recorded_rows(runner.people, tmp_path, "steps")}
    assert [*stored] == [*range(1, game["steps"] + 1)]
    assert {stored[x]["source"] for x in steps} <= {"press", "queue"}
    assert {stored[x]["action"] for x in steps} == {"0"}
    assert stored[20]["source"] == "silence"  # this page says nothing about its frames
    assert steps == sorted(set(steps))
    assert steps[0] == 1


def test_after_its_time_the_study_ends_for_a_person(menu, tmp_path):
    plan = f"most_minutes = 0.001\n{SMALL}".replace("[[stage]]", f"{WAYS_OUT}[[stage]]", 1)
    with client_of(runner_of(menu, tmp_path, plan)) as client:
        person = Participant(client)
        time.sleep(0.07)
        assert (person.now()["outcome"], person.now()["text"]) == ("expired", "Too late.")


def test_a_game_without_a_step_begins_anew(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_study_runner, "_ALONE", (0.1, 0.1, 0.1))
    with taking_part(menu, tmp_path) as (person, runner):
        first = person.until("game")
        until(lambda: person.until("game")["game"] != first["game"])
    games = runner.people.rows("games")
    assert (games[0]["outcome"], games[0]["reason"]) == ("not begun", "absent")
    assert {x["attempt"] for x in games} == {0}


def test_a_stopped_study_stays_stopped_until_it_goes_on(menu, tmp_path):
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        stop(client)
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        assert client.get("/api/admin", headers=ADMIN).json()["stopped"]
        assert "stopped" in problem_of_joining(client)
        stop(client, on=False)
        Participant(client)


def test_who_reads_for_long_keeps_the_place(menu, tmp_path):
    runner = runner_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    runner.people.close()
    now = [0.0]
    runner.people = people_in(tmp_path, lambda: now[0])
    with client_of(runner) as client:
        person = Participant(client)
        for _ in range(5):
            now[0] += 60
            client.post("/api/study/here", content="{}", headers=person.headers)
        assert "come back" in problem_of_joining(client)
        now[0] += 100
        Participant(client)


def test_who_was_forgotten_in_a_game_breaks_nothing(menu, tmp_path, capsys):
    with taking_part(menu, tmp_path, id="abc") as (person, runner):
        found = person.until("game")
        runner.people.forget("abc")
        person.play(found)
        until(lambda: not runner.players(found["game"]))
        Participant(person.client)
    assert "Traceback" not in capsys.readouterr().err


def test_nobody_is_forgotten_while_the_study_goes_on(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    join(runner, "abc")
    with locked(tmp_path), pytest.raises(UsageError, match="Another process"):
        forget(runner.people, tmp_path, "abc")
    assert runner.people.first("abc")


def test_each_person_gets_a_code(menu, tmp_path):
    plan = f'title = "T"\nredirect = "https://example.org/?cc={{code}}"\n{QUESTIONS}'
    runner = runner_of(menu, tmp_path, plan)
    people = [join(runner, id) for id in ("abc", None, "abc", "gone")]
    for person in people[:3]:
        runner.answer(person, RIGHT)
    runner.leave(people[3])
    stored = [x["code"] for x in runner.people.rows("people")]  # before they are shown
    assert all(re.fullmatch(r"(\w{4}-){2}\w{4}", code) for code in stored[:3])
    assert len(set(stored)) == 4
    runner.people.close()
    runner = runner_of(menu, tmp_path, plan)  # after a restart
    for number, code in enumerate(stored[:3], start=1):
        shown = asyncio.run(runner.show(runner.people.get(number)))
        assert (shown["code"], shown["redirect"]) == (code, f"https://example.org/?cc={code}")
    join(runner, "new")
    export(runner.people, tmp_path)
    with (tmp_path / "codes.csv").open(newline="") as file:
        listed = [(x["id"], x["code"], x["outcome"]) for x in csv.DictReader(file)]
    ids, ends = ("abc", "", "abc", "gone"), ["finished"] * 3 + ["left"]
    assert listed == list(zip(ids, [*stored[:3], ""], ends, strict=True))


def test_the_code_of_a_plan_is_for_all(menu, tmp_path):
    runner = runner_of(menu, tmp_path, f'title = "T"\ncode = "C0DE"\n{QUESTIONS}')
    for _ in range(2):
        runner.answer(join(runner), RIGHT)
    assert [x["code"] for x in runner.people.rows("people")] == ["C0DE"] * 2


ENTRY = """
id_once = true
[entry]
browsers = ["firefox", "safari"]
screen = [800, 600]
latency = 300
[ending.excluded]
text = "See you."
redirect = "https://example.org/out?who={id}"
"""
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"


def test_people_who_cannot_take_part_are_told_why_and_may_come_back(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL.replace("[[stage]]", f"{ENTRY}[[stage]]", 1))
    fits = {"browser": FIREFOX, "screen": [1024, 768], "latency_ms": 40.5}
    with client_of(runner) as client:
        assert client.get("/api/study").json()["latency"]
        for reason, measured, says in (
            ("browser", {"browser": CHROME}, "open your link in Firefox or Safari."),
            ("screen", {"screen": [844, 390]}, "at least 800 by 600 pixels"),
            ("latency", {"latency_ms": 301}, "too slow"),
            ("latency", {"latency_ms": None}, "too slow"),
        ):
            person = Participant(client, "abc", fits | measured)
            end = person.now()
            assert (end["kind"], end["outcome"], end["copy"]) == ("end", "excluded", "")
            assert says in end["text"]
            assert end["text"].endswith("See you.")
            assert end["redirect"] == "https://example.org/out?who=abc"
            [row] = runner.people.rows("people")
            assert (row["outcome"], row["reason"]) == ("excluded", reason)
            assert row["latency_ms"] is None
        assert "1 excluded" in report_of(runner.people)
        person.join(id="abc", **fits)  # after a reload with a better connection
        assert person.now()["kind"] == "consent"
        person.join(id="abc")  # this person takes part, and is not measured again
        assert person.now()["kind"] == "consent"
    [row] = runner.people.rows("people")
    assert (row["outcome"], row["reason"], row["latency_ms"]) == (None, "", 40.5)


def test_a_wrong_answer_may_end_the_study(menu, tmp_path):
    question = """
[[stage]]
kind = "questions"
[[stage.question]]
name = "age"
text = "Are you {18} or older?"
kind = "choice"
options = ["yes", "no"]
right = "yes"
exclude = true
"""
    runner = runner_of(
        menu, tmp_path, f'title = "T"\n{question}{SMALL[SMALL.index("[[stage]]") :]}'
    )
    with client_of(runner) as client:
        one, two = Participant(client), Participant(client)
        assert "exclude" not in one.now()["questions"][0]
        one.answer(age="yes")
        assert one.now()["kind"] == "consent"
        two.answer(age="no")
        assert "your answer to “Are you {18} or older?”, the study ends" in two.now()["text"]
        two.join()
        assert two.now()["outcome"] == "excluded"
    found = [(x["outcome"], x["reason"]) for x in runner.people.rows("people")]
    assert found == [(None, ""), ("excluded", "question age")]
    assert [x["person"] for x in runner.people.rows("answers")] == [1]
    with pytest.raises(UsageError, match="`exclude` for 'age', which needs the `right` answer"):
        runner_of(menu, tmp_path, 'title = "T"\n' + question.replace('right = "yes"\n', ""))


def test_scores_earn_a_bonus_once_for_each_id(menu, tmp_path):
    tutorial = f"""
[[stage]]
kind = "tutorial"
game = {{layout = "ring", partner = "{NOBODY}"}}
"""
    bonus = '[bonus]\nper_point = 0.015\nmost = 2.0\ncurrency = "GBP"\n'
    plan = SMALL.replace("[[stage]]", bonus + tutorial + "[[stage]]", 1)
    runner = runner_of(menu, tmp_path, plan)
    people = runner.people
    for id, scores in (
        ("abc", [60, 30]),
        ("rich", [900]),
        ("abc", [20]),
        (None, [20]),
        ("no", [0]),
    ):
        person = join(runner, id).person
        write_game(people, person, f"t{person}", [500.0] * 2, stage=0)
        for number, score in enumerate(scores):
            write_game(people, person, f"{person}-{number}", [score] * 2, stage=2)
        people.set_bonus(person, runner._bonus_stages, 0.015, 2.0)
    export(people, tmp_path)
    assert (tmp_path / "bonus.csv").read_text().split() == ["abc,1.35", "rich,2.00"]
    runner.leave(people.get(1))
    end = asyncio.run(runner.show(people.get(1)))
    assert end["text"].endswith("Your bonus is 1.35 GBP.")


def test_who_agreed_gets_a_copy_to_keep(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    for agree, answer in (("yes", "I agree"), ("no", "I do not take part")):
        person = join(runner)
        asyncio.run(runner.show(person))
        runner.answer(person, {"agree": agree})
        runner.leave(runner.people.get(person.person))
        end = asyncio.run(runner.show(runner.people.get(person.person)))
        at = runner.people.rows("pages")[-2]["answered"][:16].replace("T", " ")
        head = f"Small (participant {person.person})\n\nConsent\n\nMay we?\n\n"
        assert end["copy"] == f"{head}Answer: {answer} ({at} UTC)"


def test_pages_and_orders_are_stored_before_the_first_game(menu, tmp_path):
    with taking_part(menu, tmp_path, SMALL) as (person, runner):
        person.until("game")
        other = Participant(person.client)
        other.now()
        other.answer(agree="yes")
        runner.order(2, 1)
        other.leave()
        person.play(person.until("game"))
        asked = person.until("questions")
        time.sleep(0.01)
        person.answer_at(asked["at"], fluent=3)
    people = runner.people
    orders = [(x["person"], x["stage"], x["numbers"], x["names"]) for x in people.rows("orders")]
    assert orders == [
        (1, 1, "[0, 1]", '["nobody", "program"]'),
        (2, 1, "[1, 0]", '["program", "nobody"]'),
    ]
    pages = {(x["person"], x["stage"], x["game"], x["kind"]): x for x in people.rows("pages")}
    assert {x[1:] for x in pages if x[0] == 1} >= {
        (0, -1, "consent"),
        (1, 0, "game"),
        (1, 0, "questions"),
    }
    assert {x[1:] for x in pages if x[0] == 2} == {(0, -1, "consent")}
    consent, page = pages[1, 0, -1, "consent"], pages[1, 1, 0, "questions"]
    assert consent["shown"] <= consent["answered"] <= page["shown"] < page["answered"]
    assert pages[1, 1, 0, "game"]["answered"] is None
    [answer] = people.rows("answers")
    assert (answer["shown"], answer["at"]) == (page["shown"], page["answered"])


def test_a_page_is_shown_once(menu, tmp_path):
    """A reload does not change when a question was first shown."""
    runner = runner_of(menu, tmp_path, f'title = "T"\n{QUESTIONS}')
    person = join(runner)
    for _ in range(2):
        asyncio.run(runner.show(person))
        [page] = runner.people.rows("pages")
        time.sleep(0.01)
    runner.answer(person, RIGHT)
    answered = runner.people.rows("answers")[0]["at"]
    assert runner.people.rows("pages")[0] == page | {"answered": answered}
    assert page["shown"] < answered
    asyncio.run(runner.show(runner.people.get(person.person)))
    assert [x["kind"] for x in runner.people.rows("pages")] == ["questions", "end"]


NOT_EXPORTED = {
    "people": {"token", "game", "asked"},
    "facts": {"name", "value"},
    "turns": {"person", "stage", "turn"},
    "tokens": {"token", "person"},
}
"""The columns that the program needs, and that say nothing about people."""


def test_the_dictionary_explains_all_columns(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    join(runner)
    files = export(runner.people, tmp_path)
    explained = json.loads((tmp_path / "dictionary.json").read_text())
    assert all(text for columns in explained.values() for text in columns.values())
    tables = {path.stem for path in files} - {"dictionary"}
    assert tables == set(explained)
    for name, columns in explained.items():
        header = (tmp_path / f"{name}.csv").read_text().splitlines()[:1]
        assert header == ([",".join(columns)] if name != "bonus" else [])
    with contextlib.closing(sqlite3.connect(tmp_path / DATA)) as data:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        stored = {
            name: {row[1] for row in data.execute(f"PRAGMA table_info({name})")}
            for (name,) in data.execute(query).fetchall()
        }
    for name, columns in stored.items():
        assert columns == NOT_EXPORTED.get(name, set()) | explained.get(name, {}).keys()


def test_data_of_another_version_get_a_sentence(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / DATA)) as data:
        data.execute("CREATE TABLE answers (person INTEGER, answer TEXT)")
    with pytest.raises(UsageError, match="another version of eqgrid"), open_people(tmp_path):
        pass


def test_spreadsheets_get_no_formulas(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    person = join(runner, "=1+1")
    runner.people.answer(person.person, 2, -1, {"remarks": "@SUM(A1)", "plain": "a=b", "n": -3})
    export(runner.people, tmp_path)
    with (tmp_path / "answers.csv").open(newline="") as file:
        assert [row["answer"] for row in csv.DictReader(file)] == ["'@SUM(A1)", "a=b", "-3"]
    with (tmp_path / "people.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["'=1+1"]


def test_empty_tables_have_their_columns(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    export(runner.people, tmp_path)
    assert (tmp_path / "games.csv").read_text().splitlines() == [",".join(DICTIONARY["games"])]


def test_the_report_tells_fallbacks_and_games_apart(tmp_path):
    people = people_in(tmp_path)
    pair = {"name": "together", "partner": "person"}
    for number, file in enumerate(["f0", "f0", "f2", "f3"]):
        person = people.join(f"p{number}", f"{number}" * 32).person
        begin_game(people, person, file, seat=number % 2, **pair)
        people.answer(person, 1, 0, {"fluent": number + 1, "why": "très bien"})
        pair["partner"] = "person" if number < 1 else NOBODY
    for file, score in (("f0", 100.0), ("f2", 20.0), ("f3", 40.0)):
        people.end_game(file, [score] * 2, 8, "finished", {0: {}, 1: {}})
    text = report_of(people)
    assert re.search(r"together +person +2 +100\.0 *\n", text)  # one pair has no interval
    assert re.search(rf"together +{NOBODY} +2 +30\.0 +20\.0 to 40\.0", text)
    assert re.search(r"fluent +together \(person\) +2 +mean 1\.50", text)
    assert re.search(rf"fluent +together \({NOBODY}\) +2 +mean 3\.50", text)
    assert "très bien" in text


def test_a_question_before_and_after_the_games_is_reported_for_each_time(tmp_path):
    people = people_in(tmp_path)
    for number in range(4):
        person = people.join(f"id{number}", f"{number}" * 32).person
        people.answer(person, 0, -1, {"mood": 1})
        people.answer(person, 2, -1, {"mood": 7})
    text = report_of(people)
    assert re.search(r"0 +mood +4 +mean 1\.00", text)
    assert re.search(r"2 +mood +4 +mean 7\.00", text)


def test_a_game_of_two_stages_is_reported_for_each(tmp_path):
    """As of a tutorial, whose games would be among the others."""
    people = people_in(tmp_path)
    for file, stage, score in (("a", 1, 0.0), ("b", 1, 0.0), ("c", 3, 100.0), ("d", 3, 100.0)):
        person = people.join(file, file * 32).person
        write_game(people, person, file, [score, score], stage=stage)
    text = report_of(people)
    assert re.search(rf"1 +ring +mine +{NOBODY} +2 +0\.0", text)
    assert re.search(rf"3 +ring +mine +{NOBODY} +2 +100\.0", text)


def test_own_scores_are_stored_and_reported_first(tmp_path):
    people = people_in(tmp_path)
    for file in ("a", "b"):
        write_game(people, people.join(None, file * 32).person, file, [3.0, 37.0])
    assert [(x["score"], x["mean_score"]) for x in people.rows("games")] == [(3.0, 20.0)] * 2
    text = report_of(people)
    assert "of all agents" in text
    assert re.search(rf"{NOBODY} +2 +3\.0 +3\.0 to 3\.0 +20\.0", text)


def test_orders_are_reported(tmp_path):
    people = people_in(tmp_path)
    for number in range(5):
        person = people.join(None, f"{number}" * 32).person
        for game in range(2):
            planned = (number + game) % 2
            where = {"game": game, "number": planned, "name": f"game-{planned}"}
            write_game(people, person, f"f{number}-{game}", [0.0, 0.0], **where)
    text = report_of(people)
    assert re.search(r"1 +game-0, game-1 +3 *\n", text)
    assert re.search(r"1 +game-1, game-0 +2 *\n", text)


def test_one_id_in_two_browsers_is_marked_and_counted_once(menu, tmp_path):
    runner = runner_of(menu, tmp_path, SMALL)
    people = runner.people
    for id in ("abc", "xyz", "abc", None, None):
        join(runner, id)
    assert [x["same_as"] for x in runner.people.rows("people")] == [None, None, 1, None, None]
    assert [x["detail"] for x in runner.people.rows("events")] == ["", "", "a repeated id", "", ""]
    for person, score in ((1, 20.0), (2, 60.0), (3, 40.0)):
        write_game(people, person, f"f{person}", [score] * 2)
        people.answer(person, 1, 0, {"fluent": person})
    people.end(1, "declined")
    people.end(3, "finished")
    text = report_of(people)
    assert "4 people: 1 finished, 3 not finished" in text
    assert "browsers with a repeated id: 1" in text
    assert re.search(rf"{NOBODY} +2 +45\.0", text)
    assert re.search(r"fluent .* 2 +mean 1\.50", text)
    with client_of(runner) as client:
        found = client.get("/api/admin", headers=ADMIN).json()
    assert found["outcomes"] == {"finished": 1, "not finished": 3}


def test_data_that_are_damaged_get_a_sentence(tmp_path):
    (tmp_path / DATA).write_bytes(b"no database" * 100)
    says = "cannot be used: file is not a database"
    with pytest.raises(UsageError, match=says), open_people(tmp_path):
        pass


def test_the_right_answer_of_a_scale_is_a_number(tmp_path):
    scale = SMALL.replace('kind = "choice"\noptions = ["a", "b"]\nright = "b"', "right = 3")
    (tmp_path / "plan.toml").write_text(scale)
    assert read_plan(tmp_path / "plan.toml").stage[2].questions[0].right == 3
    (tmp_path / "plan.toml").write_text(scale.replace("right = 3", 'right = "3"'))
    with pytest.raises(UsageError, match="not one of its possible answers"):
        read_plan(tmp_path / "plan.toml")


def test_a_result_is_noted_once_the_data_are_free(menu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_study_runner, "_NOTE_AGAIN", 0.05)
    with taking_part(menu, tmp_path) as (person, runner):
        found = person.until("game")
        with contextlib.closing(sqlite3.connect(tmp_path / DATA, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            person.play(found)
            until(lambda: "cannot be recorded yet" in capsys.readouterr().err)
            other.execute("ROLLBACK")
        assert person.until("questions")["questions"][0]["name"] == "fluent"
    assert [row["outcome"] for row in runner.people.rows("games")] == ["finished"]


def test_a_result_that_can_never_be_noted_does_not_hold_up_the_end(menu, tmp_path, monkeypatch):
    monkeypatch.setattr(_study_runner, "_NOTE_AGAIN", 0.05)
    monkeypatch.setattr(_study_runner, "_MOST_ATTEMPTS", 2)
    with taking_part(menu, tmp_path) as (person, runner):
        found = person.until("game")
        other = sqlite3.connect(tmp_path / DATA, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        person.play(found)
    other.close()
    assert [row["outcome"] for row in runner.people.rows("games")] == [None]


def test_rows_are_forgotten_after_their_files(menu, tmp_path, monkeypatch):
    runner = runner_of(menu, tmp_path, SMALL)
    begin_game(runner.people, join(runner, "abc").person, "1-ring")
    (tmp_path / "1-ring.npz").write_bytes(b"")
    with monkeypatch.context() as context:
        context.setattr(Path, "unlink", lambda *_: (_ for _ in ()).throw(OSError("busy")))
        with pytest.raises(OSError, match="busy"):
            forget(runner.people, tmp_path, "abc")
    assert forget(runner.people, tmp_path, "abc") == 1
    assert not (tmp_path / "1-ring.npz").exists()
    assert runner.people.first("abc") is None


def test_who_joins_twice_with_a_token_is_one_person(menu, tmp_path):
    runner = runner_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    with client_of(runner) as client:
        token = {"token": "t" * 48}
        first, second = (client.post("/api/study/join", json=token) for _ in range(2))
        assert first.json() == second.json() == {"person": 1}
    assert [row["event"] for row in runner.people.rows("events")] == ["joined"]


def test_after_a_restart_places_are_still_taken(menu, tmp_path):
    runner = runner_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    person = join(runner)
    runner.people.close()
    runner = runner_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    with pytest.raises(UsageError, match="All places are taken"):
        join(runner)
    runner.people.end(person.person, "finished")
    runner.people.close()
    join(runner_of(menu, tmp_path, "most_people = 1\n" + SMALL))


def test_the_time_without_a_server_is_no_silence(tmp_path):
    people = people_in(tmp_path)
    for number in range(3):
        people.join(None, f"{number}")
    people.end(3, "finished")
    for person, minute in ((1, "00"), (2, "59"), (3, "59")):  # the server stopped long ago
        query = f"UPDATE people SET seen = '2026-01-01T00:{minute}:00.000+00:00' WHERE person = ?"
        people._db.execute(query, (person,))
    people.close()
    assert people_in(tmp_path, lambda: 7.0).present(90.0) == {2}


def test_an_id_that_is_too_long_gets_a_sentence(menu, tmp_path):
    with client_of(runner_of(menu, tmp_path, SMALL)) as client:
        problem = problem_of_joining(client, id="x" * 201)
    assert problem.startswith("The id in the address is longer than 200 characters")


def test_a_stage_of_many_long_answers_is_taken(menu, tmp_path):
    question = '[[stage.question]]\nname = "q{}"\ntext = "Why?"\nkind = "text"\n'
    plan = 'title = "Long"\n[[stage]]\nkind = "questions"\n' + "".join(
        question.format(i) for i in range(50)
    )
    with client_of(runner_of(menu, tmp_path, plan)) as client:
        person = Participant(client)
        assert person.answer(**{f"q{i}": "é" * 5000 for i in range(50)}).status_code == 200
        assert person.now()["kind"] == "end"


async def _leaves_in_the_middle(app, path):
    """Posts half of a body, and goes."""
    parts = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return parts.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"host", b"testserver")], "http_version": "1.1",
        "scheme": "http", "root_path": "", "client": ("c", 1), "server": ("testserver", 80),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent


def test_who_goes_in_the_middle_of_an_answer_leaves_no_traceback(menu, tmp_path):
    app = client_of(runner_of(menu, tmp_path, SMALL)).app
    sent = asyncio.run(_leaves_in_the_middle(app, "/api/study/join"))
    assert sent[0]["status"] == 400
