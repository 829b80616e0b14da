"""Sweeps: runs with many combinations of settings, in one folder with a ranked table.

Points that differ only in their seeds, in real-valued settings of `PPO` and in the shaped reward
are trained together, in one compiled program; all others are trained one after another. Complete
points are skipped, so the same command resumes a sweep, and several processes can share one.
"""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import final

from rich.console import Console
from rich.markup import escape

from agents import CheckpointError, NonFiniteLoss, OutOfMemory, StopTraining, write_whole
from eqgrid import read_regular_text

from ...base import Failures, Process, Stopped, UsageError, keep_compiled_programs, read_metadata
from ...folders import MAX_RESULT_BYTES, cannot_be_written, locked, write_json
from ...settings import Experiment, dump
from ..single import OutOfTime, Plan, Run, open_console, plan_stages, print_preparations, stages
from ._group import Group
from ._points import Point, Sweep, groups_of, points_of, read_sweep
from ._report import draw_sweep, print_points, table_row, write_table


@final
@dataclasses.dataclass(frozen=True)
class Program:
    """What all points of a sweep share.

    - `folder`: the folder of the sweep.
    - `process`: the process, with its clock and signals.
    - `console`: where progress is shown.
    - `failures`: collects the files that cannot be written.
    """

    folder: Path
    process: Process
    console: Console
    failures: Failures


