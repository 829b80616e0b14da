"""What is left of several runs together for a person to look at."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.evaluation._statistics import align_curves, bootstrap_interval, interquartile_mean
from agents.runs.display._figure import new_figure
from agents.runs.display._report import finish_curve


def draw_curves(
    path: Path,
    evaluations: Sequence[Sequence[dict[str, float]]],
    title: str,
    optimum: float | None,
) -> None:
    """Draws the evaluation return of every run as a thin line, their interquartile mean as a thick
    one, and the interval around it as a band, as a PNG.

    **Arguments:**

    - `path`: the file.
    - `evaluations`: the rows of the evaluations of every run.
    - `title`: what is drawn.
    - `optimum`: the best return that is known.
    """
    steps, scores = align_curves(
        [{row["env_steps"]: row["eval_return_mean"] for row in rows} for rows in evaluations]
    )
    low, high = bootstrap_interval(scores)
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    axes.plot(steps, scores, color="#4477aa", linewidth=0.7, alpha=0.5)
    axes.fill_between(steps, low, high, color="#4477aa", alpha=0.25, linewidth=0)
    axes.plot(steps, interquartile_mean(scores), color="#4477aa", linewidth=2.2)
    title = f"{title}, {len(evaluations)} seeds: interquartile mean, 95 % interval"
    lowest, highest = scores.min(initial=0), scores.max(initial=1)
    finish_curve(path, figure, axes, title, optimum, lowest, highest)


def print_seeds(console: Console, result: dict[str, Any], folder: Path) -> None:
    """Prints the numbers of all runs and says where their files are."""
    low, high = result["eval_return_interval"]
    of_optimum = ""
    if result["eval_fraction_of_optimum"] is not None:
        share, optimum = result["eval_fraction_of_optimum"], result["optimum"]
        of_optimum = f" ({share:.0%} of the best known {optimum:g})"
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row(
        f"interquartile mean of {len(result['seeds'])} seeds",
        f"[bold]{result['eval_return_iqm']:.1f}[/] (95 % interval {low:.1f} to {high:.1f})"
        f"{of_optimum}",
    )
    for run in result["runs"]:
        best = "" if run["best_return_mean"] is None else f", best {run['best_return_mean']:.1f}"
        table.add_row(
            f"seed {run['seed']}",
            f"{run['eval_return_mean']:.1f} ± {run['eval_return_std']:.1f}{best}",
        )
    table.add_row(
        "training",
        f"{result['env_steps']:,} steps of each seed in {result['train_seconds']:.1f} s "
        f"({result['steps_per_second']:,.0f} steps/s together)",
    )
    if result["env_steps_of_others"]:
        table.add_row("other candidates", f"{result['env_steps_of_others']:,} steps of each seed")
    table.add_row(
        "wall clock",
        f"{result['wall_seconds']:.1f} s, {result['compile_seconds']:.1f} s of it compiling",
    )
    for name, what in (
        ("curve.png", "learning curves"),
        ("episode.gif", f"film of seed {result['film']}"),
        ("result.json", "numbers"),
        ("metrics.csv", "training log"),
        ("config.toml", "settings"),
    ):
        if os.path.exists(folder / name):
            table.add_row(what, Text(str(folder / name), overflow="fold"))
    table.add_row("the run of each seed", Text(str(folder / "seed-*"), overflow="fold"))
    console.print(table)
