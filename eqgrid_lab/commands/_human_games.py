"""The command `human_games.py`: recorded games, their heat maps, and comparisons with people."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, final

import jax
import numpy as np
import tyro
from jaxtyping import Float, UInt8
from msgspec import Meta
from rich.console import Console
from rich.text import Text

from agents import write_atomic
from eqgrid import AbstractEnv, Trajectories, record_play
from eqgrid.envs.overcooked import Behaviour, Overcooked, behaviour
from eqgrid.envs.overcooked.people import (
    HumanGame,
    trajectories_from_games,
)
from eqgrid.grid import Layout, render

from ..base import UsageError, keep_compiled_programs, run_command
from ..folders import open_results, short_name, write_csv, write_json
from ..runs import SavedPolicy
from ..settings import PolicySettings, Seed, program, read_flags
from ..show import (
    caption,
    interval_of_mean,
    new_figure,
    print_paths,
    print_table,
    return_text,
    running_return,
    with_last,
    write_figure,
)
from ..worlds import kitchen_layout, recorded_games
from ._policies import PolicyFlags, common_world, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SCRIPT = "experiments/human_games.py"
_STEPS = 400
"""The length of the episodes of policies in worlds without a horizon, in steps."""
_COLUMNS = ("return", "stay", "interact", "walks", "collisions", "bumps", "stuck")
_CELL_INCHES, _CELL_PIXELS, _LETTER_INCHES = 0.5, 96, 0.08


@dataclasses.dataclass(frozen=True)
class Config(PolicyFlags):
    """Shows returns, actions and positions of people in recorded games. With policies, also plays
    games of each policy with itself, and shows the same statistics of these games.
    """

    kitchen: str | None = None
    """One kitchen; by default, all kitchens, or the kitchens of the policies."""
    split: Literal["train", "test"] | None = None
    """One half of the games of 2019; by default, both."""
    games: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Table of recorded games, instead of Overcooked-AI's games."""
    video: Annotated[int, Meta(ge=0)] | None = None
    """Number of a game in games.csv to write as a GIF."""
    episodes: Annotated[int, Meta(ge=2, le=2**12)] = 32
    """Episodes of each policy with itself."""
    seed: Seed = 0
    """Seed of the episodes of policies."""


@final
class Group(NamedTuple):
    """Games of one kitchen by one kind of player.

    - `name`: the players, such as `people, train half`, or the name of a policy.
    - `layout`: the kitchen.
    - `games`: the games.
    - `found`: statistics of the players' behaviour.
    - `recorded`: the recorded games of people; empty for a policy.
    """

    name: str
    layout: Layout
    games: Trajectories
    found: Behaviour
    recorded: tuple[HumanGame, ...] = ()


def human_games_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    config = read_flags(Config(), args, SCRIPT)
    policies = config.read_all_seeds() if config.policies else []
    kitchen = config.kitchen
    common = common_world(policies) if policies else None
    if common is not None:
        settings, _ = common
        kitchen = kitchen or settings.env.title
    games = recorded_games(config.games, config.split, kitchen)
    if config.video is not None and config.video >= len(games):
        raise UsageError(f"--video must be below {len(games)}, the number of these games.")
    with open_results(f"human-games-{kitchen or 'all'}", config.out) as (folder, console):
        keep_compiled_programs()
        groups = _groups_of_people(games)
        _print_people(console, groups)
        for own in groups.values():
            if common is not None:
                own += _groups_of_policies(config, policies, common, own[0].layout)
        paths = []
        for name, own in groups.items():
            if policies:
                _print_behaviour(console, name, own)
            paths.append(folder / f"where-{short_name(name)}.png")
            draw_heat_maps(paths[-1], own[0].layout, [(x.name, x.games) for x in own], name)
        if config.video is not None:
            paths.append(folder / f"game-{config.video}.gif")
            write_atomic(paths[-1], video_of(games[config.video]))
        summary = {name: [_statistics(group) for group in own] for name, own in groups.items()}
        about = {"command": f"{program(SCRIPT)} {shlex.join(args)}"}
        write_json(folder / "human_games.json", about | {"kitchens": summary})
        write_csv(folder / "games.csv", _game_rows(games, groups))
        print_paths(console, [folder / "human_games.json", folder / "games.csv", *paths])


def _groups_of_people(games: Sequence[HumanGame]) -> dict[str, list[Group]]:
    """The games of people: for each kitchen, a group for each half of the data."""
    parts: dict[tuple[str, str | None], list[HumanGame]] = {}
    for game in games:
        parts.setdefault((game.kitchen, game.split), []).append(game)
    groups: dict[str, list[Group]] = {}
    for (kitchen, split), own in parts.items():
        name = "people" if split is None else f"people, {split} half"
        joined, layout = trajectories_from_games(own), own[0].layout
        group = Group(name, layout, joined, behaviour(joined, Overcooked(layout)), tuple(own))
        groups.setdefault(kitchen, []).append(group)
    return groups


