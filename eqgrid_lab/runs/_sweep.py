"""Sweeps: Optuna studies of settings, which train several points in one compiled program.

A point is a trial of the study, and a process takes points in batches. Points of a batch that
differ only in their seeds, in real-valued settings of `PPO` and in the shaped reward are trained
together; other points are trained one after another. The same command resumes a sweep, and several
processes and hosts can share a sweep.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import platform
import re
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.console import Console
from rich.markup import escape

from agents import (
    PPO,
    CheckpointError,
    Hyperparameter,
    NonFiniteLoss,
    OutOfMemory,
    StopTraining,
    write_atomic,
)
from eqgrid import read_regular_file, read_regular_text

from ..base import (
    SWEEP_FILE,
    Failures,
    Process,
    Stopped,
    Table,
    UsageError,
    keep_compiled_programs,
    read_metadata,
)
from ..folders import MAX_RESULT_BYTES, locked, made_folder, names_in, writing_into
from ..settings import Experiment, dump
from ._curriculum import stages
from ._display import open_console, print_preparations
from ._members import ALL_PRUNED, Members
from ._report import draw_sweep, print_points, write_table
from ._run import Plan, Run, default_mesh, plan_stages
from ._space import Sweep, category, checked_points, distributions, optuna, read_sweep, settings_of

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

_BATCH = "batch"
"""The attribute of a trial that names its batch: the `_place` of the process that took the batch,
and the number of points that had begun before it.
"""


@final
@dataclasses.dataclass(frozen=True)
class Point:
    """A trial of the study, with the runs of its seeds.

    **Arguments:**

    - `trial`: the trial.
    - `folder`: the folder of the point.
    - `configs`: the settings of its runs, one for each seed.
    """

    trial: "Trial"
    folder: Path
    configs: tuple[Experiment, ...]

    @property
    def number(self) -> int:
        return self.trial.number

    def run_folder(self, seed: int) -> Path:
        """The folder of the run with a seed: the folder of the point, if it has only one seed."""
        return self.folder / f"seed-{seed}" if len(self.configs) > 1 else self.folder

    def results(self) -> list[Table] | None:
        """The contents of `result.json` of all seeds; `None` while a run is not complete."""
        results = []
        for config in self.configs:
            folder = self.run_folder(config.seed)
            # A run writes the plot of its learning curve last.
            if not (folder / "curve.png").exists():
                return None
            try:
                text = read_regular_text(folder / "result.json", MAX_RESULT_BYTES)
                results.append(json.loads(text))
            except (OSError, ValueError):
                return None
        return results


@final
@dataclasses.dataclass(frozen=True)
class Search:
    """The sweep of this process.

    - `sweep`: the content of the sweep file.
    - `config`: the settings that all points share.
    - `study`: the Optuna study.
    - `folder`: the folder of the sweep.
    - `process`: the process, with its clock and signals.
    - `console`: where progress is shown.
    - `failures`: collects the files that cannot be written.
    """

    sweep: Sweep
    config: Experiment
    study: "Study"
    folder: Path
    process: Process
    console: Console
    failures: Failures


def run_sweep(config: Experiment, process: Process) -> int:
    """Trains points of a sweep, except those that other processes train, until there are no more.

    **Arguments:**

    - `config`: the settings that all points share, with the path of the sweep file.
    - `process`: the process, with its clock and signals.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    assert config.sweep is not None
    sweep = read_sweep(config.sweep)
    folder = config.out or Path("runs") / f"{config.algorithm}-sweep-{config.sweep.stem}"
    config = dataclasses.replace(config, sweep=None, out=None)
    points = checked_points(config, sweep)
    # A plan for each compiled program of a grid. The points of other samplers are not known yet.
    programs = {dump(_without_leaves(x)): x for x in points if sweep.sampler == "grid"}
    plans = [plan_stages(stages(x)) for x in programs.values() or [config]]
    process.begin()
    process.check()
    study = _open(folder, config, sweep)
    console, stop_reason = open_console(), None
    search = Search(sweep, config, study, folder, process, console, Failures())
    console.print(
        f"[bold]{config.algorithm}[/], a sweep of {sweep.size()} points ({sweep.sampler}), writing "
        f"to {escape(str(folder))}",
        highlight=False,
    )
    lengths = [(config.total_steps, plan[0]) for plan in plans]
    print_preparations(console, config, keep_compiled_programs(), lengths, " of each run")
    try:
        _train_all(search)
    except (Stopped, StopTraining) as error:
        stop_reason = process.stop_reason() or str(error)
    with locked(folder, seconds=60):
        _report(search)
    if stop_reason is not None:
        console.print(f"{stop_reason}; repeat the command to continue", highlight=False)
    if search.failures.report():
        return 1
    return process.exit_code if process.first else 0


