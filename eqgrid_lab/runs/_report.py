"""Reports of several runs, of seeds or of a sweep: printed results, tables and plots."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.markup import escape

from ..base import Table
from ..folders import write_csv
from ..show import (
    CURVE,
    agent_columns,
    agents_text,
    align_curves,
    bootstrap_interval,
    constant_sum_text,
    draws_figure,
    files_in,
    finish_curve,
    interquartile_mean,
    new_figure,
    path_text,
    plain_axes,
    print_facts,
    print_table,
    return_text,
    return_texts,
    returns_of_agents,
    share_of_optimum,
    wall_clock,
    with_deviation,
    with_interval,
    write_figure,
)

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_LONGEST_TABLE = 20  # in printed rows


@draws_figure
def draw_curves(
    path: Path,
    evaluations: Sequence[Sequence[dict[str, float]]],
    title: str,
    optimum: float | None,
) -> None:
    """Plots the evaluation returns of several runs against environment steps.

    Thin lines are single runs, the thick line is their interquartile mean, and the band is its
    bootstrap interval. If the agents' returns differ, each agent has an interquartile mean.

    **Arguments:**

    - `path`: the PNG file.
    - `evaluations`: the rows of the evaluations of every run.
    - `title`: the title of the plot, to which the number of seeds is appended.
    - `optimum`: the best known return, if there is one.

    **Raises:** `OSError` when the file cannot be written.
    """
    steps, scores = _aligned(evaluations, "eval_return_mean")
    low, high = bootstrap_interval(scores)
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    seeds = axes.plot(steps, scores, color=CURVE, linewidth=0.7, alpha=0.5)
    seeds[0].set_label("each seed")
    mean = interquartile_mean(scores)
    axes.plot(steps, mean, color=CURVE, linewidth=2.2, label="interquartile mean")
    style = {"color": CURVE, "alpha": 0.25, "linewidth": 0}
    axes.fill_between(steps, low, high, label="95 % interval", **style)
    shown = [scores.ravel()]
    for number, name in enumerate(agent_columns(itertools.chain(*evaluations))):
        shown.append(interquartile_mean(_aligned(evaluations, name)[1]))
        axes.plot(steps, shown[-1], color=f"C{number + 1}", linewidth=1.6, label=f"agent {number}")
    title = f"{title}, {len(evaluations)} seeds"
    lowest = np.concatenate(shown).min(initial=0)
    highest = np.concatenate(shown).max(initial=0)
    finish_curve(path, figure, axes, title, optimum, lowest, highest)


def _aligned(
    evaluations: Sequence[Sequence[dict[str, float]]], name: str
) -> tuple[list[float], Float[np.ndarray, "steps runs"]]:
    """The steps that all runs have in common, and a column of each run's returns at these steps."""
    return align_curves(
        [{x["env_steps"]: x.get(name, x["eval_return_mean"]) for x in rows} for rows in evaluations]
    )


def print_seeds(console: Console, result: Table, folder: Path) -> None:
    """Prints the results of all seeds, and the paths of their files.

    **Arguments:**

    - `console`: the console.
    - `result`: the content of the `result.json` of all seeds.
    - `folder`: the folder of all seeds.
    """
    iqm, interval = with_interval(result["eval_return_iqm"], *result["eval_return_interval"])
    facts: dict[str, str | None] = {
        f"interquartile mean of {len(result['seeds'])} seeds": (
            f"[bold]{iqm}[/] (95 % interval {interval}){share_of_optimum(result)}"
        ),
        "mean of each agent": ", ".join(return_texts(returns_of_agents(result))),
        "best states": constant_sum_text(result),
        **{f"seed {run['seed']}": _of_one(run) for run in result["runs"]},
        "training": f"{result['env_steps']:,} steps per seed in {result['train_seconds']:.1f} s "
        f"({result['steps_per_second']:,.0f} steps/s together)",
        "wall clock": wall_clock(result),
    }
    files = {
        "curve.png": "learning curves",
        "episode.gif": f"GIF of seed {result['video']}",
        "result.json": "numbers",
        "metrics.csv": "training log",
        "config.toml": "settings",
    }
    each = ("the run of each seed", path_text(folder / "seed-*"))
    print_facts(console, facts, [*files_in(folder, files), each])


