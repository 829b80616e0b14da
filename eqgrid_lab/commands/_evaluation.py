"""The command `eqgrid evaluate`: evaluates policies in every seat, with returns and videos."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, final

import jax
import jax.numpy as jnp
import tyro
from msgspec import Meta
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from agents import (
    OutOfMemory,
    PartnerTeam,
    evaluate,
    record_episodes,
    save_trajectories,
    write_atomic,
)
from eqgrid import AbstractVectorEnv, Trajectories

from ..base import RunError, Table, UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, shown_path, write_json
from ..partners import Place, is_policy
from ..runs import mean_totals
from ..settings import Seed, read_flags
from ..show import (
    drawing,
    path_text,
    print_paths,
    print_table,
    return_texts,
    video_episode,
    with_deviation,
)
from ._policies import Game, PolicyFlags, judging_env, lineups, short_names


@dataclasses.dataclass(frozen=True)
class Config(PolicyFlags):
    """Evaluates trained policies, alone or together, and writes a folder of returns and videos."""

    layout: str | None = None
    """Layout to play in; by default, the layout of training."""
    episodes: Annotated[int, Meta(ge=1, le=2**14)] = 256
    """Episodes of every team with sampled actions, and the same number with greedy actions."""
    seed: Seed = 0
    """Seed of all randomness."""
    video: bool = True
    """Write GIFs of the games."""
    trajectories: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write all episodes, step by step, into a new .npz file."""


@final
@dataclasses.dataclass(frozen=True)
class Team:
    """A team to evaluate, with sampled or with greedy actions.

    **Arguments:**

    - `number`: the number of the team, from 1.
    - `seats`: the name of the policy of every agent.
    - `policy`: the policies of all agents.
    - `actions`: `"drawn"` (sampled) or `"greedy"`.
    """

    number: int
    seats: tuple[str, ...]
    policy: PartnerTeam
    actions: str


def evaluate_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "files that were written are kept")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    config = read_flags(Config(), args, "eqgrid evaluate")
    if config.trajectories is not None:
        check_file(config.trajectories)
    game = Game.open(config, config.layout)
    place, env = game.place, game.place.settings
    many = judging_env(place, config.episodes, tuple(env.totals(place.world)))
    teams = [
        Team(number, x.seats, x.team(actions == "greedy"), actions)
        for number, x in enumerate(lineups(game), 1)
        for actions in ("drawn", "greedy")
    ]
    files = [game.partners.read(name).file for name in game.names if is_policy(name)]
    layout = env.title
    title = short_name(layout)
    with open_results(f"evaluation-{title}", config.out) as (folder, console):
        console.print(
            f"{config.episodes} episodes in [bold]{escape(title)}[/] for each team", highlight=False
        )
        keep_compiled_programs()
        game.partners.record(folder)
        results = [_evaluate_team(team, many, place, config.seed) for team in teams]
        evaluation = {
            "policies": [shown_path(file.path) for file in files],
            "trained_steps": [file.metadata.get("env_steps") for file in files],
            "world": env.name,
            "layout": layout if "\n" in layout else shown_path(layout),
            "episodes": config.episodes,
            "seed": config.seed,
            "results": results,
        }
        _print_scores(console, results)
        _print_events(console, results)
        write_json(folder / "evaluation.json", evaluation)
        if config.trajectories is not None:
            longest = max(result["length_max"] for result in results)
            key = jax.random.key(config.seed)  # plays the evaluated episodes again
            episodes = (
                record_episodes(
                    team.policy, many, key, greedy=team.actions == "greedy", max_steps=longest
                )
                for team in teams
            )
            write_episodes(config.trajectories, episodes)
            console.print(Text(f"trajectories: {config.trajectories}"), soft_wrap=True)
        for sentence in env.remarks():
            console.print(escape(sentence), highlight=False)
        has_videos = env.has_video and config.video
        videos = _draw_videos(folder, teams, place, config.seed) if has_videos else []
        print_paths(console, [folder / name for name in ("evaluation.json", *videos)])
        game.partners.finish()


