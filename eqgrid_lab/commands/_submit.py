"""The command `eqgrid submit`: starts one command many times, with other seeds or settings.

With Slurm, the jobs are an array of submitit. A job starts the command as a second process, whose
output is in `jobs/NAME.log`. Shortly before the time limit, the job receives a SIGTERM: the run
saves, the job queues itself again, and then resumes the run.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from msgspec import Meta

from eqgrid.errors import import_optional

from ..base import RunError, UsageError, as_usage_error, run_command
from ..folders import writing_into
from ..settings import read_flags

_SAVED = (128 + signal.SIGTERM, -signal.SIGTERM)
"""The exit codes of commands that a SIGTERM ended."""
_MINUTES = {"m": 1, "h": 60, "d": 60 * 24}


@dataclasses.dataclass(frozen=True)
class Config:
    """Starts one command many times, as jobs of Slurm or of this machine.

    Put the command after --: eqgrid submit --out DIR --seeds 0:5 -- eqgrid ippo --env.layout ring
    """

    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the study, with a folder for each run. The same command line again resumes all runs
    that are not complete."""
    seeds: Annotated[str | None, tyro.conf.arg(metavar="FIRST:END")] = None
    """Start the command with each --seed from FIRST to END - 1."""
    vary: tyro.conf.UseAppendAction[
        tuple[Annotated[str, tyro.conf.arg(metavar="FLAG=VALUE,VALUE")], ...]
    ] = ()
    """Start the command with each value of a flag, such as --vary ppo.learning-rate=1e-3,3e-3;
    repeat it for all combinations with another flag."""
    executor: Literal["slurm", "local"] = "slurm"
    """Start the commands with Slurm, or in the background of this machine."""
    at_once: Annotated[int | None, Meta(ge=1)] = None
    """Commands that run at the same time; by default 1 with local, and no limit with slurm."""
    time: str = "4h"
    """Time limit of a Slurm job, such as 30m, 4h or 2d, after which it is queued again."""
    gpus: Annotated[int, Meta(ge=0)] = 0
    """GPUs of each command. With local, commands without GPUs use the CPU."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A further option of sbatch, such as --slurm partition=long; repeat the flag for more."""


