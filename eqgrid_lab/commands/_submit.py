"""The command `eqgrid submit`: starts the runs of a study as jobs, with submitit.

A job is a process of submitit, which starts the run as a second process. Shortly before the time
limit and at a preemption, both processes receive a SIGTERM. The run then saves, and submitit queues
the job again. When the job starts again, it resumes the run.
"""

import contextlib
import dataclasses
import importlib
import io
import itertools
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal, final

import msgspec
import tyro
from msgspec import Meta

from agents import write_atomic

from ..base import (
    SETTINGS_FILE,
    RunError,
    UsageError,
    library_versions,
    run_command,
    seed_folders,
)
from ..folders import locked, made_folder, names_in, results_console, writing_into
from ..settings import read_flags
from ._status import (
    Submission,
    check_finished,
    exit_code_file,
    is_finished,
    live_jobs,
    log_file,
    print_rows,
    progress,
    read_submission,
    rows_of,
    wait_for,
)

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

_ADD_COMMAND = "add it after --, such as -- eqgrid ippo --env.layout cramped."
_STOPPED = (143, 130, 129, -15, -2, -1)
"""The exit codes of runs that a signal stopped."""
_WRONG_SETTINGS = 2
_MINUTES = {"m": 1, "h": 60, "d": 60 * 24}
_NO_LIMIT = 60 * 24 * 3650


@dataclasses.dataclass(frozen=True)
class Config:
    """Starts the runs of a study as jobs of Slurm or of this machine.

    Put the command of a run after --: eqgrid submit --out DIR -- eqgrid ippo --env.layout ring
    """

    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the study. The same command line continues unfinished runs of the same folder."""
    executor: Literal["slurm", "local", "debug"] = "slurm"
    """Start jobs with Slurm, in the background of this machine, or one by one in this process."""
    array: Annotated[str | None, tyro.conf.arg(metavar="FIRST:END")] = None
    """Start a run for each index from FIRST to END - 1. The index replaces {index} in the command,
    and is the --seed of a command without {index}."""
    vary: tyro.conf.UseAppendAction[
        tuple[Annotated[str, tyro.conf.arg(metavar="FLAG=VALUE,VALUE")], ...]
    ] = ()
    """Start these runs for each value of a flag, such as --vary env.layout=cramped,ring; repeat it
    for all combinations with another flag. The value replaces {FLAG} in the command, if it occurs
    there, as in --vary method=ippo,mappo -- eqgrid {method}."""
    at_once: Annotated[int | None, Meta(ge=1)] = None
    """Jobs that run at the same time; by default 1 with local, and no limit with slurm."""
    time: str = "4h"
    """Time limit of a job of Slurm, such as 30m, 4h or 2d. A job that reaches it saves, and is
    queued again."""
    gpus: Annotated[int, Meta(ge=0)] = 0
    """GPUs of each job. With local, jobs without GPUs use the CPU."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A further option of sbatch, such as --slurm partition=long; repeat the flag for more."""
    retries: Annotated[int, Meta(ge=0)] = 0
    """Restarts of a run that fails, except for wrong settings."""
    wait: bool = False
    """Wait until all jobs have ended; the exit code is 1 unless all runs finished."""


