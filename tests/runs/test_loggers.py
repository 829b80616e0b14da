"""The log of a run: equal names and numbers in all forms."""

import contextlib
import dataclasses
import itertools
import math
import signal
import struct
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import calling
from run_files import table
from tensorboardX.proto.event_pb2 import Event, SessionLog

from agents import Metrics, read_metadata
from eqgrid_lab.base import WANDB_ID, Failures
from eqgrid_lab.folders import History, read_history
from eqgrid_lab.runs import Evaluator, _hooks
from eqgrid_lab.settings import command_of, shipped_script
from eqgrid_lab.show import Csv, _loggers, open_loggers

RUN = [
    *("--total-steps", "1024", "--num-envs", "4", "--ppo.rollout-length", "32"),
    *("--eval-every", "256", "--eval-episodes", "2", "--final-episodes", "2"),
    *("--env.horizon", "20", "--width", "8"),
]


def progress(update: int, mean: float = 0.5, kl: float = 0.01) -> SimpleNamespace:
    """What hooks are given after a block of two updates."""
    number, none = jnp.array([0.25, 0.75]), jnp.array([0, 0])
    names = ("clip_fraction", "entropy", "explained_variance", "grad_norm", "learning_rate")
    scalars = dict.fromkeys(names, number) | {"approx_kl": jnp.array([kl, kl])}
    return SimpleNamespace(
        updates=update,
        env_steps=100 * update,
        env_steps_before=0,
        train_seconds=float(update),
        measured={"env_steps": 100 * update, "eval_return_mean": mean},
        metrics=Metrics(scalars, none - 1, number, number, none),
        state={"x": np.arange(3)},
    )


def open_all(folder, names, history=None):
    """The logs of a run that goes on after this history."""
    history = history or History()
    return open_loggers(folder, names, history.rows, history.env_steps, {"seed": 0})


def log_all(loggers, *progresses, wall_seconds=0.0):
    """Logs blocks as one process does, which then ends."""
    log = _hooks.Log(loggers, Failures(), wall_seconds)
    for each in progresses:
        log(each)
    for logger in loggers:
        logger.close()


def scalars(folder) -> dict[tuple[int, str], float]:
    """What TensorBoard would show: a file of records, each with its length and two checksums.

    An event that marks the start of a session hides all earlier events from its step on.
    """
    found = {}
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event, data = Event.FromString(data[12 : 12 + length]), data[16 + length :]
            if event.session_log.status == SessionLog.START:
                found = {at: value for at, value in found.items() if at[0] < event.step}
            for value in event.summary.value:
                found[event.step, value.tag] = value.simple_value
    return found


def test_all_forms_have_equal_names_and_numbers(tmp_path):
    blocks = [progress(update, mean=update / 3) for update in (1, 2)]
    log_all(open_all(tmp_path, ("tensorboard",)), *blocks, wall_seconds=7.0)
    rows = table(tmp_path / "metrics.csv")
    board = scalars(tmp_path / "tensorboard")
    plotted = {
        (int(row["env_steps"]), name): np.float32(text)
        for row in rows
        for name, text in row.items()
        if math.isfinite(float(text))  # otherwise no episode ended
    }
    assert len(rows) == 2
    assert board == plotted
    assert len(plotted) < sum(map(len, rows))
    assert {"approx_kl", "clip_fraction", "explained_variance", "grad_norm"} < set(rows[0])
    assert {"learning_rate", "steps_per_second", "memory_bytes", "entropy"} < set(rows[0])
    assert [float(row["train_seconds"]) for row in rows] == [8.0, 9.0]
    assert float(rows[0]["memory_bytes"]) > 1e6


def test_a_resumed_run_shows_the_row_of_its_checkpoint_everywhere(tmp_path, monkeypatch):
    for done, updates in ((0, (1, 2, 3)), (2, (3, 4))):  # killed after 3, resumed after 2
        history = read_history(tmp_path, {"update": done})
        history.write_into(tmp_path)
        monkeypatch.setattr("time.time", lambda done=done: 1000.0 + done)  # names the event file
        blocks = [with_wall_seconds(progress(update)) for update in updates]
        log_all(open_all(tmp_path, ("tensorboard",), history), *blocks)
    rows = [int(row["env_steps"]) for row in table(tmp_path / "metrics.csv")]
    board = scalars(tmp_path / "tensorboard")
    shown = sorted(step for step, name in board if name == "eval_return_mean")
    assert rows == shown == [100, 200, 300, 400]


def test_a_row_with_other_columns_stands_under_its_own_header(tmp_path):
    path = tmp_path / "metrics.csv"
    blocks = [{"a": 1, "b": 2}, {"b": 3, "c": "x,y"}, {"a": 5}, {"d": 6, "a": 7}]
    (log := Csv(path)).write(blocks[0])
    log = Csv(path, path.read_bytes())  # a resumed run
    for number, row in enumerate(blocks[1:], start=2):
        log.write(row)
        assert len(table(path)) == number
    assert path.read_text().splitlines()[0] == "a,b,c,d"
    found = [{name: value for name, value in row.items() if value} for row in table(path)]
    assert found == [{name: str(value) for name, value in row.items()} for row in blocks]
    assert {path} == {*tmp_path.iterdir()}


def test_a_new_column_that_finds_no_room_is_written_later(tmp_path, monkeypatch):
    path = tmp_path / "metrics.csv"
    (log := Csv(path)).write({"a": 1})
    with monkeypatch.context() as patch:
        patch.setattr(_loggers, "write_atomic", Mock(side_effect=OSError(28, "No space")))
        with pytest.raises(OSError, match="No space"):
            log.write({"a": 2, "b": 3})
    assert path.read_text() == "a\n1\n", "the old rows stay as they were"
    log.write({"b": 4})
    assert table(path) == [{"a": "1", "b": ""}, {"a": "2", "b": "3"}, {"a": "", "b": "4"}]


