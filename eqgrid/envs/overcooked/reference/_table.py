"""Conversion between episodes and tables with the columns of Overcooked-AI's human data."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from .... import Trajectories
from ....grid import Layout
from .._kinds import KINDS
from ._state import worlds_from_reference, worlds_to_reference

_ACTIONS: tuple[Any, ...] = ([0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "interact")
_NUMBERS = {json.dumps(action): number for number, action in enumerate(_ACTIONS)}
_NEEDED = ("state", "joint_action", "reward", "cur_gameloop", "layout", "trial_id")
_PAIR = ("workerid_num", "run", "layout_name")
"""The columns that name a game in the tables of 2019, which have no `trial_id`."""
SOUP_OF_2019 = 5
"""The reward for a soup in the tables of 2019."""


def trajectories_to_reference(
    trajectories: Trajectories,
    layout: Layout,
    *,
    layout_name: str = "",
    trial_ids: Sequence[str] | None = None,
    players: Sequence[Sequence[str]] | None = None,
) -> dict[str, list[Any]]:
    """Converts episodes to a table in the format of Overcooked-AI's human games, one row per step.

    The columns are `state`, `joint_action`, `reward`, `time_left`, `score`, `time_elapsed`,
    `cur_gameloop`, `layout`, `layout_name`, `trial_id`, `player_0_id`, ..., `player_0_is_human`,
    ..., in this order. States, actions and layouts are JSON as in the reference; `score` includes
    the reward of the row, and `cur_gameloop` starts at 1. Times are numbers of steps, since there
    is no real time, and no player is human. Observations are left out: `env.observe` computes them
    from states.

    Source: `src/human_aware_rl/static/human_data/README.md` of Overcooked-AI.

    **Arguments:**

    - `trajectories`: episodes in one kitchen.
    - `layout`: the kitchen.
    - `layout_name`: its name in the table; with the reference's own name, the reference can build
        it.
    - `trial_ids`: a name for each episode; its index by default.
    - `players`: the names of the players, for each episode.

    **Raises:** `ValueError` when the layout is not a kitchen, or the cooks' rewards differ.
    """
    _check_kitchen(layout)
    reward = np.asarray(trajectories.reward)
    if (reward != reward[:, :1]).any():
        raise ValueError(
            "The table has one reward for all cooks, but these cooks are paid differently: save "
            "these episodes with `save_trajectories`."
        )
    length = np.asarray(trajectories.length)
    episode = np.repeat(np.arange(len(length)), length).tolist()
    elapsed = _steps(length)
    paid = reward[:, 0].astype(float)
    names = [str(i) for i in range(len(length))] if trial_ids is None else trial_ids
    nobody = [[f"agent_{i}" for i in range(layout.num_agents)]] * len(length)
    seats = nobody if players is None else players
    ends = np.cumsum(length)[:-1]
    count = len(episode)
    return {
        "state": [json.dumps(state) for state in worlds_to_reference(trajectories.state, layout)],
        "joint_action": [
            json.dumps([_ACTIONS[number] for number in joint])
            for joint in np.asarray(trajectories.action).tolist()
        ],
        "reward": paid.tolist(),
        "time_left": (length[episode] - elapsed).astype(float).tolist(),
        "score": np.concatenate([np.cumsum(x) for x in np.split(paid, ends)]).tolist(),
        "time_elapsed": elapsed.astype(float).tolist(),
        "cur_gameloop": elapsed.tolist(),
        "layout": [json.dumps(_grid(layout))] * count,
        "layout_name": [layout_name] * count,
        "trial_id": [names[i] for i in episode],
        **{
            f"player_{seat}_id": [seats[i][seat] for i in episode]
            for seat in range(layout.num_agents)
        },
        **{f"player_{seat}_is_human": [False] * count for seat in range(layout.num_agents)},
    }


def trajectories_from_reference(
    table: Mapping[str, Any], layout: Layout, *, layout_name: str | None = None
) -> Trajectories:
    """Converts a table in the format of Overcooked-AI's human games to episodes; the inverse of
    `trajectories_to_reference`.

    Every `trial_id` is an episode, which counts as truncated after its last row. States are
    converted by `world_from_reference`. The tables of 2019 can be read, too: they have no
    `trial_id`, but `workerid_num` and `run`, and a soup pays 5 in them.

    **Arguments:**

    - `table`: a sequence for each column, such as a `DataFrame` of pandas. The columns `state`,
        `joint_action`, `reward`, `cur_gameloop`, `layout` and `trial_id` are required.
    - `layout`: the kitchen.
    - `layout_name`: if given, only rows with this name are used, for tables with several kitchens.

    **Raises:** `ValueError` when a column is missing, a row is invalid, or the rows are not of this
    kitchen.
    """
    _check_kitchen(layout)
    columns = _choose(with_trials(table), layout_name)
    for text in dict.fromkeys(columns["layout"]):
        _check_grid(text, layout)
    trials = rows_of_trials(columns)
    order = [row for rows in trials.values() for row in rows]
    length = np.asarray([len(rows) for rows in trials.values()])
    states = [parse(columns["state"][row], row, "state") for row in order]
    action = np.asarray([_read_action(columns["joint_action"][i], i, layout) for i in order])
    reward = np.asarray([columns["reward"][row] for row in order], np.float32)
    shape = (len(order), layout.num_agents)
    return Trajectories(
        state=worlds_from_reference(states, layout),
        action=jnp.asarray(action, jnp.int32),
        reward=jnp.broadcast_to(jnp.asarray(reward)[:, None], shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.asarray(_steps(length) == np.repeat(length, length)),
        length=jnp.asarray(length, jnp.int32),
    )


def is_of_2019(table: Mapping[str, Any]) -> bool:
    """Whether a table has the columns of 2019, which lack `trial_id`."""
    return "trial_id" not in table and all(name in table for name in _PAIR)


def with_trials(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with a column `trial_id`, if it is one of 2019."""
    if not is_of_2019(table):
        return table
    pairs = zip(*(table[name] for name in _PAIR), strict=True)
    trials = [f"pair {worker} in {layout_name}, {run}" for worker, run, layout_name in pairs]
    return {**{str(name): table[name] for name in table}, "trial_id": trials}


