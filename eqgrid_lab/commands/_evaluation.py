"""The command `evaluate.py`: the returns of policies in every seat, with films and a card."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, final

import jax
import tyro
from msgspec import Meta
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from agents import ActorCritic, PartnerTeam, evaluate, record_episodes, write_whole
from eqgrid import AbstractEnv, AbstractVectorEnv, Trajectories

from ..base import UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, shown_path, write_json
from ..runs import SavedPolicy, mean_totals
from ..settings import PolicySettings, Seed, read_flags
from ..show import film_episode, path_text, print_paths, print_table, with_deviation
from ..worlds import WorldSettings
from ._card import upload, write_card
from ._policies import PolicyFlags, common_world, judging_env, lineups, short_names
from ._trajectories import check_file, kitchen_of_table, write_episodes


@dataclasses.dataclass(frozen=True)
class Config(PolicyFlags):
    """Evaluates trained policies, alone or together, and writes a folder of returns and films."""

    layout: str | None = None
    """Layout to play in; by default, the layout of training."""
    episodes: Annotated[int, Meta(ge=1, le=2**14)] = 256
    """Episodes of every team with sampled actions, and the same number with greedy actions."""
    seed: Seed = 0
    """Seed of all randomness."""
    film: bool = True
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

    - `settings`: the settings of the first policy, whose world can also render its states.
    - `world`: one environment, before features are appended to its observations.
    - `many`: one environment for each episode.
    - `one`: a single environment, for the film.
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
    """A team to evaluate, with drawn or with greedy actions.

    **Arguments:**

    - `number`: the number of the team, from 1.
    - `seats`: the name of the policy of every agent.
    - `policy`: the policies of all agents.
    - `actions`: `"drawn"` or `"greedy"`.
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
    place = _place(policies, config)
    file, world = config.trajectories, place.world
    kitchen = None if file is None else kitchen_of_table(file, world, place.settings.env)
    shown = place.settings.observe(place.world)
    teams = [
        Team(
            number,
            lineup.seats,
            lineup.players(place.settings, shown, greedy=actions == "greedy"),
            actions,
        )
        for number, lineup in enumerate(seats, 1)
        for actions in ("drawn", "greedy")
    ]
    name = place.env.title
    title = short_name(name)
    with open_results(f"evaluation-{title}", config.out) as (folder, console):
        console.print(
            f"{config.episodes} episodes in [bold]{escape(title)}[/] for each team", highlight=False
        )
        keep_compiled_programs()
        results = [_judge(team, place, config.seed) for team in teams]
        evaluation = {
            "policies": [shown_path(saved.path) for saved in policies],
            "trained_steps": [saved.metadata.get("env_steps") for saved in policies],
            "world": place.env.name,
            "layout": name if "\n" in name else shown_path(name),
            "episodes": config.episodes,
            "seed": config.seed,
            "results": results,
        }
        _print_scores(console, results)
        _print_events(console, results)
        write_json(folder / "evaluation.json", evaluation)
        if config.trajectories is not None:
            longest = max(result["length_max"] for result in results)
            episodes = (_record(team, place, config.seed, longest) for team in teams)
            named = [(f"team {team.number}, {team.actions}", team.seats) for team in teams]
            write_episodes(config.trajectories, kitchen, title, named, episodes)
            console.print(Text(f"trajectories: {config.trajectories}"), soft_wrap=True)
        for sentence in place.env.remarks():
            console.print(escape(sentence), highlight=False)
        drawn = place.env.has_film and config.film
        films = _draw_films(folder, teams, place, config.seed) if drawn else []
        print_paths(console, [folder / name for name in ("evaluation.json", *films)])
        if config.card is not None:
            write_card(config.card, policies[0], evaluation, folder)
            console.print(Text(f"model card: {config.card / 'README.md'}"), soft_wrap=True)
        if config.card is not None and config.upload is not None:
            console.print(Text(f"uploaded: {upload(config.card, config.upload)}"), soft_wrap=True)


def _check(config: Config) -> None:
    """**Raises:** `UsageError` for flags that do not fit together, and for paths that exist."""
    if config.card is not None and len(config.policies) > 1:
        raise UsageError("--card describes one policy: name one only.")
    if config.trajectories is not None:
        check_file(config.trajectories)
    if config.upload is not None and config.card is None:
        raise UsageError("--upload uploads a model card: add --card, with a folder to write it to.")
    if config.card is not None and config.card.exists() and any(config.card.iterdir()):
        raise UsageError(f"The folder {str(config.card)!r} is not empty: choose another --card.")


def _place(policies: Sequence[SavedPolicy], config: Config) -> Place:
    """Builds the environments of the evaluation.

    **Raises:** `UsageError` when the world cannot be built, or a policy does not fit it.
    """
    settings, world = common_world(policies, config.layout)
    many = judging_env(settings, world, config.episodes, tuple(settings.env.totals(world)))
    return Place(settings, world, many, judging_env(settings, world, 1))


def _judge(team: Team, place: Place, seed: int) -> dict[str, Any]:
    """Plays the episodes of one team. All teams have the same layouts and random numbers."""
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


def _record(team: Team, place: Place, seed: int, longest: int) -> Trajectories:
    """Records the episodes that `_judge` plays, none of which has more than `longest` steps."""
    key, greedy = jax.random.key(seed), team.actions == "greedy"
    return record_episodes(team.policy, place.many, key, greedy=greedy, max_steps=longest)


def _draw_films(folder: Path, teams: Sequence[Team], place: Place, seed: int) -> list[str]:
    """Draws one film for every team, with drawn actions.

    **Returns:** the names of the files.
    """
    names = []
    draw = functools.partial(place.env.draw, place.world)
    for number, team in enumerate(team for team in teams if team.actions == "drawn"):
        key = jax.random.fold_in(jax.random.key(seed), number)
        names.append("episode.gif" if number == 0 else f"episode-{number + 1}.gif")
        film = film_episode(team.policy, place.one, draw, key, place.env.horizon)
        write_whole(folder / names[-1], film)
    return names


def _print_scores(console: Console, results: Sequence[Mapping[str, Any]]) -> None:
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


def _print_events(console: Console, results: Sequence[Mapping[str, Any]]) -> None:
    """Prints how often each event happened in an episode: a column for every team, with one number
    for each seat. Events that never happened are left out.
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
