"""The program of every experiment: it reads settings, trains, and writes a folder of results."""

import dataclasses
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from agents import CheckpointError, NonFiniteLoss, gather, is_first, restore, write_whole

from ..base import (
    NOTHING_LEARNED,
    Failures,
    Process,
    RunError,
    UsageError,
    exit_code_of,
    is_complete,
    keep_compiled_programs,
    print_error,
    read_metadata,
    run_process,
    together,
)
from ..folders import folder_name, locked, open_folder, read_history, short_name
from ..settings import Experiment, dump, parse
from ..show import print_result, what_is_kept
from .many import resume_seeds, run_seeds, run_sweep
from .single import (
    STOP_CODES,
    Conclusion,
    Run,
    Stage,
    check_same_run,
    check_updates,
    digests,
    finish,
    open_console,
    plan_stages,
    print_preparations,
    profiled,
    run_loggers,
    shapes,
    stages,
    train_stages,
    with_curriculum,
)


def run_experiment(experiment: type[Experiment], args: Sequence[str] | None = None) -> None:
    """Runs the command line of an experiment, and exits.

    The run writes checkpoints, the policy, metrics, plots and a film into a folder of its own, and
    `--resume` continues it from there. `--help` lists the flags.

    In a notebook or a thread, the function returns after a run that succeeds, and raises
    `SystemExit` with the exit code otherwise. Threads receive no signals.

    **Arguments:**

    - `experiment`: the class that a page defines.
    - `args`: the arguments of the command line; by default, those in `sys.argv`.
    """
    args = sys.argv[1:] if args is None else args
    run_process(lambda process: run(experiment, args, process), _MEMORY_SETTINGS)


def run_command_line(experiment: type[Experiment], process: Process) -> int:
    """Does the same as `run_experiment` in a given process, and returns instead of exiting.

    **Arguments:**

    - `experiment`: the class that a page defines.
    - `process`: the process, whose signal handlers are installed already.

    **Returns:** the exit code.
    """
    args = sys.argv[1:]
    return exit_code_of(lambda: run(experiment, args, process), process, _MEMORY_SETTINGS)


_MEMORY_SETTINGS = "--num-envs, --ppo.rollout-length, --width or --eval-episodes"


def run(experiment: type[Experiment], args: Sequence[str], process: Process) -> int:
    """Parses a command line, trains, and writes the folder of the run or of the sweep.

    **Arguments:**

    - `experiment`: the class that a page defines.
    - `args`: the command line.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    config = with_curriculum(parse(experiment, args))
    config = dataclasses.replace(config, partners=config.partners.found())
    if config.sweep is not None:
        return run_sweep(config, process)
    run_stages = stages(config)
    files = digests(config)  # before anything is built from the files
    if not config.distributed:
        return _run(config, run_stages, files, process)
    settings = f"{dump(config)}\n{files}\nresume = {config.resume is not None}"
    work = functools.partial(_run, config, run_stages, files, process)
    return together(process, settings, work, _MEMORY_SETTINGS)


def _run(
    config: Experiment, run_stages: tuple[Stage, ...], files: Mapping[str, str], process: Process
) -> int:
    run = Run(config, run_stages, plan_stages(run_stages), process, Path(), files)
    process.begin()
    process.check()
    if not is_first():
        return _follow(run)
    if config.resume is not None:
        with locked(config.resume):
            run = dataclasses.replace(run, folder=config.resume)
            return resume_seeds(run) if config.num_seeds > 1 else _go_on(run)
    name = folder_name(config.algorithm, config.env.title, config.seed)
    with open_folder(name, config.out, config.overwrite, dump(config)) as folder:
        run = dataclasses.replace(run, folder=folder)
        return run_seeds(run) if config.num_seeds > 1 else _begin(run)


def _go_on(run: Run) -> int:
    """Resumes a run. Everything that is needed is read before any file in its folder changes."""
    checkpoint = run.folder / "checkpoints" / "last.safetensors"
    position = read_metadata(checkpoint)
    check_same_run(run.folder, position, run.identity)
    run = dataclasses.replace(run, number=position.get("stage", 1) - 1)
    if run.number >= len(run.stages):
        raise CheckpointError(
            f"The checkpoint {str(checkpoint)!r} is of stage {run.number + 1}, and the run has "
            f"{len(run.stages)}: begin a new run."
        )
    state = restore(checkpoint, shapes(run))
    updates = int(state.updates)
    check_updates(run.folder, position, updates)
    # A run that was killed at its very end has made all updates, but lacks some of its files.
    complete = is_complete(run.folder, run.config.env.has_film)
    if updates > run.plan.num_updates or (complete and updates == run.plan.num_updates):
        steps = updates * run.plan.steps_per_update
        raise UsageError(
            f"The run {str(run.folder)!r} is complete, with {steps:,} steps: add a larger "
            "--total-steps to go on."
        )
    if complete and run.is_last_stage and run.stage.ended(position):
        raise UsageError(f"The run {str(run.folder)!r} is complete: its last stage has ended.")
    history = read_history(run.folder, position, run.identity)
    write_whole(run.folder / "config.toml", dump(run.settings).encode())
    history.write_into(run.folder)
    return _begin(dataclasses.replace(run, state=state, history=history), position)


def _follow(run: Run) -> int:
    """Trains in a process other than the first, without reading or writing the run's folder."""
    keep_compiled_programs()
    position = gather({})[0]
    run = dataclasses.replace(run, number=position.get("stage", 1) - 1)
    train_stages(run, position, Console(quiet=True), Failures())
    return 0  # the exit code of the first process is used


def _begin(run: Run, position: Mapping[str, Any] | None = None) -> int:
    """Trains, evaluates, writes the results, and prints where they are.

    **Arguments:**

    - `run`: the run.
    - `position`: the metadata of the checkpoint that it resumes from; `None` for a new run.

    **Returns:** the exit code.
    """
    console, failures = _greet(run), Failures()
    agreed = gather(dict(position or {}))[0]
    with run_loggers(run) as loggers, profiled(run.folder, run.config.profile) as profile:
        try:
            trained = train_stages(run, agreed, console, failures, loggers, profile)
        except NonFiniteLoss as error:
            raise RunError(f"{error} {what_is_kept(run.folder)}") from error
    run, progress, evaluator = trained
    if progress.stopped and progress.metrics is None:
        return print_error(NOTHING_LEARNED, STOP_CODES.get(progress.stopped, 0))
    if progress.stopped:
        console.print(f"{progress.stopped} after {progress.env_steps:,} steps", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    result = Conclusion(run, progress, evaluator, failures).conclude()
    print_result(console, result, run.folder)
    return finish(run, progress.stopped, console, failures)


def _greet(run: Run) -> Console:
    console = open_console()
    config, title = run.config, escape(short_name(run.config.env.title))
    rules = f" ({config.env.rules})" if config.env.rules else ""
    console.print(
        f"[bold]{run.algorithm}[/] in [bold]{title}[/]{rules}, seed "
        f"{config.seed}, {config.num_envs} environments: writing to {escape(str(run.folder))}",
        highlight=False,
    )
    if run.state is not None:
        steps = int(run.state.updates) * run.plan.steps_per_update
        end = run.plan.num_updates * run.plan.steps_per_update
        console.print(
            f"going on after {steps:,} steps; annealed settings reach their end at step {end:,}",
            highlight=False,
        )
    run.history.print_abandoned(console)
    lengths = [(run.settings.total_steps, run.plan)]
    print_preparations(console, config, keep_compiled_programs(), lengths)
    return console
