"""A run that is stopped and resumed is the run that was never stopped."""

import itertools
import shutil
import signal
from pathlib import Path

import pytest
from command_lines import call as train, call_and_hear, calling, check_refusal
from run_files import check_equal, files, result, rows, table
from scripts import load_script, shipped_script

from eqgrid_lab import Evaluation
from agents import read_metadata
from agents.files import shipped
from eqgrid_lab.base import RunError
from eqgrid_lab.folders import read_csv
from eqgrid_lab.settings import command_of

FLAGS = (
    *("--num-envs", "4", "--ppo.rollout-length", "32", "--env.horizon", "40"),
    *("--eval-every", "256", "--eval-episodes", "4"),
)


call = calling()


@pytest.fixture
def stop_after(monkeypatch):
    """Presses Ctrl-C three times in the evaluation after a number of blocks."""

    def stop_after(blocks: int) -> None:
        count, real = itertools.count(1), Evaluation.__call__

        def press(self, state):
            if next(count) == blocks:
                for _ in range(3):
                    signal.raise_signal(signal.SIGINT)
            return real(self, state)

        monkeypatch.setattr(Evaluation, "__call__", press)

    return stop_after


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a complete run of two blocks."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert train(*FLAGS, "--total-steps", "512", "--out", folder) == 0
    return folder


LOG = "seed,update,eval_x\r\n0,2,\r\n0,4,0.125\r\n"


@pytest.mark.parametrize(
    "text",
    [
        LOG + "0,6",
        "\ufeff" + LOG,
        LOG.replace("\r\n", "\n").rstrip(),
        '"' + LOG.replace(",", '","').replace("\r\n", '"\r\n"').removesuffix('"'),
    ],
    ids=["with a torn row", "with a mark of the byte order", "without its last newline", "quoted"],
)
def test_a_log_that_another_program_saved_keeps_all_its_rows(tmp_path, text):
    (tmp_path / "metrics.csv").write_text(text, newline="")
    expected = [{"seed": "0", "update": x, "eval_x": y} for x, y in (("2", ""), ("4", "0.125"))]
    assert read_csv(tmp_path / "metrics.csv", "seed", "update") == expected


@pytest.mark.parametrize(
    "text",
    [
        LOG.replace(",", ";"),
        LOG.replace("2,", "2"),
        LOG.replace("0.125", "0.125,1"),
        LOG.partition("\r\n")[2],
        "seed\r\n",
        "upd",
        LOG.encode("utf-16"),
    ],
)
def test_a_log_that_cannot_be_read_is_an_error_and_never_empty(tmp_path, text):
    path = tmp_path / "metrics.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunError, match=r"metrics.csv' is damaged, or was changed .*: restore it"):
        read_csv(path, "seed", "update")


ROBUST = pytest.mark.robustness


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--num-seeds", "2", "--env.normalize-observation"],
        ["--partners.share", "1", "--partners.share-steps", "1200", "--partners.noise", "0", "0.5"],
        pytest.param(["--env.random-starts", "0.5"], marks=ROBUST),
        pytest.param(["--env.observation", "planes"], marks=ROBUST),
        pytest.param(["--network=gru", "--ppo.chunk-length", "16", "--num-seeds=2"], marks=ROBUST),
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
    assert said.count("interrupted after 512 steps") == 1
    words = f"to continue: {command_of(shipped_script('ippo'))} --out mine --resume\n"
    assert (said.count("to continue: "), said.endswith(words)) == (1, True)
    assert {row["env_steps"] for row in rows(Path("mine"))} == {"256", "512"}
    assert files(Path("mine")) == files(Path("whole"))
    assert result(Path("mine"))["stopped"] == "interrupted"
    if more:  # rows after the checkpoint, the last one of them torn, are written again
        lines = Path("whole", "metrics.csv").read_bytes().splitlines(keepends=True)
        Path("mine", "metrics.csv").write_bytes(b"".join(lines[:6]) + lines[6][:37])
    code, said = call("--out", "mine", "--resume")
    assert code == 0
    assert "continuing after 512 steps" in said
    check_equal(Path("mine"), Path("whole"))
    times = [float(row["wall_seconds"]) for row in table(Path("mine", "metrics.csv"))]
    assert times == sorted(times), "times go on, too"


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files(folder)}


@pytest.mark.slow
def test_a_run_that_is_complete_can_be_made_longer(call, finished):
    shutil.copytree(finished, "mine")
    before = content(Path("mine"))
    for more in ((), (*FLAGS, "--total-steps", "512"), ("--total-steps", "100")):
        code, said = call("--out", "mine", "--resume", *more)
        assert (code, said) == (0, "the run mine is complete\n")
        assert content(Path("mine")) == before
    check_refusal(
        call(*FLAGS, "--out", "mine"), "'mine' exists and is not empty: choose", codes=(2,)
    )
    assert content(Path("mine")) == before
    assert call("--out", "mine", "--resume", "--total-steps", "1024")[0] == 0
    assert result(Path("mine"))["env_steps"] == 1024
    assert [row["env_steps"] for row in rows(Path("mine"))] == ["256", "512", "768", "1024"]
    assert "total_steps = 1024" in Path("mine", "config.toml").read_text()


