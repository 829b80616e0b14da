"""Reports of several runs: results in the terminal, tables and plots."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.markup import escape

from ...folders import write_csv
from ...show import (
    align_curves,
    bootstrap_interval,
    files_in,
    finish_curve,
    interquartile_mean,
    new_figure,
    path_text,
    plain_axes,
    print_facts,
    print_table,
    return_text,
    share_of_optimum,
    wall_clock,
    with_deviation,
    with_interval,
    write_figure,
)

_COLOR = "#4477aa"
_LONGEST_TABLE = 20
_NUMBERS = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
_NUMBERS += ("eval_fraction_of_optimum", "env_steps", "train_seconds", "not_finite")


def draw_curves(
    path: Path,
    evaluations: Sequence[Sequence[dict[str, float]]],
    title: str,
    optimum: float | None,
) -> None:
    """Plots the evaluation returns of several runs against environment steps.

    Thin lines are single runs, the thick line is their interquartile mean, and the band is its
    bootstrap interval.

    **Arguments:**

    - `path`: the PNG file.
    - `evaluations`: the rows of the evaluations of every run.
    - `title`: the title of the plot, to which the number of seeds is appended.
    - `optimum`: the best known return, if there is one.

    **Raises:** `PictureError` and `OSError`.
    """
    steps, scores = align_curves(
        [{row["env_steps"]: row["eval_return_mean"] for row in rows} for rows in evaluations]
    )
    low, high = bootstrap_interval(scores)
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    axes.plot(steps, scores, color=_COLOR, linewidth=0.7, alpha=0.5)
    axes.fill_between(steps, low, high, color=_COLOR, alpha=0.25, linewidth=0)
    axes.plot(steps, interquartile_mean(scores), color=_COLOR, linewidth=2.2)
    title = f"{title}, {len(evaluations)} seeds: interquartile mean, 95 % interval"
    lowest, highest = scores.min(initial=0), scores.max(initial=1)
    finish_curve(path, figure, axes, title, optimum, lowest, highest)


def print_seeds(console: Console, result: dict[str, Any], folder: Path) -> None:
    """Prints the results of all seeds, and the paths of their files.

    **Arguments:**

    - `console`: the console.
    - `result`: the content of the `result.json` of all seeds.
    - `folder`: the folder of all seeds.
    """
    middle, interval = with_interval(result["eval_return_iqm"], *result["eval_return_interval"])
    facts = {
        f"interquartile mean of {len(result['seeds'])} seeds": (
            f"[bold]{middle}[/] (95 % interval {interval}){share_of_optimum(result)}"
        ),
        **{f"seed {run['seed']}": _of_one(run) for run in result["runs"]},
        "training": f"{result['env_steps']:,} steps of each seed in "
        f"{result['train_seconds']:.1f} s ({result['steps_per_second']:,.0f} steps/s together)",
        "wall clock": wall_clock(result),
    }
    files = {
        "curve.png": "learning curves",
        "episode.gif": f"film of seed {result['film']}",
        "result.json": "numbers",
        "metrics.csv": "training log",
        "config.toml": "settings",
    }
    each = ("the run of each seed", path_text(folder / "seed-*"))
    print_facts(console, facts, [*files_in(folder, files), each])


def _of_one(run: dict[str, Any]) -> str:
    mean, best = run["eval_return_mean"], run["best_return_mean"]
    more = "" if best is None else f", best {return_text(best, (mean,))}"
    return f"{with_deviation(mean, run['eval_return_std'])}{more}"


def table_row(point: int, settings: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a point in the table of a sweep.

    **Arguments:**

    - `point`: the index of the point, from 0.
    - `settings`: the settings that the sweep sets for this point.
    - `result`: the content of its `result.json`.
    """
    return {"point": point, **settings} | {name: result.get(name) for name in _NUMBERS}


