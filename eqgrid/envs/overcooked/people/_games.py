"""Recorded games of people: the games of 2019, which are part of `overcooked-ai`, and games in
other tables.
"""

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
    first_rows,
    is_of_kitchen,
    parse,
    read_columns,
    read_grid,
    read_number,
    read_states,
    read_steps,
)
from ._files import SPLITS, Split, read_file, read_installed

_NAMES_OF_2019 = {"random0": "forced", "random1": "ring", "random3": "circuit"}
_ORDERS_OF_2019: tuple[Recipe, ...] = (("onion",) * 3,)
_VALUE_OF_2019 = 5.0
"""The reward for a soup in the games of 2019."""


@final
class HumanGame(eqx.Module):
    """A recorded game in one kitchen, step by step.

    **Arguments:**

    - `kitchen`: the name of the kitchen; the five classic kitchens have their names in `KITCHENS`.
    - `layout`: the kitchen, with the initial state of the game and the values of its soups: 5 for
        each soup in 2019.
    - `state`: the state before each step.
    - `final_state`: the state after the last step, or `None` if it was not recorded.
    - `action`: the action of each cook in the step.
    - `reward`: the team's reward for the step, for each cook.
    - `time`: the number of seconds from the beginning of the game to each step. In tables that
        `trajectories_to_reference` wrote, it is the number of steps.
    - `split`: the half of Carroll et al. (NeurIPS 2019) that has the game, `"train"` or `"test"`;
        `None` if no half was named.
    - `trial`: the name of the game, unique within its table.
    - `players`: the name of the player in each seat. In 2019, a pair of people played in several
        kitchens.
    - `human`: whether the player in each seat is a person.
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

    The games of 2019 are in the package `overcooked-ai` 1.1.0 (`pip install 'eqgrid[human]'`), as
    pickles that pandas reads. The function does not import the package. The data page of the
    package asks users to contact the Center for Human-Compatible AI about rights to the data.

    Source: Carroll et al. (NeurIPS 2019), "On the Utility of Learning about Humans for Human-AI
    Coordination". They split the data into two halves: agents are trained with models of people
    from the train half, and evaluated with models of people from the test half.

    **Arguments:**

    - `split`: `"train"`, `"test"`, or both by default.
    - `kitchen`: the name of one kitchen, in eqgrid or in Overcooked-AI; all by default.
    - `path`: a file with other games, as for `read_games`; `split` then only labels them.
    - `layouts`: as for `read_games`.

    **Returns:** the games in the order of the tables, kitchen by kitchen.

    **Raises:** `ImportError` when the package is not installed, and `ValueError` when there is no
    such game, or a file cannot be read.
    """
    if path is not None:
        return games_from_table(read_file(path), split=split, kitchen=kitchen, layouts=layouts)
    return tuple(
        game
        for half in (SPLITS if split is None else (split,))
        for game in games_from_table(read_installed(half), split=half, kitchen=kitchen)
    )


