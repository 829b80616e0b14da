"""Studies: plans, the way of people through them, and their data."""

import asyncio
import contextlib
import csv
import io
import json
import re
import sqlite3
import time
from pathlib import Path

import pytest
from rich.console import Console
from starlette.testclient import TestClient

from agents import read_table
from agents.play._app import build_app
from agents.play._hall import Hall
from agents.play._menu import Menu
from agents.play.study._course import Course
from agents.play.study._export import export, forget, open_people, report
from agents.play.study._people import DATA, DICTIONARY, People
from agents.play.study._plan import Question, read_plan
from agents.runs.display._errors import UsageError
from agents.runs.settings._page import page
from agents.runs.settings._policy_settings import default_settings
from agents.runs.worlds._worlds import Kitchen

EXAMPLE = Path(__file__).parents[2] / "experiments" / "studies" / "example.toml"
NOBODY = "nobody: it stays where it is"
SMALL = f"""
title = "Small"
code = "C0DE"
redirect = "https://example.org/done?who={{id}}&code={{code}}"
[[stage]]
kind = "consent"
text = "May we?"
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "{NOBODY}"
name = "nobody"
[[stage.game]]
layout = "ring"
partner = "a program for all tasks"
name = "program"
seat = 1
[[stage.after]]
name = "fluent"
text = "It was fluent."
[[stage]]
kind = "questions"
[[stage.question]]
name = "attentive"
text = "Choose b."
kind = "choice"
options = ["a", "b"]
right = "b"
[[stage.question]]
name = "remarks"
text = "Remarks?"
kind = "text"
optional = true
"""
PAIRS = f"""
title = "Pairs"
patience = 1
[[stage]]
kind = "games"
[[stage.game]]
layout = "ring"
partner = "person"
fallback = "{NOBODY}"
"""


@pytest.fixture(scope="module")
def menu():
    return Menu(default_settings(page("ippo"), Kitchen(layout="ring", horizon=8)))


OPEN = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()


def people_in(folder):
    OPEN.append(People(folder))
    return OPEN[-1]


def course_of(menu, folder, text):
    path = folder / "plan.toml"
    path.write_text(text)
    hall = Hall(menu, folder, ticks_per_second=60, most_games=8)
    return Course(read_plan(path), people_in(folder), hall)


