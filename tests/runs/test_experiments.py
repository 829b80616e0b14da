"""The command lines, as a person uses them: what they leave behind, and how they say no."""

import errno
import functools
import json
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from command_lines import HEARS_CTRL_C, call, call_and_hear, check_refusal
from PIL import Image
from run_files import SMALL, check_equal, files, result, rows
from safetensors.numpy import load_file

from eqgrid_lab import Evaluation
from agents import OutOfMemory, read_metadata
from eqgrid import make
from eqgrid_lab.base import RunError, UsageError, _command, as_usage_error, run_command
from eqgrid_lab.runs import _run
from eqgrid_lab.show import what_is_kept

ROOT = Path(__file__).parents[2]
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of one small run. The numbers of its evaluations, which determine their episodes,
    are in the file `numbers` beside it.
    """
    folder, numbers, play = tmp_path_factory.mktemp("runs"), [], Evaluation.play

    def count(self, policies, number, repeats=1):
        numbers.append(number)
        return play(self, policies, number, repeats)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluation, "play", count)
        assert call(*SMALL, "--out", folder / "run") == 0
    (folder / "numbers").write_text(json.dumps(numbers))
    return folder / "run"


def test_a_run_leaves_all_its_files(finished):
    names = {"config.toml", "metrics.csv", "result.json", "curve.png", "episode.gif"}
    names |= {"policy.safetensors"}
    names |= {"checkpoints/best.safetensors", "checkpoints/last.safetensors"}
    assert files(finished) == names
    log, result = rows(finished), json.loads((finished / "result.json").read_text())
    assert [(row["seed"], row["update"], row["env_steps"]) for row in log] == [
        ("0", "2", "256"),
        ("0", "4", "512"),
        ("0", "5", "640"),
    ]
    assert next(iter(log[0])) == "seed"
    assert all(np.isfinite(float(row["policy_loss"])) for row in log)
    assert float(log[-1]["learning_rate"]) == 0  # the schedule ends with the last step
    keys = "algorithm layout dynamics world seeds layouts zero_shot policy env_steps "
    keys += "total_steps stopped wall_seconds compile_seconds train_seconds steps_per_second "
    keys += "reached optimum "
    keys += "eval_return_mean eval_return_std eval_episodes eval_fraction_of_optimum "
    keys += "best_return_mean best_return_std best_env_steps"
    assert {key for key in result if "_agent_" not in key} == set(keys.split())
    expected = {"algorithm": "ippo", "world": "goals", "layout": "room", "seeds": [0]}
    expected |= {"env_steps": 640, "eval_episodes": 16, "stopped": None}
    assert expected.items() <= result.items()
    assert result["wall_seconds"] > result["compile_seconds"]
    with Image.open(finished / "curve.png") as curve:
        assert min(curve.size) > 300
    with Image.open(finished / "episode.gif") as video:
        assert video.n_frames <= 21


def test_the_best_policy_is_played_again_in_episodes_that_no_other_evaluation_has(finished):
    numbers = json.loads((finished.parent / "numbers").read_text())
    assert numbers == [2, 4, 5, 6, 7], "during training, the numbers of updates"
    best = read_metadata(finished / "checkpoints" / "best.safetensors")
    scores = {int(row["env_steps"]): float(row["eval_return_mean"]) for row in rows(finished)}
    assert best["eval_return_mean"] == max(scores.values()) == scores[best["env_steps"]]
    ended, policy = result(finished), read_metadata(finished / "policy.safetensors")
    assert best["env_steps"] == ended["best_env_steps"]
    is_best = ended["best_return_mean"] >= ended["eval_return_mean"]
    assert policy["checkpoint"] == ended["policy"] == ("best" if is_best else "last")
    name = "best_return_mean" if is_best else "eval_return_mean"
    assert policy["eval_return_mean"] == ended[name]
    assert policy["env_steps"] == (best["env_steps"] if is_best else 640)


def test_a_settings_file_reproduces_the_run(finished, tmp_path):
    assert call("--config", finished / "config.toml", "--out", tmp_path / "again") == 0
    check_equal(tmp_path / "again", finished)
    settings = [(x / "config.toml").read_text() for x in (tmp_path / "again", finished)]
    assert settings[0] == settings[1]


def test_jax_is_told_where_compiled_programs_are_kept(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "eqgrid" / "compiled"
    cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert folder.is_dir()


def test_a_cache_that_cannot_be_made_stops_nothing(cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None


def test_a_user_without_a_home_folder_has_no_cache(cache, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 5)  # a user without a name
    cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None


def test_what_jax_was_told_before_counts(cache, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == str(tmp_path)


@pytest.mark.slow
def test_mappo_is_the_same_program_and_runs_with_other_settings(tmp_path):
    layout = tmp_path / "mine.layout"
    layout.write_text("XXPXXX\nO  2 O\nX1   X\nXDXSXX\n")
    flags = [
        "--env.name",
        "overcooked",
        "--env.layout",
        layout,
        "--network",
        "gru",
        "--ppo.chunk-length",
        "8",
    ]
    flags += ["--env.normalize-observation", "--env.dynamics", "interactive"]
    flags += ["--env.random-starts", "0.5", "--out", tmp_path / "run"]
    assert call(*SMALL[2:], *flags, algorithm="mappo") == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["algorithm"] == "mappo"


@pytest.mark.slow
def test_chosen_entries_of_info_are_logged_and_drawn(tmp_path):
    folders = {name: tmp_path / name for name in ("plain", "more")}
    for name, flags in (("plain", []), ("more", ["--log-info", "events", "shaped_reward"])):
        assert call(*SMALL, *flags, "--out", folders[name]) == 0
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
    heard = call_and_hear(capsys, *args, "--seed", "3", "--out", tmp_path / "run")
    check_refusal(heard, "update 1 of seed 3 is not a finite number", codes=(1,))
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
    for name in ("_run", "_play", "record_steps"):
        assert log.count(f"Finished XLA compilation of jit({name})") == 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["compiling the training loop", "Compiling jit(_run)"])
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
    assert "Finished XLA compilation of jit(_run)" not in log
    said = "error: interrupted before training started, so no files were written.\n"
    assert log.count(said) == 1
    assert "Traceback" not in log
    assert not out.exists()


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
            run_command(lambda _: run(), memory="--num-envs")
        return
    with pytest.raises(SystemExit) as stop:
        run_command(lambda _: run(), memory="--num-envs")
    assert stop.value.code == 1
    assert capsys.readouterr().err.startswith(says)


def test_only_sentences_of_eqgrid_become_usage_errors():
    with pytest.raises(UsageError, match=r"^World: There is no"), as_usage_error("World: "):
        make("overcooked", layout="no")
    with pytest.raises(ValueError, match="cannot reshape"), as_usage_error():
        np.zeros(3).reshape(2)
    with pytest.raises(ValueError, match="a fault"), as_usage_error():
        fail(ValueError("a fault"))
    with pytest.raises(UsageError, match="a sentence"), as_usage_error(scripts=(__name__,)):
        fail(ValueError("a sentence"))
    with pytest.raises(ValueError, match="There is no"), as_usage_error(own_script=__name__):
        make("overcooked", layout="no")


@pytest.mark.slow
def test_what_was_asked_is_trained_rounded_up_to_one_update(tmp_path, capsys):
    states = []
    for every in ("256", "100000"):
        out = tmp_path / every
        assert call(*SMALL, "--total-steps", "700", "--eval-every", every, "--out", out) == 0
        words = "training 768 steps: --total-steps 700 is rounded up to whole updates of 128"
        assert words in capsys.readouterr().out
        assert result(out)["env_steps"] == 768, "6 updates of 128 steps"
        assert float(rows(out)[-1]["learning_rate"]) == 0
        saved = load_file(out / "checkpoints" / "last.safetensors")
        states.append({name: x for name, x in saved.items() if "best" not in name})
    assert len(states[0]) > 10
    for name, leaf in states[0].items():
        np.testing.assert_array_equal(states[1][name], leaf, "evaluations change nothing")


def test_settings_of_another_algorithm_are_refused(finished, capsys, tmp_path):
    args = ["--config", finished / "config.toml", "--out", tmp_path / "run"]
    heard = call_and_hear(capsys, *args, algorithm="mappo")
    check_refusal(heard, "is for the algorithm 'ippo', not for mappo", codes=(2,))


def test_a_process_that_ends_before_it_learns_leaves_no_folder(monkeypatch, capsys, tmp_path):
    def no_memory(*_):
        raise OutOfMemory(10**12, 10**9)

    monkeypatch.setattr(_run, "check_memory", no_memory)
    heard = call_and_hear(capsys, *SMALL, "--out", tmp_path / "run")
    check_refusal(heard, "lower --num-envs", codes=(1,))
    assert not (tmp_path / "run").exists()
