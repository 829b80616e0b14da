"""Trains many seeds in groups, in one process or in several.

The seeds of a group train in one compiled program and have one checkpoint. A group therefore has
the same results bit for bit whichever process trains it, and with whichever other groups.

Several processes meet once, before training, to agree on the folder of the run. Then they
disconnect: each process trains its own groups one after another, and no process waits for another.
A lost process costs its groups the steps since their last checkpoints. The process that completes
the last group writes the files of the whole run.
"""

import contextlib
import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
from rich.markup import escape

from agents import gather, is_first, restore, write_atomic
from eqgrid import read_regular_text

from ..base import (
    NOTHING_LEARNED,
    SETTINGS_FILE,
    Failures,
    Process,
    Stopped,
    Table,
    UsageError,
    has_checkpoint,
    is_complete,
    print_error,
    read_metadata,
)
from ..folders import (
    MAX_RESULT_BYTES,
    folder_name,
    locked,
    made_folder,
    names_in,
    read_history,
    writing_into,
)
from ..settings import Experiment, dump
from ..show import median_seed
from ._conclusion import finish
from ._curriculum import stages
from ._display import open_console
from ._hooks import STOP_CODES, out_of_time
from ._members import Members, explained, members_of, print_header
from ._report import print_seeds
from ._run import Run, plan_stages, shared_mesh


def default_seeds_at_once(num_seeds: int, devices: Sequence[int]) -> int:
    """The number of seeds in a group, so that each process with as many devices as the first one
    trains at most one group, and each of its devices the same number of seeds.

    **Arguments:**

    - `num_seeds`: the number of seeds of the run.
    - `devices`: the number of devices of each process.
    """
    return devices[0] * math.ceil(num_seeds / sum(devices))


def train_groups(
    config: Experiment,
    process: Process,
    connected: Callable[[Callable[[], int]], int],
) -> int:
    """Trains many seeds in groups, in this process or together with other processes.

    **Arguments:**

    - `config`: the settings of the run.
    - `process`: this process, with its clock and signals.
    - `connected`: calls a function while the processes are connected (see `run_distributed`), and
        returns its exit code.

    **Returns:** the exit code.
    """
    met: list[tuple[list[Members], list[Members]]] = []

    def meet() -> int:
        run_stages = stages(config)
        whole = Run(config, run_stages, plan_stages(run_stages), process, Path())
        process.begin()
        process.check()
        met.append(_meet(whole))
        return 0

    return connected(meet) or _train_own(*met[0])


def _meet(whole: Run) -> tuple[list[Members], list[Members]]:
    """Makes or opens the folder in process 0, and agrees on the groups of each process.

    **Returns:** all groups, and the groups of this process.

    **Raises:** `UsageError` when the folder cannot be used, or a process does not find it.
    """
    devices = gather(len(_devices(whole)))
    config = whole.settings
    if config.seeds_at_once is None:
        if config.resume and config.out is not None and has_checkpoint(config.out):
            raise UsageError(
                f"The seeds of the run {str(config.out)!r} train in one program: leave out "
                "--distributed."
            )
        number = default_seeds_at_once(config.num_seeds, devices)
        config = dataclasses.replace(config, seeds_at_once=number)
        whole = dataclasses.replace(whole, settings=config, stages=stages(config))
    with contextlib.ExitStack() as stack:
        own: Table = {}
        if is_first():
            folder, waiting = stack.enter_context(_opened(whole))
            with writing_into(folder):
                mark = stack.enter_context(tempfile.NamedTemporaryFile(dir=folder)).name
            own = {"folder": str(folder), "mark": Path(mark).name, "waiting": waiting}
        own = gather(own)[0]
        # The name is new, so the file system of another host cannot remember that it is missing.
        if not os.path.exists(Path(own["folder"], own["mark"])):
            raise UsageError(
                f"This process does not find the folder {own['folder']!r} of process 0: start all "
                "processes in the same folder, on a file system that all hosts share."
            )
        gather("found")
        groups = _groups(whole, Path(own["folder"]))
        if is_first():  # all processes wait for these folders before they disconnect
            with writing_into(groups[0].whole.folder):
                for run in (run for group in groups for run in group.runs):
                    run.folder.mkdir(exist_ok=True)
    shares = np.array_split(own["waiting"], len(devices))
    return groups, [groups[i] for i in shares[jax.process_index()]]


