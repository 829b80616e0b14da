"""Runs with many seeds are, each of them, the run with that seed alone."""

import itertools
import math
import signal
from pathlib import Path

import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal
from run_files import SMALL, check_close, result, rows
from safetensors.numpy import load_file

from agents import CheckpointError, NonFiniteLoss, find_policy, load_policy
from eqgrid_lab.runs import _evaluator, _members
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
    assert list(rows(own)[0]) == list(rows(alone)[0])
    check_close(own, alone)
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
    assert f"--out {mine} --resume" in capsys.readouterr().out
    assert len(rows(mine)) == 2
    heard = call_and_hear(capsys, "--out", mine, "--resume", "--seed", "7", "--num-seeds", "3")
    check_refusal(heard, "--seed (was 3, is 7), --num-seeds (was 2, is 3)", codes=(2,))
    (mine / "metrics.csv").unlink()  # it is put together from the files of the seeds
    assert call("--out", mine, "--resume") == 0
    assert "continuing after 256 steps of each seed" in capsys.readouterr().out
    assert files(mine) == files(whole)
    for folder in (".", "seed-3", "seed-4"):
        assert rows(mine / folder) == rows(whole / folder)
        assert result(mine / folder) == result(whole / folder)
    for name in files(whole):
        if name.endswith(".safetensors"):
            one, other = load_file(mine / name), load_file(whole / name)
            assert all(np.array_equal(one[x], other[x]) for x in one), name
    for more in ((), ("--total-steps", "128")):
        assert call("--out", mine, "--resume", *more) == 0
        assert "is complete, with 640 steps of each seed" in capsys.readouterr().out


def test_a_loss_that_is_no_number_names_its_seed(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise NonFiniteLoss(7, "the entropy", 1)

    monkeypatch.setattr(_members.Members, "train", fail)
    heard = call_and_hear(capsys, *SMALL, *SEEDS, "--out", tmp_path / "mine")
    says = "update 7 of seed 4 is not a finite number (first the entropy)"
    check_refusal(heard, says, codes=(1,))
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--num-seeds", "0"], "--num-seeds must be at least 1"),
        (["--num-seeds", "2", "--devices", "2"], "2 devices are needed, but jax has 1"),
        (["--num-seeds", "2", "--seed", str(2**32 - 1)], "is too large for --num-seeds 2"),
    ],
)
def test_what_cannot_go_together_is_one_sentence(more, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_refusal(call_and_hear(capsys, *more), words, codes=(2,))
    assert not list(tmp_path.iterdir())


OFTEN = (*SMALL, "--eval-every", "128")
STAGES = """
[[stage]]
steps = 256
reset = ["optimizer"]

[[stage]]
gate = {metric = "eval_return_mean", at_least = -1.0}

[[stage]]
ppo = {learning_rate = 1e-3}
"""


@pytest.fixture(scope="module")
def of_stages(tmp_path_factory) -> Path:
    """The folder of a run with two seeds and three stages."""
    folder = tmp_path_factory.mktemp("stages")
    stages = folder / "stages.toml"
    stages.write_text(STAGES)
    flags = (*OFTEN, "--curriculum", stages, "--num-seeds", "2")
    assert call(*flags, "--out", folder / "whole") == 0
    return folder / "whole"


@pytest.fixture
def stages(of_stages, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return of_stages.parent / "stages.toml"


@pytest.mark.slow
def test_seeds_pass_the_stages_of_a_curriculum_as_each_does_alone(stages, of_stages):
    assert call(*OFTEN, "--curriculum", stages, "--seed", "1", "--out", "alone") == 0
    of_both, alone = rows(of_stages / "seed-1"), rows(Path("alone"))
    assert [row["stage"] for row in of_both] == ["1", "1", "2", "3", "3"]
    names = ("update", "stage", "stage_steps", "gate_passes", "eval_return_mean", "entropy")
    for one, other in zip(of_both, alone, strict=True):
        for name in names:
            assert float(one[name]) == pytest.approx(float(other[name]), rel=1e-3), name
    for run in result(of_stages)["runs"]:
        assert [stage["env_steps"] for stage in run["stages"]] == [256, 384, 640]
        assert run["stages"][1]["ended"] == "its gate is passed"


@pytest.mark.slow
def test_it_goes_on_in_the_stage_in_which_it_was_stopped(stages, of_stages, monkeypatch, capsys):
    """Bit for bit, also where a stage has just ended."""
    flags = (*OFTEN, "--num-seeds", "2", "--curriculum", stages)
    real, told = _members.train, []

    def train(*args, hooks, should_stop, **kwargs):
        def stop() -> str | None:
            return "interrupted" if len(told) >= block else should_stop()

        return real(*args, hooks=[*hooks, told.append], should_stop=stop, **kwargs)

    for block in (2, 3):
        told.clear()
        with monkeypatch.context() as patch:
            patch.setattr(_members, "train", train)
            assert call(*flags, "--out", f"parts-{block}") == 130
        assert len(rows(Path(f"parts-{block}"))) == 2 * block
        assert call("--out", f"parts-{block}", "--resume") == 0, capsys.readouterr().err
        assert rows(Path(f"parts-{block}")) == rows(of_stages)


@pytest.mark.parametrize(
    ("reasons", "together"),
    [
        (["a"], "a"),
        (["a", "a"], "a"),
        (["a", None], None),
        ([None], None),
        (["a", "b"], "all runs have ended"),
    ],
)
def test_a_stage_ends_when_it_has_ended_for_each_seed(reasons, together):
    assert _members._common_reason(reasons) == together


@pytest.mark.slow
def test_each_seed_is_a_run_of_weights_and_biases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb = pytest.importorskip("wandb")

    asked, real = [], wandb.init
    monkeypatch.setattr(wandb, "init", lambda **given: asked.append(given) or real(**given))
    assert call(*OFTEN, "--num-seeds", "2", "--log", "wandb", "--out", "mine") == 0
    assert [given["name"] for given in asked] == ["mine/seed-0", "mine/seed-1"]
    for i in (0, 1):
        assert list(Path(f"mine/seed-{i}/wandb").rglob("*.wandb"))
        assert not math.isnan(float(rows(Path(f"mine/seed-{i}"))[-1]["eval_return_mean"]))


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_what_has_learned_nothing_leaves_no_logs_of_its_seeds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    pytest.importorskip("wandb")
    real = _members.train

    def train(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return real(*args, **kwargs)

    monkeypatch.setattr(_members, "train", train)
    assert call(*OFTEN, "--num-seeds", "2", "--log", "wandb", "--out", "mine") == 130
    assert not list(tmp_path.iterdir())
