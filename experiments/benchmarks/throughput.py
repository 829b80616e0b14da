"""How many steps per second the environments take, ours and, side by side, those of our peers.

python experiments/benchmarks/throughput.py --peers peers/bin/python
python experiments/benchmarks/throughput.py --worlds all --num-envs 2048 --modes stored summed
"""

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tyro
from _tasks import PEERS, TASKS, Peer, TaskName
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agents import write_whole
from agents.runs._command import run_command
from agents.runs.display._errors import RunError, UsageError
from agents.runs.display._figure import new_figure, write_figure
from agents.runs.folders._results import open_results
from agents.runs.settings._flags import cli
from eqgrid.envs.overcooked import KITCHENS, REFERENCE_NAMES

NAMES = {"eqgrid": "eqgrid", **PEERS}
Rows: TypeAlias = list[dict[str, Any]]
_COLORS = ("#aa3377", "#4477aa", "#66ccee", "#ccbb44", "#228833")
_LONG = 60.0  # seconds after which a case is not run more than three times
WORKER = Path(__file__).parent / "baselines" / "worker.py"


PROGRAM = "python experiments/benchmarks/throughput.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures steps per second of rollouts with uniform actions, beside other libraries."""

    worlds: tuple[TaskName, ...] = ("overcooked",)
    """Which worlds, or all. The next four flags are about overcooked."""
    layout: str = "cramped"
    """A kitchen, or mixed: the five in one batch."""
    observation: Literal["planes", "features"] = "planes"
    """What eqgrid's cooks see. Peers show what is their own."""
    cooks: int = 2
    """How many cooks there are."""
    random_starts: float = 0.0
    """Share of eqgrid's episodes with a random start."""
    lazy_resets: bool = False
    """Reset only on steps on which an episode ends."""
    modes: tuple[Literal["stored", "summed", "dynamics"], ...] = ("stored", "summed", "dynamics")
    """Keep every observation, add up its numbers, or ask for none."""
    num_envs: tuple[int, ...] = (1, 16, 256, 2048, 16384, 131072, 1048576)
    """Environments side by side."""
    repeats: int = 7
    """Runs of every rollout, 3 where they are slow; the median counts."""
    steps_per_run: int = 2**18
    """Steps of all environments together in one run; at least 16 and at most 16,384 of each."""
    max_gib: float = 1.5
    """Most memory for what a rollout keeps, in GiB."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Interpreter that has the peers; see docs/performance.md."""
    libraries: tuple[Peer, ...] = tuple(PEERS)
    """Which peers to measure with it, where they have the world."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


class Worker:
    """A library in a process of its own, which waits while others are measured."""

    def __init__(self, library: str, python: str | Path, share: float):
        """**Arguments:**

        - `share`: how much of an accelerator's memory it may take; several processes share one.

        **Raises:** `RunError` when the interpreter does not have the library.
        """
        self.library, self.python = library, python
        self.env = os.environ | {
            "XLA_CLIENT_MEM_FRACTION": f"{share:.2f}",
            "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{share:.2f}",  # its name in older versions of jax
            "JAX_ENABLE_COMPILATION_CACHE": "false",
        }
        self._start()

    def _start(self) -> None:
        command = [str(self.python), "-W", "ignore", str(WORKER), self.library]
        # A file, not a pipe: a process that complains at length would wait for a reader.
        self.complaints = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                text=True,
                env=self.env,
            )
        except OSError as error:
            self.complaints.close()
            raise RunError(f"{str(self.python)!r} cannot be run: {error.strerror}.") from error
        self.about = self._answer()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Asks the process, or to start something, a new one if that one is gone.

        **Raises:** `RunError` when it ends without an answer, or finds another device.
        """
        if request["do"] == "start" and self.process.poll() is not None:
            self.stop()
            before = self.about
            self._start()
            if self.about != before:
                self.stop()
                raise RunError(f"{NAMES[self.library]} now runs on {self.about['device']}")
        requests = self.process.stdin
        assert requests is not None
        with contextlib.suppress(BrokenPipeError):  # what it died of is read below
            print(json.dumps(request), file=requests, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        answers = self.process.stdout
        assert answers is not None
        if line := answers.readline():
            return json.loads(line)
        self.complaints.seek(0)
        last = (self.complaints.read().strip().splitlines() or ["it said nothing"])[-1]
        self.stop()
        raise RunError(f"The process that measures {NAMES[self.library]} ended: {last}")

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()


def measure(config: Config, console: Console, save: Callable[[Rows], None]) -> Rows:
    """All measurements, a row for each world, mode, number of environments, and library.

    Libraries take turns run by run, so that what else the machine does falls on all alike. What
    one of them cannot do is an `error` in its row.

    **Arguments:**

    - `save`: is given all rows so far after every case, so that nothing is lost.

    **Raises:** `RunError` when a library is missing or runs on another device, or when nothing
    could be measured.
    """
    libraries = {"eqgrid": sys.executable}
    if config.peers is not None:
        wanted = {peer for world in config.worlds for peer in TASKS[world].peers}
        libraries |= dict.fromkeys([x for x in config.libraries if x in wanted], config.peers)
    workers: list[Worker] = []
    rows: Rows = []
    try:
        for library, python in libraries.items():
            workers.append(Worker(library, python, 0.9 / len(libraries)))
            if workers[-1].about["jax"] != workers[0].about["jax"]:
                console.print(
                    f"[yellow]{NAMES[library]} uses jax {workers[-1].about['jax']}, eqgrid "
                    f"{workers[0].about['jax']}: not all of the ratio is theirs and ours.[/]"
                )
        for worker in workers:
            if worker.about["device"] != workers[0].about["device"]:
                raise RunError(
                    f"{NAMES[worker.library]} runs on {worker.about['device']}, eqgrid on "
                    f"{workers[0].about['device']}: install the same kind of jax for both."
                )
        cases = list(itertools.product(config.worlds, config.modes, config.num_envs))
        for world, mode, num_envs in track(cases, "measuring", console=console, transient=True):
            able = [x for x in workers if x.library in ("eqgrid", *TASKS[world].peers)]
            rows += _measure_case(config, able, world, mode, num_envs)
            save(rows)
    finally:
        for worker in workers:
            worker.stop()
    if not any("steps_per_second" in row for row in rows):
        errors = dict.fromkeys(row["error"] for row in rows)
        raise RunError(f"Nothing could be measured: {'; '.join(errors)}")
    return rows


def _specify(config: Config, world: str) -> dict[str, Any]:
    """What the libraries are asked to build."""
    task = TASKS[world]
    if world == "overcooked":
        names = ("layout", "observation", "random_starts")
        options = {name: getattr(config, name) for name in names}
        task = dataclasses.replace(task, options=options, num_agents=config.cooks)
    return dataclasses.asdict(task) | {"lazy_resets": config.lazy_resets}


def _measure_case(
    config: Config, workers: Sequence[Worker], world: str, mode: str, num_envs: int
) -> Rows:
    what = {
        "spec": _specify(config, world),
        "mode": mode,
        "num_envs": num_envs,
        "num_steps": min(2**14, max(16, config.steps_per_run // num_envs)),
        "max_bytes": config.max_gib * 2**30,
    }
    reports = {worker: _try(worker, do="start", what=what) for worker in workers}
    seconds = {worker: [] for worker in workers}
    begin = time.perf_counter()
    for number in range(config.repeats):
        if number >= 3 and time.perf_counter() > begin + _LONG:
            break
        for worker, report in reports.items():
            if "error" in report:
                continue
            done = _try(worker, do="run")
            if "error" in done:
                report["error"] = done["error"]
            else:
                seconds[worker].append(done["seconds"])
    rows = []
    for worker, report in reports.items():
        row = {"world": world, "library": worker.library, "mode": mode, "num_envs": num_envs}
        if "error" not in report:
            speeds = [num_envs * report["num_steps"] / s for s in seconds[worker]]
            row["steps_per_second"] = round(statistics.median(speeds))
            row["slowest"], row["fastest"] = round(min(speeds)), round(max(speeds))
        rows.append(row | {k: _rounded(v) for k, v in report.items()} | worker.about)
    return rows


def _try(worker: Worker, **request: Any) -> dict[str, Any]:
    try:
        return worker.ask(**request)
    except RunError as error:
        return {"error": str(error)}


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def print_tables(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """One table for each mode: steps per second, and how many times as fast we are."""
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    for mode in dict.fromkeys(row["mode"] for row in rows):
        table = Table(title=f"{mode}: environment steps per second, seconds to compile")
        table.add_column("world")
        for heading in ("environments", *(NAMES[library] for library in libraries)):
            table.add_column(heading, justify="right")
        of_mode = [row for row in rows if row["mode"] == mode]
        for world, num_envs in dict.fromkeys((row["world"], row["num_envs"]) for row in of_mode):
            found = {
                row["library"]: row
                for row in of_mode
                if (row["world"], row["num_envs"]) == (world, num_envs)
            }
            ours = found["eqgrid"].get("steps_per_second")
            cells = [_cell(found[x], ours) if x in found else "" for x in libraries]
            table.add_row(world, f"{num_envs:,}", *cells)
        console.print(table)
    errors = {}
    for row in rows:
        if "error" in row:
            case = (row["world"], row["library"], row["mode"], row["error"])
            errors.setdefault(case, row["num_envs"])
    for (world, library, mode, error), num_envs in errors.items():
        where = f"{NAMES[library]}, {world}, {mode}, from {num_envs:,} environments"
        console.print(f"{where}: {error}", style="dim", markup=False, highlight=False)


def _cell(row: dict[str, Any], ours: float | None) -> str:
    if "error" in row:
        return "[dim]not measured[/]"
    speed = row["steps_per_second"]
    seconds = row["trace_seconds"] + row["compile_seconds"]
    ratio = f"  [bold]{ours / speed:.1f}x[/]" if ours and row["library"] != "eqgrid" else ""
    return f"{_short(speed)}  [dim]{seconds:.2f} s[/]{ratio}"


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def draw(path: Path, rows: Sequence[dict[str, Any]], title: str) -> None:
    """Draws steps per second against environments, both logarithmic, a panel for each world and
    mode."""
    worlds, modes = (list(dict.fromkeys(row[key] for row in rows)) for key in ("world", "mode"))
    figure = new_figure(4.2 * len(modes), 1 + 3 * len(worlds))
    panels = figure.subplots(len(worlds), len(modes), sharex=True, sharey=True, squeeze=False)
    lines = {}
    for panel, (world, mode) in zip(panels.flat, itertools.product(worlds, modes), strict=True):
        lines |= _draw_panel(panel, [r for r in rows if (r["world"], r["mode"]) == (world, mode)])
        panel.set_title(mode if len(worlds) == 1 else f"{world}, {mode}", loc="left")
    for panel in panels[-1]:
        panel.set_xlabel("environments")
    figure.supylabel("environment steps per second", fontsize="medium")
    found = [library for library in NAMES if library in lines]
    names = [NAMES[library] for library in found]
    handles = [lines[library] for library in found]
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title)
    write_figure(path, figure)


def _draw_panel(panel: Any, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """**Returns:** the line of each library."""
    lines = {}
    for library, color in zip(NAMES, _COLORS, strict=True):
        of_library = [r for r in rows if r["library"] == library and "error" not in r]
        if of_library:
            x, y = zip(*((r["num_envs"], r["steps_per_second"]) for r in of_library), strict=True)
            bold = 2.5 if library == "eqgrid" else 1.5
            lines[library] = panel.loglog(x, y, "o-", lw=bold, color=color, ms=4)[0]
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    return lines


def check(config: Config) -> Config:
    """**Returns:** the settings with the names of all worlds, and the kitchen's short name, which
    all libraries are asked for.

    **Raises:** `UsageError` with one sentence that names the flag.
    """
    numbers = (config.repeats, config.steps_per_run, min(config.num_envs, default=0))
    if min(numbers) < 1:
        raise UsageError("--repeats, --steps-per-run and --num-envs must be at least 1.")
    if not config.max_gib > 0:
        raise UsageError(f"--max-gib must be above 0, but is {config.max_gib:g}.")
    if not (config.modes and config.worlds):
        raise UsageError("--modes and --worlds must not be empty.")
    known = [world for world in TASKS if {world, "all"} & set(config.worlds)]
    return dataclasses.replace(_check_kitchen(config, "overcooked" in known), worlds=tuple(known))


def _check_kitchen(config: Config, measured: bool) -> Config:
    own = ("layout", "observation", "cooks", "random_starts")
    if not measured and any(getattr(config, x) != getattr(Config(), x) for x in own):
        raise UsageError(
            "--layout, --observation, --cooks and --random-starts are about overcooked: leave them "
            "out, or add overcooked to --worlds."
        )
    layout = REFERENCE_NAMES.get(config.layout, config.layout)
    if config.peers is not None and (config.cooks != 2 or layout not in KITCHENS):
        raise UsageError(
            f"Peers know two cooks in {', '.join(KITCHENS)}: leave out --peers, or --cooks and "
            f"--layout."
        )
    # By its name only: to read it would start jax, which takes memory of the device for itself.
    if layout not in (*KITCHENS, "mixed") and not Path(layout).is_file():
        raise UsageError(
            f"There is no layout {layout!r}: known are {', '.join(KITCHENS)}, mixed, and the path "
            f"of a layout file."
        )
    if config.cooks < 1:
        raise UsageError("--cooks must be at least 1.")
    if not 0 <= config.random_starts <= 1:
        raise UsageError("--random-starts is a share, between 0 and 1.")
    return dataclasses.replace(config, layout=layout)


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `RunError`, `OSError`."""
    config = check(cli(Config(), args, PROGRAM, Config.__doc__ or ""))
    with open_results("throughput", config.out) as (folder, console):
        what = ", ".join(config.worlds)
        if config.worlds == ("overcooked",):
            what = f"{config.layout}, {config.cooks} cooks"
        console.print(f"measuring {what}: writing to {folder}")
        rows = measure(config, console, functools.partial(write_csv, folder / "throughput.csv"))
        print_tables(console, rows)
        device = rows[0]["device"]
        draw(folder / "throughput.png", rows, f"{what}, on {device}")
        console.print(f"numbers  {folder / 'throughput.csv'}\nplot     {folder / 'throughput.png'}")


def main() -> None:
    run_command(run)


if __name__ == "__main__":
    main()
