"""The log of a run: equal names and numbers in all forms."""

import math
import signal
import struct
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import calling
from run_files import SMALL, files, table
from tensorboardX.proto.event_pb2 import Event, SessionLog

from eqgrid_lab import Evaluation
from agents import Metrics
from eqgrid_lab.base import WANDB_ID
from eqgrid_lab.runs import _run
from eqgrid_lab.runs._metrics import block_means, episode_totals
from eqgrid_lab.show import Csv, _loggers, open_loggers

call = calling()


def scalars(folder: Path) -> dict[tuple[int, str], float]:
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


@pytest.mark.slow
@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("seeds", [1, 2])
def test_all_forms_have_equal_names_and_numbers_also_after_a_resume(call, monkeypatch, seeds):
    evaluate = Evaluation.__call__

    def press_and_evaluate(self, state):
        signal.raise_signal(signal.SIGINT)
        return evaluate(self, state)

    args = (*SMALL, "--num-seeds", str(seeds), "--log", "tensorboard", "--out", "mine")
    with monkeypatch.context() as patch:
        patch.setattr(Evaluation, "__call__", press_and_evaluate)
        assert call(*args)[0] == 130
    # The run was killed before it could save its last row, which is written again.
    log = Path("mine", "metrics.csv")
    log.write_text(log.read_text() + log.read_text().splitlines()[-1].replace(",2,", ",4,") + "\n")
    assert call(*args, "--resume")[0] == 0
    rows = table(log)
    assert [row["update"] for row in rows[::seeds]] == ["2", "4", "5"]
    plotted = {
        (int(row["env_steps"]), name if seeds == 1 else f"seed-{row['seed']}/{name}"): np.float32(x)
        for row in rows
        for name, x in row.items()
        if x and math.isfinite(float(x))  # otherwise no episode ended
    }
    assert scalars(Path("mine", "tensorboard")) == plotted
    names = {"approx_kl", "clip_fraction", "explained_variance", "grad_norm", "learning_rate"}
    assert names | {"steps_per_second", "memory_bytes", "entropy", "train_seconds"} < {*rows[0]}
    assert float(rows[0]["memory_bytes"]) > 1e6


def test_a_row_with_other_columns_stands_under_its_own_header(tmp_path):
    path = tmp_path / "metrics.csv"
    blocks = [{"a": 1, "b": 2}, {"b": 3, "c": "x,y"}, {"a": 5}, {"d": 6, "a": 7}]
    (log := Csv(path)).write(blocks[:1])
    log = Csv(path, path.read_bytes())  # a resumed run
    for number, row in enumerate(blocks[1:], start=2):
        log.write([row])
        assert len(table(path)) == number
    assert path.read_text().splitlines()[0] == "a,b,c,d"
    found = [{name: value for name, value in row.items() if value} for row in table(path)]
    assert found == [{name: str(value) for name, value in row.items()} for row in blocks]
    assert {path} == {*tmp_path.iterdir()}


def test_a_new_column_that_finds_no_room_is_written_later(tmp_path, monkeypatch):
    path = tmp_path / "metrics.csv"
    (log := Csv(path)).write([{"a": 1}])
    with monkeypatch.context() as patch:
        patch.setattr(_loggers, "write_atomic", Mock(side_effect=OSError(28, "No space")))
        with pytest.raises(OSError, match="No space"):
            log.write([{"a": 2, "b": 3}])
    assert path.read_text() == "a\n1\n", "the old rows stay as they were"
    log.write([{"b": 4}])
    assert table(path) == [{"a": "1", "b": ""}, {"a": "2", "b": "3"}, {"a": "", "b": "4"}]


def test_a_resumed_run_continues_its_run_of_weights_and_biases(tmp_path, monkeypatch):
    ids = []

    class Wandb:
        Settings = dict

        @staticmethod
        def init(**settings):
            ids.append((settings["id"], settings["resume"]))

    monkeypatch.setattr(_loggers, "import_optional", lambda *_: Wandb)
    for folder in ("mine", "mine", "other"):
        (tmp_path / folder).mkdir(exist_ok=True)
        open_loggers(tmp_path / folder, ("wandb",), b"", 0, {})
    assert ids[0] == ids[1] != ids[2]
    assert {resume for _, resume in ids} == {"allow"}


@pytest.mark.slow
def test_weights_and_biases_work_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    for update in (1, 2):  # the run is resumed after its first row
        loggers = open_loggers(tmp_path, ("wandb",), b"", 0, {"seed": 0})
        rows = [{"seed": i, "env_steps": update, "eval_return_mean": 0.5} for i in (3, 4)]
        loggers[1].write(rows)
        loggers[1].close()
    files = sorted((tmp_path / "wandb").rglob("*.wandb"))
    written = files[-1]
    assert {path.stem for path in files} == {f"run-{(tmp_path / WANDB_ID).read_text()}"}
    for _ in range(500):  # its own process may still be writing
        if all(f"seed-{i}/eval_return_mean".encode() in written.read_bytes() for i in (3, 4)):
            return
        time.sleep(0.2)
    raise AssertionError("not all names were written")


def test_a_missing_library_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    code, said = call(*SMALL, "--log", "wandb", "--out", "run")
    assert code == 2
    assert said.startswith("error: --log wandb needs ")
    assert said.count("\n") == 1
    assert not Path("run").exists()


def test_a_form_that_fails_robs_the_others_of_nothing(call, monkeypatch):
    class Broken:
        path = Path("broken")

        def write(self, rows):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(_run, "open_loggers", lambda *args: [Broken(), *open_loggers(*args)])
    code, said = call(*SMALL, "--out", "run")
    assert code == 1
    sentence = "The file 'broken' cannot be written: No space left on device."
    words = f"warning: {sentence} The run continues and will retry.\nerror: {sentence}\n"
    assert said == words
    assert len(table(Path("run", "metrics.csv"))) == 3
    assert {"result.json", "policy.safetensors"} < files(Path("run"))


def test_metrics_of_a_block_are_means_over_updates_and_over_episodes():
    number, none = jnp.array([0.25, 0.75]), jnp.array([0, 0])
    totals = {"events": jnp.asarray([[[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]]])}
    metrics = Metrics(
        {"entropy": number, "learning_rate": number},
        none - 1,
        number,
        number,
        jnp.array([1, 3]),
        totals,
    )
    means = block_means(metrics)
    # The first update has one episode and the second three; agents are summed.
    assert (means["entropy"], means["learning_rate"]) == (0.5, 0.75)
    assert (means["episode_return"], means["episodes"]) == (0.625, 4)
    found = episode_totals(metrics, {"events": ("event_a", "event_b")})
    expected = {"episode_event_a": (4 + 3 * 40) / 4, "episode_event_b": (6 + 3 * 60) / 4}
    assert found == pytest.approx(expected)
