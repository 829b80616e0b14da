"""Measures how fast MuJoCo bodies are simulated, and how much memory that takes.

python benchmarks/body_speed.py --model biped
"""

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
import tyro
from _speed_report import Rows
from _worker import Worker
from throughput import Config as ThroughputConfig, Count, Counts, measure_case

from eqgrid_lab import world_settings
from eqgrid_lab.base import RunError, run_command
from eqgrid_lab.folders import open_results, write_csv
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import print_table


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures speed, memory and compile time of bodies with random actions, by their number."""

    model: Literal["cartpole", "biped"] = "biped"
    """Body to simulate."""
    num_envs: Counts = (64, 256, 1024, 4096, 8192)
    """Numbers of parallel environments."""
    steps_per_run: Count = 2**17
    """Environment steps of a run."""
    repeats: Count = 3
    """Runs of each case, of which the median is reported."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def measure(config: Config, num_envs: int) -> dict[str, Any]:
    """Measures one case in a process of its own, whose memory is then that of this case.

    **Returns:** a row of the table. `gib_before` and `gib` are the memory of the process before it
    builds the body and after the last run.

    **Raises:** `RunError` when the body cannot be simulated.
    """
    spec = {"world": config.model, "num_agents": 1, "num_actions": 1}
    settings = ThroughputConfig(steps_per_run=config.steps_per_run, repeats=config.repeats)
    with contextlib.closing(Worker("bodies", sys.executable)) as worker:
        memory = psutil.Process(worker.process.pid).memory_info
        before = memory().rss
        row = measure_case(settings, [worker], spec, "dynamics", num_envs)["bodies"]
        if "error" in row:
            raise RunError(row["error"])
        after = memory().rss
    gib = {"gib_before": round(before / 2**30, 3), "gib": round(after / 2**30, 3)}
    return {"num_envs": num_envs} | row | gib


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "benchmarks/body_speed.py")
    world_settings("body", model=config.model).check()
    with open_results("body-speed", config.out) as (folder, console):
        console.print(f"measuring the {config.model}: writing to {folder}")
        rows: Rows = []
        for num_envs in config.num_envs:
            rows.append(measure(config, num_envs))
            write_csv(folder / "body_speed.csv", rows)
        print_table(
            console,
            ["environments", "steps per second", "seconds to compile", "GiB", "of it before"],
            [
                (
                    f"{row['num_envs']:,}",
                    f"{row['steps_per_second']:,}",
                    f"{row['trace_seconds'] + row['compile_seconds']:.1f}",
                    f"{row['gib']:.2f}",
                    f"{row['gib_before']:.2f}",
                )
                for row in rows
            ],
            title=f"{config.model}, on {rows[0]['device']}",
            words=0,
        )
        console.print(f"numbers  {folder / 'body_speed.csv'}")


if __name__ == "__main__":
    run_command(run)
