"""A sweep trains its points, together where it can, and goes on where it was stopped."""

import csv
import functools
import itertools
import json
import math
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_lines import call_and_hear

from agents import NonFiniteLoss, OutOfMemory
from eqgrid_lab.folders import locked
from eqgrid_lab.runs.many import Point, _group, _sweep, groups_of, settings_of
from eqgrid_lab.runs.single import _evaluator
from eqgrid_lab.settings import page

SMALL = (
    *("--env.name", "goals", "--env.horizon", "20", "--num-envs", "4", "--width", "8"),
    *("--ppo.rollout-length", "32", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2"),
    *("--eval-every", "256", "--eval-episodes", "4", "--final-episodes", "8"),
    *("--total-steps", "640"),
)
TIMES = {"wall_seconds", "train_seconds", "compile_seconds", "steps_per_second", "memory_bytes"}


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    return functools.partial(call_and_hear, capsys)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_sweep_from_its_first_point_to_its_table(call, tmp_path, monkeypatch):
    (tmp_path / "rates.toml").write_text('[grid]\n"ppo.learning_rate" = [0.01, 0.0001]')
    sweep = (*SMALL, "--log", "jsonl", "--sweep", "rates.toml")
    count, real = itertools.count(1), _evaluator.EvaluatorOfMany.__call__

    def press(self, progress):
        if next(count) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(_evaluator.EvaluatorOfMany, "__call__", press)
        code, said = call(*sweep)
    assert code == 130
    assert "to go on, give the same command again" in said
    folder = Path("runs") / "ippo-sweep-rates"
    assert not list(folder.glob("*/result.json"))
    code, said = call(*sweep)
    assert (code, "going on after 256 steps of each" in said) == (0, True), said
    assert "2 of 2 points are complete" in said
    assert not list((folder / "checkpoints").iterdir())
    table = rows(folder / "table.csv")
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))]
    means = {str(i): result["eval_return_mean"] for i, result in enumerate(results)}
    assert {row["point"]: float(row["eval_return_mean"]) for row in table} == means
    with monkeypatch.context() as patch:
        patch.setattr(_group.Group, "train", None)  # nothing is trained again
        assert call(*sweep)[0] == 0
        assert call(*sweep, "--sweep.index", "1")[0] == 0
        assert "holds something other than this sweep" in call(*sweep, "--width", "9")[1]
    updates = [row["update"] for row in rows(folder / "point-0001" / "metrics.csv")]
    lines = (folder / "point-0001" / "metrics.jsonl").read_text().splitlines()
    assert [str(json.loads(line)["update"]) for line in lines] == updates
    check_alone(call, folder / "point-0001")


def check_alone(call, folder: Path) -> None:
    """A point is what its settings file gives alone."""
    settings = folder / "config.toml"
    assert "learning_rate = 0.0001" in settings.read_text()
    assert call("--config", settings, "--out", "alone")[0] == 0
    alone = rows(Path("alone") / "metrics.csv")
    for one, other in zip(rows(folder / "metrics.csv"), alone, strict=True):
        for name in one:
            a, b = float(one[name]), float(other[name])
            assert math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5) or math.isnan(a), name


@pytest.fixture
def program(tmp_path):
    console = SimpleNamespace(print=lambda *_, **__: None)
    return _sweep.Program(tmp_path, None, console, _sweep.Failures())


def make_points(folder: Path, settings) -> list[Point]:
    return [
        Point(i, own, settings_of(page("ippo")(), own), folder / f"point-{i:04}", {})
        for i, own in enumerate(settings)
    ]


def test_what_is_an_array_is_trained_together(tmp_path):
    settings = [
        {"seed": seed, "ppo.gamma": gamma, "shaping": gamma, "num_envs": num_envs}
        for seed in (0, 1)
        for gamma in (0.9, 0.99)
        for num_envs in (8, 16)
    ]
    groups = groups_of(make_points(tmp_path, settings), 3)
    assert [[point.index for point in group] for group in groups] == [
        [0, 2, 4],
        [6],
        [1, 3, 5],
        [7],
    ]


