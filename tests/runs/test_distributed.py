"""Several processes train one run: on this machine, each with two virtual devices."""

import importlib.metadata
import json
import os
import re
import shutil
import socket
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal
from processes import by_hand, run_together
from run_files import rows
from safetensors.numpy import load_file

from agents import ProcessFailed, TrainState, device_mesh, from_first, gather, is_first
from agents.files import pack, unpack
from agents.training import TrainProgress, _processes, _train, fail
from eqgrid_lab.base import Process, UsageError, _distributed

FLAGS = "--env.name goals --env.horizon 10 --env.normalize-observation --num-envs 8 --width 8"
FLAGS += " --ppo.rollout-length 8 --total-steps 768 --eval-every 128 --eval-episodes 2"
FLAGS = f"{FLAGS} --final-episodes 2".split()
BLOCKS, BLOCK_STEPS = 6, 128


class Pair:
    """Two processes, and what came of them; they learn who they are by hand, or as from Slurm."""

    def __init__(self, folder: Path, *flags: str, slurm: bool = False, **accident: str):
        who = in_slurm if slurm else by_hand
        ended = run_together(folder, 2, *flags, who=who, devices=2, **accident)
        codes, self.out, self.err = zip(*ended, strict=True)
        self.codes = [*codes]


def in_slurm(port: int, number: int, process: int) -> dict[str, str]:
    names = {"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": str(number)}
    numbers = {"SLURM_PROCID": str(process), "SLURM_LOCALID": str(process)}
    return {**names, **numbers, "JAX_COORDINATOR_PORT": str(port)}


def metadata(run: Path) -> dict:
    return json.loads(_header(run)["about"])["metadata"]


def _header(run: Path) -> dict[str, str]:
    content = (run / "checkpoints" / "last.safetensors").read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


@pytest.mark.slow
def test_a_run_goes_on_after_signals_and_kills_with_any_number_of_processes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"

    # A signal to one process ends all of them after the same block.
    pair = Pair(tmp_path, *FLAGS, "--out", "run", accident="1 2 SIGTERM")
    assert (pair.codes, pair.err, pair.out[1]) == ([143, 143], ("", ""), "")
    assert f"terminated after {2 * BLOCK_STEPS} steps" in pair.out[0]
    assert [row["env_steps"] for row in rows(run)] == ["128", "256"]
    assert metadata(run)["env_steps"] == 2 * BLOCK_STEPS
    assert (run / "result.json").exists()

    # If one is killed, the others end: either the connection breaks, which is a sentence, or jax
    # misses the heartbeats and aborts.
    pair = Pair(tmp_path, "--resume", "run", accident="1 2 SIGKILL", slurm=True)
    assert pair.codes[1] == -9
    assert pair.codes[0] in (1, -6)
    assert "another" in pair.err[0]
    assert "Traceback" not in pair.err[0]
    shutil.copytree("run", "one")

    # The first process is the one that writes: nothing is lost but what came after its checkpoint.
    before = metadata(run)["env_steps"]
    pair = Pair(tmp_path, "--resume", "run", accident="0 1 SIGKILL")
    assert pair.codes[0] == -9
    assert pair.codes[1] in (1, -6)
    assert "Traceback" not in pair.err[1]
    assert metadata(run)["env_steps"] >= before

    # Two processes, or one, end where a single process that was never stopped ends.
    pair = Pair(tmp_path, "--resume", "run")
    assert (pair.codes, pair.err, pair.out[1]) == ([0, 0], ("", ""), "")
    assert metadata(run)["env_steps"] == BLOCKS * BLOCK_STEPS
    assert call("--resume", "one") == 0
    assert call(*FLAGS, "--out", "whole") == 0
    whole = load_file("whole/checkpoints/last.safetensors")
    for folder in (run, tmp_path / "one"):
        assert [row["update"] for row in rows(folder)] == ["2", "4", "6", "8", "10", "12"]
        for own, expected in zip(rows(folder), rows(tmp_path / "whole"), strict=True):
            for name in ("entropy", "value_loss"):
                assert float(own[name]) == pytest.approx(float(expected[name]), rel=1e-3)
        state = load_file(folder / "checkpoints" / "last.safetensors")
        assert state.keys() == whole.keys()
        for key, expected in whole.items():
            np.testing.assert_allclose(state[key], expected, rtol=1e-3, atol=1e-5, err_msg=key)
        assert not [x for x in os.listdir(folder) if "lock" in x or "partial" in x]


def test_one_process_talks_to_itself(key):
    tree = {"key": key, "numbers": np.arange(3.0)}
    assert is_first()
    assert gather("word") == ["word"]
    assert from_first(tree) is tree
    with pytest.raises(ProcessFailed, match="Process 0 of 1 failed: no memory"):
        fail("no memory")


def others_say(monkeypatch, *texts: str) -> None:
    """Lets there be further processes, which say something else."""

    def allgather(mine):
        theirs = [text.encode() for text in texts]
        if mine.ndim == 0:
            return np.asarray([mine, *map(len, theirs)])
        filled = [np.frombuffer(x.ljust(len(mine), b"\0"), np.uint8) for x in theirs]
        return np.stack([mine, *filled])

    monkeypatch.setattr(jax, "process_count", lambda: 1 + len(texts))
    monkeypatch.setattr(_processes.multihost_utils, "process_allgather", allgather)