def with_wall_seconds(seen: SimpleNamespace) -> SimpleNamespace:
    seen.measured |= {"wall_seconds": 1.0, "eval_return_std": 0.0}
    return seen


def test_a_resumed_run_continues_its_run_of_weights_and_biases(tmp_path, monkeypatch):
    ids = []

    class Wandb:
        errors = SimpleNamespace(Error=ValueError)
        Settings = dict

        @staticmethod
        def init(**settings):
            ids.append((settings["id"], settings["resume"]))

    monkeypatch.setattr(_loggers, "import_optional", lambda *_: Wandb)
    for folder in ("mine", "mine", "other"):
        (tmp_path / folder).mkdir(exist_ok=True)
        open_all(tmp_path / folder, ("wandb",))
    assert ids[0] == ids[1] != ids[2]
    assert {resume for _, resume in ids} == {"allow"}


@pytest.mark.slow
def test_weights_and_biases_work_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    for update in (1, 2):  # the run is resumed after its first row
        log_all(open_all(tmp_path, ("wandb",)), progress(update))
    files = sorted((tmp_path / "wandb").rglob("*.wandb"))
    written = files[-1]
    assert {path.stem for path in files} == {f"run-{(tmp_path / WANDB_ID).read_text()}"}
    names = (b"eval_return_mean", b"approx_kl", b"env_steps")
    for _ in range(500):  # its own process may still be writing
        if all(name in written.read_bytes() for name in names):
            return
        time.sleep(0.2)
    raise AssertionError("not all names were written")


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match=r"^--log wandb needs .*\[wandb\]"):
        open_all(tmp_path, ("wandb",))


def test_a_form_that_fails_robs_the_others_of_nothing(tmp_path, capsys):
    class Broken:
        path = tmp_path / "broken"

        def write(self, row):
            raise OSError(28, "No space left on device")

    failures = Failures()
    log = _hooks.Log([Broken(), Csv(tmp_path / "metrics.csv")], failures, 0.0)
    log(progress(1))
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 2
    assert "broken' cannot be written: No space" in capsys.readouterr().err


class Killed(BaseException):
    """Ends a run as a kill does: nothing that comes after it is done."""


def write_until_killed(folder, monkeypatch, writes: float) -> None:
    """Keeps what three blocks bring, from the newest state on, and is killed after some writes."""
    left, save = itertools.count(1), _hooks.save

    def count(*args):
        save(*args)
        if next(left) == writes:
            raise Killed

    last = folder / "checkpoints" / "last.safetensors"
    updates = read_metadata(last)["update"] if last.exists() else 0
    history = read_history(folder, {"update": updates}) if updates else History()
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(_hooks, "save", count)
        keep = _hooks.Checkpoints(last.parent, Failures(), history, lambda _: {}, seconds=0.0)
        for update in range(updates + 1, 4):
            keep(progress(update, mean=(0.5, 0.7, 0.2)[update - 1]))


@pytest.mark.parametrize("writes", range(1, 6))
def test_a_kill_between_two_writes_loses_no_checkpoint(tmp_path, monkeypatch, writes):
    for path, kill_after in ((tmp_path / "whole", np.inf), (tmp_path / "killed", writes)):
        (path / "checkpoints").mkdir(parents=True)
        write_until_killed(path, monkeypatch, kill_after)
    write_until_killed(tmp_path / "killed", monkeypatch, np.inf)
    whole, killed = (
        {x.name: read_metadata(x)["update"] for x in (tmp_path / name / "checkpoints").iterdir()}
        for name in ("whole", "killed")
    )
    assert whole == {"best.safetensors": 2, "last.safetensors": 3}
    assert killed == whole


call = calling()


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_in_all_forms(call, tmp_path, monkeypatch):
    evaluate = Evaluator.__call__

    def press_and_evaluate(self, progress):
        signal.raise_signal(signal.SIGINT)
        return evaluate(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "__call__", press_and_evaluate)
        code, said = call(*RUN, "--log", "tensorboard", "--out", "mine")
    assert code == 130
    assert "interrupted after 256 steps" in said
    assert f"to continue: {command_of(shipped_script('ippo'))} --out mine --resume" in said
    code, said = call("--out", "mine", "--resume")
    assert code == 0
    assert "annealed settings reach their end at step 1,024" in said
    steps = [int(row["env_steps"]) for row in table(tmp_path / "mine" / "metrics.csv")]
    assert steps == [256, 512, 768, 1024]
    board = scalars(tmp_path / "mine" / "tensorboard")
    assert [step for step, name in sorted(board) if name == "entropy"] == steps


def test_totals_of_training_episodes_are_columns(tmp_path):
    totals = {"events": jnp.asarray([[[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]]])}
    seen = progress(1)
    metrics = dataclasses.replace(seen.metrics, episodes=jnp.array([1, 3]), totals=totals)
    seen.metrics = metrics
    columns = {"events": ("event_a", "event_b")}
    log = _hooks.Log([Csv(tmp_path / "metrics.csv")], Failures(), 0.0, columns)
    log(seen)
    (row,) = table(tmp_path / "metrics.csv")
    # The first update has one episode and the second three; agents are summed.
    expected = [(4 + 3 * 40) / 4, (6 + 3 * 60) / 4]
    found = [float(row[f"episode_{name}"]) for name in ("event_a", "event_b")]
    np.testing.assert_allclose(found, expected)
