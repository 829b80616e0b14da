"""Measures what a training command does before it trains: imports, and compiling, without a cache.

python benchmarks/cold_start.py --peers peers/bin/python --jaxmarl JaxMARL
"""

import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from learning_speed import (
    NO_CACHE,
    SCRIPTS,
    check_ended,
    check_peers,
    jaxmarl_command,
    run_program,
)
from throughput import Count

from eqgrid_lab.base import run_command
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import print_table

PARTS = Path(__file__).parent / "_cold_parts.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures the time before training, with an empty cache of compiled programs."""

    repeats: Count = 3
    """Number of measurements, of which the medians are printed."""
    total_steps: Count = 100_000
    """Environment steps of the whole command."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Python interpreter with JaxMARL; see docs/performance.md."""
    jaxmarl: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Checkout of JaxMARL's repository, for its script."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def whole(name: str, command: Sequence[str], row: str) -> dict[str, float]:
    """Runs a command.

    **Arguments:**

    - `name`: its name in an error.
    - `command`: the command, which prints lines.
    - `row`: a text that only lines about the progress of training contain.

    **Returns:** the seconds until its first line and its first row of progress, and the processor
    seconds until it ended.

    **Raises:** `RunError` when it fails.
    """
    before, start, seconds = _children(), time.perf_counter(), {}
    with (
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            command, env=NO_CACHE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            seconds.setdefault("first line", time.perf_counter() - start)
            if row in line:
                seconds.setdefault("first row of progress", time.perf_counter() - start)
        process.wait()
        errors.seek(0)
        check_ended(name, process.returncode, errors.read())
    return {**seconds, "processor": _children() - before}


def _children() -> float:
    """The processor seconds of all processes that were started here, and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(config: Config, folder: Path) -> dict[str, list[dict[str, float]]]:
    """The measurements of the parts, of `ippo.py` and of JaxMARL's script, in turn."""
    results: dict[str, list[dict[str, float]]] = {}
    for number in range(config.repeats):
        parts = run_program(PARTS.name, [sys.executable, str(PARTS)], NO_CACHE)
        results.setdefault("parts", []).append(json.loads(parts))
        steps = str(config.total_steps)
        ours = [sys.executable, "-u", str(SCRIPTS / "ippo.py"), "--total-steps", steps]
        ours += ["--out", str(folder / f"run-{number}")]
        results.setdefault("ippo.py", []).append(whole("ippo.py", ours, "steps/s  return"))
        if config.peers is not None:
            theirs = jaxmarl_command(config.peers, config.jaxmarl, config.total_steps, 0)
            name = "JaxMARL's script"
            results.setdefault(name, []).append(whole(name, theirs, "env_steps"))
        write_json(folder / "cold_start.json", results)
    return results


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "benchmarks/cold_start.py")
    check_peers(config.peers, config.jaxmarl)
    with open_results("cold-start", config.out) as (folder, console):
        results = measure(config, folder.absolute())
        medians = {
            name: {x: statistics.median(row[x] for row in rows) for x in rows[0]}
            for name, rows in results.items()
        }
        parts = [(name, f"{seconds:.1f}") for name, seconds in medians.pop("parts").items()]
        print_table(console, ["part", "processor seconds"], parts, title="imports and compiling")
        header = ["command", "first line", "first row of progress", "processor"]
        lines = [(name, *(f"{row[x]:.1f}" for x in header[1:])) for name, row in medians.items()]
        steps = f"{config.total_steps:,} steps"
        print_table(console, header, lines, title=f"seconds of a whole command of {steps}")
        console.print(f"numbers  {folder / 'cold_start.json'}")


if __name__ == "__main__":
    run_command(run)