def run_sweep(config: Experiment, process: Process) -> int:
    """Trains all points of a sweep, or one of them.

    **Arguments:**

    - `config`: the settings that all points share, with the sweep file and an optional index.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    assert config.sweep is not None
    sweep = read_sweep(config.sweep)
    folder = config.out or Path("runs") / f"{config.algorithm}-sweep-{config.sweep.stem}"
    points = points_of(config, sweep, folder)
    chosen = _chosen(points, config.sweep_index)
    groups = groups_of(chosen, sweep.at_once)
    plans = [plan_stages(stages(group[0].config)) for group in groups]
    process.begin()
    process.check()
    _open(folder, config, sweep, points)
    program, stopped = Program(folder, process, open_console(), Failures()), None
    which = f"{len(chosen)} points" if len(chosen) > 1 else f"point {chosen[0].index}"
    number = "1 program" if len(groups) == 1 else f"{len(groups)} programs"
    program.console.print(
        f"[bold]{config.algorithm}[/], a sweep: {which} in {number}, writing to "
        f"{escape(str(folder))}",
        highlight=False,
    )
    lengths = [(x[0].config.total_steps, own[0]) for x, own in zip(groups, plans, strict=True)]
    programs = keep_compiled_programs()
    print_preparations(program.console, config, programs, lengths, " of each point")
    try:
        for group, own in zip(groups, plans, strict=True):
            process.check()
            OutOfTime(process, config.max_hours)()
            _train(program, group, own)
    except (Stopped, StopTraining) as error:
        stopped = process.stop_reason() or str(error)
    with locked(folder, seconds=60):
        _gather(program, points, sweep)
    if stopped is not None:
        program.console.print(f"{stopped}; to go on, give the same command again", highlight=False)
    if program.failures.report():
        return 1
    return process.exit_code if process.first else 0


def _chosen(points: list[Point], index: int | None) -> list[Point]:
    if index is None:
        return points
    if index >= len(points):
        raise UsageError(
            f"--sweep.index {index} is no point of the sweep: it has {len(points)}, counted from 0."
        )
    return [points[index]]


def _open(folder: Path, config: Experiment, sweep: Sweep, points: Sequence[Point]) -> None:
    """Makes the folder of a sweep, or checks that it is the folder of the same sweep.

    **Raises:** `UsageError` when the folder has other content, `RunError` when it cannot be
    written.
    """
    config = dataclasses.replace(config, sweep=None, sweep_index=None, out=None)
    table = {"metric": sweep.metric, "points": sweep.points, "files": [x.files for x in points]}
    files = {
        "config.toml": dump(config),
        "points.json": json.dumps(table, indent=1, default=str) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, seconds=60):
            if {path.name for path in folder.iterdir()} - {"run.lock"}:
                _check_same(folder, files)
                return
            for name, text in files.items():
                write_whole(folder / name, text.encode())
    except OSError as error:
        raise cannot_be_written(folder, error) from error


def _check_same(folder: Path, files: dict[str, str]) -> None:
    for path, text in ((folder / name, text) for name, text in files.items()):
        if not path.is_file() or read_regular_text(path, MAX_RESULT_BYTES) != text:
            raise UsageError(
                f"The folder {str(folder)!r} holds something other than this sweep with these "
                "settings and these files: choose another --out."
            )


def _train(program: Program, points: Sequence[Point], plans: tuple[Plan, ...]) -> None:
    """Trains the points that are neither complete nor being trained by another process."""
    with contextlib.ExitStack() as stack:
        waiting = [[point for point in points if _is_free(program, point, stack)]]
        while waiting:
            together = waiting.pop(0)
            try:
                if together:
                    _train_together(program, together, plans)
            except NonFiniteLoss as error:
                point = together.pop(error.run or 0)
                program.console.print(
                    f"point {point.index}: the loss of update {error.update} is not a finite "
                    "number; the others begin again without it",
                    highlight=False,
                )
                with program.failures.writing(point.folder / "result.json"):
                    write_json(point.folder / "result.json", {"not_finite": error.update})
                waiting.insert(0, together)
            except OutOfMemory:
                half = len(together) // 2
                if half == 0:
                    raise
                program.console.print(f"too little memory for {len(together)} points at once")
                waiting = [together[:half], together[half:], *waiting]


def _is_free(program: Program, point: Point, stack: contextlib.ExitStack) -> bool:
    if point.result() is not None:
        return False
    try:
        point.folder.mkdir(exist_ok=True)
        stack.enter_context(locked(point.folder))
    except OSError as error:
        raise cannot_be_written(point.folder, error) from error
    except UsageError:
        program.console.print(f"point {point.index} is trained by another process")
        return False
    return point.result() is None


def _train_together(program: Program, points: Sequence[Point], plans: tuple[Plan, ...]) -> None:
    """Trains points in one compiled program, and writes their results.

    **Raises:** `Stopped` and `StopTraining` when the points are stopped before their end.
    """
    numbers = ", ".join(str(point.index) for point in points)
    what = "points" if len(points) > 1 else "point"
    program.console.print(f"training {what} {numbers}", highlight=False)
    group = _group(program, points, plans)
    group.open_folders(program.console, "each")
    trained = group.train(program.console, program.failures)
    if not trained.is_over:
        raise StopTraining(trained.progress.stopped)
    for i in range(len(points)):
        trained.conclusion(i).conclude()
    group.checkpoint.unlink(missing_ok=True)


def _group(program: Program, points: Sequence[Point], plans: tuple[Plan, ...]) -> Group:
    """The group of the points' runs, resumed from its checkpoint if there is one."""
    runs = tuple(
        Run(x.config, stages(x.config), plans, program.process, x.folder, x.files) for x in points
    )
    whole = dataclasses.replace(runs[0], folder=program.folder)
    checkpoint = program.folder / "checkpoints" / f"{runs[0].folder.name}.safetensors"
    group = Group(whole, runs, checkpoint)
    with contextlib.suppress(CheckpointError):  # there is no checkpoint yet
        position = read_metadata(checkpoint)
        if position.get("runs") == group.names:
            return group.resumed(position)
    return group


def _gather(program: Program, points: Sequence[Point], sweep: Sweep) -> None:
    """Writes and prints the ranking of all complete points."""
    results = [(point, point.result()) for point in points]
    rows = [table_row(x.index, x.settings, result) for x, result in results if result is not None]
    if not rows:
        return
    folder, failures = program.folder, program.failures
    with failures.writing(folder / "table.csv"):
        write_table(folder / "table.csv", rows, sweep.metric)
    with failures.writing(folder / "sweep.png"):
        draw_sweep(folder / "sweep.png", rows, sweep.metric)
    print_points(program.console, rows, sweep.metric)
    program.console.print(
        f"{len(rows)} of {len(points)} points are complete: {escape(str(folder / 'table.csv'))}",
        highlight=False,
        soft_wrap=True,
    )
