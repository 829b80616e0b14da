"""`eqgrid submit` on this machine, and the states in `eqgrid report`; `tests/cluster` has Slurm."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import call, check_refusal, hear
from run_files import SMALL, check_equal

from eqgrid_lab.commands import report_command, submit_command

EQGRID = str(Path(sys.executable).with_name("eqgrid"))
PROGRAM = """
import os, pathlib, sys, time
start = time.time()
time.sleep(0.5)
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir()
words = [*sys.argv[1:], os.environ["CUDA_VISIBLE_DEVICES"], str(start), str(time.time())]
(folder / "words").write_text("\\n".join(words))
"""


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)


def submit(*words: str) -> list[str]:
    """Submits jobs of this machine. **Returns:** the command that stops them."""
    command = [EQGRID, "submit", "--executor", "local", "--out", "study", *words]
    # It reads the output until all writers have closed it, so no job may keep it open.
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return shlex.split(done.stdout.splitlines()[-1].removeprefix("stop"))


def log(name: str) -> str:
    return Path(f"study/jobs/{name}.log").read_text()


def wait(condition) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_an_array_has_all_combinations_in_folders_of_their_own():
    flags = ("--seeds", "0:2", "--vary", "env.layout=ring,a/b.txt", "--at-once", "2", "--gpus", "2")
    submit(*flags, "--", sys.executable, "program.py", "--width", "8")
    names = [f"env.layout-{x}-seed-{i}" for x in ("ring", "a-b.txt") for i in range(2)]
    files = [Path("study", name, "words") for name in names]
    wait(lambda: all(file.exists() and file.read_text() for file in files))
    words = [file.read_text().split("\n") for file in files]
    for i, layout in enumerate(("ring", "a/b.txt")):
        for seed in range(2):
            own = ["--width", "8", f"--env.layout={layout}", f"--seed={seed}"]
            own += ["--out", f"study/{names[2 * i + seed]}", "--resume"]
            assert words[2 * i + seed][:-3] == own
    assert [x[-3] for x in words] == ["0,1", "2,3"] * 2
    for first, second in (words[::2], words[1::2]):  # a shell runs one command after another
        assert float(first[-1]) <= float(second[-2])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--", "true"), "Name the folder of the study with --out."),
        (("--out", "study"), "There is no command: add it after --"),
        (("--out", "study", "--", "no-such-program"), "There is no program 'no-such-program': add"),
        (("--out", "study", "--seeds", "5", "--", "true"), "--seeds must be FIRST:END, such as"),
        (("--out", "study", "--vary", "width", "--", "true"), "--vary must be like"),
        (("--out", "study", "--vary", "a=b,b", "--", "true"), "Two runs would have the name"),
        (("--out", "study", "--time", "4", "--", "true"), "--time must be a time such as"),
    ],
)
def test_wrong_arguments_start_nothing(words, sentence, capsys):
    check_refusal(hear(capsys, submit_command, *words), sentence)
    assert [path.name for path in Path().iterdir()] == ["program.py"]


@pytest.mark.slow
def test_stopped_and_killed_jobs_continue_to_the_same_results(capsys, monkeypatch):
    script = str(Path(__file__).parents[1] / "slow_run.py")
    words = ("--vary", "width=0,8", "--seeds", "0:2", "--at-once", "4", "--")
    words += (sys.executable, script, *SMALL)
    runs = [Path(f"study/width-8-seed-{seed}") for seed in range(2)]
    monkeypatch.setenv("SECONDS_OF_REST", "600")  # or until it is stopped
    stop = submit(*words)
    wait(lambda: all((run / "checkpoints/last.safetensors").exists() for run in runs))
    wait(lambda: "width" in log("width-0-seed-1"))
    shown = hear(capsys, report_command, "study")[1].splitlines()
    wrong = "stopped: error: --width must be at least 1 and at most 65536, but is 0."
    assert shown == [
        *(f"study/width-0-seed-{seed}: {wrong}" for seed in range(2)),
        *(f"{run}: running" for run in runs),
        "2 stopped, 2 running",
    ]
    os.killpg(-int(stop[-1]), signal.SIGKILL)  # the job of the last run
    subprocess.run(stop[:-1], check=False)  # the first two have ended
    wait(lambda: "terminated after" in log("width-8-seed-0"))
    wait(lambda: "running" not in hear(capsys, report_command, "study")[1])

    monkeypatch.setenv("SECONDS_OF_REST", "0")
    submit(*words)
    wait(lambda: all((run / "episode.gif").exists() for run in runs))
    wait(lambda: "2 complete" in hear(capsys, report_command, *map(str, runs))[1])
    for seed, run in enumerate(runs):
        assert call(*SMALL, "--seed", seed, "--out", f"whole-{seed}") == 0
        check_equal(run, Path(f"whole-{seed}"))
    again = len(log("width-8-seed-0"))
    submit(*words)  # complete runs end at once
    wait(lambda: "complete" in log("width-8-seed-0")[again:])
    check_equal(runs[0], Path("whole-0"))


@pytest.mark.slow
def test_a_report_has_a_row_for_each_setting_that_differs(capsys):
    for rate, seed in (("1e-3", 0), ("1e-3", 1), ("3e-3", 0)):
        out = ("--seed", seed, "--out", f"study/{rate}-{seed}")
        assert call(*SMALL, "--ppo.learning-rate", rate, *out) == 0
    capsys.readouterr()
    code, shown = hear(capsys, report_command, "study", "--out", "all")
    assert (code, shown.splitlines()[0]) == (0, "3 complete")
    rows = [line.split(" | ")[1:3] for line in shown.splitlines() if line.startswith("| `")]
    assert rows == [["ippo ppo.learning_rate=0.001", "2"], ["ippo ppo.learning_rate=0.003", "1"]]
