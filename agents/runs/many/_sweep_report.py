"""The ranked table of a sweep, and its picture."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from rich.console import Console
from rich.markup import escape

from agents.evaluation._statistics import bootstrap_interval, interquartile_mean
from agents.runs.display._figure import new_figure, plain_axes, write_figure
from agents.runs.display._table import print_table
from agents.runs.folders._results import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_TABLE = 20
_SEED = "seed"
_NUMBERS = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
_NUMBERS += ("eval_fraction_of_optimum", "env_steps", "train_seconds", "not_finite")


@final
@dataclasses.dataclass(frozen=True)
class Row:
    """What a point came to.

    **Arguments:**

    - `index`: which point.
    - `settings`: what it has of its own.
    - `result`: what is in its `result.json`.
    """

    index: int
    settings: dict[str, Any]
    result: dict[str, Any]

    def score(self, metric: str) -> float:
        """What it is ranked by; minus infinity where there is nothing."""
        value = self.result.get(metric)
        return -math.inf if value is None else float(value)


def write_table(path: Path, rows: Sequence[Row], metric: str) -> None:
    """Writes all points, best first, as a table that other programs read.

    **Arguments:**

    - `path`: the file.
    - `rows`: the points.
    - `metric`: what they are ranked by.
    """
    ranked = sorted(rows, key=lambda row: (-row.score(metric), row.index))
    table = [
        {"rank": rank, "point": row.index, **row.settings}
        | {name: row.result.get(name) for name in _NUMBERS}
        for rank, row in enumerate(ranked, 1)
    ]
    write_csv(path, table)


def print_points(console: Console, rows: Sequence[Row], metric: str) -> None:
    """Prints the points, best first. Where seeds are tried, points that differ in nothing else
    are one row, ranked by the interquartile mean.
    """
    groups = _without_seeds(rows)
    scores = [np.asarray([row.score(metric) for row in group]) for group in groups]
    means = [_interquartile_mean(own) for own in scores]
    keys = [key for key in rows[0].settings if key != _SEED]
    order = sorted(range(len(groups)), key=lambda i: -means[i])
    table = [
        [
            str(rank),
            *(escape(_shown(groups[i][0].settings[key])) for key in keys),
            _with_interval(means[i], scores[i]),
            ", ".join(str(row.index) for row in groups[i]),
        ]
        for rank, i in enumerate(order[:_LONGEST_TABLE], 1)
    ]
    print_table(console, ("rank", *keys, metric, "points"), table, words=1 + len(keys))
    if len(groups) > _LONGEST_TABLE:
        console.print(f"and {len(groups) - _LONGEST_TABLE} more", highlight=False)


def _without_seeds(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        other = {key: value for key, value in row.settings.items() if key != _SEED}
        groups.setdefault(repr(other), []).append(row)
    return list(groups.values())


def _interquartile_mean(scores: np.ndarray) -> float:
    """That of the runs; minus infinity where the loss of one of them was not finite."""
    return float(interquartile_mean(scores)) if np.isfinite(scores).all() else -math.inf


def _with_interval(mean: float, scores: np.ndarray) -> str:
    if not math.isfinite(mean):
        return "not finite"
    if len(scores) == 1:
        return f"{mean:.4g}"
    low, high = bootstrap_interval(scores)
    return f"{mean:.4g} ({float(low):.4g} to {float(high):.4g})"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw_sweep(path: Path, rows: Sequence[Row], metric: str) -> None:
    """Draws what every point came to, against each of its settings but the seed, as a PNG."""
    rows = [row for row in rows if math.isfinite(row.score(metric))]
    keys = [key for key in rows[0].settings if key != _SEED] if rows else []
    columns = min(3, max(1, len(keys)))
    lines = max(1, math.ceil(len(keys) / columns))
    figure = new_figure(3.4 * columns, 2.8 * lines)
    for i, key in enumerate(keys):
        axes = figure.add_subplot(lines, columns, i + 1)
        _draw_setting(axes, key, rows, metric)
    write_figure(path, figure)


def _draw_setting(axes: "Axes", key: str, rows: Sequence[Row], metric: str) -> None:
    values = [row.settings[key] for row in rows]
    scores = [row.score(metric) for row in rows]
    numeric = all(type(value) in (int, float) for value in values)
    places = values if numeric else [_shown(value)[:20] for value in values]
    axes.scatter(places, scores, s=18, color="#4477aa", alpha=0.7)
    if numeric and min(values) > 0 and max(values) >= 10 * min(values):
        axes.set_xscale("log")
    axes.set_xlabel(key)
    axes.set_ylabel(metric)
    plain_axes(axes)
