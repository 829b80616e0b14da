"""Reads the policies that a command names, forms teams of them, and plays their games."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float, Int, PRNGKeyArray

from agents import CheckpointError, IndependentParameters, PartnerTeam
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    AbstractVectorEnv,
    AutoReset,
    LogEpisodes,
    OneOf,
    Vectorize,
    play,
)
from eqgrid.errors import is_for_users

from ..base import UsageError, is_own
from ..folders import short_name, shown_path
from ..partners import (
    Partners,
    Place,
    SavedPolicy,
    changes_of,
    expanded,
    is_policy,
    load_parts,
    policies_of,
)
from ..show import interval_of_mean
from ..worlds import check_same_game


@dataclasses.dataclass(frozen=True)
class PolicyFlags:
    """The flags that name the policies and the folder of the results."""

    policies: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN|FILE|PARTNER ...")]
    ] = ()
    """Folders of runs, policy files, shipped:NAME for a bundled policy, or other partners, such as
    greedy. The first policy names the world."""
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script with their networks, if any; its code is run."""
    env_name: Annotated[str | None, tyro.conf.arg(name="env.name", metavar="MODULE:NAME")] = None
    """Your own world that they were trained in, if any; its module is imported."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""

    def builder(self, layout: str | None = None) -> Partners:
        """What builds the partners that the command line names.

        **Raises:** `UsageError` when a flag is wrong.
        """
        if self.env_name is not None and not is_own(self.env_name):
            raise UsageError(
                f"--env.name {self.env_name!r:.60} is not MODULE:NAME of your own world: leave it "
                "out, since policy files contain the name of every other world."
            )
        return Partners(load_parts(self.script), self.env_name, layout)


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Game:
    """The partners that a command line names, and the world in which they play.

    **Arguments:**

    - `names`: the name of each partner.
    - `shown`: the name of each partner in results.
    - `partners`: builds the partners.
    - `place`: the world of the first policy.
    """

    names: list[str]
    shown: list[str]
    partners: Partners
    place: Place

    @classmethod
    def open(
        cls, flags: PolicyFlags, layout: str | None = None, *, all_seeds: bool = False
    ) -> "Game":
        """Reads the policies and builds the world.

        **Arguments:**

        - `flags`: the command line.
        - `layout`: the layout to play in; by default, the layout of training.
        - `all_seeds`: whether a run stands for the policies of all of its seeds.

        **Raises:** `UsageError` when no policy is named, a partner is named twice, the worlds of
        the policies differ, the layout does not exist, or a partner cannot act in the world;
        `CheckpointError` when a file is missing or damaged, or its world cannot be built.
        """
        partners, names = flags.builder(layout), list(flags.policies)
        named = [x for x in names if is_policy(x)]
        if not named:
            raise UsageError("Name the folder of a run, or a policy file; see --help.")
        if all_seeds:
            title = partners.read(policies_of(named[0])[0]).env.title
            names = expanded(names, title)
        saved = {x: partners.read(x) for x in names if is_policy(x)}
        if all_seeds:
            _check_different(names, saved)
        first, *others = saved.values()
        for other in others:
            check_same_game(repr(first.name), first.env, repr(other.name), other.env)
            if other.env.title != first.env.title:
                raise UsageError(
                    f"{first.name!r} was trained in {short_name(first.env.title)}, but "
                    f"{other.name!r} in {short_name(other.env.title)}: choose with --layout."
                )
        place = _place_of(first, layout)
        for name in names:
            partners.build(name, place)
        shown = [saved[x].name if x in saved else x for x in names]
        return cls(names, shown, partners, place)

    def team(self, numbers: Sequence[int], *, greedy: bool) -> list[AbstractPartner]:
        """The partners with these numbers.

        **Arguments:**

        - `numbers`: the indices in `names`.
        - `greedy`: whether policies take the most probable actions instead of sampling them.
        """
        built = {
            i: self.partners.build(self.names[i], self.place, greedy=greedy).partner
            for i in dict.fromkeys(numbers)
        }
        return [built[i] for i in numbers]


def _check_different(names: Sequence[str], saved: Mapping[str, SavedPolicy]) -> None:
    """**Raises:** `UsageError` when two names stand for the same partner."""
    found: list[str] = []
    for name in names:
        file = str(saved[name].file.path.resolve()) if name in saved else name
        found.append(file + changes_of(name))
        if found.count(found[-1]) > 1:
            raise UsageError(f"The partner {name!r} is named twice: name each one once.")


def _place_of(first: SavedPolicy, layout: str | None) -> Place:
    """The world of a policy.

    **Raises:** as `Game.open`.
    """
    try:
        first.env.check()
        place = first.place()
        if layout is not None and not first.trained_in.layout_files:
            # If the policy was trained in several layouts including this one, the layout is padded
            # to the size of the largest layout.
            several = first.trained_in.parts() | first.trained_in.zero_shot()
            if layout in several:  # a pool of this layout alone
                world = several[layout].env
                place = Place.of(first.env, first.file.observe, world)
        return place
    except (ValueError, UsageError) as error:
        if not isinstance(error, UsageError) and not is_for_users(error):
            raise
        if layout is None:
            where = f"The world of the policy {str(first.file.path)!r} cannot be built"
            raise CheckpointError(f"{where}: {error}") from error
        raise UsageError(str(error)) from error


def judging_env(place: Place, num_envs: int, totals: Sequence[str] = ()) -> AbstractVectorEnv:
    """Many environments for evaluation, which reset themselves and log their episodes.

    **Arguments:**

    - `place`: the world.
    - `num_envs`: the number of environments.
    - `totals`: the entries of `info` that are summed over each episode.
    """
    return Vectorize(AutoReset(LogEpisodes(place.env, totals)), num_envs)


@final
@dataclasses.dataclass(frozen=True)
class Lineup:
    """The partners of one team.

    **Arguments:**

    - `seats`: the name of the partner of every agent.
    - `team`: returns the team, given whether policies take the most probable actions.
    """

    seats: tuple[str, ...]
    team: Callable[[bool], PartnerTeam]


def lineups(game: Game) -> list[Lineup]:
    """The teams to evaluate, with every partner in every seat.

    Several partners form a team, which is rotated through the seats. A single policy plays with
    itself, in one team if its agents share their parameters. If its agents have independent
    parameters, the agents are rotated through the seats.

    **Arguments:**

    - `game`: one policy, or one partner for each agent.

    **Returns:** the teams, one for each rotation.

    **Raises:** `UsageError` when the number of partners is neither 1 nor the number of agents.
    """
    place, names = game.place, [shown_path(x) for x in game.shown]
    num_agents = place.env.num_agents
    turns = [[(i + shift) % num_agents for i in range(num_agents)] for shift in range(num_agents)]

    def team(turn: Sequence[int], greedy: bool) -> PartnerTeam:
        return PartnerTeam(game.team(turn, greedy=greedy))

    if len(names) == 1:
        saved = game.partners.read(game.names[0])

        def reordered(turn: Sequence[int], greedy: bool) -> PartnerTeam:
            file = dataclasses.replace(saved.file, policy=saved.policy.reorder(list(turn)))
            partner = dataclasses.replace(saved, file=file).partner(place, greedy=greedy)
            return PartnerTeam([partner] * num_agents)

        independent = isinstance(saved.policy.actor_critic.actor, IndependentParameters)
        if not independent or changes_of(game.names[0]):
            return [Lineup((names[0],) * num_agents, functools.partial(team, [0] * num_agents))]
        return [
            Lineup(
                tuple(f"{names[0]} (agent {i})" for i in turn), functools.partial(reordered, turn)
            )
            for turn in turns
        ]
    if len(names) != num_agents:
        raise UsageError(
            f"A team has {num_agents} agents: name one policy, which plays with itself, or "
            f"{num_agents} policies, not {len(names)}."
        )
    names = different_names(names)
    return [Lineup(tuple(names[i] for i in turn), functools.partial(team, turn)) for turn in turns]


def short_names(names: Sequence[str]) -> list[str]:
    """Short labels of policies for tables and plots: the shortest unique endings of their paths.

    Labels that still occur more than once get a number.
    """
    labels, parts = [], [Path(name).parts for name in names]
    for own in parts:
        others = [other for other in parts if other != own]
        sizes = range(1, len(own) + 1)
        size = next((n for n in sizes if all(x[-n:] != own[-n:] for x in others)), len(own))
        labels.append(str(Path(*own[-size:])))
    return different_names(labels)


def different_names(names: list[str]) -> list[str]:
    """The names, with a number appended to each name that occurs more than once."""
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]


def play_with(
    env: AbstractEnv, partners: Sequence[AbstractPartner], keys: PRNGKeyArray
) -> Float[np.ndarray, "partners seats episodes"]:
    """Plays episodes of the first partner with each of the others, in every seat.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partner to evaluate, followed by its partners.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** the return (the mean over the agents) of every episode, by the partner of the first
    partner and by the seat of the first partner. The partner has all other seats.
    """
    own = np.eye(env.num_agents, dtype=bool)
    others = np.arange(1, len(partners))[:, None, None]
    return np.stack([*play_teams(env, partners, np.where(own, 0, others), keys)])


def play_all(
    env: AbstractEnv, partners: Sequence[AbstractPartner], keys: PRNGKeyArray
) -> Iterator[Float[np.ndarray, "second episodes"]]:
    """Plays episodes of every pair of partners, in both orders, and of every partner with itself.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partners.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** for each partner in the first seat, the return (the mean over the agents) of every
    episode, by the partner in all other seats.
    """
    first, second = np.mgrid[: len(partners), : len(partners)]
    teams = np.stack([first, *[second] * (env.num_agents - 1)], axis=-1)
    return play_teams(env, partners, teams, keys)


def play_teams(
    env: AbstractEnv,
    partners: Sequence[AbstractPartner],
    teams: Int[np.ndarray, "rows columns agents"],
    keys: PRNGKeyArray,
) -> Iterator[Float[np.ndarray, "columns episodes"]]:
    """Plays episodes of many teams, one row after another, with one compiled program.

    The program plays one team after another, and all episodes of a team in parallel. So it computes
    only the partners of the current team.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partners of all teams.
    - `teams`: the index in `partners` of each agent of each team.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** for each row, the return (the mean over the agents) of every episode.
    """
    one_of = OneOf(partners)
    for row in teams:
        yield np.asarray(_play(env, one_of, jnp.asarray(row), keys))


@eqx.filter_jit
def _play(
    env: AbstractEnv,
    one_of: OneOf,
    teams: Int[Array, "teams agents"],
    keys: PRNGKeyArray,
) -> Float[Array, "teams episodes"]:
    def games(numbers: Int[Array, " agents"]) -> Float[Array, " episodes"]:
        team = [one_of.alone(number) for number in numbers]
        return jax.vmap(lambda key: play(env, team, key).episode_return.mean())(keys)

    return jax.lax.map(games, teams)


def score_rows(
    returns: Float[np.ndarray, "*games episodes"], **names: Sequence[object]
) -> list[dict[str, object]]:
    """Builds a table with a row for the episodes of each team.

    **Arguments:**

    - `returns`: the return of every episode.
    - `names`: for every axis but the last, in order, its column and the labels of its entries.

    **Returns:** the rows by column: the labels, the `mean` and the `std` of the returns, the ends
    `low` and `high` of the 95 % confidence interval of the mean, and the number of `episodes`.
    """
    low, high = interval_of_mean(returns)
    numbers = {"mean": returns.mean(-1), "std": returns.std(-1), "low": low, "high": high}
    return [
        {
            **{column: labels[i] for (column, labels), i in zip(names.items(), game, strict=True)},
            **{column: float(x[game]) for column, x in numbers.items()},
            "episodes": returns.shape[-1],
        }
        for game in np.ndindex(*returns.shape[:-1])
    ]