def write_table(path: Path, rows: Sequence[dict[str, Any]], metric: str) -> None:
    """Writes the table of a sweep as CSV, best point first.

    **Arguments:**

    - `path`: the file.
    - `rows`: the rows of the points, as from `table_row`.
    - `metric`: the column by which the points are ranked.

    **Raises:** `OSError` when the file cannot be written.
    """
    ranked = sorted(rows, key=lambda row: (-_score(row, metric), row["point"]))
    write_csv(path, [{"rank": rank, **row} for rank, row in enumerate(ranked, 1)])


def print_points(console: Console, rows: Sequence[dict[str, Any]], metric: str) -> None:
    """Prints the points of a sweep, best first.

    Points that differ only in their seed are one row, ranked by their interquartile mean.

    **Arguments:**

    - `console`: the console.
    - `rows`, `metric`: as in `write_table`.
    """
    keys = _tried(rows)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(repr([row[key] for key in keys]), []).append(row)
    scores = {name: _scores(group, metric) for name, group in groups.items()}
    ranked = sorted(groups, key=lambda name: -_mean(scores[name]))
    table = []
    for rank, name in enumerate(ranked[:_LONGEST_TABLE], 1):
        settings = [escape(_shown(groups[name][0][key])) for key in keys]
        points = ", ".join(str(row["point"]) for row in groups[name])
        table.append([str(rank), *settings, _with_interval(scores[name]), points])
    print_table(console, ("rank", *keys, metric, "points"), table, words=1 + len(keys))
    if len(ranked) > _LONGEST_TABLE:
        console.print(f"and {len(ranked) - _LONGEST_TABLE} more", highlight=False)


def _tried(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The names of the settings that the sweep varies, except for the seed."""
    return [key for key in rows[0] if key not in ("point", "seed", *_NUMBERS)]


def _score(row: dict[str, Any], metric: str) -> float:
    """The value by which a point is ranked; minus infinity if it has none."""
    return -math.inf if row[metric] is None else float(row[metric])


def _scores(rows: Sequence[dict[str, Any]], metric: str) -> Float[np.ndarray, " points"]:
    return np.asarray([_score(row, metric) for row in rows])


def _mean(scores: Float[np.ndarray, " points"]) -> float:
    """The interquartile mean; minus infinity if one of the runs has no finite score."""
    return float(interquartile_mean(scores)) if np.isfinite(scores).all() else -math.inf


def _with_interval(scores: Float[np.ndarray, " points"]) -> str:
    mean = _mean(scores)
    if not math.isfinite(mean):
        return "not finite"
    if len(scores) == 1:
        return return_text(mean)
    low, high = bootstrap_interval(scores)
    middle, interval = with_interval(mean, float(low), float(high))
    return f"{middle} ({interval})"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw_sweep(path: Path, rows: Sequence[dict[str, Any]], metric: str) -> None:
    """Plots the score of every point against each setting that varies, except for the seed.

    **Arguments:**

    - `path`: the PNG file.
    - `rows`, `metric`: as in `write_table`.

    **Raises:** `PictureError` and `OSError`.
    """
    rows = [row for row in rows if math.isfinite(_score(row, metric))]
    keys = _tried(rows) if rows else []
    columns = min(3, max(1, len(keys)))
    lines = max(1, math.ceil(len(keys) / columns))
    figure = new_figure(3.4 * columns, 2.8 * lines)
    for i, key in enumerate(keys, 1):
        values = [row[key] for row in rows]
        numeric = all(type(value) in (int, float) for value in values)
        places = values if numeric else [_shown(value)[:20] for value in values]
        axes = figure.add_subplot(lines, columns, i)
        axes.scatter(places, _scores(rows, metric), s=18, color=_COLOR, alpha=0.7)
        if numeric and min(values) > 0 and max(values) >= 10 * min(values):
            axes.set_xscale("log")
        axes.set_xlabel(key)
        axes.set_ylabel(metric)
        plain_axes(axes)
    write_figure(path, figure)
