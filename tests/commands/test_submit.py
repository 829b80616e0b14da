"""`eqgrid submit` and `eqgrid status` on this machine; `tests/cluster` has a real Slurm."""

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import submitit  # noqa: F401  (its log keeps the standard output of the import)
from command_lines import call, check_refusal, hear
from run_files import SMALL, check_equal, table

from eqgrid_lab.commands import _submit, status_command, submit_command
from eqgrid_lab.folders import locked

COMMAND = ("--", sys.executable, "program.py")
PROGRAM = """
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir(parents=True, exist_ok=True)
with (folder / "calls").open("a") as file:
    print(*sys.argv[1:], file=file)
code = {"0": 0, "1": 1, "2": 2}[sys.argv[-3]]
sys.exit(code if code != 1 or len((folder / "calls").read_text().splitlines()) < 3 else 0)
"""
"""Its exit code is its seed; code 1 becomes 0 at the third call in a folder."""


GPU_PROGRAM = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir(exist_ok=True)
start = time.time()
time.sleep(0.5)
(folder / "seen").write_text(f"{os.environ['CUDA_VISIBLE_DEVICES']} {start} {time.time()}")
"""


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)


def submit_locally(*flags: str) -> str:
    """Submits jobs of this machine in a process of its own. **Returns:** its output."""
    command = [Path(sys.executable).with_name("eqgrid"), "submit", "--out", "study"]
    command += ["--executor", "local", *flags]
    with Path("said").open("w") as said:  # the jobs may keep a pipe open
        assert subprocess.run(command, stdout=said, stderr=said).returncode == 0
    return Path("said").read_text()


def calls(run: str) -> list[str]:
    return (Path("study") / run / "calls").read_text().splitlines()


def test_retries_are_for_failures_and_not_for_wrong_settings(capsys):
    flags = ("--executor", "debug", "--out", "study", "--array", "0:3", "--wait")
    code, said = hear(capsys, submit_command, *flags, "--retries", 1, *COMMAND)
    assert (code, said) == (
        1,
        "error: These did not finish: 2 runs, the first of which is 'study/seed-1'.\n",
    )
    assert [len(calls(f"seed-{seed}")) for seed in range(3)] == [1, 2, 1]
    assert calls("seed-0") == ["--seed 0 --out study/seed-0"]

    # The same command starts again what has not finished.
    hear(capsys, submit_command, *flags, *COMMAND)
    assert [len(calls(f"seed-{seed}")) for seed in range(3)] == [1, 3, 2]
    code, said = hear(capsys, status_command, "study")
    assert (code, "2 finished, 1 failed" in said) == (0, True)


def test_one_command_varies_methods_kitchens_and_seeds(capsys):
    Path("mappo.py").write_text(PROGRAM)
    flags = ("--executor", "debug", "--out", "study", "--array", "0:1", "--vary")
    command = ("--", sys.executable, "{method}.py")
    varied = ("method=program,mappo", "--vary", "env.layout=ring,maps/a.txt", *command)
    hear(capsys, submit_command, *flags, *varied)
    layouts = {"ring": "ring", "maps-a.txt": "maps/a.txt"}
    for method, (name, layout) in itertools.product(("program", "mappo"), layouts.items()):
        words = f"--env.layout {layout} --seed 0 --out study/{method}-{name}-seed-0"
        assert calls(f"{method}-{name}-seed-0") == [words]
    code, said = hear(capsys, status_command, "study")
    assert (code, "4 finished" in said) == (0, True)
    # A further layout adds its runs.
    more = ("method=program,mappo", "--vary", "env.layout=circuit", *command)
    hear(capsys, submit_command, *flags, *more)
    assert "6 finished" in hear(capsys, status_command, "study")[1]


def test_a_host_with_other_versions_trains_nothing(capsys, monkeypatch):
    versions = map("eqgrid {}".format, itertools.count(1))
    monkeypatch.setattr(_submit, "library_versions", versions.__next__)
    hear(capsys, submit_command, "--executor", "debug", "--out", "study", "--retries", 2, *COMMAND)
    sentence = (
        "This host has eqgrid 2, but the host of eqgrid submit had eqgrid 1: install the same"
    )
    assert f"study/run: {sentence}" in hear(capsys, status_command, "study")[1]
    assert Path("study/jobs/run.exit").read_text() == "2"
    assert not Path("study/run/calls").exists()


def test_an_index_replaces_the_seed_and_sweeps_share_a_folder(capsys):
    index = ("--layout", "{index}.txt", "--width", "0")
    flags = ("--executor", "debug", "--out")
    hear(capsys, submit_command, *flags, "a", "--array", "4:5", *COMMAND, *index)
    assert Path("a/index-4/calls").read_text() == "--layout 4.txt --width 0 --out a/index-4\n"
    sweep = ("--sweep", "rates.toml", "0")
    hear(capsys, submit_command, *flags, "b", "--array", "0:2", *COMMAND, *sweep)
    assert Path("b/sweep/calls").read_text() == "--sweep rates.toml 0 --out b/sweep\n" * 2


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (COMMAND, "Name the folder of the study with --out."),
        (("--out", "50%users", *COMMAND), "50%users': choose another --out."),
        (("--out", "study"), "There is no command: add it after --, such as"),
        (("--out", "study", "--", "no-such-program"), "There is no program 'no-such-program': add"),
        (("--out", "study", "--array", "5", *COMMAND), "--array must be FIRST:END, such as 0:50,"),
        (("--out", "study", "--vary", "a_b=1", *COMMAND, "--a-b", "2"), "--vary a_b sets a flag"),
        (("--out", "study", "--vary", "index=1", *COMMAND), "--vary cannot set 'index': use"),
        (("--out", "study", "--vary", "a=A,a", *COMMAND), "Two runs would have the same folder"),
        (("--out", "study", "--time", "4", *COMMAND), "--time must be a time such as 30m, 4h or"),
        (("--executor", "debug", "--out", ".", *COMMAND), "The folder '.' exists and is not empty"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(flags, sentence, capsys, monkeypatch):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "srun" else which(name))
    check_refusal(hear(capsys, submit_command, *flags), sentence)
    assert [path.name for path in Path().iterdir()] == ["program.py"]


def test_a_study_that_is_locked_or_of_another_command_stays(capsys, monkeypatch):
    flags = ("--executor", "debug", "--out", "study", "--array", "0:1")
    hear(capsys, submit_command, *flags, *COMMAND)
    heard = hear(capsys, submit_command, *flags, *COMMAND, "--width", "8")
    check_refusal(heard, "has the runs of another command")
    with locked(Path("study/jobs")):
        heard = hear(capsys, submit_command, *flags, *COMMAND)
    check_refusal(heard, "Another process is writing to the folder")
    monkeypatch.setitem(sys.modules, "submitit", None)
    heard = hear(capsys, submit_command, *flags, *COMMAND)
    check_refusal(heard, "pip install 'eqgrid[cluster]'")
    assert calls("seed-0") == ["--seed 0 --out study/seed-0"]


def test_status_shows_progress_and_jobs_that_ended_early(capsys):
    Path("run").mkdir()
    Path("run/config.toml").write_text("total_steps = 1000\n")
    log = "env_steps,eval_return_mean,wall_seconds\n200,0,500\n250,1.5,600\n"
    Path("run/metrics.csv").write_text(log)
    with locked(Path("run")):
        shown = hear(capsys, status_command, "run")[1].splitlines()
    assert shown[0].split() == ["run", "state", "steps", "return", "remaining"]
    assert shown[1].split() == ["run", "running", "250", "1.50", "30", "min"]
    shown = hear(capsys, status_command, "run")[1].splitlines()
    assert shown[1].split() == ["run", "stopped", "250", "1.50"]

    hear(capsys, submit_command, "--executor", "debug", "--out", "study", *COMMAND)
    for name in ("run.exit", "run.log"):
        Path("study/jobs", name).unlink()
    shown = hear(capsys, status_command, "study")[1]
    assert "study/run: Its job ended before the run began. Can all hosts write to this" in shown
    assert "1 stopped" in shown


@pytest.mark.slow
def test_jobs_at_once_have_their_own_gpus():
    Path("program.py").write_text(GPU_PROGRAM)
    flags = ("--array", "0:4", "--at-once", "2", "--gpus", "2", "--wait")
    assert "4 finished" in submit_locally(*flags, *COMMAND)
    seen = [Path(f"study/seed-{i}/seen").read_text().split() for i in range(4)]
    assert [gpus for gpus, *_ in seen] == ["0,1", "2,3", "0,1", "2,3"]
    for first, second in (seen[::2], seen[1::2]):  # the runs of a worker do not overlap
        assert float(first[2]) <= float(second[1])


@pytest.mark.slow
def test_jobs_share_a_sweep():
    lines = 'at_once = 1\n[space]\n"ppo.learning_rate" = [0.01, 0.001, 0.0001]\n'
    Path("rates.toml").write_text(lines)
    flags = ("--array", "0:2", "--at-once", "2", "--wait")
    ippo = (str(Path(sys.executable).with_name("eqgrid")), "ippo")
    sweep = (*SMALL, "--sweep", "rates.toml")
    assert "2 finished" in submit_locally(*flags, "--", *ippo, *sweep)
    assert call(*sweep, "--out", "whole") == 0
    assert len(table(Path("whole/table.csv"))) == 3
    for point in table(Path("whole/table.csv")):
        name = f"point-{int(point['point']):04}"
        check_equal(Path("study/sweep", name), Path("whole", name))


def test_status_of_a_folder_without_runs_is_an_error(capsys):
    assert hear(capsys, status_command) == (2, "error: Name the folders of runs; see --help.\n")
    assert hear(capsys, status_command, ".") == (2, "error: There are no runs in '.'.\n")


@pytest.mark.slow
def test_local_jobs_are_cancelled_and_continue_to_the_same_result(capsys, monkeypatch):
    script = str(Path(__file__).parents[1] / "slow_run.py")
    flags = ("--array", "0:3", "--at-once", "2", "--", sys.executable, script, *SMALL)
    monkeypatch.setenv("SECONDS_OF_REST", "600")  # or until it is cancelled
    submit_locally(*flags)
    while not Path("study/seed-0/checkpoints/last.safetensors").exists():
        time.sleep(0.2)
    code, shown = hear(capsys, status_command, "study", "--cancel")
    assert (code, "stopped" in shown) == (0, True)
    assert "terminated after" in Path("study/jobs/seed-0.log").read_text()

    monkeypatch.setenv("SECONDS_OF_REST", "0")
    submit_locally(*flags)
    code, shown = hear(capsys, status_command, "study", "--wait")
    assert (code, "3 finished" in shown) == (0, True)
    for seed in range(3):
        assert call(*SMALL, "--seed", seed, "--out", f"whole-{seed}") == 0
        check_equal(Path(f"study/seed-{seed}"), Path(f"whole-{seed}"))
