"""The table of a sweep is ranked by what it is told, over the seeds of each point."""

import csv

import pytest
from rich.console import Console

from eqgrid_lab.runs.many import draw_sweep, print_points, table_row, write_table


@pytest.fixture
def rows():
    scores = {(0.1, 0): 1.0, (0.1, 1): 4.0, (0.2, 0): 3.0, (0.2, 1): 3.5, (0.3, 0): 9.0}
    rows = [
        table_row(i, {"rate": rate, "seed": seed}, {"eval_return_mean": score, "env_steps": 7})
        for i, ((rate, seed), score) in enumerate(scores.items())
    ]
    return [*rows, table_row(5, {"rate": 0.3, "seed": 1}, {"not_finite": 12})]


def test_every_point_has_its_rank(rows, tmp_path):
    write_table(tmp_path / "table.csv", rows, "eval_return_mean")
    with (tmp_path / "table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [int(row["point"]) for row in table] == [4, 1, 3, 2, 0, 5]
    assert [int(row["rank"]) for row in table] == [1, 2, 3, 4, 5, 6]
    assert (table[0]["rate"], table[0]["seed"], table[0]["env_steps"]) == ("0.3", "0", "7")
    assert (table[-1]["eval_return_mean"], table[-1]["not_finite"]) == ("", "12")


def test_seeds_are_one_row(rows):
    console = Console(width=120, record=True)
    print_points(console, rows, "eval_return_mean")
    lines = console.export_text().splitlines()
    assert "seed" not in lines[0]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["1", "0.2", "3.25"],
        ["2", "0.1", "2.50"],
        ["3", "0.3", "not"],
    ]
    assert lines[1].rstrip().endswith("2, 3")


def test_a_picture(rows, tmp_path):
    rows[0]["env.layout"] = "ring"
    for row in rows[1:]:
        row["env.layout"] = "cramped"
    draw_sweep(tmp_path / "sweep.png", rows, "eval_return_mean")
    draw_sweep(tmp_path / "nothing.png", rows[-1:], "eval_return_mean")
    for name in ("sweep.png", "nothing.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
