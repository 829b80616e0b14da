"""The command lines, as a person uses them: what they leave behind, and how they say no."""

import errno
import functools
import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from command_lines import HEARS_CTRL_C, call, call_and_hear, check_refusal, listening
from PIL import Image
from run_files import rows

from agents import OutOfMemory, read_metadata
from eqgrid import make
from eqgrid_lab.base import (
    Process,
    RunError,
    Stopped,
    UsageError,
    _command,
    as_usage_error,
    exit_code_of,
)
from eqgrid_lab.runs import Evaluator, _members, _program
from eqgrid_lab.runs._evaluator import compiled_ahead
from eqgrid_lab.show import what_is_kept

ROOT = Path(__file__).parents[2]
SMALL = (
    *("--total-steps", "512", "--num-envs", "4", "--ppo.rollout-length", "32"),
    *("--env.horizon", "40", "--eval-episodes", "4", "--final-episodes", "8"),
    *("--eval-every", "128"),
)
NUMBERS = {"config.toml", "metrics.csv", "result.json", "policy.safetensors", "checkpoints"}
"""The files and folders of a run, but for its pictures."""
CACHE_SETTINGS = (
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture
def cache():
    """The real `_command`, with a jax that forgets what it was told."""
    before = {name: getattr(jax.config, name) for name in CACHE_SETTINGS}
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    yield _command
    for name, value in before.items():
        jax.config.update(name, value)


def start(own_caches: dict[str, str], out: Path, *flags: str | Path) -> None:
    """Start `ippo.py` as a person would, with the compiled programs beside the run."""
    command = [sys.executable, ROOT / "experiments" / "ippo.py", *flags, "--out", out]
    env = own_caches | {"XDG_CACHE_HOME": str(out.parent / "cache")}
    subprocess.run(command, check=True, cwd=out.parent, capture_output=True, env=env)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of one small run."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert call(*SMALL, "--out", out) == 0
    return out


@pytest.mark.slow
def test_the_clock_of_a_run_counts_its_imports():
    code = """
import time
before = time.perf_counter()
from eqgrid_lab.base import Process
imports = time.perf_counter() - before
print(imports, Process.listen().seconds())
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imports, seconds = map(float, done.stdout.split())
    assert seconds >= imports > 0


def test_a_run_leaves_all_its_files(finished):
    names = {path.name for path in finished.iterdir()}
    assert names == NUMBERS | {"curve.png", "episode.gif"}
    checkpoints = {path.name for path in (finished / "checkpoints").iterdir()}
    assert checkpoints == {"best.safetensors", "last.safetensors"}


def test_jax_is_told_where_compiled_programs_are_kept(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "eqgrid" / "compiled"
    assert str(folder) in cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert folder.is_dir()


def test_what_a_killed_process_left_in_the_cache_is_removed(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "eqgrid" / "compiled"
    folder.mkdir(parents=True)
    for name in ("jit_f-1-cache", "jit_g-2-cache", "jit_g-2-atime"):
        (folder / name).write_bytes(b"x")
    with warnings.catch_warnings(action="error"):
        cache.keep_compiled_programs()
        warnings.warn("Error reading persistent compilation cache entry for 'f'", stacklevel=1)
    assert {x.name for x in folder.glob("*-*")} == {"jit_g-2-cache", "jit_g-2-atime"}


def test_a_cache_that_cannot_be_made_stops_nothing(cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "cannot be used" in cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None


def test_a_user_without_a_home_folder_has_no_cache(cache, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 5)  # a user without a name
    assert "there is no home folder" in cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None


def test_what_jax_was_told_before_counts(cache, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    assert cache.keep_compiled_programs().endswith(f"cached in {tmp_path}")
    jax.config.update("jax_enable_compilation_cache", False)
    assert "not cached" in cache.keep_compiled_programs()


def test_result_has_its_keys(finished):
    result = json.loads((finished / "result.json").read_text())
    keys = "algorithm layout dynamics world seeds layouts zero_shot stages policy env_steps "
    keys += "wall_seconds compile_seconds train_seconds steps_per_second reached optimum "
    keys += "eval_return_mean eval_return_std eval_episodes eval_fraction_of_optimum "
    keys += "best_return_mean best_return_std best_env_steps"
    assert set(result) == set(keys.split())
    assert result["algorithm"] == "ippo"
    assert result["layout"] == "cramped"
    assert result["seeds"] == [0]
    assert result["env_steps"] == 512
    assert result["eval_episodes"] == 8
    assert result["optimum"] is None  # known for 400 steps only
    assert result["wall_seconds"] > result["compile_seconds"] > 0


def test_metrics_have_a_row_per_block(finished):
    log = rows(finished)
    assert [int(row["env_steps"]) for row in log] == [128, 256, 384, 512]
    assert all(np.isfinite(float(row["policy_loss"])) for row in log)
    assert float(log[-1]["learning_rate"]) == 0  # the schedule ends with the last step


def test_pictures_can_be_opened(finished):
    with Image.open(finished / "curve.png") as curve:
        assert min(curve.size) > 300
    with Image.open(finished / "episode.gif") as video:
        assert video.n_frames == 41


def test_the_best_checkpoint_is_evaluated_again(finished):
    best = read_metadata(finished / "checkpoints" / "best.safetensors")
    result = json.loads((finished / "result.json").read_text())
    scores = {int(row["env_steps"]): float(row["eval_return_mean"]) for row in rows(finished)}
    assert best["chosen_by"] == max(scores.values()) == scores[best["env_steps"]]
    assert best["env_steps"] == result["best_env_steps"]
    assert best["eval_return_mean"] == result["best_return_mean"]
    assert best["eval_return_std"] == result["best_return_std"]


@pytest.mark.slow
def test_settings_file_reproduces_the_run_and_compiled_programs_are_kept(finished, own_caches):
    again = finished.parent / "again"
    start(own_caches, again, "--config", finished / "config.toml")
    assert rows(finished) == rows(again)
    assert (again / "config.toml").read_text() == (finished / "config.toml").read_text()
    kept = {path.name for path in (finished.parent / "cache" / "eqgrid" / "compiled").iterdir()}
    assert any(name.startswith("jit__run_block-") for name in kept)
    programs = {x.removesuffix("-cache") for x in kept if x.endswith("-cache")}
    assert programs == {x.removesuffix("-atime") for x in kept if x.endswith("-atime")}


@pytest.mark.slow
def test_flags_replace_the_settings_file(finished, tmp_path):
    flags = ["--seed", "3", "--out", tmp_path]
    assert call("--config", finished / "config.toml", *flags) == 0
    assert "seed = 3" in (tmp_path / "config.toml").read_text()
    assert (tmp_path / "result.json").exists()


@pytest.mark.slow
def test_mappo_is_the_same_program_and_runs_with_other_settings(tmp_path):
    layout = tmp_path / "mine.layout"
    layout.write_text("XXPXXX\nO  2 O\nX1   X\nXDXSXX\n")
    flags = ["--env.layout", layout, "--network", "gru", "--ppo.chunk-length", "8"]
    flags += ["--env.normalize-observation", "--env.dynamics", "interactive"]
    flags += ["--env.random-starts", "0.5", "--out", tmp_path / "run"]
    assert call(*SMALL, *flags, algorithm="mappo") == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["algorithm"] == "mappo"


@pytest.mark.slow
def test_chosen_entries_of_info_are_logged_and_drawn(tmp_path):
    folders = {name: tmp_path / name for name in ("plain", "more")}
    for name, flags in (("plain", []), ("more", ["--log-info", "events", "shaped_reward"])):
        assert call(*SMALL, "--env.name", "goals", *flags, "--out", folders[name]) == 0
    plain, more = (rows(folder) for folder in folders.values())
    for before, after in zip(plain, more, strict=True):
        assert before.items() <= after.items()  # it only looks
        assert float(after["info_shaped_reward"]) == 0
        # Every arrival is worth 1, and the return is a mean over two agents.
        arrivals, episodes = float(after["episode_event_arrival"]), int(after["episodes"])
        assert arrivals == pytest.approx(2 * float(after["episode_return"])) or episodes == 0
    heights = []
    for folder in folders.values():
        with Image.open(folder / "curve.png") as picture:
            heights.append(picture.height)
    assert heights[1] > heights[0]


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run(capsys, tmp_path):
    args = [*SMALL, "--ppo.learning-rate", "1e30", "--ppo.max-grad-norm", "1e30"]
    heard = call_and_hear(capsys, *args, "--out", tmp_path / "run")
    check_refusal(heard, "update 1 is not a finite number", codes=(1,))
    assert "There was no checkpoint yet, so nothing is kept." in heard[1]
    assert not (tmp_path / "run").exists()


def test_what_is_kept_of_a_run_whose_loss_is_no_number(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    assert what_is_kept(tmp_path) == "There was no checkpoint yet, so nothing is kept."
    (tmp_path / "checkpoints" / "last.safetensors").touch()
    assert what_is_kept(tmp_path) == f"The checkpoints in '{tmp_path}' are from before this update."


@pytest.mark.slow
def test_a_run_compiles_each_program_once(tmp_path, own_caches):
    """Also those that a thread compiles before they are needed."""
    command = [sys.executable, ROOT / "experiments" / "ippo.py", *SMALL, "--out", tmp_path / "run"]
    own = {**own_caches, "JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_LOG_COMPILES": "1"}
    log = subprocess.run(command, env=own, capture_output=True, text=True, check=True).stderr
    for name in ("_run_block", "_play", "record_steps"):
        assert log.count(f"Finished XLA compilation of jit({name})") == 1


def test_an_error_in_a_program_that_compiles_ahead_is_ignored():
    done = []
    programs = (lambda: 1 / 0, lambda: done.append("second"), lambda: done.append("third"))
    with compiled_ahead(programs) as wait_for_first:
        wait_for_first()
        wait_for_first()
        while len(done) < 2:
            time.sleep(0.01)
    assert done == ["second", "third"]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["compiling the training loop", "Compiling jit(_run_block)"])
def test_ctrl_c_ends_a_run_that_compiles(tmp_path, as_people_do, when):
    out = tmp_path / "run"
    script = ROOT / "experiments" / "ippo.py"
    with subprocess.Popen(
        [*HEARS_CTRL_C, "-u", script, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**as_people_do, "JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_LOG_COMPILES": "1"},
    ) as process:
        for line in process.stdout:
            if when in line:
                process.send_signal(signal.SIGINT)
                break
        log = process.stdout.read()
    assert process.returncode == 130
    assert "Finished XLA compilation of jit(_run_block)" not in log
    assert "Compiling jit(_run_block)" not in log, "nothing more is traced"
    assert log.endswith("error: interrupted before training started, so no files were written.\n")
    assert not out.exists()


def press_ctrl_c_twice():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)  # the second one changes nothing


def test_a_signal_while_a_program_is_traced_stops_at_once(hears_ctrl_c):
    with listening() as process:
        process.begin()
        with pytest.raises(Stopped), process.stopping_at_once():
            press_ctrl_c_twice()
        signal.raise_signal(signal.SIGINT)  # recorded
        assert (process.count, process.stop_reason()) == (3, "interrupted")
        with pytest.raises(Stopped), process.stopping_at_once():
            pytest.fail("a signal had arrived before")


PRESS_CTRL_C = """
import runpy, signal, sys

class PressCtrlC:
    def find_spec(name, *_):
        if name == "jax":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, PressCtrlC)
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[2], run_name="__main__")
"""


@pytest.mark.parametrize("script", ["ippo.py", "policies/pqn_vdn.py"])
def test_ctrl_c_during_imports_ends_quietly(script):
    path = ROOT / "experiments" / script
    command = [*HEARS_CTRL_C, "-c", PRESS_CTRL_C, ROOT, path, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "error: interrupted; nothing was started.\n"


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RunError("It failed."), "error: It failed.\n"),
        (OSError(errno.ENOSPC, "No space left on device", "a"), "error: 'a': No space left on"),
        (MemoryError(), "error: There is not enough memory: lower --num-envs.\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a"), None),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 9 GB"), "error: There is not enough mem"),
        (jax.errors.JaxRuntimeError("INTERNAL: a fault"), None),
        (ValueError("a fault"), None),
    ],
    ids=repr,
)
def test_only_foreseen_errors_are_one_sentence(error, says, capsys):
    run = functools.partial(fail, error)
    if says is None:
        with pytest.raises(type(error)):
            exit_code_of(run, Process(), "--num-envs")
        return
    assert exit_code_of(run, Process(), "--num-envs") == 1
    assert capsys.readouterr().err.startswith(says)


def test_only_sentences_of_eqgrid_become_usage_errors():
    with pytest.raises(UsageError, match=r"^World: There is no"), as_usage_error("World: "):
        make("overcooked", layout="no")
    with pytest.raises(ValueError, match="cannot reshape"), as_usage_error():
        np.zeros(3).reshape(2)
    with pytest.raises(ValueError, match="a fault"), as_usage_error():
        fail(ValueError("a fault"))
    with pytest.raises(UsageError, match="a sentence"), as_usage_error(script=__name__):
        fail(ValueError("a sentence"))
    with pytest.raises(ValueError, match="There is no"), as_usage_error(own_script=__name__):
        make("overcooked", layout="no")


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
def test_the_row_of_an_interrupted_block_is_written(monkeypatch, tmp_path):
    measure = Evaluator.__call__

    def press_ctrl_c(*args):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        return measure(*args)

    monkeypatch.setattr(Evaluator, "__call__", press_ctrl_c)
    monkeypatch.setattr(_members.Conclusion, "_play", lambda *_: None)
    assert call(*SMALL, "--out", tmp_path / "run") == 130
    assert [row["env_steps"] for row in rows(tmp_path / "run")] == ["128"]
    last = read_metadata(tmp_path / "run" / "checkpoints" / "last.safetensors")
    assert last["env_steps"] == 128
    assert json.loads((tmp_path / "run" / "result.json").read_text())["env_steps"] == 128


@pytest.mark.slow
def test_a_signal_at_the_end_skips_what_takes_time(monkeypatch, tmp_path):
    monkeypatch.setattr(_program.Process, "interrupted_again", True)
    assert call(*SMALL, "--out", tmp_path / "run") == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} == NUMBERS
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["eval_episodes"] == 4, "those of the last periodic evaluation"
    assert result["eval_return_mean"] == float(rows(tmp_path / "run")[-1]["eval_return_mean"])


@pytest.mark.slow
def test_what_was_asked_is_trained_rounded_up_to_one_update(tmp_path, capsys):
    states = []
    for every in ("256", "100000"):
        out = tmp_path / every
        assert call(*SMALL, "--total-steps", "700", "--eval-every", every, "--out", out) == 0
        words = "training 768 steps: --total-steps 700 is rounded up to whole updates of 128"
        assert words in capsys.readouterr().out
        result = json.loads((out / "result.json").read_text())
        assert result["env_steps"] == 768, "6 updates of 128 steps"
        assert float(rows(out)[-1]["learning_rate"]) == 0
        states.append((out / "checkpoints" / "last.safetensors").read_bytes()[-100_000:])
    assert states[0] == states[1], "evaluations change nothing"


def test_settings_of_another_algorithm_are_refused(finished, capsys, tmp_path):
    args = ["--config", finished / "config.toml", "--out", tmp_path / "run"]
    heard = call_and_hear(capsys, *args, algorithm="mappo")
    check_refusal(heard, "is for ippo: use experiments/ippo.py", codes=(2,))


def test_a_process_that_ends_before_it_learns_leaves_no_folder(monkeypatch, tmp_path):
    def no_memory(*_):
        raise OutOfMemory(10**12, 10**9)

    monkeypatch.setattr(_members, "check_memory", no_memory)
    assert call(*SMALL, "--out", tmp_path / "run") == 1
    assert not (tmp_path / "run").exists()
