"""What is left of several runs together for a person to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agents.evaluation._statistics import align_curves, bootstrap_interval, interquartile_mean
from agents.runs.display._figure import new_figure
from agents.runs.display._report import facts_of_time, finish_curve, share_of_optimum
from agents.runs.display._table import files_in, path_text, print_facts


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
    facts = {
        f"interquartile mean of {len(result['seeds'])} seeds": (
            f"[bold]{result['eval_return_iqm']:.1f}[/] (95 % interval {low:.1f} to {high:.1f})"
            f"{share_of_optimum(result)}"
        ),
        **{f"seed {run['seed']}": _of_one(run) for run in result["runs"]},
        "training": f"{result['env_steps']:,} steps of each seed in "
        f"{result['train_seconds']:.1f} s ({result['steps_per_second']:,.0f} steps/s together)",
        **facts_of_time(result, "steps of each seed"),
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
    best = "" if run["best_return_mean"] is None else f", best {run['best_return_mean']:.1f}"
    return f"{run['eval_return_mean']:.1f} ± {run['eval_return_std']:.1f}{best}"