def submit_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "jobs that were started continue")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a flag is wrong or the folder has other content, and `RunError`
    when Slurm does not accept the jobs or, with `--wait`, a run did not finish.
    """
    args = list(args)
    end = args.index("--") if "--" in args else len(args)
    config, command = read_flags(Config(), args[:end], "eqgrid submit"), args[end + 1 :]
    new = planned(config, command)
    submitit("submitit")
    assert config.out is not None
    with made_folder(config.out.name, config.out) as study, writing_into(study):
        if read_submission(study) is None and names_in(study) - {"jobs"}:
            raise UsageError(
                f"The folder {str(study)!r} exists and is not empty: choose another --out."
            )
        (study / "jobs").mkdir(exist_ok=True)
        with locked(study / "jobs"):
            submission = _submit(config, study, new, read_submission(study))
    if config.wait:
        wait_for(submission)
    rows = rows_of(study, submission)
    print_rows(rows)
    results_console().print(f"eqgrid status {study} shows the runs", highlight=False)
    if config.wait:
        check_finished(rows)


def planned(config: Config, command: Sequence[str]) -> Submission:
    """The submission of a command line, before its jobs have numbers.

    **Raises:** `UsageError` when a flag is wrong.
    """
    if config.out is None:
        raise UsageError("Name the folder of the study with --out.")
    if "%" in (path := str(config.out.absolute())):  # submitit escapes no path
        raise UsageError(f"Slurm and submitit replace % in {path!r}: choose another --out.")
    if not command:
        raise UsageError(f"There is no command: {_ADD_COMMAND}")
    flags = {word.partition("=")[0].replace("_", "-") for word in command}
    axes = _values_of_flags(config, flags)
    flags |= {f"--{flag.replace('_', '-')}" for flag in axes}
    if taken := flags & {"--out", "--resume"}:
        raise UsageError(f"Leave out {min(taken)} in the command: each job adds it.")
    if not re.fullmatch(r"[1-9]\d{0,4}[mhd]", config.time):
        raise UsageError(f"--time must be a time such as 30m, 4h or 2d, but is {config.time!r}.")
    if wrong := next((x for x in config.slurm if not re.fullmatch(r"[\w-]+(=.+)?", x)), None):
        raise UsageError(f"--slurm must be an option such as partition=long, but is {wrong!r}.")
    shared, words = "--sweep" in flags, list(command)
    for flag in axes:
        words += [] if f"{{{flag}}}" in " ".join(command) else [f"--{flag}", f"{{{flag}}}"]
    has_index = any("{index}" in word for word in (*command, *config.vary))
    kind = "job" if shared else "index" if has_index else "seed"
    if config.array is not None:
        found = re.fullmatch(r"(\d{1,9}):(\d{1,9})", config.array)
        first, end = map(int, found.groups()) if found else (0, 0)
        if not 0 < end - first <= 100_000:
            raise UsageError(f"--array must be FIRST:END, such as 0:50, but is {config.array!r}.")
        if "--seed" in flags and not (has_index or shared):
            raise UsageError("Leave out --seed in the command, or add --seed {index}.")
        axes["index"] = [str(index) for index in range(first, end)]
        words += ["--seed", "{index}"] if kind == "seed" else []
    elif has_index:
        raise UsageError("{index} in the command needs --array, such as --array 0:50.")
    runs = {}
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination, strict=True))
        names = (f"{kind}-{value}" if axis == "index" else value for axis, value in values.items())
        name = re.sub(r"[^\w.-]+", "-", "-".join(names)).strip(".-")[:200]
        runs[name or "run"] = values
    folders = {"jobs", *map(str.lower, runs)}  # some file systems ignore case
    if len(folders) <= math.prod(map(len, axes.values())):
        raise UsageError("Two runs would have the same folder: give --vary other values.")
    jobs, versions = dict.fromkeys(runs, ""), library_versions()
    new = Submission(config.executor, versions, tuple(words), jobs, runs, shared)
    for program in {new.words(name)[0] for name in runs}:
        if shutil.which(program) is None:
            raise UsageError(f"There is no program {program!r}: {_ADD_COMMAND}")
    if config.executor == "slurm" and shutil.which("srun") is None:
        raise UsageError(
            "There is no Slurm on this host: call this command on a host of the cluster, or add "
            "--executor local."
        )
    return new


def _values_of_flags(config: Config, flags: set[str]) -> dict[str, list[str]]:
    """The values of `--vary`, by the name of the flag.

    **Raises:** `UsageError` when a flag cannot be varied.
    """
    if config.vary and "--sweep" in flags:
        raise UsageError("--vary cannot be given with --sweep, whose file has the values.")
    values_of: dict[str, list[str]] = {}
    for option in config.vary:
        flag, _, values = option.partition("=")
        if not re.fullmatch(r"[\w.-]+=[^,]+(,[^,]+)*", option):
            raise UsageError(
                "--vary must be a flag with its values, such as env.layout=cramped,ring, but is "
                f"{option!r}."
            )
        if flag in ("index", "sweep"):
            raise UsageError(f"--vary cannot set {flag!r}: use --array, or one sweep.")
        if flag in values_of or f"--{flag.replace('_', '-')}" in flags:
            raise UsageError(f"--vary {flag} sets a flag that is given already: leave out one.")
        values_of[flag] = values.split(",")
    return values_of


@final
@dataclasses.dataclass
class Job:
    """Trains some runs of a study, one after another. submitit stores the job as a file.

    **Arguments:**

    - `study`: the folder of the study.
    - `submission`: the submission of the study; its `jobs` are not used.
    - `retries`: the number of restarts that are left for each run, after failures.
    - `stopped`, `process`: whether a signal stopped the job, and the process of the current run.
    """

    study: Path
    submission: Submission
    retries: dict[str, int]
    stopped: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    def __call__(self, names: Sequence[str]) -> None:
        """Trains these runs. The process ends with the exit code of the first run that fails.

        After a SIGTERM, the current run saves. submitit then calls `checkpoint` and queues the job
        again.
        """
        in_submitit = self.submission.executor != "debug"
        # submitit's own handler of SIGTERM, which is called once the run has saved.
        queue_again, self.stopped = signal.getsignal(signal.SIGTERM), False
        if in_submitit:
            for number in (signal.SIGTERM, signal.SIGALRM):
                signal.signal(number, self._stop)
        codes = []
        for name in names:
            codes.append(self.train(name))
            if self.stopped:
                break
        if in_submitit:
            # Slurm sends further signals while submitit queues the job again.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.alarm(0)
        if self.stopped and callable(queue_again):
            queue_again(signal.SIGTERM, None)
        if code := next(filter(None, codes), 0):
            sys.exit(abs(code))

    def _stop(self, *_: object) -> None:
        """Stops the current run. After a minute, SIGALRM calls this method again, and the second
        SIGTERM makes the run skip its pictures.
        """
        self.stopped = True
        if self.process is not None:
            self.process.terminate()
            signal.alarm(60)

    def checkpoint(self, names: Sequence[str]) -> "DelayedSubmission | None":
        """Returns the job that continues this one, or `None` if Slurm has already cancelled it or
        queued it again.
        """
        if self.submission.executor == "slurm":
            # The last job of an array has the same number as the array, so name the task.
            array, task = (os.environ.get(f"SLURM_ARRAY_{x}_ID") for x in ("JOB", "TASK"))
            job = f"{array}_{task}" if array else os.environ["SLURM_JOB_ID"]
            command = ["squeue", "--noheader", f"--jobs={job}", "--format=%T"]
            state = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if state.strip() not in ("RUNNING", ""):  # empty if squeue fails
                return None
        return submitit("submitit.helpers").DelayedSubmission(self, names)

    def train(self, name: str) -> int:
        """Trains a run until it ends, with restarts. **Returns:** the last exit code."""
        code, file = 0, exit_code_file(self.study, name)
        folder = self.submission.run_folder(self.study, name)
        if file.exists():
            return int(file.read_text())
        if self.submission.shared or not is_finished(folder, progress(folder)):
            code = self._run_once(name, folder)
        while code not in (0, _WRONG_SETTINGS, *_STOPPED) and self.retries[name] > 0:
            self.retries[name] -= 1
            code = self._run_once(name, folder)
        if code in _STOPPED:
            time.sleep(5)  # waits for the signal to reach this process too, which sets `stopped`
        else:
            write_atomic(file, str(code).encode())
        return code

    def _run_once(self, name: str, folder: Path) -> int:
        # Wait for the lock, which a process on a failed host may hold for some time.
        for part in (folder, *seed_folders(folder)):
            with contextlib.suppress(UsageError), locked(part, seconds=180):
                pass
        if self.stopped:
            return _STOPPED[0]
        words = [*self.submission.words(name), "--out", str(folder)]
        if (folder / SETTINGS_FILE).exists() and not self.submission.shared:
            words.append("--resume")  # a sweep continues with the same command
        with log_file(self.study, name).open("ab") as log:
            if (own := library_versions()) != (others := self.submission.versions):
                sentence = f"This host has {own}, but the host of eqgrid submit had {others}"
                log.write(f"error: {sentence}: install the same versions on all hosts.\n".encode())
                return _WRONG_SETTINGS
            try:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            except OSError as error:  # this host may lack the program
                log.write(f"error: {error}\n".encode())
                return 127
            if self.stopped:  # by a signal while the process started
                self.process.terminate()
            code, self.process = self.process.wait(), None
        return code


def _submit(config: Config, study: Path, new: Submission, old: Submission | None) -> Submission:
    """Starts jobs for all runs that are not finished.

    **Returns:** the submission, with the numbers of the jobs.
    """
    known, values = ({}, {}) if old is None else (old.jobs, old.values)
    if old is not None:
        if (old.command, old.shared) != (new.command, new.shared):
            raise UsageError(
                f"The folder {str(study)!r} has the runs of another command: choose another --out."
            )
        if live_jobs(old):
            raise UsageError(
                f"Jobs of {str(study)!r} still wait or run: wait for them with eqgrid status "
                f"{study} --wait, or cancel them with --cancel."
            )
    names = []
    for name in new.jobs:
        file = exit_code_file(study, name)
        if not (file.exists() and file.read_text() == "0"):
            file.unlink(missing_ok=True)
            names.append(name)
    job = Job(study, new, dict.fromkeys(names, config.retries))
    started = _start(config, study / "jobs", job, names) if names else {}
    submission = msgspec.structs.replace(
        new, jobs={**known, **started}, values={**values, **new.values}
    )
    write_atomic(study / "jobs" / "submission.json", msgspec.json.encode(submission))
    return submission


def _start(config: Config, folder: Path, job: Job, names: Sequence[str]) -> dict[str, str]:
    """Starts jobs for these runs. **Returns:** the number of the job, by the name of the run."""
    module = submitit("submitit")
    if config.executor == "debug":
        with contextlib.suppress(SystemExit):
            job(names)
        return dict.fromkeys(names, "debug")
    minutes = int(config.time[:-1]) * _MINUTES[config.time[-1]]
    if config.executor == "local":
        executor = module.LocalExecutor(folder, max_num_timeout=1000)
        workers, jobs = min(config.at_once or 1, len(names)), {}
        for i in range(workers):
            gpus = [i * config.gpus + x for x in range(config.gpus)]
            executor.update_parameters(
                timeout_min=_NO_LIMIT, gpus_per_node=config.gpus, visible_gpus=gpus
            )
            own = names[i::workers]
            with _detached():
                jobs |= dict.fromkeys(own, executor.submit(job, own).job_id)
        return jobs
    parts = (option.partition("=") for option in config.slurm)
    options = {name: value or True for name, _, value in parts}
    try:
        executor = module.SlurmExecutor(folder, max_num_timeout=1000)
        executor.update_parameters(
            job_name=job.study.name,
            time=minutes,
            signal_delay_s=min(300, minutes * 15),
            array_parallelism=config.at_once or len(names),
            additional_parameters={"requeue": True, **options},
            **({"gpus_per_node": config.gpus} if config.gpus else {}),
        )
        with contextlib.redirect_stderr(io.StringIO()):  # submitit also prints the error there
            started = executor.map_array(job, [[name] for name in names])
    except RuntimeError as error:
        reason = re.split("error: |fatal: ", str(error).strip())[-1]
        raise RunError(f"Slurm did not accept the jobs: {reason}.") from error
    return {name: x.job_id for name, x in zip(names, started, strict=True)}


@contextlib.contextmanager
def _detached() -> Iterator[None]:
    """Context manager in which new processes ignore the Ctrl-C of this terminal, and do not inherit
    the output streams, which could be pipes to another program that would wait for their end.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    kept, null = [os.dup(number) for number in (1, 2)], os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    try:
        yield
    finally:
        for number, own in zip((1, 2), kept, strict=True):
            os.dup2(own, number)
        for own in (*kept, null):
            os.close(own)
        signal.signal(signal.SIGINT, before)


def submitit(module: str) -> ModuleType:
    """Imports submitit, or a module of it, on first use.

    **Raises:** `UsageError` when it is not installed.
    """
    os.environ["SUBMITIT_PREEMPT_SIGNAL"] = "TERM"  # also in the jobs, which inherit it
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError("This command needs submitit: pip install 'eqgrid[cluster]'.") from error
