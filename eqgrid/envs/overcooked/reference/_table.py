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
"""The actions as in the tables, by their number."""

_NUMBERS = {json.dumps(action): number for number, action in enumerate(ACTIONS)}
_NEEDED = ("state", "joint_action", "reward", "cur_gameloop", "layout")
_OLD_TRIAL = ("layout_name", "run", "workerid_num")
"""The columns that together name a game in the tables of 2019."""

Columns: TypeAlias = Mapping[str, Sequence[Json]]
"""The columns of a table by name."""


class Steps(NamedTuple):
    """The rows of one kitchen as arrays, game after game; arrays of NumPy, also in the worlds."""

    rows: Int[np.ndarray, " steps"]
    length: Int[np.ndarray, " games"]
    state: World
    action: Int[np.ndarray, "steps agents"]
    reward: Float[np.ndarray, " steps"]


def read_columns(table: Mapping[str, Json], more: Sequence[str] = ()) -> dict[str, list[Json]]:
    """All columns as lists. A `trial_id` is added to a table of 2019, which has none.

    **Raises:** `ValueError` when one of the required columns, or of `more`, is missing.
    """
    columns = {str(name): list(table[name]) for name in table}
    if "trial_id" not in columns and set(_OLD_TRIAL[1:]) & set(columns):
        more = (*more, *_OLD_TRIAL)
    else:
        more = (*more, "trial_id")
    if missing := [name for name in (*_NEEDED, *more) if name not in columns]:
        raise ValueError(
            f"The table has no column {missing[0]!r}: it needs the columns of Overcooked-AI's "
            "human games."
        )
    if "trial_id" not in columns:
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

    **Raises:** `ValueError` when a row is invalid, or a game lacks one.
    """
    order, length = _sort(columns, rows)
    state = read_states(columns["state"], order, layout)
    if not state.time.any():  # the tables of 2019 do not count steps in their states
        state.time[:] = count_steps(length) - 1
    action = _read_actions(columns["joint_action"], order, layout)
    paid = [read_number(columns["reward"][row], row, "reward") for row in order]
    return Steps(np.asarray(order), length, state, action, np.asarray(paid, np.float32))


def read_states(texts: Sequence[Json], rows: Sequence[int], layout: Layout) -> World:
    """The states in these rows of a column, with arrays of NumPy. Equal texts are read once."""
    number_of: dict[str, int] = {}
    index = [
        number_of.setdefault(_check_text(texts[row], row, "state"), len(number_of)) for row in rows
    ]
    first = dict(zip(reversed(index), reversed(rows), strict=True))
    named = (
        (f"Row {first[number]}", parse(text, first[number], "state"))
        for text, number in number_of.items()
    )
    worlds = read_worlds(named, layout)
    return jax.tree.map(lambda x: np.asarray(x)[index], worlds)


def parse(text: Json, row: int, what: str) -> Json:
    """Reads JSON, or the text that Python prints for the same value, as in the tables of 2019.

    **Raises:** `ValueError` when the text is neither.
    """
    plain = _check_text(text, row, what)
    if "'" in plain:  # Python's quotes; no name in these tables has such a mark
        plain = plain.replace("'", '"').replace("None", "null")
        plain = plain.replace("False", "false").replace("True", "true")
    try:
        return json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Row {row}: the {what} is not JSON, but {text!r:.60}.") from error


def _check_text(text: Json, row: int, what: str) -> str:
    if not isinstance(text, str):
        raise ValueError(f"Row {row}: the {what} is not a text, but {text!r:.60}.")
    return text


def read_number(value: Json, row: int, what: str) -> float:
    """A number, which may be a text. **Raises:** `ValueError` for anything else."""
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
    """The rows of a grid, in which cooks may be marked.

    **Raises:** `ValueError` when the text is neither JSON nor printed by Python.
    """
    grid = parse(text, row, "layout")
    return ["".join(map(str, cells)) for cells in grid] if isinstance(grid, list) else []


def is_of_kitchen(text: Json, row: int, layout: Layout) -> bool:
    """Whether the grid of a row equals the grid of a kitchen; its marks of cooks are ignored."""
    plain = ["".join(" " if x.isdigit() else x for x in cells) for cells in read_grid(text, row)]
    return plain == ["".join(cells) for cells in write_grid(layout)]


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
    """The joint actions in these rows of a column. Equal texts are read once."""
    known: dict[str, list[int | None]] = {}
    for row in rows:
        text = _check_text(texts[row], row, "joint_action")
        if text in known:
            continue
        joint = parse(text, row, "joint_action")
        actions = joint if isinstance(joint, list) else ()
        lower = [x.lower() if isinstance(x, str) else x for x in actions]
        known[text] = [_NUMBERS.get(json.dumps(action)) for action in lower]
        if len(lower) != layout.num_agents or None in known[text]:
            raise ValueError(
                f"Row {row}: the joint_action must be {layout.num_agents} of [0, -1], [0, 1], "
                f"[1, 0], [-1, 0], [0, 0] and 'interact', but is {text!r:.60}."
            )
    return np.asarray([known[texts[row]] for row in rows])


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
    ..., in this order. States, actions and layouts are JSON as in the reference; `score` includes
    the reward of the row, and `cur_gameloop` starts at 1. Times are numbers of steps, since there
    is no real time, and no player is human. Observations are left out: `env.observe` computes them
    from states.

    Source: `src/human_aware_rl/static/human_data/README.md` of Overcooked-AI.

    **Arguments:**

    - `trajectories`: episodes in one kitchen.
    - `layout`: the kitchen.
    - `layout_name`: its name in the table; with a name of Overcooked-AI, Overcooked-AI can
        build it.
    - `trial_ids`: a name for each episode; its index by default.
    - `players`: the names of the players, for each episode.

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
    episode = np.repeat(np.arange(len(length)), length).tolist()
    elapsed = count_steps(length)
    paid = reward[:, 0].astype(float)
    names = [str(i) for i in range(len(length))] if trial_ids is None else trial_ids
    nobody = [[f"agent_{i}" for i in range(layout.num_agents)]] * len(length)
    seats = nobody if players is None else players
    ends = np.cumsum(length)[:-1]
    count = len(episode)
    return {
        "state": [json.dumps(state) for state in worlds_to_reference(trajectories.state, layout)],
        "joint_action": [
            json.dumps([ACTIONS[number] for number in joint])
            for joint in np.asarray(trajectories.action).tolist()
        ],
        "reward": paid.tolist(),
        "time_left": (length[episode] - elapsed).astype(float).tolist(),
        "score": np.concatenate([np.cumsum(x) for x in np.split(paid, ends)]).tolist(),
        "time_elapsed": elapsed.astype(float).tolist(),
        "cur_gameloop": elapsed.tolist(),
        "layout": [json.dumps(write_grid(layout))] * count,
        "layout_name": [layout_name] * count,
        "trial_id": [names[i] for i in episode],
        **{
            f"player_{seat}_id": [seats[i][seat] for i in episode]
            for seat in range(layout.num_agents)
        },
        **{f"player_{seat}_is_human": [False] * count for seat in range(layout.num_agents)},
    }


def trajectories_from_reference(
    table: Mapping[str, Json], layout: Layout, *, layout_name: str | None = None
) -> Trajectories:
    """Converts a table in the format of Overcooked-AI's human games to episodes; the inverse of
    `trajectories_to_reference`.

    Every `trial_id` is an episode, which counts as truncated after its last row. States are
    converted by `world_from_reference`. In the tables of 2019, which have no `trial_id`, every
    `layout_name`, `run` and `workerid_num` is an episode, and states and actions may be printed by
    Python.

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
    for text, row in {columns["layout"][row]: row for row in reversed(rows)}.items():
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
            "Overcooked-AI has no such world: only kitchens of `Overcooked` are in its tables."
        )