def read_games(
    path: str | Path,
    *,
    kitchen: str | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[HumanGame, ...]:
    """Reads the games of a file with the columns of Overcooked-AI's human data.

    **Arguments:**

    - `path`: a file that ends in `.csv`, `.json` or `.parquet` (which needs pyarrow); or a folder
        of `.parquet` files, as eqgrid play writes.
    - `kitchen`: the name of one kitchen, to read only the games in it; all by default.
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
    """As `read_games`, for a table in memory.

    **Arguments:**

    - `table`: a sequence for each column, such as a `DataFrame` of pandas. The columns `state`,
        `joint_action`, `reward`, `time_elapsed`, `cur_gameloop`, `layout`, `layout_name` and
        `trial_id` are required; tables of 2019 have `run` and `workerid_num` instead of `trial_id`.
        `player_0_id` and `player_0_is_human` describe the player in the first seat, and so on.
    - `split`: the label of the games, if the table is one half of the data.
    - `kitchen`, `layouts`: as for `read_games`.

    **Raises:** `ValueError` as `read_games`.
    """
    columns = read_columns(table, ("layout_name", "time_elapsed"))
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(columns["layout_name"]):
        rows_of.setdefault(str(name), []).append(row)
    wanted = None if kitchen is None else _kitchen_of(kitchen)
    chosen = [name for name in rows_of if wanted in (None, _kitchen_of(name))]
    if not chosen:
        known = ", ".join(sorted(set(map(_kitchen_of, rows_of)))) or "none"
        which = "" if split is None else f" of the {split} half"
        where = "" if kitchen is None else f" in {kitchen!r:.60}"
        raise ValueError(f"There are no games{which}{where}: the kitchens here are {known}.")
    return tuple(
        game
        for name in chosen
        for game in _games_of(name, rows_of[name], columns, split, layouts or {})
    )


def trajectories_from_games(games: Sequence[HumanGame]) -> Trajectories:
    """Joins games in one kitchen, in the format of `trajectories_from_reference`.

    Every game is an episode, which counts as truncated after its last step.

    **Arguments:**

    - `games`: at least one game.

    **Raises:** `ValueError` when there is no game, or the kitchens differ.
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
    """The name in eqgrid of a kitchen of Overcooked-AI; other names are returned as they are."""
    return (REFERENCE_NAMES | _NAMES_OF_2019).get(name, name)


def _games_of(
    name: str,
    rows: Sequence[int],
    columns: Columns,
    split: Split | None,
    layouts: Mapping[str, Layout],
) -> list[HumanGame]:
    """The games in one kitchen.

    **Arguments:**

    - `name`: the name of the kitchen in the table.
    - `rows`: the numbers of the rows with this name.
    - `columns`: the table.
    - `split`, `layouts`: as for `games_from_table`.
    """
    layout = _layout_of(name, rows, columns, layouts)
    steps = read_steps(columns, rows, layout)
    ends = np.cumsum(steps.length)
    final_states = None
    if "next_state" in columns:  # only in the tables of 2019
        last_rows = [int(row) for row in steps.rows[ends - 1]]
        final_states = read_states(columns["next_state"], last_rows, layout)
        # A time of 0 means that the state does not count steps.
        time = np.where(final_states.time == 0, steps.length, final_states.time).astype(np.int32)
        final_states = eqx.tree_at(lambda world: world.time, final_states, time)
    games = []
    for number, (length, end) in enumerate(zip(steps.length, ends, strict=True)):
        own = slice(end - length, end)
        first_row = int(steps.rows[own][0])
        seats = range(layout.num_agents)
        elapsed = [
            read_number(columns["time_elapsed"][row], row, "time_elapsed")
            for row in steps.rows[own].tolist()
        ]
        games.append(
            HumanGame(
                kitchen=_kitchen_of(name),
                layout=layout,
                state=_take(steps.state, own),
                final_state=None if final_states is None else _take(final_states, number),
                action=jnp.asarray(steps.action[own], jnp.int32),
                reward=jnp.asarray(np.repeat(steps.reward[own, None], layout.num_agents, axis=1)),
                time=jnp.asarray(elapsed, jnp.float32),
                split=split,
                trial=str(columns["trial_id"][first_row]),
                players=tuple(_player(columns, first_row, seat) for seat in seats),
                human=tuple(_is_human(columns, first_row, seat) for seat in seats),
            )
        )
    return games


def _take(world: World, index: int | slice) -> World:
    return jax.tree.map(lambda x: jnp.asarray(x[index]), world)


def _player(columns: Columns, row: int, seat: int) -> str:
    """The name of the player in a seat. Tables of 2019 only have a number for each pair of people;
    the player in the first seat is the first of the pair, as in `human_data_forward_compat.py` of
    Overcooked-AI.
    """
    if f"player_{seat}_id" in columns:
        return str(columns[f"player_{seat}_id"][row])
    if "run" in columns and "workerid_num" in columns:
        return f"{columns['run'][row]}/{columns['workerid_num'][row]}/{seat}"
    return f"{columns['trial_id'][row]}/{seat}"


def _is_human(columns: Columns, row: int, seat: int) -> bool:
    """Whether the player in a seat is a person; true if the table has no column for it."""
    column = columns.get(f"player_{seat}_is_human")
    return column is None or str(column[row]).lower() in ("true", "1")


def _layout_of(
    name: str, rows: Sequence[int], columns: Columns, layouts: Mapping[str, Layout]
) -> Layout:
    """The layout of one kitchen; the arguments are as for `_games_of`.

    **Raises:** `ValueError` when the kitchen is unknown, or differs from the grid in the rows.
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
    for text, row in first_rows(columns["layout"], rows, "layout").items():
        if not is_of_kitchen(text, row, layout):
            raise ValueError(
                f"Row {row} has another grid than the kitchen {name!r:.60}: give its layout as "
                f"layouts={{{name!r:.60}: ...}}."
            )
    # In the tables of 2019, the rows of a grid are texts. Other tables have lists of characters.
    is_of_2019 = isinstance(parse(columns["layout"][first], first, "layout")[0], str)
    if name in layouts or not is_of_2019:
        return layout
    grid = "\n".join(read_grid(columns["layout"][first], first))
    # Later conversions of the tables of 2019 have the orders in their states.
    state = parse(columns["state"][first], first, "state")
    written = state.get("all_orders") if isinstance(state, dict) else None
    orders = [tuple(sorted(x["ingredients"])) for x in written] if written else _ORDERS_OF_2019
    return parse_kitchen(grid, Recipes(orders, values=_VALUE_OF_2019))