def test_a_loss_that_is_no_number_ends_its_point_alone(program, tmp_path, monkeypatch):
    points, trained = make_points(tmp_path, [{"seed": i} for i in range(3)]), []

    def train(program, points, plan):
        trained.append([point.index for point in points])
        if len(points) == 3:
            raise NonFiniteLoss(7, "the entropy", 1)

    monkeypatch.setattr(_sweep, "_train_together", train)
    _sweep._train(program, points, None)
    assert trained == [[0, 1, 2], [0, 2]]
    assert [point.result() for point in points] == [None, {"not_finite": 7}, None]


def test_what_does_not_fit_is_trained_in_halves(program, tmp_path, monkeypatch):
    points, trained = make_points(tmp_path, [{"seed": i} for i in range(5)]), []

    def train(program, points, plan):
        if len(points) > 2:
            raise OutOfMemory(2, 1)
        trained.append([point.index for point in points])

    monkeypatch.setattr(_sweep, "_train_together", train)
    _sweep._train(program, points, None)
    assert trained == [[0, 1], [2], [3, 4]]


def test_what_another_process_trains_is_left_to_it(program, tmp_path, monkeypatch):
    points, trained = make_points(tmp_path, [{"seed": i} for i in range(2)]), []
    monkeypatch.setattr(
        _sweep, "_train_together", lambda _, points, __: trained.extend(x.index for x in points)
    )
    points[0].folder.mkdir()
    with locked(points[0].folder):
        _sweep._train(program, points, None)
    assert trained == [1]


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("[grid]\nseed = [0, 1]", ["--sweep.index", "2"], "--sweep.index 2 is no point"),
        ("[grid]\nseed = [0, 1]", ["--sweep.index", "-1"], "--sweep.index must be at least 0"),
        ("[grid]\nseed = [0, 1]", ["--num-seeds", "2"], "--num-seeds cannot be given with"),
        ("[grid]\nseed = [0, 1]", ["--devices", "2"], "--devices cannot be given with --sweep"),
        ("[grid]\nseed = [0, 1]", ["--overwrite"], "--overwrite cannot be given with --sweep"),
        ("[grid]\nsead = [0, 1]", [], "The sweep has an unknown key 'sead'; did you mean 'seed'?"),
        ("[grid]\n'env.layout' = ['cramped', 'rnig']", [], "'rnig'"),
        ("[grid]\n'ppo.num_minibatches' = [7]", [], "num_minibatches=7 does not divide"),
        ("[grid", [], "is no TOML"),
        (None, [], "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(call, tmp_path, text, more, words):
    if text is not None:
        (tmp_path / "sweep.toml").write_text(text)
    before = list(tmp_path.iterdir())
    code, said = call("--sweep", "sweep.toml", *more)
    assert code == 2
    assert words in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == before


def test_a_sweep_does_not_go_on_in_a_kitchen_that_was_edited(call, tmp_path, monkeypatch):
    kitchen, text = tmp_path / "mine.layout", "XXPXX\nO 12O\nX   X\nXDXSX\n"
    kitchen.write_text(text)
    (tmp_path / "sweep.toml").write_text("[grid]\n'env.layout' = ['cramped', 'mine.layout']")
    monkeypatch.setattr(_sweep, "_train", lambda *_: None)
    assert call("--sweep", "sweep.toml", "--out", "mine")[0] == 0
    assert call("--sweep", "sweep.toml", "--out", "mine")[0] == 0
    kitchen.write_text(text.replace("X   X", "O   X"))
    code, said = call("--sweep", "sweep.toml", "--out", "mine")
    assert (code, "than this sweep with these settings and these files" in said) == (2, True)


def test_an_index_without_a_sweep_is_one_sentence(call):
    assert "--sweep.index is a point of a sweep" in call("--sweep.index", "2")[1]


def test_a_folder_with_something_else_is_left_alone(call, tmp_path):
    (tmp_path / "sweep.toml").write_text("[grid]\nseed = [0, 1]")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    code, said = call("--sweep", "sweep.toml", "--out", "mine")
    assert (code, "holds something other than this sweep" in said) == (2, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["diary.txt"]
