"""A run that is stopped and resumed is the run that was never stopped."""

import itertools
import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from command_lines import call as train, calling, check_refusal
from run_files import check_equal, result, rows, table

from agents import CheckpointError, read_metadata, save
from agents.training import _train
from eqgrid_lab.base import RunError
from eqgrid_lab.folders import read_history
from eqgrid_lab.runs import Evaluator
from eqgrid_lab.runs._conclusion import Conclusion
from eqgrid_lab.settings import command_of, shipped_script

FLAGS = (
    *("--num-envs", "4", "--ppo.rollout-length", "32", "--env.horizon", "40"),
    *("--eval-every", "256", "--eval-episodes", "4", "--final-episodes", "8"),
)


call = calling()


@pytest.fixture
def stop_after(monkeypatch):
    """Presses Ctrl-C in the evaluation after a number of blocks."""

    def stop_after(blocks: int) -> None:
        count, real = itertools.count(1), Evaluator.__call__

        def press(self, progress):
            if next(count) == blocks:
                signal.raise_signal(signal.SIGINT)
            return real(self, progress)

        monkeypatch.setattr(Evaluator, "__call__", press)

    return stop_after


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a complete run of two blocks."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert train(*FLAGS, "--total-steps", "512", "--out", folder) == 0
    return folder


@pytest.mark.parametrize("kept", range(5))
def test_the_row_of_the_checkpoint_is_kept_and_no_later_one(tmp_path, kept):
    """Logs of four evaluations, one every 2 updates; the row of a fifth one is torn."""
    names = "update,env_steps,wall_seconds,eval_return_mean,eval_return_std,train_seconds"
    numbers = range(2, 12, 2)
    lines = [names, *(f"{i},{100 * i},{i}.5,{i}.0,0.5,{i}.25" for i in numbers)]
    (tmp_path / "metrics.csv").write_text("\n".join(lines)[:-5])
    best = {"update": 4, "env_steps": 400, "eval_return_mean": 4.0}
    save(tmp_path / "checkpoints" / "best.safetensors", {}, best)
    history = read_history(tmp_path, {"update": 2 * kept})
    assert history.rows.decode().splitlines() == (lines[: kept + 1] if kept else [])
    assert [row["env_steps"] for row in history.evaluations] == [100 * i for i in numbers[:kept]]
    assert history.env_steps == 200 * kept
    times = (2 * kept + 0.5, 2 * kept + 0.25) if kept else (0.0, 0.0)
    assert (history.wall_seconds, history.train_seconds) == times
    assert history.best_return == (4.0 if kept >= 2 else -np.inf)


LOG = (
    "update,env_steps,wall_seconds,eval_return_mean,eval_return_std,train_seconds,eval_x\r\n"
    "2,200,2.5,1.5,0.5,2.25,\r\n4,400,4.5,3.5,0.5,4.25,0.125\r\n"
)


@pytest.mark.parametrize(
    "text",
    [
        LOG,
        "\ufeff" + LOG,
        LOG.replace("\r\n", "\n").rstrip(),
        '"' + LOG.replace(",", '","').replace("\r\n", '"\r\n"').removesuffix('"'),
    ],
    ids=["as written", "with a mark of the byte order", "without its last newline", "quoted"],
)
def test_a_log_that_another_program_saved_keeps_all_its_rows(tmp_path, text):
    (tmp_path / "metrics.csv").write_text(text, newline="")
    history = read_history(tmp_path, {"update": 4})
    assert history.rows.decode() == LOG
    assert [row["eval_return_mean"] for row in history.evaluations] == [1.5, 3.5]


