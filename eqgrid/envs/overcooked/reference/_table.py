"""Conversion between episodes and tables with the columns of Overcooked-AI's human data."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .... import Trajectories
from ....grid import Layout, World
from .._kinds import KINDS
from ._state import Json, read_worlds, worlds_to_reference

ACTIONS: tuple[list[int] | str, ...] = ([0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "interact")
"""Each action as it is written in the tables, in the order of the action indices."""

_ACTION_NUMBERS = {json.dumps(action): number for number, action in enumerate(ACTIONS)}
_REQUIRED = ("state", "joint_action", "reward", "cur_gameloop", "layout")
_OLD_TRIAL = ("layout_name", "run", "workerid_num")
"""The columns that together name a game in the tables of 2019."""

Columns: TypeAlias = Mapping[str, Sequence[Json]]
"""The columns of a table by name."""


def trajectories_to_reference(
    trajectories: Trajectories,
    layout: Layout,
    *,
    layout_name: str = "",
    trial_ids: Sequence[str] | None = None,
    players: Sequence[Sequence[str]] | None = None,
) -> dict[str, list[Json]]:
    """Converts episodes to a table in the format of Overcooked-AI's human games, one row per step.

    The columns are `state`, `joint_action`, `reward`, `time_left`, `score`, `time_elapsed`,
    `cur_gameloop`, `layout`, `layout_name`, `trial_id`, `player_0_id`, ..., `player_0_is_human`,
    ..., in this order. States, actions and layouts are JSON as in the reference. `score` includes
    the reward of the row, and `cur_gameloop` starts at 1. Times are numbers of steps, since
    episodes have no times in seconds, and no player is human. Observations are not in the table:
    `env.observe` computes them from states.

    Source: `src/human_aware_rl/static/human_data/README.md` of Overcooked-AI.

    **Arguments:**

    - `trajectories`: episodes in one kitchen.
    - `layout`: the kitchen.
    - `layout_name`: the name of the kitchen in the table. If it is a name of Overcooked-AI,
        Overcooked-AI can build the kitchen.
    - `trial_ids`: a name for each episode; its index by default.
    - `players`: for each episode, the names of the players; `agent_0` and so on by default.

    **Raises:** `ValueError` when the layout is not a kitchen, or the cooks' rewards differ.
    """
    _check_kitchen(layout)
    reward = np.asarray(trajectories.reward)
    if (reward != reward[:, :1]).any():
        raise ValueError(
            "The table has one reward for all cooks, but the rewards of these cooks differ: save "
            "these episodes with `save_trajectories`."
        )
    length = np.asarray(trajectories.length)
    episode = np.repeat(np.arange(len(length)), length).tolist()  # of each row
    elapsed = count_steps(length)
    team_reward = reward[:, 0].astype(float)
    per_episode = np.split(team_reward, np.cumsum(length)[:-1])
    if trial_ids is None:
        trial_ids = [str(i) for i in range(len(length))]
    if players is None:
        players = [[f"agent_{i}" for i in range(layout.num_agents)]] * len(length)
    num_rows = len(episode)
    return {
        "state": [json.dumps(state) for state in worlds_to_reference(trajectories.state, layout)],
        "joint_action": [
            json.dumps([ACTIONS[number] for number in joint])
            for joint in np.asarray(trajectories.action).tolist()
        ],
        "reward": team_reward.tolist(),
        "time_left": (length[episode] - elapsed).astype(float).tolist(),
        "score": np.concatenate([np.cumsum(x) for x in per_episode]).tolist(),
        "time_elapsed": elapsed.astype(float).tolist(),
        "cur_gameloop": elapsed.tolist(),
        "layout": [json.dumps(write_grid(layout))] * num_rows,
        "layout_name": [layout_name] * num_rows,
        "trial_id": [trial_ids[i] for i in episode],
        **{
            f"player_{seat}_id": [players[i][seat] for i in episode]
            for seat in range(layout.num_agents)
        },
        **{f"player_{seat}_is_human": [False] * num_rows for seat in range(layout.num_agents)},
    }


def trajectories_from_reference(
    table: Mapping[str, Json], layout: Layout, *, layout_name: str | None = None
) -> Trajectories:
    """Converts a table in the format of Overcooked-AI's human games to episodes; the inverse of
    `trajectories_to_reference`.

    Rows with the same `trial_id` form an episode, which is truncated at its last row.
    `world_from_reference` converts the states. Tables of 2019 are accepted, too: they have no
    `trial_id`, so the rows with one `layout_name`, `run` and `workerid_num` are an episode, and
    their states and actions may be printed by Python instead of JSON.

    **Arguments:**

    - `table`: a sequence for each column, such as a `DataFrame` of pandas. The columns `state`,
        `joint_action`, `reward`, `cur_gameloop`, `layout` and `trial_id` are required.
    - `layout`: the kitchen.
    - `layout_name`: if given, only rows with this name are used, for tables with several kitchens.

    **Raises:** `ValueError` when a column is missing, a row is invalid, or the rows are from
    another kitchen.
    """
    _check_kitchen(layout)
    columns = read_columns(table, () if layout_name is None else ("layout_name",))
    rows = list(range(len(columns["state"])))
    if layout_name is not None:
        rows = [row for row in rows if columns["layout_name"][row] == layout_name]
    if not rows:
        where = "" if layout_name is None else f" with the layout_name {layout_name!r}"
        raise ValueError(f"The table has no rows{where}: there is nothing to read.")
    for text, row in first_rows(columns["layout"], rows, "layout").items():
        if not is_of_kitchen(text, row, layout):
            raise ValueError(
                f"The table has rows of another kitchen, {text!r:.60}...: give the layout of the "
                "rows, and choose among several with layout_name."
            )
    steps = read_steps(columns, rows, layout)
    shape = (len(rows), layout.num_agents)
    return Trajectories(
        state=jax.tree.map(jnp.asarray, steps.state),
        action=jnp.asarray(steps.action, jnp.int32),
        reward=jnp.broadcast_to(jnp.asarray(steps.reward)[:, None], shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.asarray(count_steps(steps.length) == np.repeat(steps.length, steps.length)),
        length=jnp.asarray(steps.length, jnp.int32),
    )


def _check_kitchen(layout: Layout) -> None:
    if layout.kinds != KINDS:
        raise ValueError(
            "Tables of Overcooked-AI support only kitchens of `Overcooked`: pass the layout of one "
            "of them."
        )


class Steps(NamedTuple):
    """The rows of one kitchen as NumPy arrays, game after game, with the steps of each game in
    order.

    - `rows`: the number of each row in the table.
    - `length`: the number of steps of each game.
    - `state`, `action`, `reward`: the state before each step, the actions of all cooks, and the
        team's reward.
    """

    rows: Int[np.ndarray, " steps"]
    length: Int[np.ndarray, " games"]
    state: World
    action: Int[np.ndarray, "steps agents"]
    reward: Float[np.ndarray, " steps"]


def read_columns(table: Mapping[str, Json], more: Sequence[str] = ()) -> dict[str, list[Json]]:
    """All columns as lists. Tables of 2019 have no `trial_id`, so the function adds it.

    **Arguments:**

    - `table`: a sequence for each column.
    - `more`: further columns that are required.

    **Raises:** `ValueError` when a required column is missing, or columns differ in length.
    """
    columns = {str(name): list(table[name]) for name in table}
    is_old = "trial_id" not in columns and ("run" in columns or "workerid_num" in columns)
    required = (*_REQUIRED, *more, *(_OLD_TRIAL if is_old else ("trial_id",)))
    if missing := [name for name in required if name not in columns]:
        raise ValueError(
            f"The table has no column {missing[0]!r}: it needs the columns of Overcooked-AI's "
            "human games."
        )
    if is_old:
        parts = zip(*(columns[name] for name in _OLD_TRIAL), strict=True)
        columns["trial_id"] = ["/".join(map(str, part)) for part in parts]
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError("The table has columns of different lengths: each row needs all of them.")
    return columns


def read_steps(columns: Columns, rows: Sequence[int], layout: Layout) -> Steps:
    """Reads rows of one kitchen.

    **Arguments:**

    - `columns`: the table, as `read_columns` returns it.
    - `rows`: the numbers of the rows, in any order.
    - `layout`: the kitchen.

    **Raises:** `ValueError` when a row is invalid, or a row of a game is missing or occurs twice.
    """
    order, length = _sort(columns, rows)
    state = read_states(columns["state"], order, layout)
    if not state.time.any():  # the tables of 2019 do not count steps in their states
        state.time[:] = count_steps(length) - 1
    action = _read_actions(columns["joint_action"], order, layout)
    reward = [read_number(columns["reward"][row], row, "reward") for row in order]
    return Steps(np.asarray(order), length, state, action, np.asarray(reward, np.float32))


def read_states(texts: Sequence[Json], rows: Sequence[int], layout: Layout) -> World:
    """The states in some rows of a column, with arrays of NumPy. Each distinct text is read once.

    **Arguments:**

    - `texts`: the column.
    - `rows`: the numbers of the rows.
    - `layout`: the kitchen.

    **Raises:** `ValueError` with the number of the row when a state is invalid.
    """
    first_row = first_rows(texts, rows, "state")
    named = ((f"Row {row}", parse(text, row, "state")) for text, row in first_row.items())
    worlds = read_worlds(named, layout)
    world_index = {text: index for index, text in enumerate(first_row)}
    indices = [world_index[texts[row]] for row in rows]
    return jax.tree.map(lambda x: np.asarray(x)[indices], worlds)


def first_rows(texts: Sequence[Json], rows: Sequence[int], what: str) -> dict[str, int]:
    """The distinct texts in some rows of a column, with the first row of each text."""
    found: dict[str, int] = {}
    for row in rows:
        found.setdefault(_check_text(texts[row], row, what), row)
    return found


def parse(text: Json, row: int, what: str) -> Json:
    """Reads JSON, or the Python literal of the same value, as in the tables of 2019.

    **Arguments:**

    - `text`: the text.
    - `row`, `what`: the number of its row and the name of its column, for error messages.

    **Raises:** `ValueError` when the text has neither form.
    """
    as_json = _check_text(text, row, what)
    if "'" in as_json:  # the quotes of Python; no name in these tables has an apostrophe
        as_json = as_json.replace("'", '"').replace("None", "null")
        as_json = as_json.replace("False", "false").replace("True", "true")
    try:
        return json.loads(as_json)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Row {row}: the {what} is not JSON, but {text!r:.60}.") from error


def _check_text(text: Json, row: int, what: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"Row {row}: the {what} is not a text, but {text!r:.60}.")
    return text


def read_number(value: Json, row: int, what: str) -> float:
    """Converts a number or its text to a `float`; `row` and `what` are as in `parse`.

    **Raises:** `ValueError` for anything else, and for a number that is not finite.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Row {row}: the {what} is not a number, but {value!r:.60}.") from error
    if not np.isfinite(number):
        raise ValueError(f"Row {row}: the {what} is not a number, but {value!r:.60}.")
    return number


