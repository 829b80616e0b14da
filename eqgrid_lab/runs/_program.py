"""The program of every experiment: reads settings, trains, and writes a folder of results."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from agents import gather, is_first, write_atomic

from ..base import (
    NOTHING_LEARNED,
    Failures,
    Process,
    UsageError,
    address_of,
    exit_code_of,
    keep_compiled_programs,
    mirrored,
    print_error,
    read_metadata,
    run_distributed,
    run_process,
    use_cores_as_devices,
)
from ..folders import folder_name, locked, open_folder
from ..settings import Experiment, dump, parse
from ..show import Csv, print_result
from ._conclusion import finish
from ._curriculum import Stage, stages, with_curriculum
from ._display import still
from ._groups import train_groups
from ._hooks import STOP_CODES
from ._identity import Digests, check_same_run, digests
from ._members import Members, explained, members_of, print_header
from ._report import print_seeds
from ._run import Run, plan_stages
from ._sweep import run_sweep


def run_experiment(experiment: type[Experiment], args: Sequence[str] | None = None) -> None:
    """Runs the command line of an experiment, and exits.

    The run writes checkpoints, the policy, metrics, plots and a video into a folder of its own, and
    `--resume` continues it from there. `--help` lists the flags.

    In a notebook or a thread, the function returns if the run succeeds, and otherwise raises
    `SystemExit` with the exit code. Threads receive no signals.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `args`: the arguments of the command line; by default, those in `sys.argv`.
    """
    args = sys.argv[1:] if args is None else args
    run_process(lambda process: run(experiment, args, process), _MEMORY_SETTINGS)


def run_command_line(experiment: type[Experiment], process: Process) -> int:
    """Does the same as `run_experiment` in a given process, and returns instead of exiting.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `process`: the process, whose signal handlers are installed already.

    **Returns:** the exit code.
    """
    args = sys.argv[1:]
    return exit_code_of(lambda: run(experiment, args, process), process, _MEMORY_SETTINGS)


_MEMORY_SETTINGS = "--num-envs, --ppo.rollout-length, --width or --eval-episodes"
"""The flags to lower when memory runs out, for the error message."""


def run(experiment: type[Experiment], args: Sequence[str], process: Process) -> int:
    """Parses a command line, trains, and writes the folder of the run or of the sweep.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `args`: the command line.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    config = with_curriculum(parse(experiment, args))
    config = dataclasses.replace(config, partners=config.partners.found())
    many = config.num_seeds > 1 or config.sweep is not None
    if many and not (config.devices == 1 or config.distributed or process.is_shared):
        use_cores_as_devices()
    if config.sweep is not None:
        return run_sweep(config, process)
    run_stages = stages(config)
    files = digests(config)  # before anything is built from the files
    settings = f"{dump(config)}\n{files}\nresume = {config.resume is not None}"

    def connected(work: Callable[[], int]) -> int:
        if config.distributed:
            return run_distributed(process, settings, work, _MEMORY_SETTINGS)
        return work()

    if config.num_seeds > 1 and (config.distributed or config.seeds_at_once is not None):
        return train_groups(config, files, process, connected)
    return connected(functools.partial(_run, config, run_stages, files, process))


def _run(
    config: Experiment, run_stages: tuple[Stage, ...], files: Digests, process: Process
) -> int:
    whole = Run(config, run_stages, plan_stages(run_stages), process, Path(), files)
    process.begin()
    process.check()
    if not is_first():  # it trains without reading or writing the folder of the run
        keep_compiled_programs()
        position = gather({})[0]
        members = members_of(whole).in_stage(position.get("stage", 1) - 1)
        members.train(Console(quiet=True), Failures(), position)
        return 0  # the exit code of the first process is used
    if config.resume is not None:
        with mirrored(config.resume, check=process.check), locked(config.resume):
            return _resume(members_of(dataclasses.replace(whole, folder=config.resume)))
    name = folder_name(config.algorithm, config.env.title, config.seed)
    folders = open_folder(name, config.out, config.overwrite, dump(config), check=whole.check_new)
    with folders as folder:
        return _train_and_conclude(members_of(dataclasses.replace(whole, folder=folder)))


def _resume(members: Members) -> int:
    """Resumes a run. All files are read before any file in the folder of the run changes."""
    folder = members.whole.folder
    position = read_metadata(members.checkpoint)
    check_same_run(folder, position, members.whole.identity)
    members = members.resumed(position)
    whole, updates = members.whole, position["update"]
    num_updates, complete = whole.plan.num_updates, members.have_all_files
    # A run that was killed at its very end has made all updates, but lacks some of its files.
    is_at_end = updates > num_updates or (complete and updates == num_updates)
    has_ended = complete and whole.is_last_stage and members.ended(position)
    ended_early = complete and "ended" in position
    if is_at_end or (whole.settings.auto_resume and (has_ended or ended_early)):
        whole.report_complete(updates, members.of_each)
        return 0
    if has_ended:
        raise UsageError(f"The run {address_of(folder)!r} is complete: its last stage has ended.")
    if complete:  # the run ended early, and the user resumes it
        position.pop("ended", None)
    if not members.alone:  # writes the common files; the folders of the seeds are written later
        rows = members.rows_of_all()
        history = dataclasses.replace(members.runs[0].history, rows=rows, abandoned=())
        members = dataclasses.replace(members, whole=dataclasses.replace(whole, history=history))
        history.write_into(folder)
        write_atomic(folder / "config.toml", dump(whole.settings).encode())
    return _train_and_conclude(members, position)


def _train_and_conclude(members: Members, position: Mapping[str, object] | None = None) -> int:
    """Trains, evaluates, writes the results, and prints where they are.

    **Arguments:**

    - `members`: the runs.
    - `position`: the metadata of the checkpoint from which they resume; `None` for a new run.

    **Returns:** the exit code.
    """
    console, failures, whole = print_header(members), Failures(), members.whole
    agreed = gather(dict(position or {}))[0]  # the first process sends its position to the others
    log = None if members.alone else Csv(whole.folder / "metrics.csv", whole.history.rows)
    with explained(members):
        trained = members.train(console, failures, agreed, log=log)
    progress, stopped = trained.progress, trained.progress.stopped
    if stopped and progress.metrics is None and stopped != agreed.get("ended"):
        return print_error(NOTHING_LEARNED, STOP_CODES.get(stopped, 0))
    if stopped:
        steps = f"{progress.env_steps:,} steps{members.of_each}"
        console.print(f"{stopped} after {steps}", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    show = print_result if members.alone else print_seeds
    with still(console, "evaluating"):
        result = trained.conclude()
    show(console, result, whole.folder)
    flags = {"--stop-at-return": whole.config.stop_at_return, "--patience": whole.config.patience}
    used = " and ".join(name for name, value in flags.items() if value is not None)
    if used and result.get("constant_sum"):
        console.print(f"{used} had no effect, since all evaluations have the same mean return")
    return finish(trained.members.whole, stopped, console, failures)