def test_all_hear_what_each_says(monkeypatch):
    long = "é" * 5000
    others_say(monkeypatch, json.dumps({"value": long}), '{"value": [1, NaN]}')
    mine, first, second = gather({"a": np.float32(0.5)})
    assert (mine, first, second[0]) == ({"a": 0.5}, long, 1)
    assert np.isnan(second[1])


def test_a_failure_of_one_is_heard_by_all(monkeypatch):
    others_say(monkeypatch, '{"value": 1}', '{"failed": ["no memory", 1]}')
    with pytest.raises(ProcessFailed) as caught:
        gather(0)
    assert (caught.value.number, caught.value.about) == (2, ["no memory", 1])


@pytest.mark.parametrize(
    ("version", "setting", "says"),
    [
        (jax.__version__, "seed = 1", "and process 0 have different settings: start all"),
        ("9.9", "seed = 0", "and jax 9.9, and process 0 has eqgrid"),
    ],
)
def test_processes_that_differ_are_refused(version, setting, says, monkeypatch, capsys):
    versions = f"eqgrid {importlib.metadata.version('eqgrid')} and jax {version}"
    others_say(monkeypatch, json.dumps({"value": [versions, setting]}))
    assert _distributed._run_and_agree(Process(), "seed = 0", lambda: 0, "--width") == 2
    assert re.match(f"error: Process 1 of 2 .*{says}", capsys.readouterr().err)


def test_what_another_process_cannot_do_is_said_by_the_first(monkeypatch, capsys):
    others_say(monkeypatch, '{"failed": ["There is no room.", 1]}')
    assert _distributed._run_and_agree(Process(), "", lambda: 0, "--width") == 1
    assert capsys.readouterr().err == "error: process 1 of 2: There is no room.\n"


def test_a_signal_of_any_process_counts_more_than_a_hook_of_the_first(monkeypatch):
    said = [{"asked": None, "stopped": "its gate is passed", "measured": {"x": 1}}]
    said += [{"asked": "terminated", "stopped": None, "measured": {}}]
    monkeypatch.setattr(_train, "gather", lambda _: said)
    monkeypatch.setattr(_train, "spans_processes", lambda _: True)
    progress = TrainProgress(object.__new__(TrainState), None, *[0] * 5, *[0.0] * 3)
    agreed = _train._agree(progress, None, None)
    assert (agreed.stopped, agreed.measured) == ("terminated", {"x": 1})
    said[1]["asked"] = None
    assert _train._agree(progress, None, None).stopped == "its gate is passed"


def test_what_is_sent_is_bit_for_bit(key):
    tree = {"key": jax.random.split(key, 2), "zero": np.float32(-0.0), "name": "x"}
    back = unpack(pack(tree), tree)
    assert (jax.random.key_data(back["key"]) == jax.random.key_data(tree["key"])).all()
    assert np.signbit(back["zero"])
    assert back["name"] == "x"


def test_whole_arrays_are_what_they_were(key):
    tree = {"key": key, "numbers": jax.numpy.arange(3.0), "name": "x"}
    mesh = device_mesh(1)
    assert not _processes.spans_processes(mesh)
    assert not _processes.spans_processes(None)
    back = _processes.whole(tree, mesh)
    assert (back["key"], back["name"]) == (key, "x")
    np.testing.assert_array_equal(back["numbers"], tree["numbers"])


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("node1:1234", "2", None), "needs all of JAX_COORDINATOR_ADDRESS"),
        ((None, "2", "0"), "if one of the numbers is set"),
        (("node1", "2", "0"), "must be a host and a port"),
        (("node1:1234", "two", "0"), "must be whole numbers"),
        (("node1:1234", "2", "2"), "must be below JAX_NUM_PROCESSES, but is 2"),
    ],
)
def test_environments_that_make_no_sense_are_refused(monkeypatch, values, says):
    for name, value in zip(_distributed.BY_HAND, values, strict=True):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=says):
        _distributed._known_by_hand()


def test_a_port_that_is_taken_is_refused(monkeypatch):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        for name, value in by_hand(port, 2, 0).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(UsageError, match=f"cannot use port {port}"):
            _distributed._known_by_hand()


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ValueError("Number of processes must be defined."), 2, "found no Slurm"),
        (RuntimeError("Kubernetes API Error:\n403"), 1, "cannot join the other processes: Kub"),
    ],
)
def test_who_is_alone_is_told_what_to_set(monkeypatch, capsys, error, code, says):
    def refuse(**_):
        raise error

    for name in _distributed.BY_HAND:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jax.distributed, "initialize", refuse)
    check_refusal(call_and_hear(capsys, "--distributed"), says, codes=(code,))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--devices", "2"), "leave out --devices"),
        (("--sweep", "rates.toml"), "--distributed cannot be given with --sweep"),
    ],
)
def test_what_cannot_be_distributed_is_refused(capsys, flags, says):
    check_refusal(call_and_hear(capsys, "--distributed", *flags), says, codes=(2,))


def test_nobody_waits_for_ever(monkeypatch, capsys):
    codes = []
    monkeypatch.setattr(_distributed, "_WAIT", 0.01)
    monkeypatch.setattr(os, "_exit", codes.append)
    with _distributed._time_limit():
        end = time.monotonic() + 100
        while not codes and time.monotonic() < end:
            time.sleep(0.01)
    assert codes == [1]
    assert "have not found each other" in capsys.readouterr().err
