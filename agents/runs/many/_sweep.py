"""Sweeps: runs with many combinations of settings, in a folder with a ranked table.

Points that differ only in their seeds, in the real numbers of `PPO` and in the shaped reward are
trained together, in one compiled program; the others in turn. What is complete is not trained
again, so that a sweep goes on when it is called again, and several processes share it.
"""

import contextlib
import dataclasses
import json
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from rich.console import Console
from rich.markup import escape

from agents import (
    PPO,
    CheckpointError,
    Hyperparameter,
    NonFiniteLoss,
    OutOfMemory,
    restore,
    write_whole,
)
from agents.runs._cache import keep_compiled_programs
from agents.runs._command import Process, Stopped
from agents.runs._metadata import read_metadata
from agents.runs.display._errors import Failures, UsageError
from agents.runs.folders._folder import cannot_be_written, locked
from agents.runs.folders._history import read_history
from agents.runs.folders._results import MAX_RESULT_BYTES, write_json
from agents.runs.settings._experiment import Experiment
from agents.runs.settings._file import dump
from agents.runs.single._curriculum import stages
from agents.runs.single._display import open_console, open_display, print_preparations
from agents.runs.single._identity import digests
from agents.runs.single._run import STOP_CODES, Plan, Run, plan_stages
from eqgrid import read_regular_text

from ._group import Group
from ._sweep_file import Sweep, read_sweep, settings_of
from ._sweep_report import Row, draw_sweep, print_points, write_table


@final
@dataclasses.dataclass(frozen=True)
class Point:
    """One combination of settings.

    **Arguments:**

    - `index`: which one, counted from 0.
    - `settings`: what it has of its own.
    - `config`: all its settings.
    - `folder`: where its run is.
    - `files`: what `digests` said of the files that its settings name.
    """

    index: int
    settings: dict[str, Any]
    config: Experiment
    folder: Path
    files: dict[str, str]

    def result(self) -> dict[str, Any] | None:
        """What its run came to, or `None` where it is not complete."""
        try:
            result = json.loads(read_regular_text(self.folder / "result.json", MAX_RESULT_BYTES))
        except (OSError, ValueError):
            return None
        # The curve is the last file that is written.
        complete = "not_finite" in result or (self.folder / "curve.png").exists()
        return result if complete else None


@final
@dataclasses.dataclass
class Program:
    """What all points of a sweep share."""

    folder: Path
    process: Process
    console: Console
    failures: Failures
    stopped: str | None = None

    def must_end(self, max_hours: float | None) -> bool:
        """Whether no further points may be begun."""
        if self.stopped is None and self.process.first is not None:
            self.stopped = "interrupted"
        if self.stopped is None and max_hours and self.process.seconds() >= 3600 * max_hours:
            self.stopped = f"stopped after {max_hours:g} hours"
        return self.stopped is not None


def run_sweep(config: Experiment, process: Process) -> int:
    """Trains with every point of a sweep, or with one of them.

    **Arguments:**

    - `config`: the settings that all points share, and the sweep.
    - `process`: its clock, and the signals that ask it to end.

    **Returns:** the exit code.

    **Raises:** what `run_command_line` turns into a sentence.
    """
    assert config.sweep is not None
    sweep = read_sweep(config.sweep)
    folder = config.out or Path("runs") / f"{config.algorithm}-sweep-{config.sweep.stem}"
    points = _points(config, sweep, folder)
    groups = _groups(_chosen(points, config.sweep_index), sweep.at_once)
    plans = [plan_stages(stages(group[0].config)) for group in groups]
    process.begin()
    process.check()
    _open(folder, config, sweep, points)
    program = Program(folder, process, open_console(), Failures())
    _greet(program, config, points, groups)
    for group, own in zip(groups, plans, strict=True):
        if not program.must_end(config.max_hours):
            _train(program, group, own)
    with locked(folder, seconds=60):
        _gather(program, points, sweep)
    return _end(program, config)


def _points(config: Experiment, sweep: Sweep, folder: Path) -> list[Point]:
    points = []
    for i, own in enumerate(sweep.points):
        whole = settings_of(config, own)
        points.append(Point(i, own, whole, folder / f"point-{i:04}", digests(whole)))
    return points


def _chosen(points: list[Point], index: int | None) -> list[Point]:
    if index is None:
        return points
    if index >= len(points):
        raise UsageError(
            f"--sweep.index {index} is no point of the sweep: it has {len(points)}, counted from 0."
        )
    return [points[index]]


def _groups(points: Sequence[Point], at_once: int) -> list[list[Point]]:
    """Points that one compiled program can train together."""
    alike: dict[str, list[Point]] = {}
    for point in points:
        alike.setdefault(dump(_without_leaves(point.config)), []).append(point)
    return [
        group[i : i + at_once] for group in alike.values() for i in range(0, len(group), at_once)
    ]


