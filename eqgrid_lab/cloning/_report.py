"""The output of behaviour cloning: the progress of training, plots, and a table of results."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Int
from rich.console import Console
from rich.markup import escape

from agents.cloning import CloningScore

from ..base import Table
from ..folders import short_name
from ..runs import is_live, progress_bar
from ..show import (
    draws_figure,
    files_in,
    new_figure,
    path_text,
    plain_axes,
    print_facts,
    return_text,
    with_deviation,
    write_figure,
    write_title,
)
from ._settings import Cloning, Recorded

ACTIONS = ("up", "down", "right", "left", "stay", "interact")
_LINES = 5
"""The number of lines of progress without a terminal."""
_TRAIN, _HELD_OUT = "#888888", "#4477aa"


def greet(
    console: Console, config: Cloning, recorded: Recorded, folder: Path, programs: str
) -> None:
    """Prints the settings of a run, its games, and the folder of its results."""
    seeds = f"seed {config.seed}"
    if config.num_seeds > 1:
        seeds = f"seeds {config.seed} to {config.seed + config.num_seeds - 1} at once"
    source = "Overcooked-AI" if config.games is None else config.games
    console.print(
        f"[bold]{config.algorithm}[/] in [bold]{escape(short_name(config.env.title))}[/], {seeds}: "
        f"writing to {escape(str(folder))}",
        highlight=False,
    )
    mean = return_text(float(recorded.returns.mean()))
    console.print(
        f"{len(recorded.games)} human games from {escape(source)}, {len(recorded.held_out)} held "
        f"out; their mean return is {mean} in 400 steps",
        highlight=False,
    )
    console.print(escape(programs), style="dim", highlight=False)


@final
class EpochDisplay:
    """Shows the progress of training: a bar in a terminal, and lines elsewhere.

    **Attributes:** `seconds`, the duration of training.
    """

    def __init__(self, console: Console, num_epochs: int):
        self.console, self.num_epochs, self.seconds = console, num_epochs, 0.0
        self.live = is_live(console)
        self.bar = progress_bar(console, disable=not self.live)

    def start(self) -> None:
        """Shows that the program of an epoch is compiled."""
        self.begun = time.perf_counter()
        self.task = self.bar.add_task("compiling", total=self.num_epochs, numbers="an epoch")
        self.bar.start()
        if not self.live:
            self.console.print("compiling an epoch")

    def stop(self) -> None:
        """Ends the progress."""
        self.bar.stop()

    def show(self, epoch: int, held_out: CloningScore) -> None:
        """Shows means over the seeds after an epoch."""
        self.seconds = time.perf_counter() - self.begun
        numbers = (
            f"held-out cross-entropy {float(held_out.cross_entropy.mean()):.3f}  "
            f"accuracy {float(held_out.accuracy.mean()):.1%}"
        )
        self.bar.update(self.task, completed=epoch, description="training ", numbers=numbers)
        if not self.live and epoch % max(1, self.num_epochs // _LINES) == 0:
            self.console.print(f"epoch {epoch:>4}  {numbers}", highlight=False)


@draws_figure
def draw_scores(
    path: Path,
    rows: Sequence[Sequence[dict[str, float]]],
    most_frequent: dict[str, float],
    title: str,
) -> None:
    """Plots the cross-entropy and the accuracy of each seed against epochs.

    **Arguments:**

    - `path`: the PNG file.
    - `rows`: for each seed, a row for each epoch.
    - `most_frequent`: the scores of a baseline that knows only the frequencies of actions.
    - `title`: the title of the plot.

    **Raises:** `OSError` when the file cannot be written.
    """
    figure = new_figure(7, 5.4)
    upper, lower = figure.subplots(2, sharex=True)
    for number, of_seed in enumerate(rows):
        epochs = [row["epoch"] for row in of_seed]
        for name, title_of_line, color in (
            ("cross_entropy", "training games", _TRAIN),
            ("held_out_cross_entropy", "held-out games", _HELD_OUT),
        ):
            label = title_of_line if number == 0 else None  # one entry of the legend for all seeds
            losses = [row[name] for row in of_seed]
            upper.plot(epochs, losses, color=color, linewidth=1.2, label=label)
        accuracies = [row["held_out_accuracy"] for row in of_seed]
        lower.plot(epochs, accuracies, color=_HELD_OUT, linewidth=1.2)
    for axes, name in ((upper, "cross_entropy"), (lower, "accuracy")):
        axes.axhline(
            most_frequent[name],
            color="#aa3377",
            linestyle="--",
            linewidth=1.2,
            label="action frequencies (baseline)" if axes is upper else "most frequent action",
        )
        axes.legend(frameon=False)
        plain_axes(axes)
    write_title(figure, title)
    upper.set_ylabel("cross-entropy (nats)")
    lower.set_ylabel("accuracy")
    lower.set_xlabel("epoch")
    write_figure(path, figure)


@draws_figure
def draw_confusion(path: Path, confusion: Int[np.ndarray, "actions actions"], title: str) -> None:
    """Draws the confusion matrix of a model: actions of people by the model's most probable action.

    **Arguments:**

    - `path`: the PNG file.
    - `confusion`: the number of held-out steps, by the action of the person (row) and the most
        probable action of the model (column).
    - `title`: the title of the plot.

    **Raises:** `OSError` when the file cannot be written.
    """
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    figure = new_figure(5.4, 4.8)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if share > 0.6 else "black"
        axes.text(column, row, f"{share:.0%}", ha="center", va="center", color=color)
    names = [f"{name} ({total:,})" for name, total in zip(ACTIONS, confusion.sum(1), strict=True)]
    axes.set_xticks(range(len(ACTIONS)), ACTIONS)
    axes.set_yticks(range(len(ACTIONS)), names)
    axes.set_xlabel("most probable action of the model")
    axes.set_ylabel("action of the person")
    write_title(figure, title)
    write_figure(path, figure)


def print_models(console: Console, results: Sequence[Table], folder: Path, seconds: float) -> None:
    """Prints the results of all seeds, and the paths of their files.

    **Arguments:**

    - `console`: the console.
    - `results`: the content of the `result.json` of each seed.
    - `folder`: the folder of the run.
    - `seconds`: the time since the process started.
    """
    first = results[0]
    frequent = first["most_frequent_action"]
    facts: dict[str, str | None] = {
        "people": f"return {return_text(first['people_return_mean'])} in 400 steps",
        "action frequencies (baseline)": _score(frequent),
    }
    for result in results:
        for kind in ("last", "best"):
            model = result[kind]
            kept = "[bold]kept[/] " if kind == first["kept"] else ""
            score = with_deviation(model["return_mean"], model["return_std"])
            facts[f"seed {result['seeds'][0]}, {kind} epoch ({model['epoch']})"] = (
                f"{kept}return {score} with itself, {_score(model)}"
            )
    facts["wall clock"] = f"{seconds:.1f} s, {first['train_seconds']:.1f} s of this training"
    files = {
        "curve.png": "scores by epoch",
        "confusion.png": "confusion of actions",
        "episode.gif": "GIF of a game",
        "result.json": "numbers",
        "metrics.csv": "training log",
        "config.toml": "settings",
        "policy.safetensors": "policy",
    }
    each = [("policy of each seed", path_text(folder / "policy-*"))] if len(results) > 1 else []
    print_facts(console, facts, [*files_in(folder, files), *each])


def _score(scores: dict[str, float]) -> str:
    """The text for scores on the held-out games."""
    accuracy, cross_entropy = scores["accuracy"], scores["cross_entropy"]
    return f"accuracy {accuracy:.1%}, cross-entropy {cross_entropy:.3f} held out"
