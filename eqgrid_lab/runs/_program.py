"""The program of every experiment: reads settings, trains, and writes a folder of results."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from agents import write_atomic

from ..base import (
    NOTHING_LEARNED,
    Failures,
    Process,
    Table,
    exit_code_of,
    has_checkpoint,
    print_error,
    read_metadata,
    run_process,
    use_cores_as_devices,
)
from ..folders import folder_name, open_folder
from ..settings import Experiment, dump, parse
from ..show import Csv, print_result
from ._conclusion import finish
from ._curriculum import stages, with_curriculum
from ._display import still
from ._members import Members, explained, members_of, print_header
from ._report import print_seeds
from ._run import Run, plan_stages


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
    """Parses a command line, trains, and writes the folder of the run.

    **Arguments:**

    - `experiment`: the class that a script defines.
    - `args`: the command line.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    config = with_curriculum(parse(experiment, args))
    config = dataclasses.replace(config, partners=config.partners.found())
    if config.num_seeds > 1 and not (config.devices == 1 or process.is_shared):
        use_cores_as_devices()
    run_stages = stages(config)
    whole = Run(config, run_stages, plan_stages(run_stages), process, Path())
    process.begin()
    process.check()
    name = folder_name(config.algorithm, config.env.title, config.seed)
    with open_folder(name, config.out, dump(config), resume=config.resume) as folder:
        members = members_of(dataclasses.replace(whole, folder=folder))
        return _resume(members) if has_checkpoint(folder) else _train_and_conclude(members, {})


def _resume(members: Members) -> int:
    """Resumes a run. All files are read before any file in the folder of the run changes."""
    folder = members.whole.folder
    position = read_metadata(members.checkpoint)
    members = members.resumed(position)
    whole, updates = members.whole, position["update"]
    num_updates, complete = whole.plan.num_updates, members.have_all_files
    has_ended = whole.is_last_stage and members.ended(position)
    # A run that was killed at its very end has made all updates, but lacks some of its files.
    if updates > num_updates or (complete and (updates == num_updates or has_ended)):
        steps = f"{updates * whole.plan.steps_per_update:,} steps{members.of_each}"
        print(f"the run in {folder} is complete, with {steps}", flush=True)
        return 0
    if not members.alone:  # writes the common files; the folders of the seeds are written later
        rows = members.rows_of_all()
        history = dataclasses.replace(members.runs[0].history, rows=rows)
        members = dataclasses.replace(members, whole=dataclasses.replace(whole, history=history))
        history.write_into(folder)
        write_atomic(folder / "config.toml", dump(whole.settings).encode())
    return _train_and_conclude(members, position)


def _train_and_conclude(members: Members, position: Table) -> int:
    """Trains, evaluates, writes the results, and prints where they are.

    **Arguments:**

    - `members`: the runs.
    - `position`: the metadata of the checkpoint from which they resume; empty for a new run.

    **Returns:** the exit code.
    """
    console, failures, whole = print_header(members), Failures(), members.whole
    log = None if members.alone else Csv(whole.folder / "metrics.csv", whole.history.rows)
    with explained(members):
        trained = members.train(console, failures, position, log=log)
    progress, stopped = trained.progress, trained.progress.stopped
    if stopped and progress.metrics is None:
        return print_error(NOTHING_LEARNED, whole.process.exit_code)
    if stopped:
        steps = f"{progress.env_steps:,} steps{members.of_each}"
        console.print(f"{stopped} after {steps}", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    show = print_result if members.alone else print_seeds
    with still(console, "evaluating"):
        result = trained.conclude()
    show(console, result, whole.folder)
    return finish(trained.members.whole, stopped, console, failures)