def _groups_of_policies(
    config: Config,
    policies: Sequence[SavedPolicy],
    common: tuple[PolicySettings, AbstractEnv],
    layout: Layout,
) -> list[Group]:
    """Games of each policy with itself, in the world that `common_world` returned.

    **Raises:** `UsageError` when `layout` is not the kitchen of the policies.
    """
    settings, world = common
    trained = kitchen_layout(world)
    if trained is None or not np.array_equal(np.asarray(trained.tiles), np.asarray(layout.tiles)):
        raise UsageError(
            f"The policies were trained in {short_name(settings.env.title)}: leave out --kitchen."
        )
    shown = settings.observe(world)
    keys = jax.random.split(jax.random.key(config.seed), config.episodes)
    groups = []
    names = short_names([saved.name for saved in policies])
    for name, saved in zip(names, policies, strict=True):
        team = [saved.partner(settings, shown)] * shown.num_agents
        games = record_play(shown, team, keys, max_steps=settings.env.horizon or _STEPS)
        groups.append(Group(name, trained, games, behaviour(games, shown)))
    return groups


def _print_people(console: Console, groups: dict[str, list[Group]]) -> None:
    rows = []
    for kitchen, own in groups.items():
        for group in own:
            means = {x: _mean(y) for x, y in group.found.numbers().items()}
            first, *shares = [means[name] for name in _COLUMNS]
            counts = [
                f"{len(group.found.steps)}",
                f"{group.found.steps.sum():,}",
                return_text(first),
            ]
            rows.append([Text(kitchen), Text(group.name), *counts, *(f"{x:.1%}" for x in shares)])
    header = ("kitchen", "who", "games", "steps", "return in 400 steps", *_COLUMNS[1:])
    print_table(console, header, rows, words=2)


def _print_behaviour(console: Console, kitchen: str, groups: Sequence[Group]) -> None:
    """Prints every statistic of people and policies.

    A star marks each mean of a policy that differs from the mean of people by more than two
    standard deviations of the games of people.
    """
    numbers, rows = [(group, group.found.numbers()) for group in groups], []
    for name in numbers[0][1]:
        of_people = np.concatenate([own[name] for group, own in numbers if group.recorded])
        mean = _mean(of_people)
        deviation = _mean((of_people - mean) ** 2) ** 0.5
        cells = []
        for group, own in numbers:
            value = _mean(own[name])
            far = not group.recorded and abs(value - mean) > 2 * deviation
            cells.append(Text("none" if np.isnan(value) else f"{value:.3g}{' *' if far else ''}"))
        rows.append([Text(name), *cells])
    names = [Text(group.name) for group in groups]
    print_table(console, ("statistic", *names), rows, title=f"behaviour in {kitchen}")
    console.print("* differs from people by more than two standard deviations of human games")


def _mean(numbers: Float[np.ndarray, " games"]) -> float:
    """The mean over the games whose number is not NaN; NaN if there are none."""
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else np.nan


def _statistics(group: Group) -> dict[str, object]:
    """The statistics of a group for the JSON file: means over its games with 95 % intervals."""
    numbers = {}
    for name, each in group.found.numbers().items():
        known = each[~np.isnan(each)]
        low, high = interval_of_mean(known[None]) if len(known) > 1 else (known, known)
        numbers[name] = {
            "mean": float(known.mean()) if len(known) else None,
            "interval": [float(low[0]), float(high[0])] if len(known) else None,
            "std": float(known.std()) if len(known) else None,
        }
    steps = group.found.steps
    return {"who": group.name, "games": len(steps), "steps": int(steps.sum()), **numbers}


def _game_rows(
    games: Sequence[HumanGame], groups: Mapping[str, Sequence[Group]]
) -> list[dict[str, object]]:
    """A row for each game of people, in the order in which `--video` counts them."""
    found = {}
    for group in (group for own in groups.values() for group in own):
        numbers = group.found.numbers()
        for i, game in enumerate(group.recorded):
            found[id(game)] = {name: float(each[i]) for name, each in numbers.items()}
    return [
        {
            "number": number,
            "kitchen": game.kitchen,
            "split": game.split or "",
            "trial": game.trial,
            "players": ", ".join(game.players),
            "steps": len(game.action),
            "seconds": float(game.time[-1]),
            **found[id(game)],
        }
        for number, game in enumerate(games)
    ]


