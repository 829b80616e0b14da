"""Reads the policies that a command names, forms teams of them, and plays their games."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, final

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
from ..folders import short_name
from ..runs import SavedPolicy, policies_of, read_policy
from ..settings import (
    PolicySettings,
    at_home,
    default_settings,
    given,
    load_script,
    shipped_script,
)
from ..show import interval_of_mean
from ..worlds import WorldSettings, check_same_game, world_settings


@dataclasses.dataclass(frozen=True)
class PolicyFlags:
    """The flags that name the policies and the folder of the results."""

    policies: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")]
    ] = ()
    """Folders of runs, policy files, or shipped:NAME for a bundled policy."""
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script that trained them, if any; its code is run."""
    env_name: Annotated[str | None, tyro.conf.arg(name="env.name", metavar="MODULE:NAME")] = None
    """Your own world that they were trained in, if any; its module is imported."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""

    @property
    def own_world(self) -> str | None:
        """The user's own world that the command line names, if any.

        **Raises:** `UsageError` when a name is not `MODULE:NAME`.
        """
        if self.env_name is not None and not is_own(self.env_name):
            raise UsageError(
                f"--env.name {self.env_name!r:.60} is not MODULE:NAME of your own world: leave it "
                "out, since policy files contain the name of every other world."
            )
        return self.env_name

    def own_script(self) -> type[PolicySettings] | None:
        """The custom script that the command line names, if any. **Raises:** as `load_script`."""
        return None if self.script is None else load_script(self.script)

    def read(self, layout: str | None = None) -> list[SavedPolicy]:
        """Reads the policies.

        **Arguments:**

        - `layout`: the layout to play in; by default, the layout of training.

        **Returns:** the policies, with the settings of their runs.

        **Raises:** `UsageError` when no policy is named, and as `read_policy`.
        """
        if not self.policies:
            raise UsageError("Name the folder of a run, or a policy file; see --help.")
        script, world = self.own_script(), self.own_world
        return [read_policy(path, layout, script, world) for path in self.policies]

    def read_all_seeds(self, layout: str | None = None) -> list[SavedPolicy]:
        """Reads the policies as `read`, with all seeds of each run with many seeds.

        **Raises:** as `read`, and `UsageError` when a policy is named twice.
        """
        policies = tuple(file for path in self.policies for file in policies_of(path))
        found = dataclasses.replace(self, policies=policies).read(layout)
        files = [saved.path.resolve() for saved in found]
        for i, saved in enumerate(found):
            if files[i] in files[:i]:
                raise UsageError(f"The policy {saved.name!r} is named twice: name each one once.")
        return found


def first_world(args: Sequence[str]) -> WorldSettings:
    """The world of a command line: the value of `--env.name`, or the world of the policy that is
    its first word.

    **Raises:** as `world_settings` and `read_policy`.
    """
    args = at_home(args)
    words = given(args)
    name, script = words.get("--env.name"), words.get("--script")
    first = next(iter(args), "-")
    if name is not None or first.startswith("-"):
        return world_settings(name)
    own_script = None if script is None else load_script(Path(script))
    return read_policy(policies_of(Path(first))[0], own_script=own_script).config.env


def settings_to_play(env: WorldSettings) -> PolicySettings:
    """The settings of a world in which people and policies play: the world as evaluated, without
    normalisation of observations.
    """
    played: Any = env
    played = dataclasses.replace(played.as_judged(), normalize_observation=False)
    return default_settings(shipped_script("ippo"), played)


def common_world(
    policies: Sequence[SavedPolicy], layout: str | None = None
) -> tuple[PolicySettings, AbstractEnv]:
    """Builds the world in which all policies were trained, to play in it. The world does not
    normalise observations, since policies do it themselves.

    **Arguments:**

    - `policies`: at least one policy.
    - `layout`: the layout with which the policies were read; `None` for the layout of training.

    **Returns:** the settings of the first policy, and the world before features are appended to its
    observations.

    **Raises:** `UsageError` when the worlds of the policies differ, the layout does not exist, or a
    policy does not fit the world; `CheckpointError` when the file of the first policy contains
    settings from which no world can be built, or which the policy does not fit.
    """
    first: Any = policies[0].config.env
    for other in policies[1:]:
        check_same_game(repr(policies[0].name), first, repr(other.name), other.config.env)
        if other.config.env.title != first.title:
            raise UsageError(
                f"{policies[0].name!r} was trained in {short_name(first.title)}, but "
                f"{other.name!r} in {short_name(other.config.env.title)}: choose with --layout."
            )
    env: Any = dataclasses.replace(first, normalize_observation=False)
    settings = dataclasses.replace(policies[0].config, env=env)
    try:
        env.check()
        world = settings.env.build(train=False)
        if layout is not None and not (trained := policies[0].trained_in).layout_files:
            # If the policy was trained in several layouts including this one, the layout is padded
            # to the size of the largest layout.
            padded = (trained.parts() | trained.zero_shot()).get(layout)
            world = world if padded is None else padded.env  # a pool of this layout alone
        shown = settings.observe(world)
    except (ValueError, UsageError) as error:
        if not isinstance(error, UsageError) and not is_for_users(error):
            raise
        if layout is None:
            where = f"The world of the policy {str(policies[0].path)!r} cannot be built"
            raise CheckpointError(f"{where}: {error}") from error
        raise UsageError(str(error)) from error
    for saved in policies:
        try:
            saved.partner(settings, shown)
        except ValueError as error:
            if not is_for_users(error):
                raise
            own_world = layout is None and saved is policies[0]
            raise (CheckpointError if own_world else UsageError)(
                f"{saved.name!r} cannot act in {env.name}, {short_name(env.title)}: {error}"
            ) from error
    return settings, world


def judging_env(
    settings: PolicySettings, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
) -> AbstractVectorEnv:
    """Many environments for evaluation, which reset themselves and log their episodes.

    **Arguments:**

    - `settings`, `world`: the settings and the world that `common_world` returned.
    - `num_envs`: the number of environments.
    - `totals`: the entries of `info` that are summed over each episode.
    """
    return Vectorize(AutoReset(LogEpisodes(settings.observe(world), totals)), num_envs)


@final
@dataclasses.dataclass(frozen=True)
class Lineup:
    """The policies of one team.

    **Arguments:**

    - `seats`: the name of the policy of every agent.
    - `policies`: the policy of every agent.
    """

    seats: tuple[str, ...]
    policies: tuple[SavedPolicy, ...]

    def players(self, settings: PolicySettings, shown: AbstractEnv, *, greedy: bool) -> PartnerTeam:
        """The team, for `evaluate`.

        **Arguments:**

        - `settings`: the settings that `common_world` returned.
        - `shown`: the world with the observations of these settings.
        - `greedy`: take the most probable actions instead of sampling them.
        """
        return PartnerTeam(
            [saved.partner(settings, shown, greedy=greedy) for saved in self.policies]
        )


def lineups(policies: Sequence[SavedPolicy]) -> list[Lineup]:
    """The teams to evaluate, with every policy in every seat.

    Several policies form a team, which is rotated through the seats. A single policy plays with
    itself, in one team if its agents share their parameters. If its agents have independent
    parameters, the agents are rotated through the seats.

    **Arguments:**

    - `policies`: one policy, or one policy for each agent.

    **Returns:** the teams, one for each rotation.

    **Raises:** `UsageError` when the number of policies is neither 1 nor the number of agents.
    """
    num_agents = policies[0].policy.num_agents
    turns = [[(i + shift) % num_agents for i in range(num_agents)] for shift in range(num_agents)]
    if len(policies) == 1:
        [saved] = policies
        if not isinstance(saved.policy.actor_critic.actor, IndependentParameters):
            return [Lineup((saved.name,) * num_agents, (saved,) * num_agents)]
        return [
            Lineup(
                tuple(f"{saved.name} (agent {i})" for i in turn),
                (dataclasses.replace(saved, policy=saved.policy.reorder(turn)),) * num_agents,
            )
            for turn in turns
        ]
    if len(policies) != num_agents:
        raise UsageError(
            f"A team has {num_agents} agents: name one policy, which plays with itself, or "
            f"{num_agents} policies, not {len(policies)}."
        )
    names = different_names([saved.name for saved in policies])
    return [
        Lineup(tuple(names[i] for i in turn), tuple(policies[i] for i in turn)) for turn in turns
    ]


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
