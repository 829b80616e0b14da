"""The command `evaluate.py`: evaluates policies in every seat, and writes returns, videos and a
model card.
"""

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
    ActorCritic,
    OutOfMemory,
    PartnerTeam,
    evaluate,
    record_episodes,
    save_trajectories,
    write_atomic,
    write_table,
)
from eqgrid import AbstractEnv, AbstractVectorEnv, Trajectories, interop
from eqgrid.envs.overcooked.reference import trajectories_to_reference
from eqgrid.grid import Layout

from ..base import RunError, Table, UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, shown_path, write_json
from ..runs import mean_totals
from ..settings import PolicySettings, Seed, read_flags
from ..show import path_text, print_paths, print_table, video_episode, with_deviation
from ..worlds import WorldSettings, kitchen_layout, reference_name
from ._card import upload, write_card
from ._policies import PolicyFlags, common_world, judging_env, lineups, short_names


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
    """Write all episodes, step by step, into a new .parquet or .npz file."""
    card: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write a model card, with the policy, into a new folder."""
    upload: Annotated[str | None, tyro.conf.arg(metavar="NAME/REPO")] = None
    """Upload the folder of --card to the Hugging Face hub (needs the [hub] extra)."""


@final
@dataclasses.dataclass(frozen=True)
class Place:
    """The world in which the policies are evaluated.

    **Arguments:**

    - `settings`: the settings of the first policy; `settings.env` can also draw states.
    - `world`: one environment, before features are appended to its observations.
    - `many`: a vector environment with one environment for each episode.
    - `one`: a vector environment with a single environment, for the video.
    """

    settings: PolicySettings
    world: AbstractEnv
    many: AbstractVectorEnv
    one: AbstractVectorEnv

    @property
    def env(self) -> WorldSettings:
        """The settings of the world."""
        return self.settings.env


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
    policy: ActorCritic | PartnerTeam
    actions: str


def evaluate_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "files that were written are kept")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    config = read_flags(Config(), args, "experiments/evaluate.py")
    _check(config)
    policies = config.read(config.layout)
    seats = lineups([dataclasses.replace(x, name=shown_path(x.name)) for x in policies])
    settings, world = common_world(policies, config.layout)
    many = judging_env(settings, world, config.episodes, tuple(settings.env.totals(world)))
    place = Place(settings, world, many, judging_env(settings, world, 1))
    file, shown = config.trajectories, settings.observe(world)
    kitchen = None if file is None else kitchen_of_table(file, world, settings.env)
    teams = [
        Team(number, x.seats, x.players(settings, shown, greedy=actions == "greedy"), actions)
        for number, x in enumerate(seats, 1)
        for actions in ("drawn", "greedy")
    ]
    layout = place.env.title
    title = short_name(layout)
    with open_results(f"evaluation-{title}", config.out) as (folder, console):
        console.print(
            f"{config.episodes} episodes in [bold]{escape(title)}[/] for each team", highlight=False
        )
        keep_compiled_programs()
        results = [_evaluate_team(team, place, config.seed) for team in teams]
        evaluation = {
            "policies": [shown_path(saved.path) for saved in policies],
            "trained_steps": [saved.metadata.get("env_steps") for saved in policies],
            "world": place.env.name,
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
            named = [(f"team {team.number}, {team.actions}", team.seats) for team in teams]
            write_episodes(config.trajectories, kitchen, title, named, episodes)
            console.print(Text(f"trajectories: {config.trajectories}"), soft_wrap=True)
        for sentence in place.env.remarks():
            console.print(escape(sentence), highlight=False)
        has_videos = place.env.has_video and config.video
        videos = _draw_videos(folder, teams, place, config.seed) if has_videos else []
        print_paths(console, [folder / name for name in ("evaluation.json", *videos)])
        if config.card is not None:
            write_card(config.card, policies[0], evaluation, folder)
            console.print(Text(f"model card: {config.card / 'README.md'}"), soft_wrap=True)
        if config.card is not None and config.upload is not None:
            console.print(Text(f"uploaded: {upload(config.card, config.upload)}"), soft_wrap=True)


def _check(config: Config) -> None:
    """**Raises:** `UsageError` for incompatible flags, and for output paths that exist."""
    if config.card is not None and len(config.policies) > 1:
        raise UsageError("--card describes one policy: name one only.")
    if config.trajectories is not None:
        check_file(config.trajectories)
    if config.upload is not None and config.card is None:
        raise UsageError("--upload uploads a model card: add --card, with a folder to write it to.")
    if config.card is not None and config.card.exists() and any(config.card.iterdir()):
        raise UsageError(f"The folder {str(config.card)!r} is not empty: choose another --card.")


def _evaluate_team(team: Team, place: Place, seed: int) -> Table:
    """Evaluates one team. All teams use the same random key, so they play the same layouts.

    **Returns:** an entry of `results` in `evaluation.json`.
    """
    greedy = team.actions == "greedy"
    games = evaluate(team.policy, place.many, jax.random.key(seed), greedy=greedy)
    returns = games.episode_return.mean(axis=-1)
    totals = mean_totals(games, place.env.totals(place.world))
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
    names = []
    draw = functools.partial(place.env.draw, place.world)
    for number, team in enumerate(team for team in teams if team.actions == "drawn"):
        key = jax.random.fold_in(jax.random.key(seed), number)
        names.append("episode.gif" if number == 0 else f"episode-{number + 1}.gif")
        video = video_episode(team.policy, place.one, draw, key, place.env.horizon)
        write_atomic(folder / names[-1], video)
    return names


def _print_scores(console: Console, results: Sequence[Table]) -> None:
    seats = [f"seat {seat}" for seat in range(len(results[0]["seats"]))]
    names = list(dict.fromkeys(seat for x in results for seat in x["seats"]))
    labels = dict(zip(names, short_names(names), strict=True))
    rows = [
        [
            str(x["team"]),
            *(path_text(Path(labels[seat])) for seat in x["seats"]),
            x["actions"],
            with_deviation(x["return_mean"], x["return_std"]),
            f"{x['length_mean']:.1f}",
        ]
        for x in results
    ]
    header = ("team", *seats, "actions", "return", "steps")
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
    if path.suffix not in (".parquet", ".npz"):
        raise UsageError(f"{_FLAG} needs a file that ends in .parquet or .npz, not {str(path)!r}.")
    if path.exists():
        raise UsageError(f"The file {str(path)!r} exists: choose another for {_FLAG}.")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {str(path.parent)!r} for {_FLAG}: make it first.")
    if path.suffix == ".parquet":
        try:
            _ = interop.to_parquet  # imports pyarrow, and fails if it is not installed
        except ImportError as error:
            raise UsageError(f"{error} Or name a .npz file.") from error


def kitchen_of_table(path: Path, world: AbstractEnv, settings: WorldSettings) -> Layout | None:
    """The Overcooked kitchen of a world, if its episodes can be stored in a table.

    **Arguments:**

    - `path`: the file.
    - `world`: the world in which the episodes are played.
    - `settings`: the settings of the world.

    **Returns:** the kitchen; `None` if the world is not a kitchen, or is a kitchen that is padded
    to the size of other kitchens, which tables cannot store.

    **Raises:** `UsageError` when the file is a Parquet file and there is no such kitchen.
    """
    layout = kitchen_layout(world)
    if layout is not None:
        named = kitchen_layout(settings.build(train=False))
        if named is not None and layout.tiles.shape == named.tiles.shape:
            return layout
    if path.suffix == ".parquet":
        raise UsageError(
            "A .parquet table needs episodes in one kitchen without padding: name an .npz file "
            f"for {_FLAG}."
        )
    return None


def write_episodes(
    path: Path,
    kitchen: Layout | None,
    title: str,
    teams: Sequence[tuple[str, Sequence[str]]],
    episodes: Iterable[Trajectories],
) -> None:
    """Writes the episodes of all teams into one file.

    Episodes in a kitchen of Overcooked are written as a table with the columns of Overcooked-AI's
    human games. Episodes in other worlds are written as arrays.

    **Arguments:**

    - `path`: the file.
    - `kitchen`, `title`: the kitchen from `kitchen_of_table`, and its name.
    - `teams`: for each team, its name and the name of the policy in each seat.
    - `episodes`: the episodes of each team; an iterator may play them on demand.

    **Raises:** `RunError` when the episodes do not fit into memory, and `OSError` when the file
    cannot be written.
    """
    try:
        recorded = list(episodes)
    except OutOfMemory as error:
        raise RunError(f"{error}: lower --episodes, or leave out {_FLAG}.") from error
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *recorded)
    if kitchen is None:
        save_trajectories(path, joined)
        return
    labels = [
        (f"{name}, episode {number + 1}", seats)
        for (name, seats), own in zip(teams, recorded, strict=True)
        for number in range(len(own.length))
    ]
    trial_ids, players = zip(*labels, strict=True)
    table = trajectories_to_reference(
        joined, kitchen, layout_name=reference_name(title), trial_ids=trial_ids, players=players
    )
    write_table(path, table)
