"""How rooms are drawn, against thousands of rooms that `minigrid` 3.2.0 has drawn.

Both samples are counted by features of a room, such as the column of a wall, and compared by
chi-square tests of homogeneity.
"""

import os
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats
from test_minigrid import CASES, DIRECTIONS, codes

from eqgrid.envs.minigrid import KINDS, MiniGrid

pytestmark = pytest.mark.parity

NUMBER = int(os.environ.get("EQGRID_PARITY_ROOMS", "1500"))
SMALLEST_P = 1e-4
"""Some 150 features are tested, so a right one fails in 1 or 2 of 100 runs with other seeds."""

WALL, GOAL, LAVA = KINDS.code("wall"), KINDS.code("goal"), KINDS.code("lava")
DOOR, KEY, BALL = KINDS.code("door"), KINDS.code("key"), KINDS.code("ball")
DOORS, KEYS, BALLS = range(DOOR, DOOR + 18), range(KEY, KEY + 6), range(BALL, BALL + 6)
LOCKED = range(DOOR + 2, DOOR + 18, 3)
CLOSED = range(DOOR + 1, DOOR + 18, 3)
SINGLE = {"door": LOCKED, "key": KEYS, "ball": BALLS, "goal": [GOAL]}
"""Things of which a room may have one."""


def where(grid: np.ndarray, kinds: Any) -> tuple[int, ...]:
    """The cells in which one of these codes lies."""
    return tuple(np.flatnonzero(np.isin(grid, list(kinds))).tolist())


