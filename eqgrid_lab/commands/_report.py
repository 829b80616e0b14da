"""The command `report.py`: one table and one picture of runs, and a film of each row."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from agents import write_whole
from eqgrid import read_regular_file

from ..base import UsageError, run_command
from ..folders import open_results, write_csv
from ..settings import read_flags
from ..show import (
    align_curves,
    bootstrap_interval,
    interquartile_mean,
    label_thousands,
    new_figure,
    return_text,
    return_texts,
    write_figure,
)
from ._results_table import Row, find_runs, rows_of

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")


@dataclasses.dataclass(frozen=True)
class Config:
    """Writes a table of complete runs, with a row for each layout, algorithm and network."""

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR ...")]] = ()
    """Folders of runs with one or many seeds, or folders that contain runs."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def report_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a folder has no complete run, runs do not fit into one table, or a
    flag is wrong; `OSError` when the results cannot be written.
    """
    config = read_flags(Config(), args, "experiments/report.py")
    if not config.runs:
        raise UsageError("Name the folders of runs; see --help.")
    rows = rows_of(find_runs(config.runs))
    with open_results("report", config.out) as (folder, console):
        table = as_markdown(rows)
        console.print(table, highlight=False, markup=False, soft_wrap=True)
        write_whole(folder / "report.md", table.encode())
        write_csv(folder / "report.csv", [row.numbers() for row in rows])
        write_csv(folder / "seeds.csv", [seed for row in rows for seed in row.seeds()])
        draw_all(folder / "curves.png", rows)
        files = {
            "report.md": "table",
            "report.csv": "numbers",
            "seeds.csv": "each seed",
            "curves.png": "curves",
            **dict.fromkeys(copy_films(folder, rows), "film"),
        }
        for name, what in files.items():
            console.print(f"{what}  {folder / name}", highlight=False, markup=False, soft_wrap=True)


def copy_films(folder: Path, rows: Sequence[Row]) -> list[str]:
    """Copies one film for every row that has any: the film of the run of many seeds, which shows
    the median seed, or else that of the best run.

    **Arguments:**

    - `folder`: the folder for the copies.
    - `rows`: the rows of the table.

    **Returns:** the names of the copies.
    """
    names = []
    for row in rows:
        best = max(row.runs, key=lambda run: run.score)
        films = [around / "episode.gif" for around in (row.folder, best.folder)]
        film = next((film for film in films if film.is_file()), None)
        if film is not None:
            name = "-".join(x for x in row.names.values() if x not in ("", "mlp"))
            names.append(re.sub(r"[^\w.-]", "-", name) + ".gif")
            write_whole(folder / names[-1], read_regular_file(film))
    return names


def _kind(row: Row) -> str:
    """The label of a row within its layout: the algorithm, and the network unless it is an MLP."""
    algorithm, network = row.names["algorithm"], row.names["network"]
    return algorithm if network in ("", "mlp") else f"{algorithm} {network}"


def as_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    titles = ("kitchen", "", "seeds", "mean", "interquartile mean (95 % interval)", "worst")
    titles += ("of the best known", "cross-play", "held-out partners", "people", "regret")
    titles += ("steps", "minutes")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        x = row.numbers()
        share = "" if not x["optimum"] else f"{x['mean'] / x['optimum']:.0%} of {x['optimum']:g}"
        what = x["algorithm"].upper() + ("" if x["network"] in ("", "mlp") else f", {x['network']}")
        crossplay, held_out, people, regret = (
            "" if x[name] is None else return_text(x[name])
            for name in ("crossplay", "held_out", "people", "regret")
        )
        names = ("mean", "iqm", "low", "high", "worst")
        mean, iqm, low, high, worst = return_texts(x[name] for name in names)
        lines.append(
            f"| `{x['layout']}` | {what} | {x['seeds']} | {mean} | {iqm} ({low} to {high}) "
            f"| {worst} | {share} "
            f"| {crossplay} | {held_out} | {people} | {regret} "
            f"| {x['env_steps'] / 1e6:.1f} million | {x['minutes']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def draw_all(path: Path, rows: Sequence[Row]) -> None:
    """Draws the learning curves of every layout side by side, as a PNG file: for each row, the
    interquartile mean over its seeds, and its 95 % bootstrap interval as a band.
    """
    layouts = list(dict.fromkeys(row.names["layout"] for row in rows))
    kinds = list(dict.fromkeys(_kind(row) for row in rows))
    figure = new_figure(3.4 * len(layouts) + 0.6, 3.2)
    for number, layout in enumerate(layouts, 1):
        axes = figure.add_subplot(1, len(layouts), number)
        for row in (row for row in rows if row.names["layout"] == layout):
            steps, scores = align_curves([run.curve for run in row.runs])
            low, high = bootstrap_interval(scores)
            colour = _COLOURS[kinds.index(_kind(row)) % len(_COLOURS)]
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, interquartile_mean(scores), color=colour, label=_kind(row))
            if row.optimum is not None:
                axes.axhline(row.optimum, color="#888888", linestyle="--", linewidth=1)
        axes.set_title(layout, loc="left")
        axes.set_ylabel("return of an episode" if number == 1 else "")
        axes.set_xlabel("environment steps")
        label_thousands(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), high + 0.05 * (high - low))
        axes.grid(alpha=0.25)
        axes.legend(loc="lower right", frameon=False)
    write_figure(path, figure, dpi=120)
