"""The settings of a script that clones people, such as `experiments/bc.py`, and recorded games."""

import abc
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float, Int, PRNGKeyArray
from msgspec import Meta
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from agents import (
    ActorCritic,
    BehaviorCloning,
    Demonstrations,
    PolicyPartner,
    StuckRule,
    demonstrations,
    load_trajectories,
)
from eqgrid import AbstractEnv, AbstractPartner, AbstractVectorEnv, Trajectories, unwrap
from eqgrid.envs.overcooked import KITCHENS
from eqgrid.envs.overcooked.people import HumanGame
from eqgrid.grid import AbstractGridWorld, Layout, World, poses
from eqgrid.typing import PyTree

from ..base import UsageError
from ..settings import PolicySettings
from ..worlds import Kitchen, recorded_games


@dataclasses.dataclass(frozen=True)
class Cloning(PolicySettings):
    """The settings of behaviour cloning: the games, and how the model is trained and played."""

    split: Literal["train", "test"] = "train"
    """Half of the human games to clone: clones learn from the first half, proxies from the
    second."""
    games: Annotated[str | None, tyro.conf.arg(metavar="PATH")] = None
    """Own games instead of Overcooked-AI's games: a .npz file, or a folder of them."""
    held_out: Annotated[float, Meta(gt=0, lt=1)] = 0.15
    """Share of the games that are held out, with all games of the same people."""
    stuck_steps: Annotated[int, Meta(ge=0, le=100)] = 3
    """When played, take another action after this many steps in one place (0: never)."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 128
    """Episodes of the model with itself at the end."""

    @abc.abstractmethod
    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        """Initialises a model, whose agents share their parameters.

        **Arguments:**

        - `env`: the environments, which determine the shapes of observations and actions.
        - `key`: the source of randomness.
        """

    @abc.abstractmethod
    def learner(self) -> BehaviorCloning:
        """The learner of the model."""

    def as_played(self, partner: PolicyPartner) -> AbstractPartner:
        """Adds the stuck rule to a partner, unless `stuck_steps` is 0."""
        return StuckRule(partner, poses, self.stuck_steps) if self.stuck_steps else partner

    def check(self) -> None:
        env = self.env
        if not isinstance(env, Kitchen) or env.layout not in KITCHENS:
            raise UsageError(
                f"Games of people are cloned in one kitchen: choose --env.layout among "
                f"{', '.join(KITCHENS)}."
            )
        if env.dynamics != "classic":
            raise UsageError("The human games use the classic rules: leave out --env.dynamics.")
        if env.normalize_observation:
            raise UsageError(
                "Human models use observations without normalisation: omit "
                "--env.normalize-observation."
            )


@final
class OwnGame(NamedTuple):
    """A game of the user, with the fields of a `HumanGame` that cloning uses.

    - `layout`: the kitchen, with the values of its soups.
    - `state`: the state before each step.
    - `action`: the action of each agent in each step.
    - `reward`: the reward of each agent in each step, which is the reward of the team.
    - `players`: the name of the player in each seat.
    """

    layout: Layout
    state: World
    action: Int[np.ndarray, "steps agents"]
    reward: Float[np.ndarray, "steps agents"]
    players: tuple[str, ...]


@final
@dataclasses.dataclass(frozen=True)
class Recorded:
    """Recorded games of one kitchen, with the observations of a model in their states.

    **Arguments:**

    - `games`: the games.
    - `observations`: for each game, the observations of all agents before each step.
    - `held_out`: the indices of the games that are held out.
    """

    games: tuple[HumanGame | OwnGame, ...]
    observations: tuple[PyTree, ...]
    held_out: tuple[int, ...]

    def shown(self, *, held_out: bool, length: int | None = None) -> Demonstrations:
        """The demonstrations of the games to learn from, or of the held-out games.

        **Arguments:**

        - `held_out`: whether to return the held-out games.
        - `length`: as in `demonstrations`.
        """
        chosen = [i for i in range(len(self.games)) if (i in self.held_out) == held_out]
        return demonstrations(
            [(self.observations[i], np.asarray(self.games[i].action)) for i in chosen], length
        )

    @property
    def returns(self) -> Float[np.ndarray, " games"]:
        """The return of each game, scaled to 400 steps and to a reward of 20 for the best soup."""
        returns = []
        for game in self.games:
            recipes = game.layout.params
            price = float(jnp.where(recipes.ordered, recipes.value, 0).max())
            returns.append(float(game.reward[:, 0].sum()) / price * 20 * 400 / len(game.action))
        return np.asarray(returns)


def read_recorded(config: Cloning, world: AbstractEnv) -> Recorded:
    """Reads the games that the settings name, and computes the observations in them.

    **Arguments:**

    - `config`: the settings.
    - `world`: the kitchen, with the observations of the model.

    **Raises:** `UsageError` when the games cannot be read, there are no games in this kitchen, or
    there are too few players to hold out games.
    """
    inner = unwrap(world)
    assert isinstance(inner, AbstractGridWorld)
    if config.games is None:
        games = recorded_games(config.split, config.env.layout)
    else:
        games = _own_games(Path(config.games), world, inner)
    held_out = choose_held_out([game.players for game in games], config.held_out)
    # The states of all games are observed at once. Their times are changed, so that agents observe
    # the time that is left in the game, also if the game is shorter than an episode.
    lengths = [len(game.action) for game in games]
    states = jax.tree.map(lambda *x: jnp.concatenate(x), *[game.state for game in games])
    left = np.concatenate([np.arange(length, 0, -1) for length in lengths])
    states = eqx.tree_at(lambda x: x.time, states, inner.horizon - jnp.asarray(left, jnp.int32))
    all_observations = jax.tree.map(np.asarray, _observe_all(world, states))
    bounds = np.cumsum([0, *lengths])
    observations = tuple(
        jax.tree.map(lambda x, i=i: x[bounds[i] : bounds[i + 1]], all_observations)
        for i in range(len(games))
    )
    return Recorded(games, observations, held_out)


def _own_games(path: Path, world: AbstractEnv, kitchen: AbstractGridWorld) -> tuple[OwnGame, ...]:
    """Reads the games of a `.npz` file, or of all such files in a folder that fit the kitchen. Each
    game counts as a game of other people.

    **Raises:** `UsageError` when a file cannot be read, or no file has games in this kitchen.
    """
    games: list[OwnGame] = []
    problems: list[str] = []
    for file in sorted(path.glob("*.npz")) if path.is_dir() else [path]:
        try:
            episodes = jax.tree.map(np.asarray, load_trajectories(file, world))
            _check_kitchen(file, episodes, kitchen)
        except OSError as error:
            raise UsageError(f"The file {str(file)!r} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            problems.append(str(error))
            continue
        ends = np.cumsum(episodes.length)
        for number, (length, end) in enumerate(zip(episodes.length, ends, strict=True)):
            own = slice(end - length, end)
            state = jax.tree.map(lambda x, own=own: x[own], episodes.state)
            players = tuple(f"{file.stem}/{number}/{seat}" for seat in range(world.num_agents))
            action, reward = episodes.action[own], episodes.reward[own]
            games.append(OwnGame(kitchen.layout, state, action, reward, players))
    if not games:
        what = problems[0] if problems else "It has no .npz file."
        raise UsageError(f"No games of this kitchen in {str(path)!r}. {what}")
    for problem in problems:
        print(f"skipped: {problem}", file=sys.stderr)
    return tuple(games)


def _check_kitchen(file: Path, episodes: Trajectories, kitchen: AbstractGridWorld) -> None:
    """Checks that each step leads to the next state in this kitchen.

    **Raises:** `ValueError` when it does not.
    """

    def step(state: World, action: Int[Array, " agents"]) -> World:
        return kitchen.step(jax.random.key(0), state, action)[1]

    after = eqx.filter_jit(jax.vmap(step))(episodes.state, episodes.action)
    inside = np.ones(len(episodes.action), bool)
    inside[np.cumsum(episodes.length) - 1] = False  # the state after the last step is unknown
    same = jax.tree.map(
        lambda x, y: bool((x[:-1] == y[1:])[inside[:-1]].all()), after, episodes.state
    )
    if not all(jax.tree.leaves(same)):
        raise ValueError(f"The file {str(file)!r} has games of another kitchen or other rules.")


def choose_held_out(players: Sequence[Sequence[str]], share: float) -> tuple[int, ...]:
    """Chooses the games to hold out, such that nobody plays in both a held-out and a training game.

    **Arguments:**

    - `players`: the people in each game.
    - `share`: the minimum share of the games to hold out, which is rounded to whole games. The last
        games are held out first.

    **Returns:** the indices of the games.

    **Raises:** `UsageError` when shared players connect all games.
    """
    names = sorted({name for game in players for name in game})
    links = [(i, names.index(name)) for i, game in enumerate(players) for name in game]
    # A graph of games and people: games in one connected component have to stay together.
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


@eqx.filter_jit
def _observe_all(world: AbstractEnv, states: PyTree) -> PyTree:
    return jax.vmap(world.observe)(states)


def most_frequent(shown: Demonstrations, held_out: Demonstrations) -> dict[str, float]:
    """The scores of a baseline on the held-out games. It always predicts the action frequencies of
    the training games, `shown`.
    """
    actions: Int[Array, " steps"] = shown.action[shown.recorded]
    held_out_actions = np.asarray(held_out.action[held_out.recorded])
    count = np.bincount(np.asarray(actions))
    frequencies = np.maximum(count, 1) / np.maximum(count, 1).sum()
    return {
        "accuracy": float((held_out_actions == count.argmax()).mean()),
        "cross_entropy": float(-np.log(frequencies[held_out_actions]).mean()),
    }