def _without_leaves(config: Experiment) -> Experiment:
    """The settings, with equal ones in place of those that are arrays in a compiled program."""
    hints = typing.get_type_hints(PPO)
    leaves = {name: getattr(PPO(), name) for name, hint in hints.items() if hint == Hyperparameter}
    ppo = dataclasses.replace(config.ppo, **leaves)
    own = {name: getattr(type(config), name) for name in config.in_one_program}
    return dataclasses.replace(config, seed=0, ppo=ppo, **own)


def _open(folder: Path, config: Experiment, sweep: Sweep, points: Sequence[Point]) -> None:
    """Makes the folder of a sweep, or finds it.

    **Raises:** `UsageError` when there is something else in it, `RunError` when it cannot be
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
            there = {path.name for path in folder.iterdir()} - {"run.lock"}
            if there and any(_text(folder / name) != text for name, text in files.items()):
                raise UsageError(
                    f"The folder {str(folder)!r} holds something else than this sweep with these "
                    "settings and these files: choose another --out."
                )
            for name, text in {} if there else files.items():
                write_whole(folder / name, text.encode())
    except OSError as error:
        raise cannot_be_written(folder, error) from error


def _text(path: Path) -> str | None:
    return read_regular_text(path, MAX_RESULT_BYTES) if path.is_file() else None


def _greet(
    program: Program, config: Experiment, points: Sequence[Point], groups: Sequence[Sequence[Point]]
) -> None:
    chosen = sum(map(len, groups))
    which = f"{len(points)} points" if chosen > 1 else f"point {groups[0][0].index}"
    programs = "1 program" if len(groups) == 1 else f"{len(groups)} programs"
    program.console.print(
        f"[bold]{config.algorithm}[/], a sweep: {which} in {programs}, writing to "
        f"{escape(str(program.folder))}",
        highlight=False,
    )
    print_preparations(program.console, config, keep_compiled_programs())


def _train(program: Program, points: Sequence[Point], plans: tuple[Plan, ...]) -> None:
    """Trains those of the points that are not complete, and that no other process trains."""
    with contextlib.ExitStack() as stack:
        waiting = [[point for point in points if _is_free(program, point, stack)]]
        while waiting and program.stopped is None:
            together = waiting.pop(0)
            try:
                if together:
                    _train_together(program, together, plans)
            except NonFiniteLoss as error:
                _write_failed(program, together.pop(error.run or 0), error.update)
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
    numbers = ", ".join(str(point.index) for point in points)
    what = "points" if len(points) > 1 else "point"
    program.console.print(f"training {what} {numbers}", highlight=False)
    group = _group(program, points, plans)
    try:
        trained = group.train(open_display(program.console), program.failures, {})
    except Stopped:
        program.stopped = "interrupted"
        return
    if trained.is_over:
        trained.conclude()
        group.checkpoint.unlink(missing_ok=True)
        return
    program.stopped = trained.progress.stopped
    if not trained.nothing_learned:
        trained.keep()


def _group(program: Program, points: Sequence[Point], plans: tuple[Plan, ...]) -> Group:
    """The runs of the points, as far as they are."""
    runs = tuple(
        Run(
            point.config,
            stages(point.config),
            plans,
            program.process,
            point.folder,
            point.files,
        )
        for point in points
    )
    for run in runs:
        write_whole(run.folder / "config.toml", dump(run.config).encode())
    checkpoint = program.folder / "checkpoints" / f"{runs[0].folder.name}.safetensors"
    group = Group(runs, program.folder, checkpoint, runs[0].identity)
    try:
        position = read_metadata(checkpoint)
        if position.get("runs") != group.names:
            return group
        state = restore(checkpoint, group.like())
    except CheckpointError:  # there is none, as nothing was learned
        return group
    updates = int(state.updates[0])
    runs = tuple(
        dataclasses.replace(run, history=read_history(run.folder, position, run.identity))
        for run in runs
    )
    for run in runs:
        run.history.write_into(run.folder)
        run.history.print_abandoned(program.console)
    program.console.print(
        f"going on after {updates * runs[0].plan.steps_per_update:,} steps of each"
    )
    return dataclasses.replace(group, runs=runs, state=state)


def _write_failed(program: Program, point: Point, update: int) -> None:
    """Keeps that a loss was not finite: that is a result, too."""
    program.console.print(
        f"point {point.index}: the loss of update {update} is not a finite number; the others "
        "begin again without it",
        highlight=False,
    )
    with program.failures.writing(point.folder / "result.json"):
        write_json(point.folder / "result.json", {"not_finite": update})


def _gather(program: Program, points: Sequence[Point], sweep: Sweep) -> None:
    """Ranks the points that are complete."""
    results = [(point, point.result()) for point in points]
    rows = [Row(x.index, x.settings, result) for x, result in results if result is not None]
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


def _end(program: Program, config: Experiment) -> int:
    if program.stopped is not None:
        program.console.print(
            f"{program.stopped}; to go on, give the same command again", highlight=False
        )
    if program.failures.report():
        return 1
    stopped = STOP_CODES.get(program.stopped or "", 0)
    return program.process.exit_code if program.process.first else stopped
