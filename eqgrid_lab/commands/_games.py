"""Games of teams of partners, and the table of their returns."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eqgrid import AbstractEnv, AbstractPartner, OneOf, play

from ..show import interval_of_mean


def play_with(
    env: AbstractEnv, partners: Sequence[AbstractPartner], keys: PRNGKeyArray
) -> Float[np.ndarray, "partners seats episodes"]:
    """Plays episodes of the first partner with each of the others, in every seat.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partner to evaluate, followed by the others.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** the return (the mean over the agents) of every episode, by the other partner and by
    the seat of the first one. The other partner has all other seats.
    """
    own = np.eye(env.num_agents, dtype=bool)
    others = np.arange(1, len(partners))[:, None, None]
    return play_teams(env, partners, np.where(own, 0, others), keys)


def play_all(
    env: AbstractEnv, partners: Sequence[AbstractPartner], keys: PRNGKeyArray
) -> Float[np.ndarray, "first second episodes"]:
    """Plays episodes of every pair of partners, in both orders, and of every partner with itself.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partners.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** the return (the mean over the agents) of every episode, in which the first partner
    has the first seat, and the second one all others.
    """
    first, second = np.mgrid[: len(partners), : len(partners)]
    teams = np.stack([first, *[second] * (env.num_agents - 1)], axis=-1)
    return play_teams(env, partners, teams, keys)


def play_teams(
    env: AbstractEnv,
    partners: Sequence[AbstractPartner],
    teams: Int[np.ndarray, "rows columns agents"],
    keys: PRNGKeyArray,
) -> Float[np.ndarray, "rows columns episodes"]:
    """Plays episodes of many teams in one compiled program: teams one after another, and all
    episodes of a team at once, so that only the partners of this team are computed.

    **Arguments:**

    - `env`: one environment.
    - `partners`: the partners of all teams.
    - `teams`: the index of the partner that acts for each agent.
    - `keys`: a key for each episode; the same for all teams.

    **Returns:** the return (the mean over the agents) of every episode.
    """
    return np.asarray(_play(env, OneOf(partners), jnp.asarray(teams), keys))


@eqx.filter_jit
def _play(
    env: AbstractEnv,
    one_of: OneOf,
    teams: Int[Array, "rows columns agents"],
    keys: PRNGKeyArray,
) -> Float[Array, "rows columns episodes"]:
    def games(numbers: Int[Array, " agents"]) -> Float[Array, " episodes"]:
        team = [one_of.alone(number) for number in numbers]
        return jax.vmap(lambda key: play(env, team, key).episode_return.mean())(keys)

    rows, columns, agents = teams.shape
    return jax.lax.map(games, teams.reshape(-1, agents)).reshape(rows, columns, len(keys))


def score_rows(
    returns: Float[np.ndarray, "*games episodes"], **names: Sequence[Any]
) -> list[dict[str, Any]]:
    """Builds a table with a row for the episodes of each team.

    **Arguments:**

    - `returns`: the return of every episode.
    - `names`: the names of the entries of every axis but the last one.

    **Returns:** the rows by column: the names, the `mean` and the `std` of the returns, the ends
    `low` and `high` of the 95 % confidence interval of the mean, and the number of `episodes`.
    """
    low, high = interval_of_mean(returns)
    numbers = {"mean": returns.mean(-1), "std": returns.std(-1), "low": low, "high": high}
    return [
        {
            **{axis: own[i] for (axis, own), i in zip(names.items(), where, strict=True)},
            **{name: float(x[where]) for name, x in numbers.items()},
            "episodes": returns.shape[-1],
        }
        for where in np.ndindex(*returns.shape[:-1])
    ]
