"""Studies to test with, and people who take part in them by the routes of a server."""

import json
import secrets
import time

from starlette.testclient import TestClient

from eqgrid_lab.play import Hall
from eqgrid_lab.study import Course, People, check_plan, read_plan
from eqgrid_lab.web._app import build_app

NOBODY = "an agent that never moves"
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
JOIN = json.dumps({"token": "t" * 48})
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


OPEN = []


def people_in(folder, now=time.monotonic):
    OPEN.append(People(folder, now))
    return OPEN[-1]


def course_of(menu, folder, text):
    path = folder / "plan.toml"
    path.write_text(text)
    hall = Hall(menu, folder, ticks_per_second=60, most_games=100)
    plan = read_plan(path)
    check_plan(plan, menu, hall.most_games)
    return Course(plan, people_in(folder), hall)


def until(check, seconds=5):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def join(course, id=None):
    """The person who joins with an id, in a browser of its own."""
    return course.join(id, secrets.token_hex(24))


class Participant:
    """Somebody who takes part by the routes of a server."""

    def __init__(self, client, id=None, **parameters):
        self.client = client
        token = secrets.token_hex(24)
        body = json.dumps({"id": id, "token": token, "parameters": parameters})
        answer = client.post("/api/study/join", content=body)
        assert answer.status_code == 201, answer.text
        self.headers = {"x-token": token}

    def now(self):
        answer = self.client.get("/api/study/now", headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def answer(self, **answers):
        """Answers at the place where the person is."""
        return self.answer_at(self.now()["at"], **answers)

    def answer_at(self, at, **answers):
        body = json.dumps({"at": at, "answers": answers})
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

    def until(self, kind, seconds=5):
        for _ in range(int(20 * seconds)):
            if (found := self.now())["kind"] == kind:
                return found
            time.sleep(0.05)
        raise AssertionError(found)


def rows_of(course, name):
    columns, rows = course.people.table(name)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def client_of(course):
    return TestClient(build_app(course.hall, ["testserver"], course, "secret"))