def _groups(whole: Run, folder: Path) -> list[Members]:
    """The groups of a run: consecutive seeds, with one checkpoint for each group."""
    all_seeds = members_of(dataclasses.replace(whole, folder=folder))
    runs, size = all_seeds.runs, whole.settings.seeds_at_once or len(all_seeds.runs)
    groups = []
    for group in (runs[i : i + size] for i in range(0, len(runs), size)):
        mesh = shared_mesh(_devices(whole), len(group))
        plans = tuple(dataclasses.replace(plan, mesh=mesh) for plan in whole.plans)
        path = all_seeds.checkpoint.with_stem(f"seeds-{group[0].settings.seed}")
        own = dataclasses.replace(all_seeds.whole, plans=plans)
        groups.append(Members(own, group, path))
    return groups


def _devices(whole: Run) -> list[jax.Device]:  # pyright: ignore[reportInvalidTypeForm]
    """The devices on which this process trains."""
    if whole.plan.mesh is not None:
        return list(whole.plan.mesh.devices.flat)
    return jax.local_devices()[: None if whole.settings.distributed else 1]


@contextlib.contextmanager
def _opened(whole: Run) -> Iterator[tuple[Path, list[int]]]:
    """Context manager that makes the folder of a new run, or opens the folder of a resumed run.

    **Returns:** the folder, and the indices of the groups that are not complete.
    """
    config = whole.settings
    name = folder_name(config.algorithm, config.env.title, config.seed)
    with made_folder(name, config.out) as folder, locked(folder):
        if names_in(folder) and not (config.resume and has_checkpoint(folder)):
            raise UsageError(f"The folder {str(folder)!r} exists and is not empty.")
        waiting = _waiting(_groups(whole, folder))
        with writing_into(folder):
            (folder / "checkpoints").mkdir(exist_ok=True)
            write_atomic(folder / SETTINGS_FILE, dump(config).encode())
        yield folder, waiting


def _waiting(groups: Sequence[Members]) -> list[int]:
    """The indices of the groups that are not complete."""
    whole, numbers = groups[0].whole, range(len(groups))
    num_updates = whole.plan.num_updates
    updates = [_position(group).get("update", 0) for group in groups]
    waiting = [i for i in numbers if not _is_complete(groups[i])]
    complete = not waiting and _files_exist(groups)
    if max(updates) > num_updates or complete:
        print(f"the run in {whole.folder} is complete", flush=True)
        return []
    return waiting


def _position(group: Members) -> Table:
    """The metadata of the checkpoint of a group; empty if there is none.

    **Raises:** `CheckpointError` when the checkpoint is damaged.
    """
    if not os.path.exists(group.checkpoint):
        return {}
    return read_metadata(group.checkpoint)


def _is_complete(group: Members) -> bool:
    """Whether a group has reached its end, and each of its seeds has all its files."""
    position = _position(group)
    if not position or not all(is_complete(run.folder, video=False) for run in group.runs):
        return False
    group = group.in_stage(position.get("stage", 1) - 1)
    all_made = position["update"] >= group.whole.plan.num_updates
    ended = "ended" in position or (group.whole.is_last_stage and group.ended(position))
    return all_made or ended


def _files_exist(groups: Sequence[Members]) -> bool:
    """Whether the files of the whole run exist."""
    runs = tuple(run for group in groups for run in group.runs)
    return dataclasses.replace(groups[0], runs=runs).have_all_files


