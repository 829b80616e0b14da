"""Measures environment steps per second of eqgrid, side by side with other libraries.

python benchmarks/throughput.py --peers peers/bin/python
python benchmarks/throughput.py --worlds all --num-envs 2048 --modes stored summed
"""

import contextlib
import dataclasses
import functools
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import tyro
from _history import record
from _speed_report import Rows, draw, print_tables
from _tasks import PEERS, TASKS, Peer, TaskName
from _worker import Worker
from msgspec import Meta
from rich.console import Console
from rich.progress import track

from eqgrid.envs.overcooked import KITCHENS, REFERENCE_NAMES
from eqgrid_lab.base import RunError, UsageError, run_command
from eqgrid_lab.folders import open_results, write_csv
from eqgrid_lab.settings import read_flags

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Counts: TypeAlias = Annotated[tuple[Count, ...], Meta(min_length=1)]
Mode: TypeAlias = Literal["stored", "summed", "dynamics"]
_LONG = 60.0  # seconds after which a case is run at most three times


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures steps per second of rollouts with uniform actions, beside other libraries."""

    worlds: Annotated[tuple[TaskName, ...], Meta(min_length=1)] = ("overcooked",)
    """Worlds to measure, or all; the next four flags are for overcooked."""
    layout: str = "cramped"
    """Kitchen, or mixed for all five in one batch."""
    observation: Literal["planes", "features"] = "planes"
    """Observation in eqgrid; other libraries have their own."""
    cooks: Count = 2
    """Number of cooks."""
    random_starts: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of eqgrid's episodes with a random initial state."""
    lazy_resets: bool = False
    """Compute resets only in steps in which an episode ends."""
    modes: Annotated[tuple[Mode, ...], Meta(min_length=1)] = ("stored", "summed", "dynamics")
    """Return all observations (stored), their sums (summed), or none (dynamics)."""
    num_envs: Counts = (1, 16, 256, 2048, 16384, 131072, 1048576)
    """Numbers of parallel environments."""
    repeats: Count = 7
    """Runs of every rollout (3 if they are slow), of which the median is reported."""
    steps_per_run: Count = 2**18
    """Total environment steps of one run; each environment takes 16 to 16,384."""
    max_gib: Annotated[float, Meta(gt=0)] = 1.5
    """Maximum memory for the result of a rollout, in GiB."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Python interpreter with the other libraries; see docs/performance.md."""
    libraries: tuple[Peer, ...] = tuple(PEERS)
    """Other libraries to measure, in the worlds that they have."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""
    record: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """File to which this run is appended, and which is drawn beside it."""


C = TypeVar("C", bound=Config)


def check(config: C) -> C:
    """**Returns:** the settings with the names of all worlds, and the short name of the kitchen.

    **Raises:** `UsageError` with one sentence that names the flag.
    """
    worlds = tuple(world for world in TASKS if {world, "all"} & set(config.worlds))
    own = ("layout", "observation", "cooks", "random_starts")
    if "overcooked" not in worlds and any(getattr(config, x) != getattr(Config, x) for x in own):
        raise UsageError(
            "--layout, --observation, --cooks and --random-starts are about overcooked: leave them "
            "out, or add overcooked to --worlds."
        )
    layout = REFERENCE_NAMES.get(config.layout, config.layout)
    if config.peers is not None and (config.cooks != 2 or layout not in KITCHENS):
        raise UsageError(
            f"Other libraries have two cooks in {', '.join(KITCHENS)}: leave out --peers, or "
            f"--cooks and --layout."
        )
    # Only the name is checked, since reading the layout would start jax, which reserves memory.
    if layout not in (*KITCHENS, "mixed") and not Path(layout).is_file():
        raise UsageError(
            f"There is no layout {layout!r}: known are {', '.join(KITCHENS)}, mixed, and the path "
            f"of a layout file."
        )
    return dataclasses.replace(config, worlds=worlds, layout=layout)


def measure(config: Config, console: Console, save: Callable[[Rows], None]) -> Rows:
    """Measures all cases: every world and mode, with every number of environments.

    If a library fails in a case, its row has an `error`.

    **Arguments:**

    - `config`, `console`: the settings, and the console for messages.
    - `save`: called with all rows so far after every case, so that no measurement is lost.

    **Returns:** a row for each case and library.

    **Raises:** `RunError` when a library is missing or runs on another device, or when nothing
    could be measured.
    """
    libraries = {"eqgrid": sys.executable}
    if config.peers is not None:
        wanted = {peer for world in config.worlds for peer in TASKS[world].peers}
        libraries |= dict.fromkeys([x for x in config.libraries if x in wanted], config.peers)
    workers: list[Worker] = []
    rows: Rows = []
    with contextlib.ExitStack() as stack:
        for library, python in libraries.items():
            worker = Worker(library, python, 0.9 / len(libraries))
            workers.append(stack.enter_context(contextlib.closing(worker)))
            _compare(worker, workers[0], console)
        cases = list(itertools.product(config.worlds, config.modes, config.num_envs))
        for world, mode, num_envs in track(cases, "measuring", console=console, transient=True):
            able = [x for x in workers if x.library in ("eqgrid", *TASKS[world].peers)]
            measured = measure_case(config, able, specify(config, world), mode, num_envs)
            for library, numbers in measured.items():
                case = {"world": world, "library": library, "mode": mode, "num_envs": num_envs}
                rows.append(case | numbers)
            save(rows)
    if all("error" in row for row in rows):
        errors = dict.fromkeys(row["error"] for row in rows)
        raise RunError(f"Nothing could be measured: {'; '.join(errors)}")
    return rows


def _compare(worker: Worker, first: Worker, console: Console) -> None:
    """Prints a warning when versions of jax differ.

    **Raises:** `RunError` when the devices differ.
    """
    if worker.about["jax"] != first.about["jax"]:
        console.print(
            f"[yellow]{worker.name} uses jax {worker.about['jax']}, {first.name} "
            f"{first.about['jax']}: part of the ratio may be due to jax.[/]"
        )
    if worker.about["device"] != first.about["device"]:
        raise RunError(
            f"{worker.name} runs on {worker.about['device']}, {first.name} on "
            f"{first.about['device']}: install the same kind of jax for both."
        )


def specify(config: Config, world: str) -> dict[str, Any]:
    """**Returns:** the world and its options, as the argument of `build` in
    `baselines/with_*.py`.
    """
    task = TASKS[world]
    if world == "overcooked":
        names = ("layout", "observation", "random_starts")
        options = {name: getattr(config, name) for name in names}
        task = dataclasses.replace(task, options=options, num_agents=config.cooks)
    return dataclasses.asdict(task) | {"lazy_resets": config.lazy_resets}


def measure_case(
    config: Config, workers: Sequence[Worker], spec: dict[str, Any], mode: str, num_envs: int
) -> dict[str, dict[str, Any]]:
    """Measures one rollout in several libraries.

    The libraries take turns after every run, so that other load on the machine slows all of them
    equally.

    **Returns:** the numbers of each library, or its `error`.
    """
    what = {
        "spec": spec,
        "mode": mode,
        "num_envs": num_envs,
        "num_steps": min(2**14, max(16, config.steps_per_run // num_envs)),
        "max_bytes": config.max_gib * 2**30,
    }
    reports = {worker: worker.ask(do="start", what=what) for worker in workers}
    seconds: dict[Worker, list[float]] = {worker: [] for worker in workers}
    begin = time.perf_counter()
    for number in range(config.repeats):
        if number >= 3 and time.perf_counter() > begin + _LONG:
            break
        for worker in workers:
            if "error" in reports[worker]:
                continue
            done = worker.ask(do="run")
            if "error" in done:
                reports[worker]["error"] = done["error"]
            else:
                seconds[worker].append(done["seconds"])
    measured = {}
    for worker, report in reports.items():
        numbers = {}
        if "error" not in report:
            speeds = [num_envs * report["num_steps"] / s for s in seconds[worker]]
            numbers["steps_per_second"] = round(statistics.median(speeds))
            numbers["slowest"], numbers["fastest"] = round(min(speeds)), round(max(speeds))
        measured[worker.library] = numbers | report | worker.about
    return measured


def report(config: Config, folder: Path, console: Console) -> Rows:
    """Measures all cases, writes `throughput.csv` and `throughput.png`, and prints tables."""
    what = ", ".join(config.worlds)
    if config.worlds == ("overcooked",):
        what = f"{config.layout}, {config.cooks} cooks"
    console.print(f"measuring {what}: writing to {folder}")
    rows = measure(config, console, functools.partial(write_csv, folder / "throughput.csv"))
    print_tables(console, rows)
    draw(folder / "throughput.png", rows, f"{what}, on {rows[0]['device']}")
    console.print(f"numbers  {folder / 'throughput.csv'}\nplot     {folder / 'throughput.png'}")
    if config.record is not None:
        console.print(f"history  {config.record}, {record(config.record, rows)}")
    return rows


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = check(read_flags(Config(), args, "benchmarks/throughput.py"))
    with open_results("throughput", config.out) as (folder, console):
        report(config, folder, console)


if __name__ == "__main__":
    run_command(run)