def count_steps(length: Int[np.ndarray, " games"]) -> Int[np.ndarray, " steps"]:
    """The number of each step within its game, counted from 1."""
    return np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1


def read_grid(text: Json, row: int) -> list[str]:
    """The rows of a grid, which may have marks of cooks; `row` is the number of its row in the
    table.

    **Raises:** `ValueError` as in `parse`.
    """
    grid = parse(text, row, "layout")
    return ["".join(map(str, cells)) for cells in grid] if isinstance(grid, list) else []


def is_of_kitchen(text: Json, row: int, layout: Layout) -> bool:
    """Whether a grid in the table equals the grid of a kitchen, apart from marks of cooks."""
    grid = ["".join(" " if x.isdigit() else x for x in cells) for cells in read_grid(text, row)]
    return grid == ["".join(cells) for cells in write_grid(layout)]


def write_grid(layout: Layout) -> list[list[str]]:
    """The characters of the tiles, row by row, without the cooks."""
    return [[KINDS.tiles[tile].char for tile in row] for row in np.asarray(layout.tiles).tolist()]


def _sort(columns: Columns, rows: Sequence[int]) -> tuple[list[int], Int[np.ndarray, " games"]]:
    """The rows grouped by game and sorted by step, and the number of rows of each game.

    **Raises:** `ValueError` when a row of a game is missing or occurs twice.
    """
    step = {row: read_number(columns["cur_gameloop"][row], row, "cur_gameloop") for row in rows}
    rows_of: dict[str, list[int]] = {}
    for row in rows:
        rows_of.setdefault(str(columns["trial_id"][row]), []).append(row)
    for trial, own in rows_of.items():
        own.sort(key=step.__getitem__)
        if any(step[after] - step[before] != 1 for before, after in itertools.pairwise(own)):
            raise ValueError(
                f"The trial {trial!r:.60} lacks a row, or has one twice: 'cur_gameloop' must count "
                "its steps one by one."
            )
    lengths = np.asarray([len(own) for own in rows_of.values()])
    return [row for own in rows_of.values() for row in own], lengths


def _read_actions(
    texts: Sequence[Json], rows: Sequence[int], layout: Layout
) -> Int[np.ndarray, "steps agents"]:
    """The joint actions in some rows of a column. Each distinct text is read once."""
    known: dict[str, list[int | None]] = {}
    for row in rows:
        text = _check_text(texts[row], row, "joint_action")
        if text in known:
            continue
        joint = parse(text, row, "joint_action")
        actions = joint if isinstance(joint, list) else ()
        lower = [x.lower() if isinstance(x, str) else x for x in actions]
        known[text] = [_ACTION_NUMBERS.get(json.dumps(action)) for action in lower]
        if len(lower) != layout.num_agents or None in known[text]:
            raise ValueError(
                f"Row {row}: the joint_action must be {layout.num_agents} of [0, -1], [0, 1], "
                f"[1, 0], [-1, 0], [0, 0] and 'interact', but is {text!r:.60}."
            )
    return np.asarray([known[texts[row]] for row in rows])