def _open(folder: Path, config: Experiment, sweep: Sweep) -> "Study":
    """Makes the folder of a sweep and its study, or opens them if they exist already.

    **Raises:** `UsageError` when the folder has other content or the storage cannot be used, and
    `RunError` when the folder cannot be written.
    """
    table = {"sweep": dataclasses.asdict(sweep)}
    files = {
        "config.toml": dump(config),
        SWEEP_FILE: json.dumps(table, indent=1, default=str) + "\n",
    }
    with made_folder(folder.name, folder), locked(folder, seconds=60), writing_into(folder):
        has_content = names_in(folder) - {"journal.log", "journal.log.lock"}
        for path, text in ((folder / name, text.encode()) for name, text in files.items()):
            is_same = path.is_file() and read_regular_file(path, MAX_RESULT_BYTES) == text
            if has_content and not is_same:
                raise UsageError(
                    f"The folder {str(folder)!r} does not contain this sweep with these settings "
                    "and files: repeat the command that started it, or choose another --out."
                )
        study = _study(folder, sweep, files)
        for name, text in files.items():
            write_atomic(folder / name, text.encode())
        return study


def _study(folder: Path, sweep: Sweep, files: dict[str, str]) -> "Study":
    """Makes or opens the study, in a journal in the folder or in a database, and enqueues the
    points of a grid that it does not have yet.
    """
    optuna("logging").set_verbosity(logging.ERROR)
    pruners, storages = optuna("pruners"), optuna("storages")
    pruner = {
        "none": pruners.NopPruner,
        "median": pruners.MedianPruner,
        "hyperband": pruners.HyperbandPruner,
    }[sweep.pruner]()
    try:
        storage: Any = sweep.storage
        if storage is None:
            journal = optuna("storages.journal").JournalFileBackend(str(folder / "journal.log"))
            storage = storages.JournalStorage(journal)
        study = optuna("study").create_study(
            storage=storage,
            pruner=pruner,
            study_name=folder.resolve().name,
            direction="maximize",
            load_if_exists=True,
        )
        checksum = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        if study.user_attrs.get("sweep", checksum) != checksum:
            # The handler below makes a sentence of it.
            raise UsageError(f"it contains a different sweep with the name {study.study_name!r}")
        study.set_user_attr("sweep", checksum)
        if sweep.sampler == "grid":  # a process may have been killed while it enqueued them
            for point in itertools.islice(sweep.grid(), len(study.trials), None):
                study.enqueue_trial({key: category(x) for key, x in point.items()})
    except Exception as error:  # a damaged journal or a database may raise any exception
        where = sweep.storage or str(folder / "journal.log")
        where = re.sub(":[^:@/]*@", ":…@", where)  # hides the password in the address of a database
        why = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
        if sweep.storage is None and not isinstance(error, OSError | UsageError):
            raise UsageError(f"The study in {where!r:.200} is damaged: {why:.300}.") from error
        raise UsageError(f"The study in {where!r:.200} cannot be opened: {why:.300}.") from error
    return study


def _train_all(search: Search) -> None:
    """Trains batches of points until there are no more."""
    while True:
        search.process.check()
        with contextlib.ExitStack() as stack:
            points = _claim(search, stack)
            if points is None:
                return
            for group in groups_of(points):
                try:
                    plans = plan_stages(stages(group[0].configs[0]))
                except UsageError as error:
                    for point in group:
                        _leave_out(search, point.number, error)
                else:
                    _train(search, group, plans)


def _claim(search: Search, stack: contextlib.ExitStack) -> list[Point] | None:
    """Takes a batch of points, whose folders stay locked until `stack` is closed.

    Unfinished points of a process that has ended come first, then new points.

    **Returns:** the points; `None` if there are no more.
    """
    with locked(search.folder, seconds=60):
        trials = search.study.get_trials(deepcopy=False)
        for path in search.folder.glob("checkpoints/point-*.safetensors"):
            first = int(path.stem.removeprefix("point-"))
            if first >= len(trials) or trials[first].state.is_finished():
                path.unlink(missing_ok=True)  # the batch of this checkpoint has ended
        if points := _left_behind(search, trials, stack):
            return points
        states = [x.state.name for x in trials]
        begun = len(states) - states.count("WAITING")
        left = states.count("WAITING") if search.sweep.sampler == "grid" else search.sweep.size()
        number = min(left, search.sweep.size() - begun, search.sweep.at_once)
        search.study.sampler = _sampler(search.sweep, begun)
        for _ in range(number):
            trial = search.study.ask()  # for an enqueued point, if the sampler is a grid
            trial.set_user_attr(_BATCH, f"{_place(search)}:{begun}")
            point = _point(search, trial)
            if point is not None:
                _lock_if_free(point.folder, stack)
                points.append(point)
        return points if number > 0 else None


