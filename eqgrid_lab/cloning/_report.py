"""The output of behaviour cloning: a plot of the losses, and a table of results."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ..base import Table
from ..show import (
    add_legend,
    draws_figure,
    new_figure,
    plain_axes,
    print_table,
    return_text,
    with_deviation,
    write_figure,
    write_title,
)


@draws_figure
def draw_losses(path: Path, rows: Sequence[Table], most_frequent: float, title: str) -> None:
    """Plots the cross-entropy of each seed against epochs.

    **Arguments:**

    - `path`: the PNG file.
    - `rows`: the rows of the log.
    - `most_frequent`: that of a baseline that knows only the frequencies of actions.
    - `title`: the title of the plot.

    **Raises:** `OSError` when the file cannot be written.
    """
    figure = new_figure(7, 4.2)
    axes = figure.add_subplot()
    lines = (("cross_entropy", "training games"), ("held_out_cross_entropy", "held-out games"))
    for color, (name, label) in enumerate(lines):
        for seed in {row["seed"] for row in rows}:
            own = [row for row in rows if row["seed"] == seed]
            epochs, losses = ([row[x] for row in own] for x in ("epoch", name))
            axes.plot(epochs, losses, color=f"C{color}", linewidth=1.2, label=label)
    axes.axhline(most_frequent, color="#888888", linestyle="--", label="frequencies of actions")
    axes.set_xlabel("epoch")
    axes.set_ylabel("cross-entropy (nats)")
    plain_axes(axes)
    write_title(figure, title)
    add_legend(figure)
    write_figure(path, figure)


def print_models(console: Console, result: Table) -> None:
    """Prints the return of people, the scores of the baseline, and the results of each seed.

    **Arguments:**

    - `console`: the console.
    - `result`: the content of `result.json`.
    """
    rows = [("people", return_text(result["people_return_mean"]), "", "")]
    rows.append(("frequencies of actions", "", *_scores(result["most_frequent_action"])))
    for run in result["runs"]:
        score = with_deviation(run["eval_return_mean"], run["eval_return_std"])
        rows.append((f"seed {run['seed']}", score, *_scores(run)))
    header = ("", "return of 400 steps", "held-out accuracy", "held-out cross-entropy")
    print_table(console, header, rows)


def _scores(scores: Table) -> tuple[str, str]:
    """The texts for scores on the held-out games."""
    return f"{scores['accuracy']:.1%}", f"{scores['cross_entropy']:.3f}"