def _of_one(run: Table) -> str:
    """The result of one seed, such as `0.964 ± 0.012, best 0.971`."""
    mean, best = run["eval_return_mean"], run["best_return_mean"]
    best_text = "" if best is None else f", best {return_text(best, (mean,))}"
    own = f"{with_deviation(mean, run['eval_return_std'])}{agents_text(run)}"
    return f"{own}{best_text}{agents_text(run, 'best_return')}"


def write_table(path: Path, trials: Sequence["FrozenTrial"], metric: str) -> None:
    """Writes the table of a sweep as CSV, best point first.

    **Arguments:**

    - `path`: the file.
    - `trials`: the trials of the study that have ended.
    - `metric`: the column by which the trials are ranked.

    **Raises:** `OSError` when the file cannot be written.
    """
    rows = [
        {
            "rank": rank,
            "point": trial.number,
            "state": trial.state.name.lower(),
            **trial.params,
            metric: _value(trial),
            **{key: trial.user_attrs.get(key) for key in ("env_steps", "train_seconds")},
        }
        for rank, trial in enumerate(_ranked(trials), 1)
    ]
    write_csv(path, rows)


def print_points(console: Console, trials: Sequence["FrozenTrial"], metric: str) -> None:
    """Prints the points of a sweep, best first. The value of a point is the mean over its seeds,
    with a 95 % bootstrap interval.

    **Arguments:**

    - `console`: the console.
    - `trials`, `metric`: as in `write_table`.
    """
    ranked = _ranked(trials)
    table = [
        [str(rank), *(escape(_shown(x)) for x in one.params.values()), _text(one), str(one.number)]
        for rank, one in enumerate(ranked[:_LONGEST_TABLE], 1)
    ]
    keys = tuple(ranked[0].params)
    print_table(console, ("rank", *keys, metric, "point"), table, words=1 + len(keys))
    if len(ranked) > _LONGEST_TABLE:
        console.print(f"and {len(ranked) - _LONGEST_TABLE} more", highlight=False)


def _ranked(trials: Sequence["FrozenTrial"]) -> list["FrozenTrial"]:
    """Sorts trials, best first. Trials without a value come last."""

    def order(trial: "FrozenTrial") -> tuple[bool, float, int]:
        value = _value(trial)
        return value is None, -(value or 0.0), trial.number

    return sorted(trials, key=order)


def _value(trial: "FrozenTrial") -> float | None:
    """The value of a complete trial; `None` for other trials. Optuna's value of a pruned trial is
    its last report, which cannot be compared.
    """
    return trial.value if trial.state.name == "COMPLETE" else None


def _text(trial: "FrozenTrial") -> str:
    """The value of a trial with its interval; if it has no value, its state."""
    value = _value(trial)
    if value is None:
        return trial.state.name.lower()
    values = np.asarray(trial.user_attrs["values"])
    if len(values) == 1:
        return return_text(value)
    low, high = bootstrap_interval(values, np.mean)
    mean, interval = with_interval(value, float(low), float(high))
    return f"{mean} ({interval})"


def _shown(value: object) -> str:
    """The text of a value of a setting."""
    return f"{value:g}" if isinstance(value, float) else str(value)


@draws_figure
def draw_sweep(path: Path, trials: Sequence["FrozenTrial"], metric: str) -> None:
    """Plots the value of every complete point against each setting that varies.

    **Arguments:**

    - `path`: the PNG file.
    - `trials`, `metric`: as in `write_table`.

    **Raises:** `OSError` when the file cannot be written.
    """
    done = [trial for trial in trials if _value(trial) is not None]
    keys = list(done[0].params) if done else []
    columns = min(3, max(1, len(keys)))
    lines = max(1, math.ceil(len(keys) / columns))
    figure = new_figure(3.4 * columns, 2.8 * lines)
    for i, key in enumerate(keys, 1):
        values = [trial.params[key] for trial in done]
        numeric = all(type(value) in (int, float) for value in values)
        x = values if numeric else [_shown(value)[:20] for value in values]
        y = [_value(trial) or 0.0 for trial in done]
        axes = figure.add_subplot(lines, columns, i)
        axes.scatter(x, y, s=18, color=CURVE, alpha=0.7)
        if numeric and min(values) > 0 and max(values) >= 10 * min(values):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        axes.set_xlabel(key)
        axes.set_ylabel(metric)
        plain_axes(axes)
    write_figure(path, figure)
