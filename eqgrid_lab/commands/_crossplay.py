"""The command `eqgrid crossplay`: the returns of every pair of policies, as a matrix."""

import dataclasses
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
from jaxtyping import Float
from msgspec import Meta
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from agents import write_atomic

from ..base import Table, UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, write_json
from ..settings import Seed, read_flags
from ..show import (
    bootstrap_crossplay,
    csv_text,
    draws_figure,
    new_figure,
    print_paths,
    print_table,
    return_text,
    return_texts,
    shortened,
    width_of,
    with_interval,
    write_figure,
    write_title,
)
from ._policies import (
    Game,
    PolicyFlags,
    different_names,
    play_all,
    score_rows,
    short_names,
)

_LARGEST_TABLE = 12
_LARGEST_WITH_NUMBERS = 50
"""The number of policies above which the cells of the figure are too small for numbers."""

_CELL, _SMALLEST, _LARGEST = 0.42, 3.0, 21.0
"""The side of a cell of the figure, and the smallest and largest side of the matrix, in inches."""

COMMAND = "eqgrid crossplay"


@dataclasses.dataclass(frozen=True)
class Config(PolicyFlags):
    """Plays every pair of trained policies, in both orders, and writes the matrix of returns. The
    folder of a run with many seeds is read as all of its seeds.
    """

    layout: str | None = None
    """Layout to play in; by default, the layout of training."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 128
    """Episodes of every pair, in each order."""
    greedy: bool = False
    """Take the most probable actions instead of sampling them."""
    seed: Seed = 0
    """Seed of all randomness."""


def crossplay_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    started = time.perf_counter()
    config = read_flags(Config(), args, COMMAND)
    game = Game.open(config, config.layout, all_seeds=True)
    if len(game.names) < 2:
        raise UsageError("Cross-play needs at least two policies: name more runs or files.")
    env, title = game.place.settings, short_name(game.place.settings.title)
    with open_results(f"crossplay-{title}", config.out) as (folder, console):
        console.print(
            f"{len(game.names)} policies in [bold]{escape(title)}[/], {config.episodes} "
            "episodes of every pair, in each order",
            highlight=False,
        )
        keep_compiled_programs()
        game.partners.record(folder)
        partners = game.team(range(len(game.names)), greedy=config.greedy)
        keys = jax.random.split(jax.random.key(config.seed), config.episodes)
        names = different_names(game.shown)
        means, table = [], []
        for name, returns in zip(names, play_all(game.place.env, partners, keys), strict=True):
            means.append(returns.mean(axis=-1))
            rows = score_rows(returns[None], first=[name], second=names)
            table.append(csv_text(rows, header=not table))
        matrix = np.stack(means)
        result = {
            "command": f"{COMMAND} {shlex.join(args)}",
            "world": env.name,
            "layout": env.title,
            "policies": game.names,
            "actions": "greedy" if config.greedy else "drawn",
            "episodes": config.episodes,
            "seed": config.seed,
            **summary(matrix),
            "wall_seconds": round(time.perf_counter() - started, 2),
        }
        _print_scores(console, names, matrix, result)
        write_atomic(folder / "crossplay.csv", "".join(table).encode())
        write_json(folder / "crossplay.json", result)
        draw_matrix(folder / "matrix.png", names, matrix, title)
        files = ("crossplay.json", "crossplay.csv", "matrix.png")
        print_paths(console, [folder / name for name in files])
        game.partners.finish()


def summary(matrix: Float[np.ndarray, "first second"]) -> Table:
    """The mean returns of self-play and of cross-play.

    **Arguments:**

    - `matrix`: the mean return of every pair.

    **Returns:** the mean of self-play (the diagonal), the mean of cross-play (all other entries),
    and their difference, each with its interval; and the matrix.
    """
    self_play = float(np.diag(matrix).mean())
    cross_play = float(matrix[~np.eye(len(matrix), dtype=bool)].mean())
    ends = bootstrap_crossplay(matrix)
    intervals = {f"{name}_interval": x and list(x) for name, x in ends.items()}
    means = {"self_play": self_play, "cross_play": cross_play, "gap": self_play - cross_play}
    return {**means, **intervals, "matrix": matrix.tolist()}


@draws_figure
def draw_matrix(
    path: Path, names: Sequence[str], matrix: Float[np.ndarray, "first second"], title: str
) -> None:
    """Draws the matrix of mean returns as a PNG file. A small matrix has numbers in its cells.

    **Arguments:**

    - `path`: the file.
    - `names`: the names of the policies.
    - `matrix`: the mean return of every pair.
    - `title`: the name of the layout.
    """
    number, labels = len(matrix), different_names([shortened(x) for x in short_names(names)])
    cell = min(max(_CELL, _SMALLEST / number), _LARGEST / number)
    points = min(10.0, 60 * cell)
    words = width_of(max(map(len, labels)), points)
    figure = new_figure(number * cell + words + 1.5, number * cell + words + 0.8)
    figure.set_layout_engine("compressed")
    axes = figure.add_subplot()
    lowest, highest = float(matrix.min(initial=0)), float(matrix.max())
    image = axes.imshow(matrix, cmap="viridis", vmin=lowest, vmax=highest)
    middle = (lowest + highest) / 2
    small = matrix if number <= _LARGEST_WITH_NUMBERS else matrix[:0]
    texts = return_texts(small.ravel().tolist())
    for ((i, j), mean), text in zip(np.ndenumerate(small), texts, strict=True):
        colour = "white" if mean < middle else "black"
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=min(10, 17 * cell))
    axes.set_xticks(range(number), labels, rotation=90, fontsize=points)
    axes.set_yticks(range(number), labels, fontsize=points)
    axes.set_xlabel("in the other seats")
    axes.set_ylabel("in the first seat")
    write_title(figure, f"cross-play in {title}: mean return")
    figure.colorbar(image, ax=axes, fraction=0.046, pad=0.02)
    write_figure(path, figure)


def _print_scores(
    console: Console,
    names: Sequence[str],
    matrix: Float[np.ndarray, "first second"],
    result: Table,
) -> None:
    if len(names) <= _LARGEST_TABLE:
        labels = [Text(name) for name in short_names(names)]
        rows = zip(labels, matrix, strict=True)
        among = matrix.ravel().tolist()
        cells = [[label, *(return_text(mean, among) for mean in row)] for label, row in rows]
        print_table(console, ("first seat", *labels), cells)
    for name in ("self_play", "cross_play", "gap"):
        ends = result[f"{name}_interval"]
        label, mean, interval = name.replace("_", "-"), return_text(result[name]), ""
        if ends is not None:
            mean, range_text = with_interval(result[name], *ends)
            interval = f" (95 % interval {range_text})"
        console.print(f"{label:10} [bold]{mean}[/]{interval}", highlight=False)