def video_of(game: HumanGame) -> bytes:
    """A GIF of a recorded game at its original speed, with the return so far. Games of agents, for
    which step numbers are recorded instead of times, are shown at 8 steps per second.
    """
    scores = running_return(np.asarray(game.reward.mean(axis=1)))
    states = with_last(game.state, game.final_state)
    seconds = float(game.time[-1] - game.time[0])
    speed = (len(game.time) - 1) / seconds if seconds > 0 else 1.0
    return Overcooked(game.layout).render_episode(
        states,
        captions=[caption(score) for score in scores[: len(states.time)]],
        cell_pixels=48,
        frames_per_second=min(speed, 50) if speed > 1 else 8,
    )


def draw_heat_maps(
    path: Path, layout: Layout, groups: Sequence[tuple[str, Trajectories]], title: str
) -> None:
    """Draws heat maps of the share of time that agents spend in each cell, over a picture of the
    kitchen. The figure has a row for each group, a panel for each seat, and one colour scale.

    **Arguments:**

    - `path`: the PNG file.
    - `layout`: the kitchen.
    - `groups`: for each group of games, the name of the players and the games.
    - `title`: the name of the kitchen in the title.

    **Raises:** `PictureError` and `OSError`.
    """
    (height, width), seats = layout.tiles.shape, layout.num_agents
    shares = [[share_of_time(x, (height, width), i) for i in range(seats)] for _, x in groups]
    most = max(float(share.max()) for row in shares for share in row)
    figure = new_figure(
        seats * (_CELL_INCHES * width + 0.2) + 0.9,
        len(groups) * (_CELL_INCHES * height + 0.55) + 0.4,
    )
    kitchen, most_letters = empty_kitchen(layout), int(_CELL_INCHES * width / _LETTER_INCHES)
    images = []
    for row, ((name, games), own) in enumerate(zip(groups, shares, strict=True)):
        for seat, share in enumerate(own):
            axes = figure.add_subplot(len(groups), seats, row * seats + seat + 1)
            images.append(_draw_panel(axes, layout, kitchen, share, most))
            start = np.asarray(games.state.bodies.position[0, seat])
            axes.plot(start[1], start[0], "o", ms=26, mfc="none", mec="#D1495B", mew=1.6)
            label = name.removesuffix(".safetensors")
            label = label if len(label) <= most_letters else Path(label).name
            label = label if len(label) <= most_letters else label[: most_letters - 3] + "..."
            axes.set_title(f"{label}\nseat {seat}", fontsize=9, loc="left")
    bar = figure.colorbar(images[0], ax=figure.axes, shrink=0.8, format=lambda x, _: f"{x:.0%}")
    bar.set_label("share of the time; a ring marks the start", fontsize=8)
    figure.suptitle(f"Positions of the agents in {title}", fontsize=10)
    write_figure(path, figure, dpi=130)


def _draw_panel(
    axes: "Axes",
    layout: Layout,
    kitchen: UInt8[np.ndarray, "rows cols 3"],
    share: Float[np.ndarray, "height width"],
    most: float,
) -> "AxesImage":
    """Draws one panel: the kitchen, and a colour and a number over each cell of its floor.

    **Returns:** the image, for the colour bar.
    """
    height, width = share.shape
    floor = np.isin(np.asarray(layout.tiles), layout.kinds.walkable)
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(kitchen, extent=extent)
    cells = np.ma.masked_array(share, ~floor)
    shown = axes.imshow(cells, cmap="PuBu", vmin=0, vmax=most, extent=extent)
    for row, col in np.argwhere(floor & (share > 0)).tolist():
        own = share[row, col]
        text = f"{own:.0%}" if own >= 0.005 else "<1%"
        colour = "white" if own > 0.55 * most else "#333333"
        axes.text(col, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])
    axes.spines[:].set_visible(False)
    return shown


def empty_kitchen(layout: Layout) -> UInt8[np.ndarray, "rows cols 3"]:
    """The picture of a kitchen without cooks and without the bar below the kitchen."""
    bodies = jax.tree.map(lambda x: x[:0], layout.start.bodies)
    world = dataclasses.replace(layout.start, bodies=bodies)
    return render(layout, world, cell_pixels=_CELL_PIXELS)[: len(layout.tiles) * _CELL_PIXELS]


def share_of_time(
    games: Trajectories, shape: tuple[int, int], seat: int
) -> Float[np.ndarray, "height width"]:
    """The share of time that one agent spends in each cell.

    **Arguments:**

    - `games`: games in a grid world.
    - `shape`: the height and the width of the grid.
    - `seat`: the seat of the agent.
    """
    position = np.asarray(games.state.bodies.position)[:, seat]
    count = np.zeros(shape)
    np.add.at(count, (position[:, 0], position[:, 1]), 1)
    return count / len(position)