def submit_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "jobs that were started continue")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a flag is wrong, and `RunError` when the folder cannot be written
    or Slurm does not accept the jobs.
    """
    args = list(args)
    end = args.index("--") if "--" in args else len(args)
    config, command = read_flags(Config(), args[:end], "eqgrid submit"), args[end + 1 :]
    if config.out is None:
        raise UsageError("Name the folder of the study with --out.")
    if not command or shutil.which(command[0]) is None:
        what = f"no program {command[0]!r}" if command else "no command"
        raise UsageError(f"There is {what}: add it after --, such as -- eqgrid ippo.")
    commands = {
        config.out / name: [*command, *flags, "--out", str(config.out / name), "--resume"]
        for name, flags in flags_of_runs(config).items()
    }
    start = start_on_slurm if config.executor == "slurm" else start_here
    with writing_into(config.out):
        stop = start(config, commands)
    print(f"runs     {len(commands)}")
    print(f"list     eqgrid report {shlex.quote(str(config.out))}")
    print(f"stop     {stop}")


def flags_of_runs(config: Config) -> dict[str, list[str]]:
    """The flags that differ between the runs, by the name of the run's folder.

    **Raises:** `UsageError` when `--seeds` or `--vary` is malformed, or two runs are the same.
    """
    axes: list[list[tuple[str, str]]] = []
    for option in config.vary:
        flag, _, values = option.partition("=")
        if not re.fullmatch(r"[\w.-]+=[^,]+(,[^,]+)*", option):
            raise UsageError(f"--vary must be like ppo.gamma=0.9,0.99, but is {option!r}.")
        axes.append([(flag, value) for value in values.split(",")])
    if config.seeds is not None:
        found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", config.seeds)
        first, end = map(int, found.groups()) if found else (0, 0)
        if not 0 < end - first <= 100_000:
            raise UsageError(f"--seeds must be FIRST:END, such as 0:50, but is {config.seeds!r}.")
        axes.append([("seed", str(seed)) for seed in range(first, end)])
    runs: dict[str, list[str]] = {}
    for pairs in itertools.product(*axes):
        name = re.sub(r"[^\w.-]+", "-", "-".join(map("-".join, pairs))) or "run"
        if name in runs:
            raise UsageError(f"Two runs would have the name {name!r}: give other values to --vary.")
        runs[name] = [f"--{flag}={value}" for flag, value in pairs]
    return runs


def log_file(folder: Path) -> Path:
    """The file with the output of the run in a folder."""
    return folder.parent / "jobs" / f"{folder.name}.log"


def start_here(config: Config, commands: dict[Path, list[str]]) -> str:
    """Starts the commands in `at_once` shells of this machine, each of which runs its share one
    after another. **Returns:** the command that stops them.
    """
    lines = [f"{shlex.join(x)} >>{shlex.quote(str(log_file(y)))} 2>&1" for y, x in commands.items()]
    at_once, groups = min(config.at_once or 1, len(lines)), list[str]()
    log_file(next(iter(commands))).parent.mkdir(parents=True, exist_ok=True)
    for i in range(at_once):
        gpus = ",".join(str(i * config.gpus + x) for x in range(config.gpus))
        env = os.environ | {"CUDA_VISIBLE_DEVICES": gpus}
        shell = ["sh", "-c", 'for line; do eval "$line"; done', "sh", *lines[i::at_once]]
        # No streams of this process, which could be pipes to a program that waits for their end.
        null = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = subprocess.Popen(shell, env=env, start_new_session=True, **null)
        groups.append(f"-{process.pid}")
    return f"kill -- {' '.join(groups)}"


def start_on_slurm(config: Config, commands: dict[Path, list[str]]) -> str:
    """Starts a Slurm array. **Returns:** the command that stops it.

    **Raises:** `UsageError` when an option is wrong or submitit is missing, and `RunError` when
    Slurm does not accept the jobs.
    """
    if not re.fullmatch(r"[1-9]\d{0,4}[mhd]", config.time):
        raise UsageError(f"--time must be a time such as 30m, 4h or 2d, but is {config.time!r}.")
    minutes = int(config.time[:-1]) * _MINUTES[config.time[-1]]
    options = {x: value or True for x, _, value in (y.partition("=") for y in config.slurm)}
    assert config.out is not None
    with as_usage_error(of=ImportError):
        submitit = import_optional("submitit", "Jobs of Slurm need submitit", "cluster")
    try:
        executor = submitit.SlurmExecutor(config.out / "jobs")
        executor.update_parameters(
            job_name=config.out.name,
            time=minutes,
            array_parallelism=config.at_once or len(commands),
            additional_parameters={
                "requeue": True,
                "signal": f"TERM@{min(300, minutes * 15)}",
                **({"gpus-per-node": config.gpus} if config.gpus else {}),
                **options,
            },
        )
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints the error there
            jobs = executor.map_array(run_job, commands.values(), commands)
    except RuntimeError as error:
        why = re.split("error: |fatal: ", str(error).strip())[-1]
        raise RunError(f"Slurm did not accept the jobs: {why} (or use --executor local)") from error
    return f"scancel {jobs[0].job_id.split('_')[0]}"


def run_job(command: Sequence[str], folder: Path) -> None:
    """Runs a command in a Slurm job, and ends the process with its exit code.

    The job passes a SIGTERM to the command, since Slurm may send it only to the job. If it ends the
    command, the job is queued again, unless Slurm is about to cancel or to queue it again.
    """
    with log_file(folder).open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    if code in _SAVED:
        # The last job of an array has the same number as the array, so name the task.
        array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
        job = f"{array}_{task}" if array else os.environ["SLURM_JOB_ID"]
        squeue = ["squeue", "--noheader", f"--jobs={job}", "--format=%T"]
        state = subprocess.run(squeue, capture_output=True, text=True, check=False).stdout.strip()
        if state in ("RUNNING", ""):  # empty if squeue fails
            subprocess.run(["scontrol", "requeue", job], check=True)
    if code:
        sys.exit(abs(code))
