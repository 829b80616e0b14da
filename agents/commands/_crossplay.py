"""The program behind `crossplay.py`: policies in, the matrix of their returns out."""

import dataclasses
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import numpy as np
import tyro
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from msgspec import Meta
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents import PolicyPartner
from agents.evaluation._statistics import bootstrap_crossplay, interval_of_mean
from agents.runs._cache import keep_compiled_programs
from agents.runs._command import run_command
from agents.runs._run_files import seed_folders
from agents.runs.display._errors import UsageError
from agents.runs.display._figure import new_figure, write_figure
from agents.runs.folders._folder import short_name
from agents.runs.folders._results import open_results, write_csv, write_json
from agents.runs.settings._flags import read_flags
from agents.runs.settings._limits import Seed
from agents.runs.settings._page import load_page
from agents.runs.single._policies import SavedPolicy, read_policy
from eqgrid import AbstractEnv, AbstractPartner, play, stack_partners

from ._common_world import common_world
from ._lineups import different_names

_LARGEST_TABLE = 12


@dataclasses.dataclass(frozen=True)
class Config:
    """Plays every trained policy with every other one, in both orders, and leaves a matrix."""

    policies: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")]
    ] = ()
    """Folders of runs (of one seed or of many), policy files or checkpoints."""
    which: Literal["policy", "best", "last"] = "policy"
    """Of a folder: policy.safetensors, or a checkpoint."""
    layout: str | None = None
    """Another layout than the one trained in."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 128
    """Episodes of every pair, in each order."""
    greedy: bool = False
    """Take the most probable actions, instead of drawing them."""
    seed: Seed = 0
    """Seed of everything that is random."""
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """The page that trained them, where it is one of your own; its code is run."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def crossplay_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """**Raises:** what `run_command` turns into a sentence."""
    started = time.perf_counter()
    config = read_flags(Config(), args, "experiments/crossplay.py")
    _check(config)
    policies = read_all(config.policies, config.which, config.layout, config.page)
    if len(policies) < 2:
        raise UsageError("Cross-play needs at least two policies: name more runs or files.")
    settings, world = common_world(policies, config.layout)
    title = settings.env.title
    with open_results(f"crossplay-{short_name(title)}", config.out) as (folder, console):
        console.print(
            f"{len(policies)} policies in [bold]{escape(short_name(title))}[/], {config.episodes} "
            "episodes of every pair, in each order",
            highlight=False,
        )
        keep_compiled_programs()
        partners = [PolicyPartner(saved.policy, config.greedy) for saved in policies]
        keys = jax.random.split(jax.random.key(config.seed), config.episodes)
        returns = play_all(settings.observe(world), partners, keys)
        result = {
            "command": shlex.join(["python", "experiments/crossplay.py", *args]),
            "world": settings.env.name,
            "layout": title,
            "policies": [str(saved.path) for saved in policies],
            "actions": "greedy" if config.greedy else "drawn",
            "episodes": config.episodes,
            "seed": config.seed,
            **summary(returns.mean(axis=-1)),
            "wall_seconds": round(time.perf_counter() - started, 2),
        }
        names = different_names([saved.name for saved in policies])
        _print(console, names, returns.mean(axis=-1), result)
        write_matrix(folder / "crossplay.csv", names, returns)
        write_json(folder / "crossplay.json", result)
        draw_matrix(folder / "matrix.png", names, returns.mean(axis=-1), short_name(title))
        for name in ("crossplay.json", "crossplay.csv", "matrix.png"):
            console.print(Text(str(folder / name), overflow="fold"), soft_wrap=True)


def _check(config: Config) -> None:
    """**Raises:** `UsageError` for flags that are out of range."""
    if not config.policies:
        raise UsageError("Name the folders of runs, or policy files; --help says more.")


def read_all(
    paths: Sequence[Path],
    which: Literal["policy", "best", "last"],
    layout: str | None,
    own_page: Path | None,
) -> list[SavedPolicy]:
    """Reads policies; a folder with many seeds stands for the folders of its seeds.

    **Raises:** as `read_policy`.
    """
    checkpoint = None if which == "policy" else which
    runs = [run for path in paths for run in seed_folders(path) or [path]]
    own = None if own_page is None else load_page(own_page)
    return [read_policy(run, checkpoint, layout, own) for run in runs]


def play_all(
    env: AbstractEnv, partners: Sequence[AbstractPartner], keys: PRNGKeyArray
) -> Float[np.ndarray, "first second episodes"]:
    """Plays every partner with every partner, in both orders.

    **Arguments:**

    - `env`: one environment.
    - `partners`: those who play.
    - `keys`: the randomness of each episode. It is the same for all pairs.

    **Returns:** the return (the mean over the agents) of every episode, in which the first partner
    has the first seat, and the second one all others.
    """
    number = len(partners)
    returns = np.zeros((number, number, len(keys)))
    stacks = stack_partners(partners)
    for first_stack, firsts in stacks:
        for second_stack, seconds in stacks:
            for i, first in enumerate(firsts):
                one = jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, first_stack)
                returns[first, list(seconds)] = _play_row(
                    env, one, second_stack, len(seconds), keys
                )
    return returns


@eqx.filter_jit
def _play_row(
    env: AbstractEnv,
    first: AbstractPartner,
    seconds: AbstractPartner,
    number: int,
    keys: PRNGKeyArray,
) -> Float[Array, "second episodes"]:
    """The returns of one partner with each of the partners of a stack."""

    def game(second: AbstractPartner, key: PRNGKeyArray) -> PyTree:
        team = (first, *[second] * (env.num_agents - 1))
        return play(env, team, key).episode_return.mean()

    games = eqx.filter_vmap(game, in_axes=(None, 0))
    rows = eqx.filter_vmap(games, in_axes=(eqx.if_array(0), None), axis_size=number)
    return rows(seconds, keys)


def summary(matrix: Float[np.ndarray, "first second"]) -> dict[str, Any]:
    """What the matrix says.

    **Arguments:**

    - `matrix`: the mean return of every pair.

    **Returns:** the means of self-play (the diagonal), of cross-play (all the rest), and their
    difference, each with its interval; and the matrix.
    """
    self_play = float(np.diag(matrix).mean())
    cross_play = float(matrix[~np.eye(len(matrix), dtype=bool)].mean())
    ends = bootstrap_crossplay(matrix)
    intervals = {f"{name}_interval": x and list(x) for name, x in ends.items()}
    means = {"self_play": self_play, "cross_play": cross_play, "gap": self_play - cross_play}
    return {**means, **intervals, "matrix": matrix.tolist()}


def write_matrix(
    path: Path, names: Sequence[str], returns: Float[np.ndarray, "first second episodes"]
) -> None:
    """Writes a row for every ordered pair: `low` and `high` are the ends of the interval of 95 %
    around the mean.
    """
    low, high = interval_of_mean(returns)
    rows = []
    for i, j in np.ndindex(*returns.shape[:2]):
        own = returns[i, j]
        numbers = [float(x) for x in (own.mean(), own.std(), low[i, j], high[i, j])]
        rows.append([names[i], names[j], *numbers, len(own)])
    write_csv(path, ("first", "second", "mean", "std", "low", "high", "episodes"), rows)


def draw_matrix(
    path: Path, names: Sequence[str], matrix: Float[np.ndarray, "first second"], title: str
) -> None:
    """Draws the mean return of every pair, as a PNG with the numbers in it."""
    number = len(matrix)
    side = min(24.0, 2.5 + 0.55 * number)
    figure = new_figure(side + 1, side)
    axes = figure.add_subplot()
    lowest, highest = float(matrix.min(initial=0)), float(matrix.max())
    image = axes.imshow(matrix, cmap="viridis", vmin=lowest, vmax=highest)
    middle = (lowest + highest) / 2
    digits = 0 if np.abs(matrix).max() >= 20 else 2
    for (i, j), mean in np.ndenumerate(matrix):
        colour = "white" if mean < middle else "black"
        axes.text(j, i, f"{mean:.{digits}f}", ha="center", va="center", color=colour, fontsize=8)
    labels = _endings(names)
    axes.set_xticks(range(number), labels, rotation=90)
    axes.set_yticks(range(number), labels)
    axes.set_xlabel("in the other seats")
    axes.set_ylabel("in the first seat")
    axes.set_title(f"cross-play in {title}: mean return")
    figure.colorbar(image, ax=axes, shrink=0.8)
    write_figure(path, figure)


def _print(
    console: Console,
    names: Sequence[str],
    matrix: Float[np.ndarray, "first second"],
    result: dict[str, Any],
) -> None:
    if len(names) <= _LARGEST_TABLE:
        labels = _endings(names)
        table = Table("first seat", box=None, pad_edge=False, header_style="dim")
        for label in labels:
            table.add_column(Text(label), justify="right")
        for label, row in zip(labels, matrix, strict=True):
            table.add_row(Text(label), *(f"{mean:.1f}" for mean in row))
        console.print(table)
    for name, what in (
        ("self_play", "self-play"),
        ("cross_play", "cross-play"),
        ("gap", "gap"),
    ):
        ends = result[f"{name}_interval"]
        interval = "" if ends is None else f" (95 % interval {ends[0]:.1f} to {ends[1]:.1f})"
        console.print(f"{what:10} [bold]{result[name]:.1f}[/]{interval}", highlight=False)


def _endings(names: Sequence[str]) -> list[str]:
    """The names without what all of them begin with, in whole parts of paths."""
    parts = [Path(name).parts for name in names]
    while min(map(len, parts)) > 1 and len({own[0] for own in parts}) == 1:
        parts = [own[1:] for own in parts]
    return [str(Path(*own)) for own in parts]