def _check_kitchen(layout: Layout) -> None:
    if layout.kinds != KINDS:
        raise ValueError(
            "Overcooked-AI has no such world: only kitchens of `Overcooked` are in its tables."
        )


def _steps(length: Int[np.ndarray, " episodes"]) -> Int[np.ndarray, " steps"]:
    """The number of each step within its episode, counted from 1."""
    return np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1


def _grid(layout: Layout) -> list[list[str]]:
    """The characters of the tiles, row by row, without the cooks."""
    return [[KINDS.tiles[tile].char for tile in row] for row in np.asarray(layout.tiles).tolist()]


def _choose(table: Mapping[str, Any], layout_name: str | None) -> dict[str, list[Any]]:
    """The required columns, restricted to the rows with `layout_name` if it is given.

    **Raises:** `ValueError` when a column is missing, or no row is left.
    """
    wanted = [*_NEEDED, *([] if layout_name is None else ["layout_name"])]
    if missing := [name for name in wanted if name not in table]:
        raise ValueError(
            f"The table has no column {missing[0]!r}: it must have those of Overcooked-AI's human "
            "games."
        )
    columns = {name: list(table[name]) for name in wanted}
    if layout_name is not None:
        rows = [i for i, name in enumerate(columns["layout_name"]) if name == layout_name]
        columns = {name: [column[i] for i in rows] for name, column in columns.items()}
    if not columns["state"]:
        where = "" if layout_name is None else f" with the layout_name {layout_name!r}"
        raise ValueError(f"The table has no rows{where}: there is nothing to read.")
    return columns


def parse(text: Any, row: int, what: str) -> Any:
    """Parses a cell of a table: JSON, or a Python literal as in the tables of 2019.

    **Raises:** `ValueError` that names the row when it is neither.
    """
    try:
        if isinstance(text, str) and "'" in text and '"' not in text:
            for literal, json_text in _LITERALS:  # much faster than `ast.literal_eval`
                text = text.replace(literal, json_text)
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Row {row}: the {what} is no JSON, but {text!r:.60}.") from error


_LITERALS = (("'", '"'), ("False", "false"), ("True", "true"), ("None", "null"))


def _check_grid(text: Any, layout: Layout) -> None:
    """Checks that a row is of this kitchen; the marks of cooks in its grid are ignored."""
    grid = parse(text, 0, "layout")
    rows = ["".join(map(str, row)) for row in grid] if isinstance(grid, list) else []
    plain = ["".join(" " if cell.isdigit() else cell for cell in row) for row in rows]
    if plain != ["".join(row) for row in _grid(layout)]:
        raise ValueError(
            f"The table has rows of another kitchen, {text!r:.60}...: give the layout of the rows, "
            "and choose among several with layout_name."
        )


def rows_of_trials(columns: Mapping[str, Sequence[Any]]) -> dict[Any, list[int]]:
    """The rows of each trial, sorted by step.

    **Arguments:**

    - `columns`: at least `trial_id` and `cur_gameloop`.

    **Raises:** `ValueError` when a row of a trial is missing or occurs twice.
    """
    numbers = columns["cur_gameloop"]
    rows_of: dict[Any, list[int]] = {}
    for row, trial in enumerate(columns["trial_id"]):
        rows_of.setdefault(trial, []).append(row)
    for trial, rows in rows_of.items():
        rows.sort(key=lambda row: numbers[row])
        found = [numbers[row] for row in rows]
        if any(after - before != 1 for before, after in itertools.pairwise(found)):
            raise ValueError(
                f"The trial {trial!r:.60} lacks a row, or has one twice: 'cur_gameloop' must count "
                "its steps one by one."
            )
    return rows_of


def _read_action(text: Any, row: int, layout: Layout) -> list[int]:
    joint = parse(text, row, "joint_action")
    lower = [
        x.lower() if isinstance(x, str) else x for x in (joint if isinstance(joint, list) else ())
    ]
    numbers = [_NUMBERS.get(json.dumps(action)) for action in lower]
    if len(numbers) != layout.num_agents or None in numbers:
        raise ValueError(
            f"Row {row}: the joint_action must be {layout.num_agents} of [0, -1], [0, 1], [1, 0], "
            f"[-1, 0], [0, 0] and 'interact', but is {text!r:.60}."
        )
    return [number for number in numbers if number is not None]
