"""Reports of several seeds: printed results and learning curves."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from rich.console import Console

from ..base import Table
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
    print_facts,
    return_text,
    return_texts,
    returns_of_agents,
    share_of_optimum,
    wall_clock,
    with_deviation,
    with_interval,
)


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
        "episode.gif": "GIF of the median seed",
        "result.json": "numbers",
        "metrics.csv": "training log",
        "config.toml": "settings",
        "checkpoints/last.safetensors": "last states",
    }
    each = ("policy of each seed", path_text(folder / "policy-*.safetensors"))
    print_facts(console, facts, [*files_in(folder, files), each])


def _of_one(run: Table) -> str:
    """The result of one seed, such as `0.964 ± 0.012, best 0.971`."""
    mean, best = run["eval_return_mean"], run["best_return_mean"]
    best_text = "" if best is None else f", best {return_text(best, (mean,))}"
    own = f"{with_deviation(mean, run['eval_return_std'])}{agents_text(run)}"
    return f"{own}{best_text}{agents_text(run, 'best_return')}"
