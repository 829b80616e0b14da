"""The command `eqgrid status`: shows the state of each run of a study, and waits for or cancels its
jobs.
"""

import contextlib
import csv
import dataclasses
import io
import subprocess
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, final

import msgspec
import psutil
import tyro
from rich.text import Text

from eqgrid import read_regular_file, read_regular_text

from ..base import (
    SETTINGS_FILE,
    RunError,
    UsageError,
    is_complete,
    run_command,
)
from ..folders import MAX_RESULT_BYTES, locked, results_console
from ..settings import read_flags
from ..show import path_text, print_table

POLL_SECONDS = 10
"""The time between two queries of the jobs by `--wait`, in seconds."""
_NO_LOG = "Its job ended before the run began. Can all hosts write to this folder?"


@dataclasses.dataclass(frozen=True)
class Config:
    """Prints which runs wait, run, failed or finished."""

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR ...")]] = ()
    """Folders of eqgrid submit, or other folders that contain runs."""
    wait: bool = False
    """Wait until all jobs have ended; the exit code is 1 unless all runs finished."""
    cancel: bool = False
    """Cancel all jobs. Their runs save, and the command that submitted them continues them."""


def status_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a folder has no runs, and `RunError` when Slurm does not answer
    or, with `--wait`, a run did not finish.
    """
    config = read_flags(Config(), args, "eqgrid status")
    if not config.runs:
        raise UsageError("Name the folders of runs; see --help.")
    rows = []
    for path in config.runs:
        submission = read_submission(path)
        if submission is None:
            found = sorted(file.parent for file in path.glob(f"**/{SETTINGS_FILE}"))
            if not found or config.wait or config.cancel:
                what = "runs" if not found else "jobs of eqgrid submit"
                raise UsageError(f"There are no {what} in {str(path)!r}.")
            rows += [_row_without_job(folder) for folder in found]
            continue
        if config.cancel:
            cancel(submission)
        if config.wait or config.cancel:
            wait_for(submission)
        rows += rows_of(path, submission)
    print_rows(rows)
    if config.wait:
        check_finished(rows)


def _row_without_job(folder: Path) -> "Row":
    """The row of a run that has no job."""
    so_far = progress(folder)
    if is_finished(folder, so_far):
        return Row(folder, "finished", so_far)
    try:
        with locked(folder):
            return Row(folder, "stopped", so_far)
    except UsageError:
        return Row(folder, "running", so_far)


@final
class Submission(msgspec.Struct, frozen=True):
    """The jobs of a study, which are stored in `jobs/submission.json`.

    **Arguments:**

    - `executor`: the executor of the jobs.
    - `versions`: the `library_versions` of `eqgrid submit`, which jobs must have, too.
    - `command`: the command of the jobs, with `{index}` and the flags of `--vary` in braces.
    - `jobs`: the number of the job, by the name of the run.
    - `values`: the values that replace the braces, by the name of the run.
    - `shared`: whether all jobs write to the same folder, as the jobs of a sweep do.
    """

    executor: str
    versions: str
    command: tuple[str, ...]
    jobs: dict[str, str]
    values: dict[str, dict[str, str]]
    shared: bool

    def words(self, name: str) -> list[str]:
        """The command of a run."""
        words = list(self.command)
        for key, value in self.values[name].items():
            words = [word.replace(f"{{{key}}}", value) for word in words]
        return words

    def run_folder(self, study: Path, name: str) -> Path:
        """The folder of a run."""
        return study / ("sweep" if self.shared else name)


def read_submission(study: Path) -> Submission | None:
    """Reads the submission of a study. **Returns:** `None` if the folder has no submission.

    **Raises:** `UsageError` when the file is damaged.
    """
    path = study / "jobs" / "submission.json"
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(read_regular_file(path, MAX_RESULT_BYTES), type=Submission)
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} is damaged: choose another folder.") from error


def exit_code_file(study: Path, name: str) -> Path:
    """The file with the exit code of a run, which exists once the run has finished or failed."""
    return study / "jobs" / f"{name}.exit"


def log_file(study: Path, name: str) -> Path:
    """The file with the output of a run."""
    return study / "jobs" / f"{name}.log"


def live_jobs(submission: Submission) -> dict[str, str]:
    """The jobs of a submission that have not ended: `"waiting"` or `"running"`, by the number of
    the job.

    **Raises:** `RunError` when Slurm does not answer.
    """
    if submission.executor == "slurm":
        command = ["squeue", "--me", "--noheader", "--array", "--format=%i %T"]
        try:
            listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise RunError("Slurm does not answer: call this command on a host of it.") from error
        states, own = (line.split() for line in listed.splitlines()), {*submission.jobs.values()}
        return {job: "waiting" if x == "PENDING" else "running" for job, x in states if job in own}
    live = {}
    for job in filter(str.isdigit, submission.jobs.values()):  # "debug" is not a process
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if "submitit.local._local" in psutil.Process(int(job)).cmdline():
                live[job] = "running"
    return live


def cancel(submission: Submission) -> None:
    """Cancels all jobs of a submission. Their runs receive a SIGTERM and save."""
    live = live_jobs(submission)
    if submission.executor == "slurm":
        if live:
            subprocess.run(["scancel", *sorted(live)], check=False)
        return
    tasks: list[psutil.Process] = []
    for job in live:
        with contextlib.suppress(psutil.NoSuchProcess):
            controller = psutil.Process(int(job))
            tasks += controller.children()
            controller.kill()  # first, since it would start its task again
    for task in tasks:
        with contextlib.suppress(psutil.NoSuchProcess):
            task.terminate()
    psutil.wait_procs(tasks)


@final
@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    **Arguments:**

    - `folder`: the folder of the run.
    - `state`: `waiting`, `running`, `stopped`, `failed` or `finished`.
    - `progress`: the `progress` of the run.
    - `error`: the error of a run that failed, or why the run did not begin.
    """

    folder: Path
    state: str
    progress: "Progress"
    error: str = ""