@pytest.mark.parametrize(
    "text",
    [
        LOG.replace(",", ";"),
        LOG.replace(",", ";").replace(".", ","),
        LOG.replace(",", "\t"),
        LOG.replace("2.25,", "2.25"),
        LOG.replace("0.125", "0.125,1"),
        LOG.replace("1.5", "one"),
        LOG.partition("\r\n")[2],
        "update,env_steps\r\n",
        "upd",
        LOG.encode("utf-16"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_and_never_empty(tmp_path, text):
    path = tmp_path / "metrics.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunError, match=r"metrics.csv' is damaged, or was changed .*: restore it"):
        read_history(tmp_path, {"update": 4})


def test_a_best_checkpoint_that_cannot_be_read_is_not_replaced(tmp_path):
    best = tmp_path / "checkpoints" / "best.safetensors"
    save(best, {}, {"update": 2, "env_steps": 2, "eval_return_mean": 9.0})
    assert read_history(tmp_path, {"update": 4}).best_return == 9.0
    best.write_bytes(best.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"best.safetensors' is damaged"):
        read_history(tmp_path, {"update": 4})


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--partners.share", "1", "--partners.share-steps", "1200", "--partners.most-noise", "0.5"],
        pytest.param(
            ["--env.normalize-observation", "--env.random-starts", "0.5"],
            marks=pytest.mark.robustness,
        ),
        pytest.param(["--env.observation", "planes"], marks=pytest.mark.robustness),
        pytest.param(
            ["--network=gru", "--ppo.chunk-length", "16", "--env.normalize-observation"],
            marks=pytest.mark.robustness,
        ),
    ],
    ids=lambda more: "-".join(more[:1]) or "defaults",
)
def test_it_is_bitwise_the_same(call, stop_after, more):
    # 11 updates in blocks of 2, so that the last one is shorter.
    flags = [*FLAGS, "--total-steps", "1400", "--shaping-steps", "900", *more]
    assert call(*flags, "--out", "whole")[0] == 0
    stop_after(2)
    code, said = call(*flags, "--out", "mine")
    assert code == 130
    assert f"to continue: {command_of(shipped_script('ippo'))} --out mine --resume" in said
    assert len(rows(Path("mine"))) == 2
    assert {"curve.png", "episode.gif"} <= {path.name for path in Path("mine").iterdir()}
    if more:  # rows after the checkpoint, the last one of them torn, are written again
        lines = Path("whole", "metrics.csv").read_bytes().splitlines(keepends=True)
        Path("mine", "metrics.csv").write_bytes(b"".join(lines[:4]) + lines[4][:37])
    code, said = call("--out", "mine", "--resume")
    assert code == 0
    assert "continuing after 512 steps" in said
    check_equal(Path("mine"), Path("whole"))
    times = [float(row["wall_seconds"]) for row in table(Path("mine", "metrics.csv"))]
    assert times == sorted(times), "times go on, too"


CURRICULUM = """
[[stage]]
name = "short"
env = {horizon = 20, random_starts = 1.0}
steps = 500

[[stage]]
name = "long"
ppo = {learning_rate = 0.003}
env = {random_starts = 0.5}
shaping = 2.0
gate = {metric = "eval_length_mean", at_least = 40.0, evaluations = 2}
reset = ["optimizer"]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_curriculum_goes_on_in_its_stage(call, stop_after, monkeypatch, tmp_path):
    (tmp_path / "stages.toml").write_text(CURRICULUM)
    flags = [*FLAGS, "--total-steps", "1536", "--env.normalize-observation"]
    flags += ["--curriculum", "stages.toml"]
    assert call(*flags, "--out", "whole")[0] == 0
    assert [row["stage"] for row in rows(Path("whole"))] == ["1", "1", "2", "2"]
    assert [row["gate_passes"] for row in rows(Path("whole"))] == ["0", "0", "1", "2"]
    stop_after(3)  # in the middle of a stage
    assert call(*flags, "--out", "stopped")[0] == 130
    assert len(rows(Path("stopped"))) == 3
    assert call("--out", "stopped", "--resume")[0] == 0
    check_equal(Path("stopped"), Path("whole"))
    compile_block, count = _train._compile, itertools.count(1)

    def press_and_compile(*args):
        if next(count) == 2:
            signal.raise_signal(signal.SIGINT)
        return compile_block(*args)

    monkeypatch.setattr(_train, "_compile", press_and_compile)
    assert call(*flags, "--out", "between")[0] == 130
    assert call("--out", "between", "--resume")[0] == 0
    check_equal(Path("between"), Path("whole"))
    code, said = call("--out", "between", "--resume", "--total-steps", "9999")
    assert (code, "is complete, with 1,024 steps" in said) == (0, True)
    stages = json.loads(Path("whole", "result.json").read_text())["stages"]
    assert [(x["name"], x["stage_steps"], x["ended"]) for x in stages] == [
        ("short", 512, "its 500 steps have been used"),
        ("long", 512, "its gate is passed"),
    ]


@pytest.mark.slow
def test_a_run_that_is_complete_can_be_made_longer(call, finished, tmp_path):
    shutil.copytree(finished, "mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for more in ((), (*FLAGS, "--total-steps", "512"), ("--total-steps", "100")):
        code, said = call("--out", "mine", "--resume", *more)
        assert (code, said) == (0, "the run in mine is complete, with 512 steps\n")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    best = tmp_path / "mine" / "checkpoints" / "best.safetensors"
    assert read_metadata(best)["chosen_by"] == 0.0
    update = read_metadata(best)["update"]
    assert call("--out", "mine", "--resume", "--total-steps", "1024")[0] == 0
    assert result(Path("mine"))["env_steps"] == 1024
    assert [row["env_steps"] for row in rows(Path("mine"))] == ["256", "512", "768", "1024"]
    assert "total_steps = 1024" in (tmp_path / "mine" / "config.toml").read_text()
    assert read_metadata(best)["update"] == update, "an equal return is no better one"


@pytest.mark.slow
@pytest.mark.parametrize("missing", [("result.json", "curve.png", "episode.gif"), ("curve.png",)])
def test_a_run_that_was_killed_in_its_last_moments_is_concluded(call, finished, missing):
    shutil.copytree(finished, "mine")
    for name in missing:
        Path("mine", name).unlink()
    assert call("--out", "mine", "--resume")[0] == 0
    for name in ("curve.png", "episode.gif"):
        assert Path("mine", name).exists()
    check_equal(Path("mine"), finished)


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_signal_in_the_final_evaluation_leaves_the_rest_to_a_resume(
    call, stop_after, finished, monkeypatch
):
    stop_after(1)
    assert call(*FLAGS, "--total-steps", "512", "--out", "mine")[0] == 130
    assert Path("mine", "curve.png").exists()
    real = Conclusion._best

    def press(self):
        signal.raise_signal(signal.SIGINT)
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(Conclusion, "_best", press)
        assert call("--out", "mine", "--resume")[0] == 130
    assert result(Path("mine"))["best_return_mean"] is None
    assert call("--out", "mine", "--resume")[0] == 0
    check_equal(Path("mine"), finished)


def damage(folder: Path, how: str) -> None:
    last = folder / "checkpoints" / "last.safetensors"
    if how == "flipped":
        content = bytearray(last.read_bytes())
        content[-1] ^= 1
        last.write_bytes(content)
    elif how == "missing":
        last.unlink()
    elif how == "log":
        (folder / "metrics.csv").write_text("update,b\nc,d\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "more", "words"),
    [
        ("flipped", [], "last.safetensors' is damaged, or not a checkpoint of this version"),
        ("missing", [], "The folder 'mine' has results without a checkpoint to resume"),
        ("log", [], "metrics.csv' is damaged, or was changed"),
        ("nothing", ["--seed", "3"], "The run in 'mine' has other settings: --seed (was 0, is 3)."),
    ],
)
def test_what_cannot_be_resumed_is_one_sentence(call, finished, tmp_path, how, more, words):
    shutil.copytree(finished, "mine")
    damage(tmp_path / "mine", how)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    heard = call("--out", "mine", "--resume", *(more or ["--total-steps", "1024"]))
    check_refusal(heard, words)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before, "the folder is untouched"
    if how == "flipped":
        assert "The same folder contains best.safetensors." in heard[1]


KITCHEN = "XXPXX\nO 12O\nX   X\nXDXSX\n"
EDITED = KITCHEN.replace("X   X", "O   X")


@pytest.mark.slow
def test_a_kitchen_that_is_edited_during_training_is_stored_as_it_was(call, monkeypatch, tmp_path):
    kitchen, evaluate = tmp_path / "mine.layout", Evaluator.__call__
    kitchen.write_text(KITCHEN)

    def edit_and_evaluate(self, progress):
        kitchen.write_text(EDITED)
        return evaluate(self, progress)

    monkeypatch.setattr(Evaluator, "__call__", edit_and_evaluate)
    flags = [*FLAGS, "--env.layout", "mine.layout", "--total-steps", "256", "--out", "mine"]
    assert call(*flags)[0] == 0
    metadata = read_metadata(tmp_path / "mine" / "policy.safetensors")
    assert metadata["run"]["env"]["layout"] == KITCHEN


@pytest.mark.slow
def test_a_run_without_a_checkpoint_is_started(call, finished, tmp_path):
    """As after a kill before the first checkpoint, which may leave the first row of the log."""
    for name in ("config.toml", "metrics.csv", "checkpoints/best.safetensors"):
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(finished / name, tmp_path / "mine" / name)
    check_refusal(call("--out", "mine"), "The folder 'mine' exists and is not empty")
    assert call("--out", "mine", "--resume")[0] == 0
    check_equal(Path("mine"), finished)
    Path("mine", "config.toml").unlink()
    heard = call(*FLAGS, "--out", "mine", "--resume")
    check_refusal(heard, "The folder 'mine' exists and is not empty: choose another --out.")
