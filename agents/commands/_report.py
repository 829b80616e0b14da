"""The program behind `report.py`: one table and one picture of runs, and a film of each row."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from agents import write_whole
from agents.commands._results_table import (
    as_markdown,
    copy_films,
    draw_all,
    find_runs,
    rows_of,
    write_seeds,
    write_table,
)
from agents.runs._command import run_command
from agents.runs.display._errors import UsageError
from agents.runs.folders._results import open_results
from agents.runs.settings._flags import cli


@dataclasses.dataclass(frozen=True)
class Config:
    """Puts complete runs into one table, a row for each layout, algorithm and network."""

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR ...")]] = ()
    """Folders of runs, of runs of many seeds, or of several of these."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `OSError`."""
    config = cli(Config(), args, "python experiments/report.py", Config.__doc__ or "")
    if not config.runs:
        raise UsageError("Name the folders of runs; --help says more.")
    rows = rows_of(find_runs(config.runs))
    with open_results("report", config.out) as (folder, console):
        console.print(as_markdown(rows), highlight=False, markup=False, soft_wrap=True)
        write_whole(folder / "report.md", as_markdown(rows).encode())
        write_table(folder / "report.csv", rows)
        write_seeds(folder / "seeds.csv", rows)
        draw_all(folder / "curves.png", rows)
        films = copy_films(folder, rows)
        files = {
            "table": "report.md",
            "numbers": "report.csv",
            "each seed": "seeds.csv",
            "curves": "curves.png",
        }
        for what, name in (*files.items(), *(("film", name) for name in films)):
            console.print(f"{what}  {folder / name}", highlight=False, markup=False, soft_wrap=True)


def report_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)
