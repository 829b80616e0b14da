"""Seeds in stages of a curriculum, on several devices, and in Weights & Biases."""

import math
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_lines import call, call_and_hear, check_refusal, progress_of_runs
from run_files import SMALL, result, rows

from agents import StopTraining
from eqgrid_lab.runs import _members

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
def whole(tmp_path_factory) -> Path:
    """The folder of a run with two seeds and three stages."""
    folder = tmp_path_factory.mktemp("stages")
    stages = folder / "stages.toml"
    stages.write_text(STAGES)
    flags = (*OFTEN, "--curriculum", stages, "--num-seeds", "2")
    assert call(*flags, "--out", folder / "whole") == 0
    return folder / "whole"


@pytest.fixture
def stages(whole, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return whole.parent / "stages.toml"


@pytest.mark.slow
def test_seeds_pass_the_stages_of_a_curriculum_as_each_does_alone(stages, whole):
    assert call(*OFTEN, "--curriculum", stages, "--seed", "1", "--out", "alone") == 0
    of_both, alone = rows(whole / "seed-1"), rows(Path("alone"))
    assert [row["stage"] for row in of_both] == ["1", "1", "2", "3", "3"]
    names = ("update", "stage", "stage_steps", "gate_passes", "eval_return_mean", "entropy")
    for one, other in zip(of_both, alone, strict=True):
        for name in names:
            assert float(one[name]) == pytest.approx(float(other[name]), rel=1e-3), name
    for run in result(whole)["runs"]:
        assert [stage["env_steps"] for stage in run["stages"]] == [256, 384, 640]
        assert run["stages"][1]["ended"] == "its gate is passed"


@pytest.mark.slow
def test_it_goes_on_in_the_stage_in_which_it_was_stopped(stages, whole, monkeypatch, capsys):
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
        assert call("--resume", f"parts-{block}") == 0, capsys.readouterr().err
        assert rows(Path(f"parts-{block}")) == rows(whole)


@pytest.mark.slow
def test_a_run_that_ended_early_and_was_killed_is_not_trained_further(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    flags = (*OFTEN, "--num-seeds", "2", "--stop-at-return", "-1")
    with monkeypatch.context() as patch:
        patch.setattr(_members.Conclusion, "_result", lambda _: sys.exit(9))
        with pytest.raises(SystemExit):
            call(*flags, "--out", "mine")
    assert not Path("mine/result.json").exists()
    steps = [row["env_steps"] for row in rows(Path("mine"))]
    assert {*steps} == {"128"}
    assert call("--resume", "mine") == 0
    assert "reached a return of -1 after 128 steps" in capsys.readouterr().out
    assert [row["env_steps"] for row in rows(Path("mine"))] == steps
    assert result(Path("mine"))["env_steps"] == 128
    assert call("--resume", "mine") == 0, "a complete run that ended early may go on"
    assert {row["env_steps"] for row in rows(Path("mine"))} == {"128", "256"}


@pytest.mark.slow
def test_a_log_that_is_lost_at_the_end_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*OFTEN, "--out", "mine") == 0
    Path("mine/metrics.csv").unlink()
    says = "is complete, but its metrics.csv contains no evaluations"
    check_refusal(call_and_hear(capsys, "--resume", "mine"), says, codes=(1,))


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
def test_runs_end_when_each_has_a_reason(reasons, together, monkeypatch):
    def stop(reason):
        def hook(_):
            if reason is not None:
                raise StopTraining(reason)

        return hook

    monkeypatch.setattr(_members, "_progress_of", lambda progress, *_: progress)
    called = []
    hooks = [[stop(reason), called.append] for reason in reasons]
    each = _members.ForEach(hooks, [SimpleNamespace()] * len(reasons))
    if together is None:
        each(progress_of_runs())
    else:
        with pytest.raises(StopTraining, match=f"^{together}$"):
            each(progress_of_runs())
    assert len(called) == len(reasons), "all hooks of all runs are called"


@pytest.mark.slow
def test_each_seed_is_a_run_of_a_group(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    wandb = pytest.importorskip("wandb")

    asked, real = [], wandb.init
    monkeypatch.setattr(wandb, "init", lambda **given: asked.append(given) or real(**given))
    assert call(*OFTEN, "--num-seeds", "2", "--log", "wandb", "--out", "mine") == 0
    assert [given["name"] for given in asked] == ["mine/seed-0", "mine/seed-1"]
    assert {given["group"] for given in asked} == {"mine"}
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