def _evaluate_team(team: Team, many: AbstractVectorEnv, place: Place, seed: int) -> Table:
    """Evaluates one team. All teams use the same random key, so they play the same layouts.

    **Returns:** an entry of `results` in `evaluation.json`.
    """
    greedy = team.actions == "greedy"
    games = evaluate(team.policy, many, jax.random.key(seed), greedy=greedy)
    returns = games.episode_return.mean(axis=-1)
    totals = mean_totals(games, place.settings.totals(place.world))
    return {
        "team": team.number,
        "seats": list(team.seats),
        "actions": team.actions,
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_of_agents": games.episode_return.mean(axis=0).tolist(),
        "length_mean": float(games.episode_length.mean()),
        "length_max": int(games.episode_length.max()),
        "events": {name.partition("_")[2]: each.tolist() for name, each in totals.items()},
    }


def _draw_videos(folder: Path, teams: Sequence[Team], place: Place, seed: int) -> list[str]:
    """Draws one video for every team, with sampled actions.

    **Returns:** the names of the files.
    """
    names, one = [], judging_env(place, 1)
    draw = functools.partial(place.settings.draw, place.world)
    for number, team in enumerate(team for team in teams if team.actions == "drawn"):
        key = jax.random.fold_in(jax.random.key(seed), number)
        names.append("episode.gif" if number == 0 else f"episode-{number + 1}.gif")
        with drawing(folder / names[-1]):
            video = video_episode(team.policy, one, draw, key, place.settings.horizon)
            write_atomic(folder / names[-1], video)
    return names


def _print_scores(console: Console, results: Sequence[Table]) -> None:
    seats = [f"seat {seat}" for seat in range(len(results[0]["seats"]))]
    names = list(dict.fromkeys(seat for x in results for seat in x["seats"]))
    labels = dict(zip(names, short_names(names), strict=True))
    differ = any(len({*x["return_of_agents"]}) > 1 for x in results)
    rows = [
        [
            str(x["team"]),
            *(path_text(Path(labels[seat])) for seat in x["seats"]),
            x["actions"],
            with_deviation(x["return_mean"], x["return_std"]),
            *([", ".join(return_texts(x["return_of_agents"]))] if differ else []),
            f"{x['length_mean']:.1f}",
        ]
        for x in results
    ]
    header = ("team", *seats, "actions", "return", *(["of each seat"] if differ else []), "steps")
    print_table(console, header, rows, words=len(seats) + 2)


def _print_events(console: Console, results: Sequence[Table]) -> None:
    """Prints the mean number of each event per episode, with a column for each team. A cell
    contains one number for each seat. Events that never happened are left out.
    """
    counts = {name: [x["events"][name] for x in results] for name in results[0]["events"]}
    rows = [
        [name, *("  ".join(f"{count:.2f}" for count in seats) for seats in columns)]
        for name, columns in counts.items()
        if any(map(any, columns))
    ]
    teams = [f"team {x['team']}, {x['actions']}" for x in results]
    if rows:
        print_table(console, ("events in an episode, seat by seat", *teams), rows)


_FLAG = "--trajectories"


def check_file(path: Path) -> None:
    """Checks that the file of --trajectories can be written, before any episode is played.

    **Raises:** `UsageError` when the file cannot be written.
    """
    if path.suffix != ".npz":
        raise UsageError(f"{_FLAG} needs a file that ends in .npz, not {str(path)!r}.")
    if path.exists():
        raise UsageError(f"The file {str(path)!r} exists: choose another for {_FLAG}.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {str(path.parent)!r} for {_FLAG}: make it first.")


def write_episodes(path: Path, episodes: Iterable[Trajectories]) -> None:
    """Writes the episodes of all teams into one file, as `save_trajectories`.

    **Arguments:**

    - `path`: the file.
    - `episodes`: the episodes of each team; an iterator may play them on demand.

    **Raises:** `RunError` when the episodes do not fit into memory, and `OSError` when the file
    cannot be written.
    """
    try:
        recorded = list(episodes)
    except OutOfMemory as error:
        raise RunError(f"{error}: lower --episodes, or leave out {_FLAG}.") from error
    save_trajectories(path, jax.tree.map(lambda *x: jnp.concatenate(x), *recorded))
