"""How many steps per second the environments take, ours and, side by side, those of our peers.

python experiments/throughput.py --peers peers/bin/python
"""

import contextlib
import csv
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import tyro
from _benchmark import open_results, run_command
from _config import cli
from _errors import RunError, UsageError
from rich.console import Console
from rich.progress import track
from rich.table import Table

PEERS = {
    "jaxmarl": "JaxMARL overcooked",
    "jaxmarl_v2": "JaxMARL overcooked_v2",
    "cogrid": "CoGrid (JAX)",
}
NAMES = {"eqgrid": "eqgrid", **PEERS}
STEPS_PER_RUN = 2**18
WORKER = Path(__file__).parent / "contenders" / "worker.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures steps per second of rollouts with uniform actions, beside other libraries."""

    layout: str = "cramped"
    """A kitchen, or mixed: the five in one batch."""
    observation: Literal["planes", "features"] = "planes"
    """What eqgrid's cooks see. Peers show what is their own."""
    cooks: int = 2
    """How many cooks there are."""
    modes: tuple[Literal["stored", "summed", "dynamics"], ...] = ("stored", "summed", "dynamics")
    """Keep every observation, add up its numbers, or ask for none."""
    num_envs: tuple[int, ...] = (1, 16, 256, 2048, 16384, 131072, 1048576)
    """Environments side by side."""
    repeats: int = 7
    """Runs of every rollout; the median counts."""
    max_gib: float = 1.5
    """Most memory for what a rollout keeps, in GiB."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Interpreter that has the peers; see docs/performance.md."""
    libraries: tuple[Literal["jaxmarl", "jaxmarl_v2", "cogrid"], ...] = (
        "jaxmarl",
        "jaxmarl_v2",
        "cogrid",
    )
    """Which peers to measure with it."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


class Worker:
    """A library in a process of its own, which waits while others are measured."""

    def __init__(self, library: str, python: str | Path):
        """**Raises:** `RunError` when the interpreter does not have the library."""
        self.library = library
        # Several processes share an accelerator: none may take all of its memory.
        env = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        command = [str(python), "-W", "ignore", str(WORKER), library]
        # A file, not a pipe: a process that complains at length would wait for a reader.
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  (stop closes it)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                text=True,
                env=env,
            )
        except OSError as error:
            raise RunError(f"{str(python)!r} cannot be run: {error.strerror}.") from error
        self.about = self._answer()

    def ask(self, **request: Any) -> dict[str, Any]:
        """**Raises:** `RunError` when the process is gone."""
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
        raise RunError(f"The process that measures {NAMES[self.library]} ended: {last}")

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()


def measure(config: Config, console: Console) -> list[dict[str, Any]]:
    """All measurements, one row for each library, mode and number of environments.

    Libraries take turns run by run, so that what else the machine does falls on all alike.

    **Raises:** `RunError` when a library cannot be measured at all.
    """
    workers = []
    rows = []
    try:
        workers.append(Worker("eqgrid", sys.executable))
        if config.peers is not None:
            workers += [Worker(library, config.peers) for library in config.libraries]
        cases = [(mode, n) for mode in config.modes for n in config.num_envs]
        for mode, num_envs in track(cases, "measuring", console=console, transient=True):
            rows += _measure_case(config, workers, mode, num_envs)
    finally:
        for worker in workers:
            worker.stop()
    return rows


def _measure_case(
    config: Config, workers: Sequence[Worker], mode: str, num_envs: int
) -> Iterator[dict[str, Any]]:
    what = {
        "spec": {
            "layout": config.layout,
            "observation": config.observation,
            "num_agents": config.cooks,
        },
        "mode": mode,
        "num_envs": num_envs,
        "num_steps": min(2**14, max(16, STEPS_PER_RUN // num_envs)),
        "max_bytes": config.max_gib * 2**30,
    }
    reports = {worker: worker.ask(do="start", what=what) for worker in workers}
    runs = {worker: [] for worker, report in reports.items() if "error" not in report}
    for _ in range(config.repeats):
        for worker, seconds in runs.items():
            seconds.append(worker.ask(do="run")["seconds"])
    for worker, report in reports.items():
        row = {"library": worker.library, "mode": mode, "num_envs": num_envs}
        if seconds := runs.get(worker):
            speeds = [num_envs * report["num_steps"] / s for s in seconds]
            row["steps_per_second"] = round(statistics.median(speeds))
            row["slowest"], row["fastest"] = round(min(speeds)), round(max(speeds))
        yield row | {k: _rounded(v) for k, v in report.items()} | worker.about


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def print_tables(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """One table for each mode: steps per second, and how many times as fast we are."""
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    for mode in dict.fromkeys(row["mode"] for row in rows):
        table = Table(title=f"{mode}: environment steps per second, seconds to compile")
        table.add_column("environments", justify="right")
        for library in libraries:
            table.add_column(NAMES[library], justify="right")
        for num_envs in dict.fromkeys(row["num_envs"] for row in rows):
            found = {
                row["library"]: row
                for row in rows
                if row["mode"] == mode and row["num_envs"] == num_envs
            }
            ours = found["eqgrid"].get("steps_per_second")
            table.add_row(f"{num_envs:,}", *(_cell(found[x], ours) for x in libraries))
        console.print(table)


def _cell(row: dict[str, Any], ours: float | None) -> str:
    if "error" in row:
        return f"[dim]{row['error'][:24]}[/]"
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
    """Draws steps per second against environments, both logarithmic, one panel for each mode."""
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    size = (4.2 * len(modes), 4)
    figure, axes = plt.subplots(1, len(modes), figsize=size, sharey=True, layout="constrained")
    panels = np.atleast_1d(axes)
    for panel, mode in zip(panels, modes, strict=True):
        for library, color in zip(NAMES, ("#aa3377", "#4477aa", "#66ccee", "#ccbb44"), strict=True):
            points = [
                (row["num_envs"], row["steps_per_second"])
                for row in rows
                if (row["library"], row["mode"]) == (library, mode) and "error" not in row
            ]
            if points:
                bold = 2.5 if library == "eqgrid" else 1.5
                panel.loglog(*zip(*points, strict=True), "o-", lw=bold, color=color, ms=4)
                panel.plot([], [], "o-", lw=bold, color=color, label=NAMES[library])
        panel.set_title(mode, loc="left")
        panel.set_xlabel("environments")
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("environment steps per second")
    panels[-1].legend(frameon=False, loc="lower right")
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def check(config: Config) -> None:
    """**Raises:** `UsageError` with one sentence that names the flag."""
    if config.repeats < 1 or min(config.num_envs, default=0) < 1 or not config.modes:
        raise UsageError("--repeats and --num-envs must be at least 1, and --modes not empty.")
    if config.peers is not None and (config.cooks != 2 or config.layout == "mixed"):
        raise UsageError("Peers know two cooks in one kitchen: leave out --peers.")


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `RunError`, `OSError`."""
    config = cli(Config(), args, "python experiments/throughput.py", Config.__doc__ or "")
    check(config)
    folder, console = open_results("throughput", config.out)
    console.print(f"measuring {config.layout} with {config.cooks} cooks: writing to {folder}")
    rows = measure(config, console)
    errors = {row["error"] for row in rows if row["library"] == "eqgrid" and "error" in row}
    if not any("steps_per_second" in row for row in rows):
        raise RunError(f"Nothing could be measured: {'; '.join(sorted(errors))}")
    write_csv(folder / "throughput.csv", rows)
    print_tables(console, rows)
    device = rows[0]["device"]
    draw(folder / "throughput.png", rows, f"{config.layout}, {config.cooks} cooks, on {device}")
    console.print(f"numbers  {folder / 'throughput.csv'}\nplot     {folder / 'throughput.png'}")


def main() -> None:
    run_command(run)


if __name__ == "__main__":
    main()
