"""Recorded games of people, from Overcooked-AI and from other tables with the same columns."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .... import Trajectories, read_regular_file
from ....grid import Layout, World
from ..layouts._layouts import KITCHENS, REFERENCE_NAMES, load_layout, reference_layouts
from ..reference._state import world_from_reference
from ..reference._table import (
    SOUP_OF_2019,
    is_of_2019,
    parse,
    rows_of_trials,
    trajectories_from_reference,
    with_trials,
)
from ._files import read_columns
from ._pickles import read_pickled_table

Split: TypeAlias = Literal["train", "test"]

_OLD_NAMES = {"random0": "forced", "random1": "ring", "random3": "circuit"}
"""Names of kitchens in the tables of 2019, besides those of `REFERENCE_NAMES`."""
_MAX_BYTES = 2**30
_NEEDS = (
    "The games of people come with overcooked-ai, which is not installed: "
    "pip install 'eqgrid[human]'."
)


@final
class HumanGame(eqx.Module):
    """A recorded game: what happened, and who played.

    **Arguments:**

    - `kitchen`: the name of the kitchen, as `load_layout` knows it.
    - `split`: the half of the games of 2019 to which it belongs; `None` for other tables.
    - `trial`: its name in the table.
    - `players`: the names of the players, in the order of the agents. Those of 2019 are anonymous:
        `pair 12, person 0`.
    - `state`: the state before each step.
    - `final_state`: the state after the last step; `None` if the table does not have it.
    - `action`: the action of each player in each step.
    - `reward`: the reward of each step. In the tables of 2019 a soup pays 5, which is converted to
        the 20 of all kitchens.
    - `time`: the seconds since the start of the game at each step.
    """

    kitchen: str = eqx.field(static=True)
    split: Split | None = eqx.field(static=True)
    trial: str = eqx.field(static=True)
    players: tuple[str, ...] = eqx.field(static=True)
    state: World
    final_state: World | None
    action: Int[Array, "steps agents"]
    reward: Float[Array, " steps"]
    time: Float[np.ndarray, " steps"]

    @property
    def layout(self) -> Layout:
        """The kitchen. People may have started elsewhere in it, as `state` shows."""
        return load_layout(self.kitchen)

    @property
    def num_steps(self) -> int:
        """The number of steps of the game."""
        return len(self.action)

    def return_in(self, steps: int) -> float:
        """The return of the game, scaled to a number of steps."""
        return float(self.reward.sum()) * steps / self.num_steps


def human_games(split: Split | None = None, *, kitchen: str | None = None) -> tuple[HumanGame, ...]:
    """Reads the games of two people that Carroll et al. 2019 recorded ("On the Utility of Learning
    about Humans for Human-AI Coordination"): 76 games of three minutes in five kitchens.

    They are in the source distribution of overcooked-ai, which must be installed, but is not
    imported. No code of its pickles runs. Its data page asks users to contact the Center for
    Human-Compatible AI about rights to the data.

    **Arguments:**

    - `split`: the half of the games, as published; both unless given.
    - `kitchen`: cramped, asymmetric, ring, forced or circuit; all of them unless given.

    **Returns:** the games, sorted by kitchen and pair.

    **Raises:** `ImportError` when overcooked-ai is not installed; `ValueError` when a file of it is
    missing or damaged, or there is no game in this kitchen.
    """
    if kitchen is not None and REFERENCE_NAMES.get(kitchen, kitchen) not in KITCHENS:
        raise ValueError(
            f"There are no games of people in the kitchen {kitchen!r:.60}: choose one of "
            f"{', '.join(KITCHENS)}."
        )
    games: list[HumanGame] = []
    for half in ("train", "test") if split is None else (split,):
        path = _published(half)
        try:
            table = read_pickled_table(read_regular_file(path, _MAX_BYTES))
        except OSError as error:
            raise ValueError(f"The file {str(path)!r} cannot be read: {error}.") from error
        except ValueError as error:
            raise ValueError(f"The file {str(path)!r} {error}") from error
        games += _games(table, half, kitchen)
    return tuple(games)


def read_games(path: str | Path) -> tuple[HumanGame, ...]:
    """Reads recorded games from a table with the columns of Overcooked-AI's human games.

    **Arguments:**

    - `path`: a `.csv` or `.json` file, a `.pickle` file of 2019, or a `.parquet` file, such as
        `evaluate.py --trajectories` and `trajectories_to_reference` give.

    **Returns:** the games, by kitchen and in the order of the table.

    **Raises:** `ValueError` when the file cannot be read, a column is missing, a row is invalid or
    a kitchen is unknown; `ImportError` for a Parquet file without pyarrow.
    """
    where = f"The file {str(path)!r}"
    try:
        table = read_columns(Path(path), _MAX_BYTES)
        return tuple(_games(table, None, None))
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ValueError(f"{where} cannot be used: {error}") from error


def to_trajectories(games: Sequence[HumanGame]) -> Trajectories:
    """Joins games of one kitchen, as `trajectories_from_reference` returns them.

    **Arguments:**

    - `games`: at least one game.

    **Raises:** `ValueError` when there is no game, or they are of several kitchens.
    """
    kitchens = {game.kitchen for game in games}
    if len(kitchens) != 1:
        raise ValueError(f"Give games of one kitchen, and not of {sorted(kitchens)}.")
    lengths = [game.num_steps for game in games]
    action = jnp.concatenate([game.action for game in games])
    reward = jnp.concatenate([game.reward for game in games])
    return Trajectories(
        state=jax.tree.map(lambda *x: jnp.concatenate(x), *[game.state for game in games]),
        action=action,
        reward=jnp.broadcast_to(reward[:, None], action.shape),
        terminated=jnp.zeros(action.shape, bool),
        truncated=jnp.zeros(len(action), bool).at[np.cumsum(lengths) - 1].set(True),
        length=jnp.asarray(lengths, jnp.int32),
    )


def _published(split: Split) -> Path:
    """The path of a half of the games in an installed overcooked-ai."""
    package = importlib.util.find_spec("overcooked_ai_py")
    if package is None or package.origin is None:
        raise ImportError(_NEEDS)
    path = Path(package.origin).parent / "data" / "human_data" / f"clean_{split}_trials.pickle"
    if not path.is_file():
        raise ValueError(
            f"The installed overcooked-ai has no file {path.name!r}: install version 1.1.0."
        )
    return path


def _games(
    table: Mapping[str, Sequence[Any]], split: Split | None, kitchen: str | None
) -> list[HumanGame]:
    """The games in a table, of one kitchen or of all."""
    if "layout_name" not in table:
        raise ValueError("There is no column 'layout_name', which names the kitchen of each row.")
    names = [str(name) for name in table["layout_name"]]
    games: list[HumanGame] = []
    for name in sorted(set(names)):
        own = _OLD_NAMES.get(name, REFERENCE_NAMES.get(name, name))
        if kitchen in (None, own, name):
            rows = [i for i, other in enumerate(names) if other == name]
            games += _in_kitchen({x: [table[x][i] for i in rows] for x in table}, own, split)
    return games


def _in_kitchen(
    table: Mapping[str, list[Any]], kitchen: str, split: Split | None
) -> list[HumanGame]:
    """The games in a table of one kitchen."""
    if kitchen not in (*KITCHENS, *reference_layouts()):
        raise ValueError(f"The kitchen {kitchen!r:.60} is unknown: name games in other kitchens.")
    if "time_elapsed" not in table:
        raise ValueError("There is no column 'time_elapsed', the seconds since a game began.")
    layout, unit = load_layout(kitchen), 20 / SOUP_OF_2019 if is_of_2019(table) else 1.0
    table = dict(with_trials(table))
    found = trajectories_from_reference(table, layout)
    games: list[HumanGame] = []
    start = 0
    for trial, rows in rows_of_trials(table).items():
        steps = slice(start, start := start + len(rows))
        games.append(
            HumanGame(
                kitchen=kitchen,
                split=split,
                trial=str(trial),
                players=_players(table, rows[0], layout),
                state=jax.tree.map(lambda x, steps=steps: x[steps], found.state),
                final_state=_final_state(table, rows[-1], layout),
                action=found.action[steps],
                reward=found.reward[steps, 0] * unit,
                time=np.asarray([float(table["time_elapsed"][row]) for row in rows]),
            )
        )
    return games


def _players(table: Mapping[str, list[Any]], row: int, layout: Layout) -> tuple[str, ...]:
    """The names of the players in the game of a row."""
    seats = range(layout.num_agents)
    if "workerid_num" in table:
        return tuple(f"pair {table['workerid_num'][row]}, person {seat}" for seat in seats)
    ids = [table.get(f"player_{seat}_id") for seat in seats]
    trial = table["trial_id"][row]
    return tuple(
        f"{trial}, player {seat}" if own is None else str(own[row]) for seat, own in enumerate(ids)
    )


def _final_state(table: Mapping[str, list[Any]], row: int, layout: Layout) -> World | None:
    if "next_state" not in table:
        return None
    return world_from_reference(parse(table["next_state"][row], row, "next_state"), layout)
