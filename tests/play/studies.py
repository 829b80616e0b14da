"""Studies to test with, and people who take part in them by the routes of a server."""

import contextlib
import io
import json
import secrets
import time

from playing import NOBODY, join_game, press, receive_until, server_of, until
from rich.console import Console
from starlette.testclient import TestClient

from eqgrid_play.study import (
    RECORDED,
    People,
    StudyRunner,
    check_plan,
    read_plan,
    recorded_tables,
    report,
)
from eqgrid_play.web._app import build_app

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
partner = "greedy"
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
ADMIN = {"x-token": "secret"}
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


def runner_of(menu, folder, text):
    path = folder / "plan.toml"
    path.write_text(text)
    server = server_of(menu, folder, most_games=100)
    plan = read_plan(path)
    check_plan(plan, menu)
    return StudyRunner(plan, people_in(folder), server)


def join(runner, id=None):
    """The person who joins with an id, in a browser of its own."""
    return runner.join(id, secrets.token_hex(24))


class Participant:
    """Somebody who takes part by the routes of a server."""

    def __init__(self, client, id=None, measured=None, **parameters):
        self.client, self.headers = client, {"x-token": secrets.token_hex(24)}
        self.join(id=id, parameters=parameters, **measured or {})

    def join(self, browser="", **body):
        """Opens the page, in a browser with this `User-Agent`."""
        body["token"] = self.headers["x-token"]
        agent = {"user-agent": browser}
        answer = self.client.post("/api/study/join", json=body, headers=agent)
        assert answer.status_code == 201, answer.text

    def leave(self):
        self.client.post("/api/study/leave", content="{}", headers=self.headers)

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
            join_game(socket, found["token"])
            opening = socket.receive_json()
            frame = receive_until(socket, type="frame")
            socket.send_json(
                {"type": "shown", "frame": frame["number"], "after": 0.0, "focus": True}
            )
            press(socket, action=0)
            receive_until(socket, status="over")
        return opening

    def until(self, kind):
        seen = []
        until(lambda: seen.append(self.now()) or seen[-1]["kind"] == kind)
        return seen[-1]


def client_of(runner):
    return TestClient(build_app(runner.server, ["testserver"], runner, "secret"))


@contextlib.contextmanager
def taking_part(menu, folder, plan=SMALL, id=None):
    """A person who has agreed to take part in a study, and its runner."""
    runner = runner_of(menu, folder, plan)
    with client_of(runner) as client:
        person = Participant(client, id)
        person.answer(agree="yes")
        yield person, runner


def problem_of_joining(client, **body):
    """The sentence that somebody gets who cannot join."""
    answer = client.post("/api/study/join", json={"token": "t" * 48} | body)
    assert answer.status_code == 400
    return answer.json()["text"]


def stop(client, on=True):
    """Stops a study, or lets it go on."""
    answer = client.post("/api/admin/stop", json={"on": on}, headers=ADMIN)
    assert answer.status_code == 200


def begin_game(people, person, file, **changes):
    """Writes down that a person has begun a game at stage 1."""
    row = {"person": person, "stage": 1, "game": 0, "number": 0, "attempt": 0, "seat": 0}
    names = {"name": "mine", "layout": "ring", "partner": NOBODY, "file": file}
    people.begin_game(row | names | changes)


def write_game(people, person, file, scores, **changes):
    """Writes down a game that a person has played."""
    begin_game(people, person, file, **changes)
    people.end_game(file, scores, 8, "finished", {0: {}})


def recorded_rows(people, folder, name):
    """The rows of a table that is read from the journals of a study."""
    rows = recorded_tables(people, folder)[name]
    return [dict(zip(RECORDED[name], row, strict=True)) for row in rows]


def report_of(people):
    said = io.StringIO()
    report(people, Console(width=200, file=said))
    return said.getvalue()
