"""The program behind `partners.py`: policies and held-out partners in, their returns out."""

import csv
import dataclasses
import io
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float, Int, PRNGKeyArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents import PolicyPartner, write_whole
from eqgrid import AbstractEnv, OneOf, play
from experiments._build import as_shown
from experiments._cache import keep_compiled_programs
from experiments._common_world import common_world
from experiments._config import check_limits, cli
from experiments._crossplay import read_all
from experiments._errors import UsageError, run_to_exit_code
from experiments._folder import short_name
from experiments._heldout import HELD_OUT, HeldOut, build_partners, read_held_out
from experiments._lineups import different_names
from experiments._results import write_json
from experiments._statistics import bootstrap_interval, interquartile_mean, interval_of_mean


@dataclasses.dataclass(frozen=True)
class Config:
    """Plays trained policies with held-out partners, in every seat, and leaves their returns."""

    policies: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")]
    ] = ()
    """Folders of runs (of one seed or of many), policy files or checkpoints."""
    partners: Annotated[Path, tyro.conf.arg(metavar="FILE")] = HELD_OUT
    """The file that describes the partners."""
    scripts_only: bool = False
    """Leave out the partners that are trained policies."""
    which: Literal["policy", "best", "last"] = "policy"
    """Of a folder: policy.safetensors, or a checkpoint."""
    episodes: int = 64
    """Episodes with every partner, in each seat."""
    greedy: bool = False
    """Take the most probable actions, instead of drawing them."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def run_command_line() -> int:
    """Runs the command line; as `run_to_exit_code`."""
    return run_to_exit_code(run, sys.argv[1:])


def run(args: Sequence[str]) -> None:
    """**Raises:** what `run_command_line` turns into a sentence."""
    config = cli(Config(), args, "python experiments/partners.py", Config.__doc__ or "")
    _check(config)
    held_out, seed = read_held_out(config.partners)
    held_out = [x for x in held_out if x.kind != "policy" or not config.scripts_only]
    policies = read_all(config.policies, config.which, None)
    settings, world = common_world(policies)
    title, env = settings.env.title, as_shown(settings, world)
    partners = build_partners(held_out, config.partners, short_name(title), env)
    folder = config.out or Path("runs") / _folder_name(title)
    # Where nobody looks at a terminal, no line is broken in two.
    console = Console(width=None if sys.stdout.isatty() else 160, emoji=False)
    console.print(
        f"{len(partners)} held-out partners in [bold]{escape(short_name(title))}[/], "
        f"{config.episodes} episodes with each in every seat",
        highlight=False,
    )
    keep_compiled_programs()
    folder.mkdir(parents=True, exist_ok=True)
    keys = jax.random.split(jax.random.key(seed), config.episodes)
    returns = np.stack(
        [
            play_with(env, OneOf([PolicyPartner(x.policy, config.greedy), *partners]), keys)
            for x in policies
        ]
    )
    names = different_names([saved.name for saved in policies])
    scores = returns.mean(axis=(0, 2, 3))
    result = {
        "command": shlex.join(["python", "experiments/partners.py", *args]),
        "world": settings.env.name,
        "layout": title,
        "policies": [str(saved.path) for saved in policies],
        "partners_file": str(config.partners),
        "actions": "greedy" if config.greedy else "drawn",
        "episodes": config.episodes,
        "seed": seed,
        **summary(held_out, scores),
    }
    write_rows(folder / "partners.csv", names, held_out, returns)
    write_json(folder / "partners.json", result)
    _print(console, held_out, returns, result)
    for name in ("partners.json", "partners.csv"):
        console.print(Text(str(folder / name), overflow="fold"), soft_wrap=True)


def _check(config: Config) -> None:
    """**Raises:** `UsageError` for flags that are out of range."""
    check_limits(config)
    if not config.policies:
        raise UsageError("Name the folder of a run, or a policy file; --help says more.")
    if config.episodes < 2:
        raise UsageError("--episodes must be at least 2: there is no interval around one episode.")
    if config.out is not None and (config.out / "config.toml").exists():
        raise UsageError(f"{str(config.out)!r} is the folder of a run: choose another --out.")


def play_with(
    env: AbstractEnv, everybody: OneOf, keys: PRNGKeyArray
) -> Float[np.ndarray, "partners seats episodes"]:
    """Plays the first of some partners with each of the others, as one program.

    **Arguments:**

    - `env`: one environment.
    - `everybody`: the one who is judged, and then the others.
    - `keys`: the randomness of each episode; the same with everybody.

    **Returns:** the return (the mean over the agents) of every episode, by the seat of the one who
    is judged. The partner has all other seats.
    """
    partners, seats = np.arange(1, everybody.num_partners), np.arange(env.num_agents)
    own = seats[:, None] == seats
    numbers = jnp.asarray(np.where(own[None], 0, partners[:, None, None]))
    return np.asarray(_play(env, everybody, numbers, keys))


@eqx.filter_jit
def _play(
    env: AbstractEnv,
    everybody: OneOf,
    numbers: Int[Array, "partners seats agents"],
    keys: PRNGKeyArray,
) -> Float[Array, "partners seats episodes"]:
    def game(numbers: Int[Array, " agents"], key: PRNGKeyArray) -> Float[Array, ""]:
        team = [everybody.pick(number) for number in numbers]
        return play(env, team, key).episode_return.mean()

    games = jax.vmap(game, in_axes=(None, 0))
    return jax.vmap(jax.vmap(games, in_axes=(0, None)), in_axes=(0, None))(numbers, keys)


def summary(
    partners: Sequence[HeldOut], scores: Float[np.ndarray, " partners"]
) -> Mapping[str, Any]:
    """What the scores say.

    **Arguments:**

    - `partners`: who they were earned with.
    - `scores`: the mean return with each, over runs, seats and episodes.

    **Returns:** their interquartile mean over the partners, and its interval.
    """
    low, high = bootstrap_interval(scores)
    return {
        "return_iqm": float(interquartile_mean(scores)),
        "return_interval": [float(low), float(high)],
        "returns": {x.name: float(score) for x, score in zip(partners, scores, strict=True)},
    }


def write_rows(
    path: Path,
    names: Sequence[str],
    partners: Sequence[HeldOut],
    returns: Float[np.ndarray, "runs partners seats episodes"],
) -> None:
    """Writes a row for every policy with every partner in every seat: `low` and `high` are the ends
    of the interval of 95 % around the mean.
    """
    low, high = interval_of_mean(returns)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["policy", "partner", "seat", "mean", "std", "low", "high", "episodes"])
    for where in np.ndindex(*returns.shape[:3]):
        own, (number, partner, seat) = returns[where], where
        row = [float(x) for x in (own.mean(), own.std(), low[where], high[where])]
        writer.writerow([names[number], partners[partner].name, seat, *row, len(own)])
    write_whole(path, text.getvalue().encode())


def _print(
    console: Console,
    partners: Sequence[HeldOut],
    returns: Float[np.ndarray, "runs partners seats episodes"],
    result: Mapping[str, Any],
) -> None:
    means = returns.mean(axis=(0, 3))
    table = Table("partner", box=None, pad_edge=False, header_style="dim")
    for seat in range(means.shape[1]):
        table.add_column(f"return in seat {seat}", justify="right")
    for partner, row in zip(partners, means, strict=True):
        table.add_row(Text(partner.name), *(f"{mean:.1f}" for mean in row))
    console.print(table)
    low, high = result["return_interval"]
    console.print(
        f"interquartile mean over the partners [bold]{result['return_iqm']:.1f}[/] (95 % interval "
        f"{low:.1f} to {high:.1f})",
        highlight=False,
    )


def _folder_name(title: str) -> str:
    return f"partners-{short_name(title)}-{time.strftime('%Y%m%d-%H%M%S')}"