def rows_of(study: Path, submission: Submission) -> list[Row]:
    """The rows of the runs of a submission.

    **Raises:** `RunError` when Slurm does not answer.
    """
    live, rows = live_jobs(submission), []
    for name, job in submission.jobs.items():
        code, log = exit_code_file(study, name), log_file(study, name)
        lines = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
        state, error = live.get(job, "stopped"), ""
        if code.exists():
            state = "finished" if code.read_text() == "0" else "failed"
        elif not lines and state == "running":
            state = "waiting"  # the job is still training another run
        elif not lines and state == "stopped":
            error = _NO_LOG
        if state == "failed":
            errors = [line for line in lines if line.startswith("error: ")]
            error = (errors or lines or [f"exit code {code.read_text()}"])[-1]
        so_far = progress(study / name)
        rows.append(Row(study / name, state, so_far, error.removeprefix("error: ")))
    return rows


Progress = tuple[int, int, float, float]
"""The steps of a run so far, its total steps, its last mean return, and its time in seconds."""


def is_finished(folder: Path, so_far: Progress) -> bool:
    """Whether a run has finished, according to the files in its own folder, and its `progress`."""
    steps, total, _, _ = so_far
    return is_complete(folder, video=False) and steps >= total


def progress(folder: Path) -> Progress:
    """The progress of a run. Without a readable log, the total is 1 and all other numbers are 0."""
    try:
        total = tomllib.loads(read_regular_text(folder / SETTINGS_FILE))["total_steps"]
        text = read_regular_text(folder / "metrics.csv", MAX_RESULT_BYTES)
        last: Mapping[str, str] = list(csv.DictReader(io.StringIO(text, newline="")))[-1]
        steps, seconds = int(last["env_steps"]), float(last["wall_seconds"])
        return steps, total, float(last["eval_return_mean"]), seconds
    except (OSError, ValueError, LookupError, TypeError, csv.Error):
        return 0, 1, 0.0, 0.0


def print_rows(rows: Sequence[Row]) -> None:
    """Prints the table of runs, their errors, and the number of runs in each state."""
    console = results_console()
    cells = []
    for row in rows:
        steps, total, mean, seconds = row.progress
        left = f"{seconds * (total / steps - 1) / 60:.0f} min" if steps and steps < total else ""
        shown = (f"{steps:,}", f"{mean:.2f}") if steps else ("", "")
        left = left if row.state in ("waiting", "running") else ""
        cells.append((path_text(row.folder), row.state, *shown, left))
    print_table(console, ("run", "state", "steps", "return", "remaining"), cells, words=2)
    for row in rows:
        if row.error:
            console.print(Text(f"{row.folder}: {row.error}"), soft_wrap=True)
    counts = Counter(row.state for row in rows)
    console.print(", ".join(f"{n} {state}" for state, n in counts.items()), highlight=False)


def wait_for(submission: Submission) -> None:
    """Waits until no job of a submission waits or runs."""
    while live_jobs(submission):
        time.sleep(POLL_SECONDS)


def check_finished(rows: Iterable[Row]) -> None:
    """**Raises:** `RunError` unless all runs finished."""
    if unfinished := [row for row in rows if row.state != "finished"]:
        names = f"{len(unfinished)} runs, the first of which is {str(unfinished[0].folder)!r}"
        raise RunError(f"These did not finish: {names}.")