@pytest.mark.slow
def test_a_run_that_its_script_ends_early_is_complete(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = shipped("ippo.py").read_text(encoding="utf-8")
    loop, end = text.split("        run.finish(state)")
    Path("mine.py").write_text(f"{loop}            break\n        run.finish(state){end}")
    own = load_script(Path("mine.py"))
    assert (
        call_and_hear(capsys, *FLAGS, "--total-steps", "512", "--out", "run", algorithm=own)[0] == 0
    )
    before = content(Path("run"))
    assert [row["env_steps"] for row in rows(Path("run"))] == ["256"]
    heard = call_and_hear(capsys, "--out", "run", "--resume", algorithm=own)
    assert heard == (0, "the run run is complete\n")
    assert content(Path("run")) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing", [("result.json", "curve.png"), ("policy.safetensors",), ("episode.gif",)]
)
def test_a_run_that_was_killed_in_its_last_moments_is_concluded(call, finished, missing):
    """Or whose disk was full at the end."""
    shutil.copytree(finished, "mine")
    for name in missing:
        Path("mine", name).unlink()
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
        (folder / "metrics.csv").write_text("seed,update,eval_return_mean\n0,2,none\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "more", "words"),
    [
        ("flipped", [], "last.safetensors' is damaged, or not a checkpoint of this version"),
        ("missing", [], "The folder 'mine' has results without a checkpoint to resume"),
        ("log", [], "metrics.csv' is damaged, or was changed"),
        ("nothing", ["--seed", "3"], "The run in 'mine' has other settings: --seed (was 0, is 3)."),
        ("nothing", ["--width=8", "--resume-changed"], "last.safetensors' "),
    ],
)
def test_what_cannot_be_resumed_is_one_sentence(call, finished, how, more, words):
    shutil.copytree(finished, "mine")
    damage(Path("mine"), how)
    before = content(Path("mine"))
    heard = call("--out", "mine", "--resume", "--total-steps", "1024", *more)
    check_refusal(heard, words)
    assert heard[1].count("\n") == 1
    assert content(Path("mine")) == before, "the folder is untouched"


@pytest.mark.slow
def test_a_run_continues_with_other_settings_if_that_is_asked_for(call, finished):
    shutil.copytree(finished, "mine")
    more = ("--total-steps", "768", "--ppo.num-epochs", "1", "--resume-changed")
    assert call("--out", "mine", "--resume", *more)[0] == 0
    assert [row["env_steps"] for row in rows(Path("mine"))] == ["256", "512", "768"]
    assert "num_epochs = 1" in Path("mine", "config.toml").read_text()
    assert call("--out", "mine", "--resume") == (0, "the run mine is complete\n")


KITCHEN = "XXPXX\nO 12O\nX   X\nXDXSX\n"
EDITED = KITCHEN.replace("X   X", "O   X")


@pytest.mark.slow
def test_a_kitchen_that_is_edited_during_training_is_stored_as_it_was(call, monkeypatch, tmp_path):
    kitchen, evaluate = tmp_path / "mine.layout", Evaluation.__call__
    kitchen.write_text(KITCHEN)

    def edit_and_evaluate(self, state):
        kitchen.write_text(EDITED)
        return evaluate(self, state)

    monkeypatch.setattr(Evaluation, "__call__", edit_and_evaluate)
    flags = [*FLAGS, "--env.layout", "mine.layout", "--total-steps", "256", "--out", "mine"]
    assert call(*flags)[0] == 0
    metadata = read_metadata(tmp_path / "mine" / "policy.safetensors")
    assert metadata["world"]["arguments"]["layout"] == KITCHEN


@pytest.mark.slow
def test_a_run_without_a_checkpoint_is_started(call, finished):
    """As after a kill before the first checkpoint, which may leave the first row of the log."""
    for name in ("config.toml", "metrics.csv", "checkpoints/best.safetensors"):
        Path("mine", name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(finished / name, Path("mine", name))
    check_refusal(call("--out", "mine"), "The folder 'mine' exists and is not empty")
    assert call("--out", "mine", "--resume")[0] == 0
    check_equal(Path("mine"), finished)
    Path("mine", "config.toml").unlink()
    heard = call(*FLAGS, "--out", "mine", "--resume")
    check_refusal(heard, "The folder 'mine' exists and is not empty: choose another --out.")
    assert call(*FLAGS, "--total-steps", "128", "--out", "nothing", "--resume")[0] == 0