def _place(search: Search) -> str:
    """The host and the folder of this process."""
    return f"{platform.node()}:{search.folder.resolve()}"


def _left_behind(
    search: Search, trials: Sequence["FrozenTrial"], stack: contextlib.ExitStack
) -> list[Point]:
    """Takes the unfinished points of one batch of a process that has ended: the running trials
    whose folders no process locks.
    """
    points, batch = [], None
    for trial in trials:
        # A process that was killed after `ask` may have left a trial without a batch. In a journal,
        # this process takes it: no other process can be asking, since the folder is locked. In a
        # database, another host may be about to set the batch, so the trial is skipped.
        default = "" if search.sweep.storage else f"{_place(search)}:{trial.number}"
        batch_of_trial = trial.user_attrs.get(_BATCH, default)
        if trial.state.name != "RUNNING" or not batch_of_trial.startswith(f"{_place(search)}:"):
            continue  # it has ended, or its folder is on another host
        if batch not in (None, batch_of_trial):
            continue
        if not _lock_if_free(_folder(search, trial.number), stack):
            continue
        # The trial may have ended after `trials` were read, and before its folder was locked.
        if search.study.get_trials(deepcopy=False)[trial.number].state.name != "RUNNING":
            continue
        search.study.sampler = _sampler(search.sweep, int(batch_of_trial.rpartition(":")[2]))
        point = _point(search, optuna("trial").Trial(search.study, trial._trial_id))
        if point is not None:
            points.append(point)
            batch = batch_of_trial
    return points


def _sampler(sweep: Sweep, begun: int) -> "BaseSampler":
    """The sampler of the next points. Its seed depends on the number of points before them, so that
    several processes, or a process and its restart, do not sample the same points.
    """
    samplers = optuna("samplers")
    sampler = samplers.TPESampler if sweep.sampler == "tpe" else samplers.RandomSampler
    return sampler(seed=int(np.random.SeedSequence([sweep.seed, begun]).generate_state(1)[0]))


def _point(search: Search, trial: "Trial") -> Point | None:
    """The point of a trial, whose settings are sampled if the trial has none yet. If the settings
    contradict one another, the trial fails, and the result is `None`.
    """
    for name, distribution in distributions(search.sweep).items():
        trial._suggest(name, distribution)
    try:
        config = settings_of(search.config, search.sweep.settings(trial.params))
    except UsageError as error:
        _leave_out(search, trial.number, error)
        return None
    seeds = range(config.seed, config.seed + search.sweep.seeds)
    configs = tuple(dataclasses.replace(config, seed=seed) for seed in seeds)
    return Point(trial, _folder(search, trial.number), configs)


def _folder(search: Search, number: int) -> Path:
    return search.folder / f"point-{number:04}"


def _leave_out(search: Search, number: int, error: UsageError) -> None:
    search.console.print(f"point {number} is left out: {escape(str(error))}", highlight=False)
    _tell_state(search, number, "FAIL")


def _tell_state(search: Search, number: int, state: str, value: float | None = None) -> None:
    search.study.tell(number, value, state=optuna("trial").TrialState[state])


def _lock_if_free(folder: Path, stack: contextlib.ExitStack) -> bool:
    """Locks the folder of a point, unless another process has locked it.

    **Returns:** whether it was free.
    """
    try:
        with writing_into(folder):
            folder.mkdir(exist_ok=True)
        stack.enter_context(locked(folder))
    except UsageError:
        return False
    return True


def groups_of(points: Sequence[Point]) -> list[list[Point]]:
    """Groups the points of a batch so that one compiled program can train each group."""
    alike: dict[str, list[Point]] = {}
    for point in points:
        alike.setdefault(dump(_without_leaves(point.configs[0])), []).append(point)
    return list(alike.values())


def _without_leaves(config: Experiment) -> Experiment:
    """The settings, with defaults for settings that are array leaves of a compiled program.

    Points for which these settings are equal can be trained together.
    """
    hints = typing.get_type_hints(PPO)
    leaves = {name: getattr(PPO(), name) for name, hint in hints.items() if hint == Hyperparameter}
    ppo = dataclasses.replace(config.ppo, **leaves)
    of_script = {name: getattr(type(config), name) for name in config.in_one_program}
    return dataclasses.replace(config, seed=0, ppo=ppo, **of_script)