def features(
    of_room: Any, grid: np.ndarray, place: tuple[int, int], direction: int
) -> dict[str, Any]:
    """Features of every room, and further ones of this kind of room."""
    doors, keys = where(grid, DOORS), where(grid, KEYS)
    colours = [(int(grid.flat[door]) - DOOR) // 3 for door in doors]
    found = {
        "place": place,
        "row": place[0],
        "column": place[1],
        "direction": direction,
        "walls": int((grid == WALL).sum()),
        "colours of doors": tuple(sorted(colours))[:2],
        "number of doors": len(doors),
        "same colour": tuple(colours[0] == int(grid.flat[key]) - KEY for key in keys),
    }
    for name, kinds in SINGLE.items():
        cells = where(grid, kinds)
        if len(cells) == 1:
            row, column = divmod(cells[0], grid.shape[1])
            found |= {
                name: (row, column),
                f"row of the {name}": row,
                f"column of the {name}": column,
                f"from agent to {name}": (row - place[0], column - place[1]),
            }
    return found | (of_room(grid, place) if of_room is not None else {})


def of_four_rooms(grid: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    middle = grid.shape[0] // 2
    gaps = [*np.flatnonzero(grid[:, middle] != WALL), *np.flatnonzero(grid[middle] != WALL)]
    (goal,) = where(grid, [GOAL])
    rooms = (place[0] > middle, place[1] > middle, goal // grid.shape[1] > middle)
    return {f"gap {i}": gap for i, gap in enumerate(gaps)} | {"rooms": rooms}


def of_corridor(grid: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    width, closed = grid.shape[1], where(grid, CLOSED)
    sides = [width // 3, 2 * (width // 3)]
    (ball,) = where(grid, BALLS)
    return {
        "colour of the ball": grid.flat[ball] - BALL,
        "closed doors": len(closed),
        "doors on the left": sum(cell % width == sides[0] for cell in closed),
        "doors on the right": sum(cell % width == sides[1] for cell in closed),
        "doors below": sum(cell % width not in sides for cell in closed),
        "rows of doors": tuple(sorted(cell // width for cell in closed))[:2],
    }


def of_crossing(grid: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    lava = grid == LAVA
    side = grid.shape[0]
    rows = tuple(np.flatnonzero(lava[1:-1, 1:-1].sum(axis=1) > (side - 2) // 2).tolist())
    cols = tuple(np.flatnonzero(lava[1:-1, 1:-1].sum(axis=0) > (side - 2) // 2).tolist())
    crossed = {f"gap in row {row}": where(lava[1 + row, 1:-1], [0])[:1] for row in (1, 3, 5)}
    down = {f"gap in column {col}": where(lava[1:-1, 1 + col], [0])[:1] for col in (1, 3, 5)}
    first = int(lava[2, 1:-1].sum()), int(lava[1:-1, 2].sum())
    return {"rows": rows, "columns": cols, "lava": int(lava.sum()), "first": first} | crossed | down


def of_obstacles(grid: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    balls = where(grid, BALLS)
    return {"first ball": balls[0], "last ball": balls[-1], "balls": len(balls)}


def of_chain(grid: np.ndarray, place: tuple[int, int]) -> dict[str, Any]:
    doors, width = where(grid, CLOSED), grid.shape[1]
    (goal,) = where(grid, [GOAL])
    rows, cols = np.nonzero(grid == WALL)
    return {
        "region of the goal": (goal // width // 5, goal % width // 5),
        "region": (place[0] // 3, place[1] // 3),
        "first door": (doors[0] // width // 6, doors[0] % width // 6),
        "height": (rows.max() - rows.min()) // 3,
        "width": (cols.max() - cols.min()) // 3,
        "walls": int((grid == WALL).sum()) // 6,
        "top": int(rows.min()) // 2,
        "left": int(cols.min()) // 2,
        "colours": tuple((grid.flat[list(doors)] - DOOR) // 3)[:2],
        "from agent to goal": (
            (goal // width - place[0]) // 5,
            (goal % width - place[1]) // 5,
        ),
    }


ROOMS: dict[str, Any] = {
    "empty-random": None,
    "fourrooms": of_four_rooms,
    "doorkey": None,
    "unlock": None,
    "keycorridor": of_corridor,
    "lavacrossing": of_crossing,
    "dynamicobstacles-5": of_obstacles,
    "multiroom": of_chain,
    "multiroom-2": of_chain,
}
"""Names in `CASES`, and the further features of these rooms."""


def drawn_there(env: Any, of_room: Any) -> list[dict[str, Any]]:
    env.reset(seed=0)
    found = []
    for _ in range(NUMBER):
        env.agent_pos = (-1, -1)
        env._gen_grid(env.width, env.height)
        place = int(env.agent_pos[1]), int(env.agent_pos[0])
        found.append(features(of_room, codes(env), place, int(DIRECTIONS[env.agent_dir])))
    return found


def drawn_here(options: dict[str, Any], of_room: Any) -> list[dict[str, Any]]:
    env = MiniGrid(**options)
    keys = jax.random.split(jax.random.key(1), 2 * NUMBER)
    worlds = eqx.filter_jit(jax.vmap(lambda key: env.reset(key)[1]))(keys)
    grids, bodies = np.asarray(worlds.cells.object), worlds.bodies
    return [
        features(of_room, grid, tuple(place), direction)
        for grid, place, direction in zip(
            grids, bodies.position[:, 0].tolist(), bodies.direction[:, 0].tolist(), strict=True
        )
    ]


def p_value(ours: list[Any], theirs: list[Any]) -> float:
    """The probability of samples that differ at least as much, if they have one distribution. Rare
    values count as one.
    """
    counts = Counter(ours), Counter(theirs)
    values = counts[0].keys() | counts[1].keys()
    table = np.asarray([[count[value] for value in values] for count in counts])
    often = table.sum(axis=0) >= 30
    rest = table[:, ~often].sum(axis=1, keepdims=True)
    table = np.concatenate([table[:, often], rest], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    return 1.0 if table.shape[1] < 2 else float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_are_drawn_as_in_the_reference(name: str):
    case, of_room = CASES[name], ROOMS[name]
    there, here = drawn_there(case.theirs(100), of_room), drawn_here(case.ours, of_room)
    p = {
        feature: p_value([x[feature] for x in here], [x[feature] for x in there])
        for feature in there[0]
    }
    print(name, {feature: round(value, 4) for feature, value in p.items()})
    assert {feature: value for feature, value in p.items() if value < SMALLEST_P} == {}


def test_a_distribution_that_is_a_little_off_is_found():
    rng = np.random.default_rng(0)
    ours = rng.choice(6, 3000, p=[1 / 6] * 6).tolist()
    theirs = rng.choice(6, 1500, p=[0.12, 0.2, 0.17, 0.17, 0.17, 0.17]).tolist()
    assert p_value(ours, theirs) < SMALLEST_P
