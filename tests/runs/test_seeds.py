"""Runs with many seeds are, each of them, the run with that seed alone."""

import itertools
import math
import signal
from pathlib import Path

import numpy as np
import pytest
from command_lines import call, progress_of_runs
from run_files import SMALL, result, rows
from safetensors.numpy import load_file

from agents import CheckpointError, NonFiniteLoss, StopTraining, find_policy, load_policy
from eqgrid_lab.folders import open_folder
from eqgrid_lab.runs import EarlyStop, _evaluator, _members
from eqgrid_lab.settings import dump, shipped_script
from eqgrid_lab.show import bootstrap_interval

SEEDS = ("--seed", "3", "--num-seeds", "2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run with two seeds."""
    out = tmp_path_factory.mktemp("seeds") / "whole"
    assert call(*SMALL, *SEEDS, "--out", out) == 0
    return out


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_files(whole):
    own = {"config.toml", "metrics.csv", "result.json", "curve.png", "policy.safetensors"}
    own |= {"checkpoints/best.safetensors", "checkpoints/last.safetensors"}
    together = {"config.toml", "metrics.csv", "result.json", "curve.png", "episode.gif"}
    together |= {"checkpoints/seeds.safetensors"}
    assert files(whole) == together | {f"seed-{i}/{name}" for i in (3, 4) for name in own}
    expected = [
        {"seed": str(seed), **row}
        for pair in zip(rows(whole / "seed-3"), rows(whole / "seed-4"), strict=True)
        for seed, row in zip((3, 4), pair, strict=True)
    ]
    assert rows(whole) == expected
    assert len(expected) == 2 * 3


@pytest.mark.slow
def test_numbers_of_all_seeds(whole):
    together, alone = result(whole), [result(whole / f"seed-{i}") for i in (3, 4)]
    scores = np.array([x["eval_return_mean"] for x in alone])
    assert together["seeds"] == [3, 4]
    assert together["video"] == (3 if scores[0] <= scores[1] else 4)
    assert together["eval_return_iqm"] == pytest.approx(scores.mean())
    assert tuple(together["eval_return_interval"]) == bootstrap_interval(scores)
    assert [x["eval_return_mean"] for x in together["runs"]] == scores.tolist()
    assert [(whole / x["folder"]).name for x in together["runs"]] == ["seed-3", "seed-4"]


@pytest.mark.slow
def test_each_seed_is_what_it_is_alone(whole, tmp_path):
    assert call(*SMALL, "--seed", "4", "--out", tmp_path / "alone") == 0
    alone, own = tmp_path / "alone", whole / "seed-4"
    assert (alone / "config.toml").read_text() == (own / "config.toml").read_text()
    for one, other in zip(rows(own), rows(alone), strict=True):
        assert list(one) == list(other)
        for name in one:
            a, b = float(one[name]), float(other[name])
            assert math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5) or math.isnan(a), name
    for name, value in result(alone).items():
        close = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
        assert result(own)[name] == close, name
    parameters = load_file(alone / "policy.safetensors")
    for name, numbers in load_file(own / "policy.safetensors").items():
        np.testing.assert_allclose(numbers, parameters[name], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_policy_is_that_of_a_seed(whole):
    assert load_policy(whole / "seed-4").num_agents == 2
    with pytest.raises(CheckpointError, match=r"several runs: name one of them, .*seed-3"):
        find_policy(whole)


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_going_on_is_bitwise_the_same(whole, tmp_path, monkeypatch, capsys):
    count, real = itertools.count(1), _evaluator.EvaluatorOfMany.__call__

    def press(self, progress):
        if next(count) == 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, progress)

    monkeypatch.setattr(_evaluator.EvaluatorOfMany, "__call__", press)
    mine = tmp_path / "mine"
    assert call(*SMALL, *SEEDS, "--out", mine) == 130
    assert f"--resume {mine}" in capsys.readouterr().out
    assert len(rows(mine)) == 2
    check_edits_are_refused(mine, capsys)
    (mine / "metrics.csv").unlink()  # it is put together from the files of the seeds
    assert call("--resume", mine) == 0
    assert "continuing after 256 steps of each seed" in capsys.readouterr().out
    assert files(mine) == files(whole)
    for folder in (".", "seed-3", "seed-4"):
        assert rows(mine / folder) == rows(whole / folder)
        assert result(mine / folder) == result(whole / folder)
    for name in files(whole):
        if name.endswith(".safetensors"):
            one, other = load_file(mine / name), load_file(whole / name)
            assert all(np.array_equal(one[x], other[x]) for x in one), name
    assert call("--resume", mine) == 2
    assert "is complete, with 640 steps of each seed" in capsys.readouterr().err