def _train(search: Search, points: Sequence[Point], plans: tuple[Plan, ...]) -> None:
    """Trains points together, and reports their values to the study.

    If the loss of a point is not finite, the point fails, and the other points start again. If
    memory is too small for all points, they are trained in two halves.
    """
    members = _members(search, points, plans)
    # A killed batch with a checkpoint resumes with all its points. Otherwise, complete points are
    # left out.
    if members.alone or not _position(members):
        points = [point for point in points if not _tell(search, point)]
    waiting = [list(points)] if points else []
    while waiting:
        together = waiting.pop(0)
        try:
            _train_together(search, together, plans)
        except NonFiniteLoss as error:
            point = together.pop((error.run or 0) // search.sweep.seeds)
            others = "; the others restart without it" if together else ""
            search.console.print(
                f"point {point.number}: the loss of update {error.update} is not a finite number"
                f"{others}",
                highlight=False,
            )
            _tell_state(search, point.number, "FAIL")
            waiting = [*([together] if together else []), *waiting]
        except OutOfMemory:
            half = len(together) // 2
            if half == 0:
                raise
            search.console.print(f"too little memory for {len(together)} points at once")
            waiting = [together[:half], together[half:], *waiting]


def _train_together(search: Search, points: Sequence[Point], plans: tuple[Plan, ...]) -> None:
    """Trains points in one compiled program, writes their results, and reports them to the study.

    **Raises:** `Stopped` and `StopTraining` when training is stopped before its end.
    """
    members = _members(search, points, plans)
    if position := _position(members):
        members = members.resumed(position)
    numbers = ", ".join(str(point.number) for point in points)
    what = "points" if len(points) > 1 else "point"
    search.console.print(f"training {what} {numbers}", highlight=False)
    members.open_folders(search.console, " of each")
    prune = None if search.sweep.pruner == "none" else [point.trial for point in points]
    trained = members.train(search.console, search.failures, position, prune=prune)
    stopped = trained.progress.stopped
    if stopped not in (None, ALL_PRUNED):
        raise StopTraining(stopped)
    for i in range(0 if stopped == ALL_PRUNED else len(members.runs)):
        trained.conclusion(i).conclude()
    if search.process.interrupted_again:  # the missing plots are drawn when the sweep is resumed
        raise StopTraining(search.process.stop_reason())
    for point in points:
        if stopped == ALL_PRUNED:
            _tell_state(search, point.number, "PRUNED")
        else:
            _tell(search, point)


def _tell(search: Search, point: Point) -> bool:
    """Reports the value of a point to the study, if all its runs are complete.

    **Returns:** whether they are complete.
    """
    if (results := point.results()) is None:
        return False
    values = [result[search.sweep.metric] for result in results]
    finite = all(value is not None and np.isfinite(value) for value in values)
    point.trial.set_user_attr("values", values)
    for name in ("env_steps", "train_seconds"):
        point.trial.set_user_attr(name, results[0][name])
    if finite:
        _tell_state(search, point.number, "COMPLETE", float(np.mean(values)))
    else:
        _tell_state(search, point.number, "FAIL")
    return True


def _members(search: Search, points: Sequence[Point], plans: tuple[Plan, ...]) -> Members:
    """The runs of all seeds of several points."""
    number = sum(len(point.configs) for point in points)
    mesh = None if search.config.devices == 1 else default_mesh(number)
    plans = tuple(dataclasses.replace(plan, mesh=mesh) for plan in plans)
    runs = tuple(
        Run(own, stages(own), plans, search.process, point.run_folder(own.seed))
        for point in points
        for own in point.configs
    )
    if len(runs) == 1:
        return Members(runs[0], runs, runs[0].folder / "checkpoints" / "last.safetensors")
    whole = dataclasses.replace(runs[0], folder=search.folder)
    name = f"{points[0].folder.name}.safetensors"
    return Members(whole, runs, search.folder / "checkpoints" / name)


def _position(members: Members) -> Table:
    """The metadata of the checkpoint of exactly these runs; empty if there is none."""
    with contextlib.suppress(CheckpointError):
        position = read_metadata(members.checkpoint)
        if members.alone or position.get("runs") == members.names:
            return position
    return {}


def _report(search: Search) -> None:
    """Writes and prints the ranking of the points."""
    trials = search.study.get_trials(deepcopy=False)
    ended = [trial for trial in trials if trial.state.is_finished()]
    if not ended:
        return
    folder, failures, metric = search.folder, search.failures, search.sweep.metric
    with failures.writing(folder / "table.csv"):
        write_table(folder / "table.csv", ended, metric)
    with failures.writing(folder / "sweep.png"):
        draw_sweep(folder / "sweep.png", ended, metric)
    print_points(search.console, ended, metric)
    search.console.print(
        f"{len(ended)} of {search.sweep.size()} points are finished: "
        f"{escape(str(folder / 'table.csv'))}",
        highlight=False,
        soft_wrap=True,
    )
