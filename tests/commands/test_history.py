"""The history of speed: a line for each case of a run, in a file that is drawn."""

import _history
from run_files import table

ROWS = [
    {"world": "overcooked", "mode": "stored", "num_envs": 16, "library": "eqgrid"}
    | {"steps_per_second": 3000},
    {"world": "overcooked", "mode": "stored", "num_envs": 16, "library": "jaxmarl"}
    | {"steps_per_second": 1000},
    {"world": "overcooked", "mode": "stored", "num_envs": 16, "library": "cogrid"}
    | {"error": "too large"},
    {"world": "goals", "mode": "stored", "num_envs": 16, "library": "eqgrid"}
    | {"steps_per_second": 500},
]


def test_a_run_is_appended_and_drawn(tmp_path, monkeypatch):
    file = tmp_path / "history.csv"
    picture = _history.record(file, ROWS)
    first = picture.read_bytes()
    assert first.startswith(b"\x89PNG")
    monkeypatch.setattr(_history, "_commit", lambda: "abc")
    _history.record(file, ROWS)
    assert picture.read_bytes() != first
    lines = table(file)
    assert len(lines) == 4
    assert [x["jaxmarl"] for x in lines] == ["3.00", "", "3.00", ""]
    assert [x["cogrid"] for x in lines] == [""] * 4
    assert [x["steps_per_second"] for x in lines] == ["3000", "500", "3000", "500"]
    assert lines[2]["commit"] == "abc"
    assert lines[0]["machine"]


def test_outside_of_a_checkout_there_is_no_commit(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(_history.subprocess, "run", missing)
    assert _history._commit() == ""