def _train_own(groups: Sequence[Members], own: Sequence[Members]) -> int:
    """Trains the groups of this process one after another, and writes the files of the whole run if
    all groups are complete.

    **Arguments:**

    - `groups`: all groups.
    - `own`: the groups of this process that are not complete.

    **Returns:** the exit code.
    """
    whole, console, failures, stopped = groups[0].whole, open_console(), Failures(), None
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_unlearned, whole.folder, own)
        for group in own:
            for run in group.runs:
                stack.enter_context(locked(run.folder))
            try:
                stopped = _train(group, failures)
            except Stopped:  # by a signal before the group began to train
                stopped = whole.process.stop_reason()
            if stopped in (*STOP_CODES, out_of_time(whole.config.max_hours)):
                break
            stopped = None  # it ended early by itself
    if not os.path.exists(whole.folder):
        return print_error(NOTHING_LEARNED, STOP_CODES.get(stopped or "", 0))
    with locked(whole.folder, seconds=600):  # another process may write the same files
        missing = [run for group in groups if not _is_complete(group) for run in group.runs]
        if missing:
            seeds = ", ".join(str(run.settings.seed) for run in missing)
            console.print(
                f"not complete yet: seeds {seeds}; the process that completes the last of them "
                f"writes {escape(str(whole.folder / 'result.json'))}, and --resume continues seeds "
                "that no process trains any more",
                highlight=False,
            )
        elif not _files_exist(groups):
            print_seeds(console, _write(groups, failures), whole.folder)
    return finish(whole, stopped, console, failures)


def _train(group: Members, failures: Failures) -> str | None:
    """Trains a group from its last checkpoint, and writes the results of its seeds.

    **Returns:** the reason why it was stopped, if it was.
    """
    position = _position(group)
    if position:
        if _is_complete(group):  # it ended early, and the user resumes it
            position.pop("ended", None)
        group = group.resumed(position)
    console = print_header(group)
    with explained(group):
        trained = group.train(console, failures, position)
    progress = trained.progress
    if not progress.stopped or progress.metrics is not None or "ended" in position:
        console.print("playing the final evaluations, drawing the pictures")
        trained.conclude_each()
    return progress.stopped


def _remove_unlearned(folder: Path, own: Sequence[Members]) -> None:
    """Removes the folders of own seeds without results, and the folder of a run without seeds."""
    with contextlib.suppress(OSError):
        for run in (run for group in own for run in group.runs):
            (run.folder / "checkpoints").rmdir()


def _write(groups: Sequence[Members], failures: Failures) -> Table:
    """Writes the files of the whole run. **Returns:** the content of `result.json`."""
    whole, runs, results, seconds, stage = groups[0].whole, [], [], 0.0, 0
    for group in groups:
        position = _position(group)
        stage = max(stage, position.get("stage", 1) - 1)
        for run in group.in_stage(position.get("stage", 1) - 1).runs:
            history = read_history(run.folder, position)
            runs.append(dataclasses.replace(run, history=history))
            text = read_regular_text(run.folder / "result.json", MAX_RESULT_BYTES)
            results.append(json.loads(text))
        seconds += results[-1]["train_seconds"]
    members = dataclasses.replace(groups[0].in_stage(stage), runs=tuple(runs))
    with failures.writing(whole.folder / "metrics.csv"):
        write_atomic(whole.folder / "metrics.csv", members.rows_of_all())
    median = runs[median_seed(results)]
    checkpoint = median.folder / "checkpoints" / "last.safetensors"
    state = restore(checkpoint, Members(median, (median,), checkpoint).shapes())
    numbers = {
        "train_seconds": round(seconds, 2),
        "steps_per_second": round(sum(x["env_steps"] for x in results) / max(seconds, 1e-9), 1),
        "wall_seconds": max(result["wall_seconds"] for result in results),
    }
    rows = [run.history.evaluations for run in runs]
    return members.write_results(results, numbers, rows, state, failures)
