"""The report of a run: results in the terminal, and its learning curve."""

import itertools
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from ..base import Table
from ._figure import (
    add_legend,
    draws_figure,
    label_thousands,
    new_figure,
    plain_axes,
    write_figure,
    write_title,
)
from ._returns import agent_columns, agents_text, return_text, with_deviation
from ._table import files_in, print_facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_THRESHOLDS = 1000
CURVE = "#4477aa"
"""The colour of learning curves."""


def median_seed(results: Sequence[Table]) -> int:
    """The index of the run with the median return. For an even number of runs, it is the lower of
    the two middle runs.

    Human models are always selected by this rule.

    **Arguments:**

    - `results`: the content of the `result.json` of each run.
    """
    returns = [result["eval_return_mean"] for result in results]
    return int(np.argsort(returns, stable=True)[(len(returns) - 1) // 2])


def reached(evaluations: Sequence[dict[str, float]], step: float) -> dict[str, dict[str, float]]:
    """Finds the first evaluation that reached each return threshold.

    **Arguments:**

    - `evaluations`: the rows of all evaluations.
    - `step`: the distance between thresholds, which are multiples of it. A larger multiple is used
        if there would be more than 1,000 thresholds.

    **Returns:** the environment steps and the wall-clock seconds until this evaluation, by the
    threshold.
    """
    means = [x["eval_return_mean"] for x in evaluations if math.isfinite(x["eval_return_mean"])]
    best = max(means, default=0.0)
    step = step * max(1, math.ceil(best / step / _MOST_THRESHOLDS))
    times = {}
    for number in range(1, int(best / step + 1e-9) + 1):
        threshold = round(number * step, 9)
        first = next(row for row in evaluations if row["eval_return_mean"] >= threshold - 1e-9)
        times[f"{threshold:.15g}"] = {
            "env_steps": int(first["env_steps"]),
            "wall_seconds": round(first["wall_seconds"], 2),
        }
    return times


@draws_figure
def draw_curve(
    path: Path,
    evaluations: Sequence[dict[str, float]],
    title: str,
    optimum: float | None,
    columns: Sequence[str] = (),
) -> None:
    """Plots the evaluation return (mean and one standard deviation) against environment steps, and
    the return of each agent if the agents' returns differ.

    Vertical lines mark the beginnings of the later stages of a curriculum.

    **Arguments:**

    - `path`: the PNG file.
    - `evaluations`: the rows of all evaluations.
    - `title`: the title of the plot.
    - `optimum`: the best known return, if any.
    - `columns`: further columns of the rows, which are plotted below the return.

    **Raises:** `OSError` when the file cannot be written.
    """
    evaluations = [row for row in evaluations if math.isfinite(row["eval_return_mean"])]
    steps = np.asarray([row["env_steps"] for row in evaluations])
    mean = np.asarray([row["eval_return_mean"] for row in evaluations])
    spread = np.asarray([row["eval_return_std"] for row in evaluations])
    figure = new_figure(7, 4.2 if not columns else 6.4)
    panels = figure.subplots(1 + bool(columns), sharex=True, squeeze=False)[:, 0]
    axes, low, high = panels[0], mean - spread, mean + spread
    axes.plot(steps, mean, color=CURVE, linewidth=2, marker="o", markersize=3, label="mean return")
    band = "± one standard deviation"
    axes.fill_between(steps, low, high, color=CURVE, alpha=0.2, linewidth=0, label=band)
    for column in columns:
        panels[1].plot(steps, [row[column] for row in evaluations], label=column)
    if columns:
        panels[1].set_ylabel("sum over an episode")
        plain_axes(panels[1])
    for before, row in itertools.pairwise(evaluations):
        if row.get("stage") != before.get("stage"):
            axes.axvline(before["env_steps"], color="#888888", linewidth=0.8)
            axes.annotate(
                f"stage {row['stage']:g}",
                (before["env_steps"], 1),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                xytext=(4, -4),
                rotation=90,
                va="top",
                color="#888888",
            )
    shown = [low, high]
    for number, name in enumerate(agent_columns(evaluations)):
        shown.append(np.asarray([row.get(name, row["eval_return_mean"]) for row in evaluations]))
        axes.plot(steps, shown[-1], color=f"C{number + 1}", linewidth=1.2, label=f"agent {number}")
    lowest, highest = np.min(shown, initial=0), np.max(shown, initial=0)
    finish_curve(path, figure, axes, title, optimum, lowest, highest)


def finish_curve(
    path: Path,
    figure: "Figure",
    axes: "Axes",
    title: str,
    optimum: float | None,
    lowest: float,
    highest: float,
) -> None:
    """Adds the title, labels, legend and limits that all learning curves share, and writes the
    plot.

    **Arguments:**

    - `path`, `title`, `optimum`: as in `draw_curve`.
    - `figure`, `axes`: the plot.
    - `lowest`, `highest`: the range of returns to show.

    **Raises:** `OSError` when the file cannot be written.
    """
    if optimum is not None:
        label = f"best known: {optimum:g}"
        axes.axhline(optimum, color="#aa3377", linestyle="--", zorder=1, label=label)
        lowest, highest = min(lowest, optimum), max(highest, optimum)
    margin = 0.06 * (highest - lowest) or 1.0
    axes.set_ylim(lowest - margin, highest + margin)
    axes.set_xlim(left=0)
    axes.set_ylabel("return of an episode")
    plain_axes(axes)
    figure.axes[-1].set_xlabel("environment steps")
    label_thousands(axes.xaxis)
    write_title(figure, title)
    add_legend(figure)
    write_figure(path, figure)


def how_to_continue(command: str, folder: Path) -> str:
    """The line with the command that resumes a stopped run.

    **Arguments:**

    - `command`: the command of the run's script.
    - `folder`: the folder of the run.
    """
    return f"to continue: {command} --out {shlex.quote(str(folder))} --resume"


def what_is_kept(folder: Path) -> str:
    """A sentence about the checkpoints of a run whose loss became non-finite."""
    if any((folder / "checkpoints").glob("*.safetensors")):
        return f"The checkpoints in {str(folder)!r} are from before this update."
    return "There was no checkpoint yet, so nothing is kept."


def print_result(console: Console, result: Table, folder: Path) -> None:
    """Prints the results of a run and the paths of its files.

    **Arguments:**

    - `console`: the console.
    - `result`: the content of the run's `result.json`.
    - `folder`: the folder of the run.
    """
    of_optimum = share_of_optimum(result)
    best, mean = result["best_return_mean"], result["eval_return_mean"]
    facts: dict[str, str | None] = {
        "evaluation return": f"{with_deviation(mean, result['eval_return_std'], bold=True)}"
        f"{agents_text(result)}{of_optimum}, {result['eval_episodes']} episodes",
        "best state": constant_sum_text(result),
        "best state, evaluated again": None
        if best is None
        else f"{with_deviation(best, result['best_return_std'])}"
        f"{agents_text(result, 'best_return')}, after {result['best_env_steps']:,} steps",
        **{f"in {name}": return_text(mean) for name, mean in result["layouts"].items()},
        "never trained in": ", ".join(
            f"{x} {return_text(mean)}" for x, mean in result["zero_shot"].items()
        ),
        "training": f"{result['env_steps']:,} steps in {result['train_seconds']:.1f} s "
        f"({result['steps_per_second']:,.0f} steps/s)",
        "wall clock": wall_clock(result),
    }
    files = {
        "curve.png": "learning curve",
        "episode.gif": "GIF of an episode",
        "result.json": "numbers",
        "metrics.csv": "training log",
        "config.toml": "settings",
        "policy.safetensors": "policy",
        "checkpoints/best.safetensors": "best state",
        "checkpoints/last.safetensors": "last state",
    }
    print_facts(console, facts, files_in(folder, files))


def constant_sum_text(result: Table) -> str | None:
    """A description of the best state in a constant-sum game; `None` in other worlds."""
    if not result.get("constant_sum"):
        return None
    return (
        "the last one, since the returns of the agents have the same sum in every evaluated episode"
    )


def share_of_optimum(result: Table) -> str:
    """The return as a share of the best known return, in parentheses; empty if it is unknown."""
    if result["eval_fraction_of_optimum"] is None:
        return ""
    return f" ({result['eval_fraction_of_optimum']:.0%} of the best known {result['optimum']:g})"


def wall_clock(result: Table) -> str:
    """The total time of a run and the time of its compilation, in words."""
    return f"{result['wall_seconds']:.1f} s, {result['compile_seconds']:.1f} s of this compiling"