def check_edits_are_refused(folder: Path, capsys) -> None:
    """What was begun with two seeds, 3 and 4, is not gone on with as something else."""
    settings = folder / "config.toml"
    text = settings.read_text()
    edits = (
        ("seed = 3", "seed = 7"),
        ("num_seeds = 2", "num_seeds = 3"),
        ("gamma = 0.99", "gamma = 0.5"),
    )
    for (old, new), flag in zip(edits, ("--seed (", "--num-seeds (", "--ppo.gamma ("), strict=True):
        settings.write_text(text.replace(old, new))
        assert call("--resume", folder) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"than its config.toml now contains: {flag}" in said
    settings.write_text(text)


def test_a_loss_that_is_no_number_names_its_seed(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise NonFiniteLoss(7, "the entropy", 1)

    monkeypatch.setattr(_members.Members, "train", fail)
    assert call(*SMALL, *SEEDS, "--out", tmp_path / "mine") == 1
    assert (
        "update 7 of seed 4 is not a finite number (first the entropy)" in capsys.readouterr().err
    )
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("target", "patience", "returns", "ends"),
    [
        (5, None, ([1, 6, 2], [1, 2, 5]), True),
        (5, None, ([1, 6, 2], [1, 2, 4]), False),
        (None, 2, ([3, 1, 2], [4, 4, 4]), True),
        (None, 2, ([3, 1, 2], [4, 4, 5]), False),
        (5, 2, ([3, 1, 2], [4, 4, 5]), True),
        (None, None, ([3, 1, 2], [4, 4, 4]), False),
    ],
)
def test_runs_end_together(target, patience, returns, ends, monkeypatch):
    progress = [progress_of_runs(eval_return_mean=own[-1]) for own in returns]
    monkeypatch.setattr(_members, "_progress_of", lambda _, run, __: progress[run])
    stops = [[EarlyStop([*own[:-1]], target, patience, None)] for own in returns]
    hook = _members.ForEach(stops, [None] * len(returns))
    if not ends:
        return hook(progress[0])
    with pytest.raises(StopTraining):
        hook(progress[0])
    return None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--num-seeds", "0"], "--num-seeds must be at least 1"),
        (["--num-seeds", "2", "--devices", "2"], "2 devices are needed, but jax has 1"),
        (["--seeds-at-once", "2"], "--seeds-at-once needs --num-seeds"),
        (["--num-seeds", "2", "--max-kl", "0.1"], "--max-kl cannot be given with --num-seeds"),
        (["--num-seeds", "2", "--seed", str(2**32 - 1)], "is too large for --num-seeds 2"),
    ],
)
def test_what_cannot_go_together_is_one_sentence(more, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*more) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("learned", [True, False])
def test_an_older_run_is_removed_with_all_its_seeds(tmp_path, learned):
    settings = dump(shipped_script("ippo")())

    def open_seeds(numbers, learned):
        with open_folder("a", tmp_path / "mine", True, settings) as folder:
            for i in numbers:
                (folder / f"seed-{i}").mkdir()
                (folder / f"seed-{i}" / "config.toml").write_text(settings)
            if learned:
                (folder / "metrics.csv").write_text("row")

    open_seeds([3, 4], True)
    (tmp_path / "mine" / "seed-9").mkdir()  # no run wrote it
    open_seeds([0, 1], learned)
    there = {path.name for path in (tmp_path / "mine").glob("seed-*")}
    assert there == ({"seed-0", "seed-1"} if learned else set()) | {"seed-9"}
