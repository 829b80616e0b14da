"""The recorded games that a model of people learns from, and those that are held out."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from agents import Demonstrations, demonstrations
from eqgrid import AbstractEnv, unwrap
from eqgrid.envs.overcooked.people import HumanGame, human_games, read_games
from eqgrid.grid import GridWorld
from eqgrid.typing import PyTree

from ..base import UsageError
from ._settings import Cloning


@final
@dataclasses.dataclass(frozen=True)
class Recorded:
    """Recorded games of one kitchen, with what a model observes in them.

    **Arguments:**

    - `games`: the games.
    - `observations`: the observations of all agents before each step of each game.
    - `held_out`: the indices of the games that are held out.
    """

    games: tuple[HumanGame, ...]
    observations: tuple[PyTree, ...]
    held_out: tuple[int, ...]

    def shown(self, *, held_out: bool, length: int | None = None) -> Demonstrations:
        """The demonstrations to learn from, or those that are held out; see `demonstrations`."""
        chosen = [i for i in range(len(self.games)) if (i in self.held_out) == held_out]
        return demonstrations(
            [(self.observations[i], np.asarray(self.games[i].action)) for i in chosen], length
        )

    @property
    def returns(self) -> Float[np.ndarray, " games"]:
        """The return of each game in 400 steps, where the best soup pays 20."""
        return np.asarray([_return_of(game) for game in self.games])


def read_recorded(config: Cloning, world: AbstractEnv) -> Recorded:
    """Reads the games that the settings name.

    **Arguments:**

    - `config`: the settings.
    - `world`: the kitchen, with the observations of the model.

    **Raises:** `UsageError` when the games cannot be read, are none in this kitchen, or are of too
    few people for some to be held out.
    """
    kitchen: Any = config.env
    try:
        if config.games is None:
            games = human_games(config.split, kitchen=kitchen.layout)
        else:
            games = read_games(config.games, kitchen=kitchen.layout)
    except (ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    held_out = choose_held_out([game.players for game in games], config.held_out)
    return Recorded(games, _observations(world, games), held_out)


def _return_of(game: HumanGame) -> float:
    recipes: Any = game.layout.params
    price = float(jnp.where(recipes.ordered, recipes.value, 0).max())
    return float(game.reward[:, 0].sum()) / price * 20 * 400 / len(game.action)


def choose_held_out(players: Sequence[Sequence[str]], share: float) -> tuple[int, ...]:
    """Chooses the games to hold out, such that no person is in games of both kinds.

    **Arguments:**

    - `players`: the people in each game.
    - `share`: the share of the games to hold out, at least: people are held out, the last first,
        until there are as many games, rounded.

    **Returns:** the indices of the games.

    **Raises:** `UsageError` when all games are of people who played with one another.
    """
    names = sorted({name for game in players for name in game})
    links = [(i, names.index(name)) for i, game in enumerate(players) for name in game]
    rows, columns = np.asarray(links).T
    graph = coo_array(
        (np.ones(len(links)), (rows, columns + len(players))), shape=[len(players) + len(names)] * 2
    )
    groups = connected_components(graph, directed=False)[1][: len(players)]
    wanted, chosen = max(1, round(share * len(players))), np.zeros(len(players), bool)
    for group in dict.fromkeys(reversed(groups.tolist())):
        if chosen.sum() < wanted:
            chosen |= groups == group
    if chosen.all():
        raise UsageError(
            "All games share players, so no game can be held out: use games of more people."
        )
    return tuple(np.flatnonzero(chosen).tolist())


def _observations(world: AbstractEnv, games: Sequence[HumanGame]) -> tuple[PyTree, ...]:
    """What agents observe before each step, as if an episode were as long as the game."""
    inner = unwrap(world)
    assert isinstance(inner, GridWorld)
    lengths = [len(game.action) for game in games]
    states = jax.tree.map(lambda *x: jnp.concatenate(x), *[game.state for game in games])
    left = np.concatenate([np.arange(length, 0, -1) for length in lengths])
    states = eqx.tree_at(lambda x: x.time, states, inner.horizon - jnp.asarray(left, jnp.int32))
    seen = jax.tree.map(np.asarray, _observe_all(world, states))
    ends = np.cumsum([0, *lengths])
    return tuple(
        jax.tree.map(lambda x, i=i: x[ends[i] : ends[i + 1]], seen) for i in range(len(games))
    )


@eqx.filter_jit
def _observe_all(world: AbstractEnv, states: PyTree) -> PyTree:
    return jax.vmap(world.observe)(states)


def most_frequent(shown: Demonstrations, held_out: Demonstrations) -> dict[str, float]:
    """The score of always predicting the action, or the frequencies of actions, of `shown`."""
    actions: Int[Array, " steps"] = shown.action[shown.recorded]
    others = np.asarray(held_out.action[held_out.recorded])
    count = np.bincount(np.asarray(actions))
    frequencies = np.maximum(count, 1) / np.maximum(count, 1).sum()
    return {
        "accuracy": float((others == count.argmax()).mean()),
        "cross_entropy": float(-np.log(frequencies[others]).mean()),
    }
