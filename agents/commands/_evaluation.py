"""The program behind `evaluate.py`: policies in, a folder with numbers and films out."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, final

import jax
import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agents import Evaluation, evaluate, mixed_team, record_episodes, write_whole
from agents.runs._cache import keep_compiled_programs
from agents.runs._command import run_command
from agents.runs.display._errors import UsageError
from agents.runs.display._film import film_episode
from agents.runs.folders._folder import short_name
from agents.runs.folders._handed_on import shown_path
from agents.runs.folders._results import open_results, write_json
from agents.runs.settings._flags import cli
from agents.runs.settings._limits import check_limits
from agents.runs.settings._page import load_page
from agents.runs.single._evaluator import mean_totals
from agents.runs.single._policies import SavedPolicy, read_policy
from agents.runs.worlds._world_config import AbstractWorldConfig
from eqgrid import AbstractEnv, AbstractVectorEnv, Trajectories

from ._card import write_card
from ._common_world import common_world, judging_env
from ._hub import upload
from ._lineups import Lineup, lineups
from ._trajectories import check_file, check_world, write_episodes


@dataclasses.dataclass(frozen=True)
class Config:
    """Evaluates trained policies, alone or together, and leaves a folder with numbers and films."""

    policies: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")]
    ] = ()
    """Folders of runs, policy files or checkpoints."""
    which: Literal["policy", "best", "last"] = "policy"
    """Of a folder: policy.safetensors, or a checkpoint."""
    layout: str | None = None
    """Another layout than the one trained in."""
    episodes: int = 256
    """Episodes of every team, drawn and greedy each."""
    seed: int = 0
    """Seed of everything that is random."""
    no_film: bool = False
    """Draw no films."""
    trajectories: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write all episodes, step by step, into a new .parquet or .npz file."""
    card: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write a model card, with the policy, into a new folder."""
    upload: Annotated[str | None, tyro.conf.arg(metavar="NAME/REPO")] = None
    """Upload that folder to the Hugging Face hub (needs the [hub] extra)."""
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """The page that trained them, where it is one of your own; its code is run."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


@final
@dataclasses.dataclass(frozen=True)
class Place:
    """Where the policies are judged.

    **Arguments:**

    - `title`: what the layout is called.
    - `settings`: of the world, which draw its states.
    - `world`: the world itself.
    - `env`: as many environments as episodes are played.
    - `one`: one environment, for the film.
    - `horizon`: how many steps an episode has at most, if that is known.
    """

    title: str
    settings: AbstractWorldConfig
    world: AbstractEnv
    env: AbstractVectorEnv
    one: AbstractVectorEnv
    horizon: int | None


def evaluate_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "what was written before is kept")


def run(args: Sequence[str]) -> None:
    """**Raises:** what `run_command` turns into a sentence."""
    config = cli(Config(), args, "python experiments/evaluate.py", Config.__doc__ or "")
    _check(config)
    which = None if config.which == "policy" else config.which
    own = None if config.page is None else load_page(config.page)
    policies = [read_policy(path, which, config.layout, own) for path in config.policies]
    teams = lineups([dataclasses.replace(x, name=shown_path(x.name)) for x in policies])
    place = _place(policies, config)
    if config.trajectories is not None:
        check_world(config.trajectories, place.world)
    title = short_name(place.title)
    with open_results(f"evaluation-{title}", config.out) as (folder, console):
        console.print(
            f"{config.episodes} episodes in [bold]{escape(title)}[/] for each team", highlight=False
        )
        keep_compiled_programs()
        results = [
            _judge(number, team, greedy, place, config.seed)
            for number, team in enumerate(teams)
            for greedy in (False, True)
        ]
        evaluation = {
            "policies": [shown_path(saved.path) for saved in policies],
            "trained_steps": [saved.metadata.get("env_steps") for saved in policies],
            "world": policies[0].config.env.name,
            "layout": place.title if "\n" in place.title else shown_path(place.title),
            "episodes": config.episodes,
            "seed": config.seed,
            "results": results,
        }
        _print_scores(console, results)
        _print_events(console, results)
        write_json(folder / "evaluation.json", evaluation)
        if config.trajectories is not None:
            longest = max(result["length_max"] for result in results)
            _write_episodes(config.trajectories, teams, place, config.seed, longest)
            console.print(Text(f"trajectories: {config.trajectories}"), soft_wrap=True)
        for sentence in place.settings.remarks():
            console.print(escape(sentence), highlight=False)
        drawn = place.settings.has_film and not config.no_film
        films = _draw_films(folder, teams, place, config.seed) if drawn else []
        for name in ("evaluation.json", *films):
            console.print(Text(str(folder / name), overflow="fold"), soft_wrap=True)
        if config.card is not None:
            write_card(config.card, policies[0], evaluation, folder)
            console.print(Text(f"model card: {config.card / 'README.md'}"), soft_wrap=True)
        if config.card is not None and config.upload is not None:
            console.print(Text(f"uploaded: {upload(config.card, config.upload)}"), soft_wrap=True)


