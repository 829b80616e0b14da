"""The programs of docs/external-partners.md."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from pages import python_blocks

PARTNER, GAMES, MODEL = python_blocks("external-partners.md")


@pytest.fixture
def model():
    """The address of a language model that wants to go north, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.headers["Authorization"], body))
            reply = {"choices": [{"message": {"role": "assistant", "content": " North.\n"}}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions", asked
        server.shutdown()


def test_a_language_model_in_forty_lines(model, tmp_path):
    address, asked = model
    assert len(MODEL.splitlines()) <= 40
    (tmp_path / "language_model.py").write_text(MODEL)
    seen = {"grid": "XX\nX1", "legend": {"X": "counter"}, "agents": [], "objects": []}
    request = {"game": "0-1", "seat": 0, "actions": ["north", "stay"], "observation": seen}
    lines = [json.dumps(request | {"step": step, "changes": []}) for step in range(7)]
    done = subprocess.run(
        [sys.executable, "language_model.py"],
        input="\n".join(lines),
        cwd=tmp_path,
        env=os.environ | {"LLM_URL": address, "LLM_KEY": "secret", "LLM_MODEL": "small"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [x["step"] for x in answers] == [*range(7)]
    assert {(x["game"], x["action"]) for x in answers} == {("0-1", "north")}
    assert {key for key, _ in asked} == {"Bearer secret"}
    last = asked[-1][1]
    assert last["model"] == "small"
    roles = [x["role"] for x in last["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4, "user"]
    assert "You are seat 0. Step 6.\nXX\nX1\n" in last["messages"][-1]["content"]


@pytest.mark.slow
def test_the_program_of_the_page_plays_and_replays(tmp_path):
    (tmp_path / "partner.py").write_text(PARTNER)
    command = [sys.executable, "-c", GAMES]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    summary, returns, again, same = done.stdout.splitlines()
    assert "partner.py got " in summary
    assert again.startswith("games.jsonl got ")
    assert same == returns