class Participant:
    """Somebody who takes part by the routes of a server."""

    def __init__(self, client, id=None):
        self.client = client
        answer = client.post("/api/study/join", content=json.dumps({"id": id}))
        assert answer.status_code == 201, answer.text
        self.headers = {"x-token": answer.json()["token"]}

    def now(self):
        answer = self.client.get("/api/study/now", headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def answer(self, stage, **answers):
        body = json.dumps({"stage": stage, "answers": answers})
        return self.client.post("/api/study/answer", content=body, headers=self.headers)

    def play(self, found):
        assert found["kind"] == "game", found
        with self.client.websocket_connect(f"/api/games/{found['game']}") as socket:
            socket.send_text(json.dumps({"type": "join", "token": found["token"]}))
            opening = socket.receive_json()
            socket.send_text(json.dumps({"type": "ping", "sent": 0.0, "latency": 12.5}))
            socket.send_text(json.dumps({"type": "press", "choice": 0, "action": 0}))
            while socket.receive_json().get("status") != "over":
                pass
        return opening

    def until(self, kind):
        for _ in range(100):
            if (found := self.now())["kind"] == kind:
                return found
            time.sleep(0.05)
        raise AssertionError(found)


def client_of(course):
    return TestClient(build_app(course.hall, ["testserver"], course, "secret"))


def take_part(client, id=None, fluent=6):
    person = Participant(client, id)
    assert person.now()["kind"] == "consent"
    assert person.answer(0, agree="yes").status_code == 200
    openings = []
    for _ in range(2):
        openings.append(person.play(person.until("game")))
        assert person.until("questions")["questions"][0]["name"] == "fluent"
        assert person.answer(1, fluent=fluent).status_code == 200
    questions = person.until("questions")["questions"]
    assert [x["name"] for x in questions] == ["attentive", "remarks"]
    assert "right" not in questions[0]
    assert person.answer(2, attentive="a", remarks="None.").status_code == 200
    return person, openings


def test_the_example_can_be_run(menu, tmp_path):
    plan = read_plan(EXAMPLE)
    course = Course(
        plan, people_in(tmp_path), Hall(menu, tmp_path, ticks_per_second=6, most_games=1)
    )
    assert [type(stage).__name__ for stage in plan.stage] == [
        "Consent",
        "Reading",
        "Tutorial",
        "Games",
        "Questions",
    ]
    assert course.order(1, 3) == [0, 1]
    assert course.order(2, 3) == [1, 0]


def test_the_plan_of_the_docs_can_be_read(tmp_path):
    text = (EXAMPLE.parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    (tmp_path / "plan.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.S)[0])
    plan = read_plan(tmp_path / "plan.toml")
    assert [game.layout for game in plan.games()] == ["cramped", "ring", "ring"]


def test_a_person_goes_through_a_whole_study(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person, openings = take_part(client, "abc")
        end = person.now()
        assert end["kind"] == "end"
        assert end["outcome"] == "finished"
        assert end["redirect"] == "https://example.org/done?who=abc&code=C0DE"
    assert [x["seats"] for x in openings] == [["partner", "partner"]] * 2  # nobody is named
    assert openings[1]["seat"] == 1
    columns, rows = course.people.table("games")
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [x["name"] for x in found] == ["nobody", "program"]
    assert [x["partner"] for x in found] == [NOBODY, "a program for all tasks"]
    assert [(x["steps"], x["outcome"], x["latency_ms"]) for x in found] == [
        (8, "finished", 12.5)
    ] * 2
    answers = [row[3:5] for row in course.people.table("answers")[1]]
    assert answers == [("fluent", "6"), ("fluent", "6"), ("attentive", "a"), ("remarks", "None.")]
    events = [row[2:] for row in course.people.table("events")[1]]
    assert events == [
        ("joined", ""),
        ("agreed", ""),
        ("missed a check", "attentive"),
        ("finished", ""),
    ]


def test_orders_are_counterbalanced_or_drawn(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    assert [course.order(person, 1) for person in (1, 2, 3)] == [[0, 1], [1, 0], [0, 1]]
    (tmp_path / "drawn").mkdir()
    drawn = SMALL.replace('kind = "games"', 'kind = "games"\norder = "drawn"')
    course = course_of(menu, tmp_path / "drawn", drawn)
    orders = [tuple(course.order(person, 1)) for person in range(1, 200)]
    assert orders == [tuple(course.order(person, 1)) for person in range(1, 200)]
    assert 70 < orders.count((0, 1)) < 130


def test_who_declines_is_asked_nothing_more(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person = Participant(client)
        person.answer(0, agree="no")
        assert person.now() == {"title": "Small", "kind": "end", "outcome": "declined"}
        assert person.answer(0, agree="yes").status_code == 200
        assert person.now()["outcome"] == "declined"


def test_an_id_that_came_before_is_noted(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        for id in ("abc", "abc", None, None):
            Participant(client, id)
    details = [row[3] for row in course.people.table("events")[1]]
    assert details == ["", "an id that came before", "", ""]


def test_answers_are_checked(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person = Participant(client)
        person.answer(0, agree="yes")
        assert "comes first" in person.answer(1, fluent=3).json()["text"]
        person.play(person.until("game"))
        person.until("questions")
        for wrong in (0, 8, "7", None, "x"):
            assert person.answer(1, fluent=wrong).status_code == 400
        assert "no such question" in person.answer(1, fluent=3, other=1).json()["text"]
        assert person.answer(0, fluent=3).status_code == 200  # a stage that is over
        assert person.now()["kind"] == "questions"


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"stage": "x", "answers": {}}', "x" * 200_000])
def test_malformed_answers_get_a_sentence(menu, tmp_path, body):
    with client_of(course_of(menu, tmp_path, SMALL)) as client:
        person = Participant(client)
        answer = client.post("/api/study/answer", content=body, headers=person.headers)
        assert answer.status_code == 400
        assert answer.json()["text"]
        assert client.get("/api/study/now", headers={"x-token": "wrong"}).status_code == 400


def test_a_tutorial_is_passed_or_not(menu, tmp_path):
    stage = f"""
[[stage]]
kind = "tutorial"
attempts = 2
score = 20
game = {{layout = "ring", partner = "{NOBODY}"}}
"""
    with client_of(course_of(menu, tmp_path, f'title = "T"\n{stage}')) as client:
        person = Participant(client)
        for attempt in range(2):
            found = person.until("game")
            assert found["number"] == attempt
            person.play(found)
        assert person.until("end")["outcome"] == "failed"
    (tmp_path / "easy").mkdir()
    easy = f'title = "T"\n{stage.replace("score = 20", "score = 0")}'
    with client_of(course_of(menu, tmp_path / "easy", easy)) as client:
        person = Participant(client)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"


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
    partners = [row[6] for row in course.people.table("games")[1]]
    assert partners == ["person", "person"]


def test_who_waits_in_vain_plays_with_the_fallback(menu, tmp_path):
    course = course_of(menu, tmp_path, PAIRS)
    with client_of(course) as client:
        person = Participant(client)
        assert person.now()["kind"] == "waiting"
        time.sleep(1.1)
        person.play(person.until("game"))
        assert person.until("end")["outcome"] == "finished"
    assert [row[6] for row in course.people.table("games")[1]] == [NOBODY]
    assert "nobody came" in [row[2] for row in course.people.table("events")[1]]


def test_after_a_restart_people_go_on_where_they_were(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person = Participant(client)
        person.answer(0, agree="yes")
        person.play(person.until("game"))
        person.until("questions")
    course.people.close()
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person.client = client
        assert person.now()["kind"] == "questions"
        person.answer(1, fluent=2)
        person.play(person.until("game"))


def test_a_game_that_the_end_of_the_server_cut_is_played_anew(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person = Participant(client)
        person.answer(0, agree="yes")
        first = person.until("game")
        with client.websocket_connect(f"/api/games/{first['game']}") as socket:
            socket.send_text(json.dumps({"type": "join", "token": first["token"]}))
            while socket.receive_json().get("status") != "waiting":
                pass
    course.people.close()
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        person.client = client
        again = person.until("game")
        assert again["game"] != first["game"]
        person.play(again)
        assert person.until("questions")["questions"][0]["name"] == "fluent"
    outcomes = [row[11] for row in course.people.table("games")[1]]
    assert outcomes == ["left", "finished"]


def test_ids_are_encoded_in_the_redirect(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    person, _ = course.join("a&code=x é")
    course.people.end(person.person, "finished")
    shown = asyncio.run(course.show(course.people.get(person.person)))
    assert shown["redirect"] == "https://example.org/done?who=a%26code%3Dx%20%C3%A9&code=C0DE"


def test_a_number_is_forgotten_only_if_it_is_nobodys_id(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    for id in ("2", "second", None):
        course.join(id)
    forget(course.people, tmp_path, "2")
    assert [row[:2] for row in course.people.table("people")[1]] == [(2, "second"), (3, None)]
    forget(course.people, tmp_path, "3")
    assert [row[:2] for row in course.people.table("people")[1]] == [(2, "second")]
    assert course.join(None)[0].person == 4  # the number of nobody who was forgotten


def test_when_it_is_full_or_stopped_nobody_can_join(menu, tmp_path):
    course = course_of(menu, tmp_path, "most_people = 1\n" + SMALL)
    with client_of(course) as client:
        person = Participant(client)
        answer = client.post("/api/study/join", content="{}")
        assert "come back" in answer.json()["text"]
        assert client.post("/api/admin/stop", headers={"x-token": "wrong"}).status_code == 400
        assert client.get("/api/admin").status_code == 400
        admin = {"x-token": "secret"}
        assert client.get("/api/admin", headers=admin).json()["people"][0]["stage"] == 0
        assert client.post("/api/admin/stop", headers=admin).status_code == 200
        assert "stopped" in client.post("/api/study/join", content="{}").json()["text"]
        person.answer(0, agree="yes")
        answer = client.get("/api/study/now", headers=person.headers)
        assert "stopped" in answer.json()["text"]


def test_people_of_a_study_choose_no_games(menu, tmp_path):
    with client_of(course_of(menu, tmp_path, SMALL)) as client:
        for path in ("/api/menu", "/api/layouts/0", "/api/recordings"):
            assert client.get(path).status_code == 404
        assert client.post("/api/games", content="{}").status_code == 404
        assert b"study.js" in client.get("/").content


def test_data_are_exported_reported_and_forgotten(menu, tmp_path):
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        take_part(client, "abc", fluent=6)
        take_part(client, "xyz", fluent=3)
        Participant(client, "gone")
    course.people.close()
    people = open_people(tmp_path)
    for path in export(people, tmp_path):
        assert path.exists()
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows if row["question"] == "fluent"] == ["6", "6", "3", "3"]
    assert set(rows[0]) == set(DICTIONARY["answers"])
    assert read_table(tmp_path / "games.parquet")["layout"] == ["ring"] * 4
    said = io.StringIO()
    report(people, Console(width=200, file=said))
    text = said.getvalue()
    assert "3 people: 2 finished, 1 not finished" in text
    assert "mean 4.50" in text
    assert "0 of 4 games were not finished" in text
    journals = len(list(tmp_path.glob("*.jsonl")))
    assert forget(people, tmp_path, "abc") >= 2
    assert len(list(tmp_path.glob("*.jsonl"))) == journals - 2
    assert "abc" not in json.dumps([people.table(name) for name in DICTIONARY])
    people.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{DATA}*"))
    assert b"xyz" in content
    assert b"abc" not in content
    with pytest.raises(UsageError, match="nobody with the id"):
        forget(people_in(tmp_path), tmp_path, "abc")


def test_the_data_survive_a_crash(menu, tmp_path):
    """What was answered is in the file before the next answer is read."""
    course = course_of(menu, tmp_path, SMALL)
    with client_of(course) as client:
        Participant(client, "abc").answer(0, agree="yes")
        with contextlib.closing(sqlite3.connect(tmp_path / DATA)) as other:
            assert other.execute("SELECT stage FROM people").fetchall() == [(1,)]
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("title", "titel", "titel"),
        ('kind = "games"', 'kind = "play"', "play"),
        ('layout = "ring"', "", "layout"),
        ('right = "b"', 'right = "c"', "nobody can answer"),
        ('options = ["a", "b"]', 'options = ["a"]', "two `options`"),
        ("https://", "javascript:", "https://"),
        ('name = "fluent"', 'name = "1; DROP"', "fluent|DROP|name"),
        ("[[stage]]", "[[stage", "TOML"),
    ],
)
def test_bad_plans_are_refused_in_a_sentence(tmp_path, old, new, says):
    path = tmp_path / "plan.toml"
    path.write_text(SMALL.replace(old, new))
    with pytest.raises(UsageError, match=says) as caught:
        read_plan(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"ring"', '"nowhere"', "known are ring"),
        (NOBODY, "somebody else", "there are"),
        ("seat = 1", "seat = 2", "has 2 seats"),
    ],
)
def test_plans_with_unknown_games_are_refused(menu, tmp_path, old, new, says):
    with pytest.raises(UsageError, match=says):
        course_of(menu, tmp_path, SMALL.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"), [("fallback", "name"), (f'fallback = "{NOBODY}"', 'fallback = "person"')]
)
def test_a_pair_needs_a_fallback(tmp_path, old, new):
    (tmp_path / "plan.toml").write_text(PAIRS.replace(old, new))
    with pytest.raises(UsageError, match="fallback"):
        read_plan(tmp_path / "plan.toml")


def test_optional_questions_may_be_left_out():
    question = Question(name="x", text="X?", kind="text", optional=True)
    assert question.problem(None) is None
    assert question.problem("") is None
    assert Question(name="x", text="X?").problem(None) == "Please answer all questions."
