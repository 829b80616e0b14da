"""Recorded games of people: the games of 2019, which are part of `overcooked-ai`."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ....errors import import_optional, missing_library
from ....grid import Layout, World
from .._contents import Recipes
from ..layouts import REFERENCE_NAMES, parse_kitchen
from ..reference import worlds_from_reference

Split = Literal["train", "test"]

_SPLITS: tuple[Split, ...] = ("train", "test")
_NAMES_OF_2019 = {"random0": "forced", "random1": "ring", "random3": "circuit"}
_ACTIONS = ([0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "INTERACT")
"""Each action as it is written in the tables, in the order of the action indices."""


@final
class HumanGame(eqx.Module):
    """A recorded game in one kitchen, step by step.

    **Arguments:**

    - `kitchen`: the name of the kitchen.
    - `layout`: the kitchen, with the initial state of the game. A soup was worth 5 in 2019.
    - `state`: the state before each step.
    - `final_state`: the state after the last step.
    - `action`: the action of each cook in the step.
    - `reward`: the team's reward for the step, for each cook.
    - `time`: the number of seconds from the beginning of the game to each step.
    - `split`: the half of Carroll et al. (NeurIPS 2019) that has the game, `"train"` or `"test"`.
    - `trial`: the name of the game, unique within its half.
    - `players`: the name of the player in each seat. A pair of people played in several kitchens.
    """

    kitchen: str = eqx.field(static=True)
    layout: Layout
    state: World
    final_state: World
    action: Int[Array, "steps agents"]
    reward: Float[Array, "steps agents"]
    time: Float[Array, " steps"]
    split: Split = eqx.field(static=True)
    trial: str = eqx.field(static=True)
    players: tuple[str, ...] = eqx.field(static=True)


def human_games(split: Split | None = None, *, kitchen: str | None = None) -> tuple[HumanGame, ...]:
    """Reads the recorded games of pairs of people in five kitchens.

    The games are in the package `overcooked-ai` 1.1.0 (`pip install 'eqgrid[human]'`), as pickles
    that pandas reads. The function does not import the package. The data page of the package asks
    users to contact the Center for Human-Compatible AI about rights to the data.

    Source: Carroll et al. (NeurIPS 2019), "On the Utility of Learning about Humans for Human-AI
    Coordination". They split the data into two halves: agents are trained with models of people
    from the train half, and evaluated with models of people from the test half.

    **Arguments:**

    - `split`: `"train"`, `"test"`, or both by default.
    - `kitchen`: the name of one kitchen, in eqgrid or in Overcooked-AI; all by default.

    **Returns:** the games in the order of the tables, kitchen by kitchen.

    **Raises:** `ImportError` when the package is not installed, and `ValueError` when it has no
    such game.
    """
    if split not in (None, *_SPLITS):
        raise ValueError(f"There is no split {split!r:.60}: choose {' or '.join(_SPLITS)}.")
    halves = _SPLITS if split is None else (split,)
    wanted = None if kitchen is None else _kitchen_of(kitchen)
    tables = [table for half in halves for table in _read(half)]
    chosen = [table for table in tables if wanted in (None, _kitchen_of(table[0]))]
    if not chosen:
        known = ", ".join(sorted({_kitchen_of(name) for name, _, _ in tables}))
        raise ValueError(f"There are no games in {kitchen!r:.60}: the kitchens here are {known}.")
    return tuple(game for table in chosen for game in _games_of(*table))


def _read(split: Split) -> Iterator[tuple[str, Any, Split]]:
    """The name and the table of each kitchen in one half of the installed games, and the half."""
    package = importlib.util.find_spec("overcooked_ai_py")
    if package is None or package.origin is None:
        raise missing_library("The human games are in the package overcooked-ai", "human")
    path = Path(package.origin).parent / "data" / "human_data" / f"clean_{split}_trials.pickle"
    if not path.is_file():
        raise ValueError(
            "The installed overcooked-ai has no human games: install overcooked-ai==1.1.0, which "
            "has them."
        )
    pandas = import_optional("pandas", "The human games need pandas", "human")
    for name, table in pandas.read_pickle(path).groupby("layout_name", sort=False):
        yield name, table, split


def _kitchen_of(name: str) -> str:
    """The name in eqgrid of a kitchen of Overcooked-AI; other names are returned as they are."""
    return (REFERENCE_NAMES | _NAMES_OF_2019).get(name, name)


def _games_of(name: str, table: Any, split: Split) -> Iterator[HumanGame]:
    """The games in one kitchen; the arguments are as from `_read`."""
    grid = "\n".join(_parse(table["layout"].iloc[0]))
    layout = parse_kitchen(grid, Recipes(orders=[("onion",) * 3], values=5.0))
    # Most states occur several times. Each distinct state is read once.
    texts = dict.fromkeys([*table["state"], *table["next_state"]])
    worlds = worlds_from_reference([_parse(text) for text in texts], layout)
    worlds, number = jax.tree.map(np.asarray, worlds), {text: i for i, text in enumerate(texts)}
    joint = {
        text: [_ACTIONS.index(action) for action in _parse(text)]
        for text in table["joint_action"].unique()
    }
    for (run, pair), rows in table.groupby(["run", "workerid_num"], sort=False):
        rows = rows.sort_values("cur_gameloop")
        indices = [number[text] for text in (*rows["state"], rows["next_state"].iloc[-1])]
        states = jax.tree.map(lambda x, i=indices: x[i], worlds)
        # The tables do not count steps in their states.
        states = eqx.tree_at(lambda x: x.time, states, np.arange(len(indices), dtype=np.int32))
        reward = rows["reward"].to_numpy(np.float32)
        yield HumanGame(
            kitchen=_kitchen_of(name),
            layout=layout,
            state=jax.tree.map(lambda x: jnp.asarray(x[:-1]), states),
            final_state=jax.tree.map(lambda x: jnp.asarray(x[-1]), states),
            action=jnp.asarray([joint[text] for text in rows["joint_action"]], jnp.int32),
            reward=jnp.asarray(np.repeat(reward[:, None], layout.num_agents, axis=1)),
            time=jnp.asarray(rows["time_elapsed"].to_numpy(np.float32)),
            split=split,
            trial=f"{name}/{run}/{pair}",
            # The first player of a pair has the first seat, as in `human_data_forward_compat.py`
            # of Overcooked-AI.
            players=tuple(f"{run}/{pair}/{seat}" for seat in range(layout.num_agents)),
        )


def _parse(text: str) -> Any:
    """Reads a Python literal, which is much faster to read as JSON. No name has an apostrophe."""
    text = text.replace("'", '"').replace("None", "null")
    return json.loads(text.replace("False", "false").replace("True", "true"))
