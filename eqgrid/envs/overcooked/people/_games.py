"""Recorded games of people: the games of 2019, in an installed Overcooked-AI, and other tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .... import Trajectories
from ....grid import Layout, World
from .._contents import Recipe, Recipes
from ..layouts import KITCHENS, REFERENCE_NAMES, load_layout, parse_kitchen, reference_layouts
from ..reference import (
    Columns,
    Json,
    count_steps,
    is_of_kitchen,
    parse,
    read_columns,
    read_grid,
    read_number,
    read_states,
    read_steps,
)
from ._files import SPLITS, Split, installed_file, read_file

_NAMES_OF_2019 = {"random0": "forced", "random1": "ring", "random3": "circuit"}
_ORDERS_OF_2019: tuple[Recipe, ...] = (("onion",) * 3,)
_VALUE_OF_2019 = 5.0
"""The reward for a soup in the games of 2019."""


@final
class HumanGame(eqx.Module):
    """A recorded game in one kitchen, step by step.

    **Arguments:**

    - `kitchen`: the name of the kitchen, as in `KITCHENS` for the five classic ones.
    - `layout`: the kitchen, with the prices and starts of the game: in 2019, a soup was worth 5.
    - `state`: the state before each step.
    - `final_state`: the state after the last step, where it was recorded.
    - `action`: the action of each cook in the step.
    - `reward`: the team's reward for the step, for each cook.
    - `time`: the seconds since the game began, as recorded with each step; games of agents that
        `trajectories_to_reference` wrote count steps instead.
    - `split`: `"train"` or `"test"`, for the halves of Carroll et al. (NeurIPS 2019).
    - `trial`: the name of the game, unique within its table.
    - `players`: the name of the player in each seat. In 2019, a pair of people played several
        kitchens.
    - `human`: whether a person had each seat.
    """

    kitchen: str = eqx.field(static=True)
    layout: Layout
    state: World
    final_state: World | None
    action: Int[Array, "steps agents"]
    reward: Float[Array, "steps agents"]
    time: Float[Array, " steps"]
    split: Split | None = eqx.field(static=True)
    trial: str = eqx.field(static=True)
    players: tuple[str, ...] = eqx.field(static=True)
    human: tuple[bool, ...] = eqx.field(static=True)


def human_games(
    split: Split | None = None,
    *,
    kitchen: str | None = None,
    path: str | Path | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[HumanGame, ...]:
    """Reads recorded games of pairs of people: the games of 2019 in five kitchens, or your own.

    The games of 2019 are in the package `overcooked-ai` 1.1.0 (`pip install 'eqgrid[human]'`). It
    is not imported, and no code of its pickles is run. Its data page asks users to contact the
    Center for Human-Compatible AI about rights to the data.

    Source: Carroll et al. (NeurIPS 2019), "On the Utility of Learning about Humans for Human-AI
    Coordination", who split the data into two halves: models of people are trained on the train
    half, and evaluated with models of the test half.

    **Arguments:**

    - `split`: `"train"`, `"test"`, or both by default.
    - `kitchen`: the name of one kitchen, here or in Overcooked-AI; all by default.
    - `path`: a file with other games, as for `read_games`; `split` then only labels them.
    - `layouts`: as for `read_games`.

    **Returns:** the games in the order of the tables, kitchen by kitchen.

    **Raises:** `ImportError` when the package is not installed, and `ValueError` when there is no
    such game, or a file cannot be read.
    """
    if path is not None:
        return games_from_table(read_file(path), split=split, kitchen=kitchen, layouts=layouts)
    games = [
        games_from_table(read_file(installed_file(half)), split=half, kitchen=kitchen)
        for half in (SPLITS if split is None else (split,))
    ]
    return tuple(game for half in games for game in half)


def read_games(
    path: str | Path,
    *,
    kitchen: str | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[HumanGame, ...]:
    """Reads the games of a file with the columns of Overcooked-AI's human data.

    **Arguments:**

    - `path`: a file that ends in `.csv`, `.json`, `.parquet` (which needs pyarrow), `.pickle` or
        `.pkl`, of which no code is run; or a folder of `.parquet` files, as eqgrid-play writes.
    - `kitchen`: the name of one kitchen; the games in all others are then not read.
    - `layouts`: further kitchens, by their `layout_name` in the file.

    **Returns:** the games in the order of the table, kitchen by kitchen.

    **Raises:** `ValueError` when the file cannot be read, a column is missing, a row is invalid, a
    kitchen is unknown, or there is no game; `ImportError` for a Parquet file without pyarrow.
    """
    table = read_file(path)
    try:
        return games_from_table(table, kitchen=kitchen, layouts=layouts)
    except ValueError as error:
        raise ValueError(f"The file {str(path)!r} cannot be used: {error}") from error


def games_from_table(
    table: Mapping[str, Json],
    *,
    split: Split | None = None,
    kitchen: str | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[HumanGame, ...]:
    """As `read_games`, for a table that has been read already.

    **Arguments:**

    - `table`: a sequence for each column, such as a `DataFrame` of pandas. The columns `state`,
        `joint_action`, `reward`, `time_elapsed`, `cur_gameloop`, `layout`, `layout_name` and
        `trial_id` are required; tables of 2019 have `run` and `workerid_num` instead of `trial_id`.
        `player_0_id` and `player_0_is_human` describe the player in the first seat, and so on.
    - `split`: the half of the data, if it is one.
    - `kitchen`, `layouts`: as for `read_games`.

    **Raises:** `ValueError` as `read_games`.
    """
    columns = read_columns(table, ("layout_name", "time_elapsed"))
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(columns["layout_name"]):
        rows_of.setdefault(str(name), []).append(row)
    if kitchen is not None:
        wanted = _kitchen_of(kitchen)
        chosen = {name: rows for name, rows in rows_of.items() if _kitchen_of(name) == wanted}
    else:
        chosen = rows_of
    if not chosen:
        there = ", ".join(sorted(set(map(_kitchen_of, rows_of)))) or "none"
        which = "" if split is None else f" of the {split} half"
        where = "" if kitchen is None else f" in {kitchen!r:.60}"
        raise ValueError(f"There are no games{which}{where}: the kitchens here are {there}.")
    return tuple(
        game
        for name, rows in chosen.items()
        for game in _games_of(name, rows, columns, split, layouts or {})
    )


def trajectories_from_games(games: Sequence[HumanGame]) -> Trajectories:
    """Joins games in one kitchen, in the format of `trajectories_from_reference`.

    Every game is an episode, which counts as truncated after its last step.

    **Arguments:**

    - `games`: at least one game.

    **Raises:** `ValueError` when there is none, or the kitchens differ.
    """
    if not games:
        raise ValueError("There are no games to join: give at least one.")
    tiles = [np.asarray(game.layout.tiles) for game in games]
    for game, own in zip(games, tiles, strict=True):
        if not np.array_equal(own, tiles[0]) or game.action.shape[1] != games[0].action.shape[1]:
            raise ValueError(
                f"These are games in different kitchens, {games[0].kitchen} and {game.kitchen}: "
                "choose games in one kitchen."
            )
    length = np.asarray([len(game.action) for game in games])
    reward = jnp.concatenate([game.reward for game in games])
    return Trajectories(
        state=jax.tree.map(lambda *x: jnp.concatenate(x), *[game.state for game in games]),
        action=jnp.concatenate([game.action for game in games]),
        reward=reward,
        terminated=jnp.zeros(reward.shape, bool),
        truncated=jnp.asarray(count_steps(length) == np.repeat(length, length)),
        length=jnp.asarray(length, jnp.int32),
    )


def _kitchen_of(name: str) -> str:
    """Our name of a kitchen of Overcooked-AI; other names stay as they are."""
    return (REFERENCE_NAMES | _NAMES_OF_2019).get(name, name)


def _games_of(
    name: str,
    rows: Sequence[int],
    columns: Columns,
    split: Split | None,
    layouts: Mapping[str, Layout],
) -> list[HumanGame]:
    """The games in one kitchen, from the rows with its name."""
    layout = _layout_of(name, rows, columns, layouts)
    steps = read_steps(columns, rows, layout)
    ends = np.cumsum(steps.length)
    final = None
    if "next_state" in columns:  # only in the tables of 2019
        last = [int(row) for row in steps.rows[ends - 1]]
        final = read_states(columns["next_state"], last, layout)
        time = np.where(final.time == 0, steps.length, final.time).astype(np.int32)
        final = eqx.tree_at(lambda world: world.time, final, time)
    games = []
    for number, (length, end) in enumerate(zip(steps.length, ends, strict=True)):
        own = slice(end - length, end)
        row = int(steps.rows[own][0])
        trial = str(columns["trial_id"][row])
        seats = range(layout.num_agents)
        elapsed = [
            read_number(columns["time_elapsed"][i], i, "time_elapsed")
            for i in steps.rows[own].tolist()
        ]
        games.append(
            HumanGame(
                kitchen=_kitchen_of(name),
                layout=layout,
                state=_take(steps.state, own),
                final_state=None if final is None else _take(final, number),
                action=jnp.asarray(steps.action[own], jnp.int32),
                reward=jnp.asarray(np.repeat(steps.reward[own, None], layout.num_agents, axis=1)),
                time=jnp.asarray(elapsed, jnp.float32),
                split=split,
                trial=trial,
                players=tuple(_player(columns, row, seat) for seat in seats),
                human=tuple(_is_human(columns, row, seat) for seat in seats),
            )
        )
    return games


def _take(world: World, which: int | slice) -> World:
    return jax.tree.map(lambda x: jnp.asarray(x[which]), world)


def _player(columns: Columns, row: int, seat: int) -> str:
    """The name of the player in a seat. In 2019, a pair has a number, and the first player leads:
    see `human_data_forward_compat.py` of Overcooked-AI.
    """
    if f"player_{seat}_id" in columns:
        return str(columns[f"player_{seat}_id"][row])
    if "run" in columns and "workerid_num" in columns:
        return f"{columns['run'][row]}/{columns['workerid_num'][row]}/{seat}"
    return f"{columns['trial_id'][row]}/{seat}"


def _is_human(columns: Columns, row: int, seat: int) -> bool:
    """Whether a person had a seat, which is the default without a column for it."""
    told = columns.get(f"player_{seat}_is_human")
    return told is None or str(told[row]).lower() in ("true", "1")


def _layout_of(
    name: str, rows: Sequence[int], columns: Columns, layouts: Mapping[str, Layout]
) -> Layout:
    """The kitchen of the rows with a name.

    **Raises:** `ValueError` when it is unknown, or differs from the grid in the rows.
    """
    kitchen, first = _kitchen_of(name), rows[0]
    if name in layouts:
        layout = layouts[name]
    elif kitchen in KITCHENS or kitchen in reference_layouts():
        layout = load_layout(kitchen)
    else:
        raise ValueError(
            f"The table has games in the unknown kitchen {name!r:.60}: give its layout as "
            f"layouts={{{name!r:.60}: ...}}, or choose another kitchen with kitchen."
        )
    for text, row in {columns["layout"][row]: row for row in reversed(rows)}.items():
        if not is_of_kitchen(text, row, layout):
            raise ValueError(
                f"Row {row} has another grid than the kitchen {name!r:.60}: give its layout as "
                f"layouts={{{name!r:.60}: ...}}."
            )
    # In the tables of 2019, the rows of a grid are texts.
    of_2019 = isinstance(parse(columns["layout"][first], first, "layout")[0], str)
    if name in layouts or not of_2019:
        return layout
    grid = "\n".join(read_grid(columns["layout"][first], first))
    # Later conversions of these tables write the orders into the states.
    state = parse(columns["state"][first], first, "state")
    found = state.get("all_orders") if isinstance(state, dict) else None
    orders = [tuple(sorted(x["ingredients"])) for x in found] if found else _ORDERS_OF_2019
    return parse_kitchen(grid, Recipes(orders, values=_VALUE_OF_2019))
