"""The report of a run: results in the terminal, and its learning curve."""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.markup import escape

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
from ._returns import (
    agent_columns,
    agents_text,
    align_curves,
    bootstrap_interval,
    interquartile_mean,
    return_text,
    return_texts,
    returns_of_agents,
    with_deviation,
    with_interval,
)
from ._table import print_facts

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
def draw_curves(
    path: Path,
    evaluations: Sequence[Sequence[Mapping[str, float]]],
    title: str,
    optimum: float | None,
    columns: Sequence[str] = (),
) -> None:
    """Plots the evaluation returns of one or several seeds against environment steps.

    The band of one seed is the standard deviation over episodes. Several seeds are thin lines; the
    thick line is their interquartile mean, and the band is its bootstrap interval. If the agents'
    returns differ, each agent has a line. Vertical lines are the beginnings of the later stages of
    a curriculum.

    **Arguments:**

    - `path`: the PNG file.
    - `evaluations`: the rows of all evaluations of every seed.
    - `title`: the title of the plot.
    - `optimum`: the best known return, if any.
    - `columns`: further columns of the rows, which are plotted below the return.

    **Raises:** `OSError` when the file cannot be written.
    """
    evaluations = [[x for x in y if math.isfinite(x["eval_return_mean"])] for y in evaluations]
    figure = new_figure(7, 6.4 if columns else 4.2)
    panels = figure.subplots(1 + bool(columns), sharex=True, squeeze=False)[:, 0]
    axes, (steps, scores) = panels[0], _aligned(evaluations, "eval_return_mean")
    mean = interquartile_mean(scores)  # of one seed, this is its own return
    if len(evaluations) > 1:
        axes.plot(steps, scores, color=CURVE, linewidth=0.7, alpha=0.5)[0].set_label("each seed")
        names, (low, high) = ("interquartile mean", "95 % interval"), bootstrap_interval(scores)
    else:
        spread = _aligned(evaluations, "eval_return_std")[1][:, 0]
        names, low, high = ("mean return", "± one standard deviation"), mean - spread, mean + spread
    axes.plot(steps, mean, color=CURVE, linewidth=2, marker="o", markersize=3, label=names[0])
    axes.fill_between(steps, low, high, color=CURVE, alpha=0.2, linewidth=0, label=names[1])
    for number, name in enumerate(agent_columns(itertools.chain(*evaluations))):
        own = interquartile_mean(_aligned(evaluations, name)[1])
        axes.plot(steps, own, color=f"C{number + 1}", linewidth=1.2, label=f"agent {number}")
    for before, row in itertools.pairwise(evaluations[0]):
        if row.get("stage") != before.get("stage"):
            axes.axvline(before["env_steps"], color="#888888", linewidth=0.8, label="next stage")
    for column in columns:
        panels[1].plot(steps, interquartile_mean(_aligned(evaluations, column)[1]), label=column)
        panels[1].set_ylabel("sum over an episode")
    if optimum is not None:
        style = {"color": "#aa3377", "linestyle": "--", "zorder": 1}
        axes.axhline(optimum, label=f"best known: {optimum:g}", **style)
    axes.update_datalim([(0, 0)])  # a return of 0 is always shown
    axes.autoscale_view()
    axes.set_xlim(left=0)
    axes.set_ylabel("return of an episode")
    for panel in panels:
        plain_axes(panel)
    panels[-1].set_xlabel("environment steps")
    label_thousands(axes.xaxis)
    write_title(figure, title)
    add_legend(figure)
    write_figure(path, figure)


def _aligned(
    evaluations: Sequence[Sequence[Mapping[str, float]]], name: str
) -> tuple[list[float], Float[np.ndarray, "steps seeds"]]:
    """The steps that all seeds have in common, and a column of each seed's rows at these steps."""
    return align_curves(
        [{x["env_steps"]: x.get(name, x["eval_return_mean"]) for x in rows} for rows in evaluations]
    )


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
    """Prints the results of a run of one or several seeds.

    **Arguments:**

    - `console`: the console.
    - `result`: the content of the run's `result.json`.
    - `folder`: the folder of the run.
    """
    facts = _of_seeds(result) if "runs" in result else _of_one_seed(result)
    if result.get("constant_sum"):
        facts["best state"] = "the last one, since the returns of the agents have the same sum in "
        facts["best state"] += "every evaluated episode"
    steps, seconds = result["env_steps"], result["train_seconds"]
    facts["training"] = f"{steps:,} steps{' per seed' * ('runs' in result)} in {seconds:.1f} s "
    facts["training"] += f"({result['steps_per_second']:,.0f} steps/s)"
    facts["wall clock"] = f"{result['wall_seconds']:.1f} s, "
    facts["wall clock"] += f"{result['compile_seconds']:.1f} s of this compiling"
    pictures = [folder / name for name in ("curve.png", "episode.gif")]
    facts["pictures"] = escape("  ".join(str(path) for path in pictures if path.exists()))
    facts["folder"] = escape(str(folder))
    print_facts(console, facts)


def _of_one_seed(result: Table) -> dict[str, str]:
    """The returns of a run of one seed, by their descriptions."""
    mean = with_deviation(result["eval_return_mean"], result["eval_return_std"])
    facts = {
        "evaluation return": f"{mean}{agents_text(result)}{_share_of_optimum(result)}, "
        f"{result['eval_episodes']} episodes"
    }
    if (best := result["best_return_mean"]) is not None:
        text = f"{with_deviation(best, result['best_return_std'])}"
        text += f"{agents_text(result, 'best_return')}, after {result['best_env_steps']:,} steps"
        facts["best state, evaluated again"] = text
    facts |= {f"in {name}": return_text(mean) for name, mean in result["layouts"].items()}
    others = [f"{name} {return_text(mean)}" for name, mean in result["zero_shot"].items()]
    return facts | {"never trained in": ", ".join(others)}


def _of_seeds(result: Table) -> dict[str, str]:
    """The returns of a run of several seeds, by their descriptions."""
    iqm, interval = with_interval(result["eval_return_iqm"], *result["eval_return_interval"])
    text = f"[bold]{iqm}[/] (95 % interval {interval}){_share_of_optimum(result)}"
    facts = {f"interquartile mean of {len(result['seeds'])} seeds": text}
    facts["mean of each agent"] = ", ".join(return_texts(returns_of_agents(result)))
    for run in result["runs"]:
        mean, best = run["eval_return_mean"], run["best_return_mean"]
        best_text = "" if best is None else f", best {return_text(best, (mean,))}"
        text = f"{with_deviation(mean, run['eval_return_std'])}{agents_text(run)}{best_text}"
        facts[f"seed {run['seed']}"] = f"{text}{agents_text(run, 'best_return')}"
    return facts


def _share_of_optimum(result: Table) -> str:
    """The return as a share of the best known return, in parentheses; empty if it is unknown."""
    if result["eval_fraction_of_optimum"] is None:
        return ""
    return f" ({result['eval_fraction_of_optimum']:.0%} of the best known {result['optimum']:g})"