def _check(config: Config) -> None:
    """**Raises:** `UsageError` for flags that are out of range, or cannot go together."""
    check_limits(config)
    if not config.policies:
        raise UsageError("Name the folder of a run, or a policy file; --help says more.")
    if config.card is not None and len(config.policies) > 1:
        raise UsageError("--card describes one policy: name one only.")
    if config.trajectories is not None:
        check_file(config.trajectories)
    if config.upload is not None and config.card is None:
        raise UsageError("--upload uploads a model card: add --card, with a folder to write it to.")
    if config.card is not None and config.card.exists() and any(config.card.iterdir()):
        raise UsageError(f"The folder {str(config.card)!r} is not empty: choose another --card.")


def _place(policies: Sequence[SavedPolicy], config: Config) -> Place:
    """**Raises:** `UsageError` when there is no such world, or a policy does not fit into it."""
    settings, world = common_world(policies, config.layout)
    env: Any = settings.env
    many = judging_env(settings, world, config.episodes, tuple(env.totals(world)))
    one = judging_env(settings, world, 1)
    return Place(env.title, env, world, many, one, env.horizon)


def _judge(number: int, team: Lineup, greedy: bool, place: Place, seed: int) -> dict[str, Any]:
    """Plays the episodes of one team: the same layouts and luck for every team."""
    games = evaluate(mixed_team(team.policies), place.env, jax.random.key(seed), greedy=greedy)
    returns = games.episode_return.mean(axis=-1)
    return {
        "team": number + 1,
        "seats": list(team.seats),
        "actions": "greedy" if greedy else "drawn",
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_of_agents": games.episode_return.mean(axis=0).tolist(),
        "length_mean": float(games.episode_length.mean()),
        "length_max": int(games.episode_length.max()),
        "events": _events(games, place),
    }


def _events(games: Evaluation, place: Place) -> dict[str, list[float]]:
    """How often each event happened in an episode, or what was summed of it, for every agent."""
    means = mean_totals(games, place.settings.totals(place.world))
    return {name.partition("_")[2]: of_agents.tolist() for name, of_agents in means.items()}


def _write_episodes(
    path: Path, teams: Sequence[Lineup], place: Place, seed: int, longest: int
) -> None:
    """The episodes that were judged, in the order of the results: with the same keys. None of them
    has more than `longest` steps.
    """
    played = [(team, greedy) for team in teams for greedy in (False, True)]

    def play(number: int) -> Trajectories:
        team, greedy = played[number]
        policy, key = mixed_team(team.policies), jax.random.key(seed)
        return record_episodes(policy, place.env, key, greedy=greedy, max_steps=longest)

    names = [
        f"team {number // 2 + 1}, {'greedy' if greedy else 'drawn'}"
        for number, (_, greedy) in enumerate(played)
    ]
    seats = [team.seats for team, _ in played]
    named = list(zip(names, seats, strict=True))
    write_episodes(path, place.world, short_name(place.title), named, play)


def _draw_films(folder: Path, teams: Sequence[Lineup], place: Place, seed: int) -> list[str]:
    """One film for every team, with drawn actions."""
    names = []
    for number, team in enumerate(teams):
        key = jax.random.fold_in(jax.random.key(seed), number)
        names.append("episode.gif" if number == 0 else f"episode-{number + 1}.gif")
        draw = functools.partial(place.settings.draw, place.world)
        film = film_episode(mixed_team(team.policies), place.one, draw, key, place.horizon)
        write_whole(folder / names[-1], film)
    return names


def _print_scores(console: Console, results: Sequence[dict[str, Any]]) -> None:
    num_agents = len(results[0]["seats"])
    table = Table("team", *(f"seat {i}" for i in range(num_agents)), "actions")
    for name in ("return", "steps"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            str(result["team"]),
            *(Text(_short(seat), overflow="fold") for seat in result["seats"]),
            result["actions"],
            f"{result['return_mean']:.2f} ± {result['return_std']:.2f}",
            f"{result['length_mean']:.1f}",
        )
    console.print(table)


def _print_events(console: Console, results: Sequence[dict[str, Any]]) -> None:
    """How often each event happened in an episode: a column for every team, with one number for
    each seat.
    """
    table = Table("events in an episode, seat by seat")
    for result in results:
        table.add_column(f"team {result['team']}, {result['actions']}", justify="right")
    for name in results[0]["events"]:
        counts = [result["events"][name] for result in results]
        if any(map(any, counts)):
            cells = ("  ".join(f"{count:.2f}" for count in agents) for agents in counts)
            table.add_row(name, *cells)
    if table.row_count:
        console.print(table)


def _short(seat: str) -> str:
    """The last parts of a path, which tell two of them apart."""
    return str(Path(*Path(seat).parts[-3:]))
