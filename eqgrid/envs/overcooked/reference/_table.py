"""Conversion between episodes and tables with the columns of Overcooked-AI's human data."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .... import Trajectories
from ....grid import Layout
from .._kinds import KINDS
from ._rows import ACTIONS, count_steps, is_of_kitchen, read_columns, read_steps, write_grid
from ._state import worlds_to_reference


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
    table: Mapping[str, Any], layout: Layout, *, layout_name: str | None = None
) -> Trajectories:
    """Converts a table in the format of Overcooked-AI's human games to episodes; the inverse of
    `trajectories_to_reference`.

    Every `trial_id` is an episode, which counts as truncated after its last row. States are
    converted by `world_from_reference`. The tables of 2019 have no `trial_id`: there, every
    `layout_name`, `run` and `workerid_num` is an episode, and states and actions may be printed by
    Python.

    **Arguments:**

    - `table`: a sequence for each column, such as a `DataFrame` of pandas. The columns `state`,
        `joint_action`, `reward`, `cur_gameloop`, `layout` and `trial_id` are required.
    - `layout`: the kitchen.
    - `layout_name`: if given, only rows with this name are used, for tables with several kitchens.

    **Raises:** `ValueError` when a column is missing, a row is invalid, or the rows are not of this
    kitchen.
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
