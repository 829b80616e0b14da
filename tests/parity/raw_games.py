"""Recorded human games as pandas and JSON read them, without the readers of eqgrid."""

import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from eqgrid.envs.overcooked import KITCHENS, Recipes, parse_kitchen
from eqgrid.grid import Layout

pandas = pytest.importorskip("pandas", reason="needs the [parity] extra")
# The package itself is not imported: only its data is read.
package = importlib.util.find_spec("overcooked_ai_py")

MOVES = {(0, -1): 0, (0, 1): 1, (1, 0): 2, (-1, 0): 3, (0, 0): 4, "INTERACT": 5}
TEXTS = {
    "cramped_room": KITCHENS["cramped"],
    "asymmetric_advantages": KITCHENS["asymmetric"],
    "coordination_ring": KITCHENS["ring"],
    "random0": KITCHENS["forced"],
    "random3": "XXXPPXXX\nX      X\nD XXXX S\nX2    1X\nXXXOOXXX",
}
"""`random0` is forced coordination, `random3` is counter circuit with other starts."""


def kitchen(name: str) -> Layout:
    """In these games a soup pays 5."""
    return parse_kitchen(TEXTS[name], Recipes(orders=[("onion",) * 3], values=5.0))


class RawGame(NamedTuple):
    name: str
    states: list[dict]
    actions: np.ndarray
    rewards: np.ndarray
    times: np.ndarray
    trial: str


def read_games(splits: Iterable[str] = ("train", "test")) -> list[RawGame]:
    folder = Path(package.origin).parent / "data" / "human_data"
    parsed: dict[str, dict] = {}

    def parse(text: str) -> dict:
        if text not in parsed:  # written by Python, but much faster to read as JSON
            json_text = text.replace("'", '"').replace("False", "false").replace("None", "null")
            parsed[text] = json.loads(json_text)
        return parsed[text]

    games = []
    for split in splits:
        table = pandas.read_pickle(folder / f"clean_{split}_trials.pickle")
        for (name, pair, run), rows in table.groupby(["layout_name", "workerid_num", "run"]):
            rows = rows.sort_values("cur_gameloop")
            assert (rows.cur_gameloop.to_numpy() == np.arange(len(rows))).all()
            states = [parse(text) for text in (*rows.state, rows.next_state.iloc[-1])]
            assert states[1:] == [parse(text) for text in rows.next_state]
            moves = [
                [MOVES[a if isinstance(a, str) else tuple(a)] for a in parse(text)]
                for text in rows.joint_action
            ]
            rewards, times = (
                rows[column].to_numpy(np.float32) for column in ("reward", "time_elapsed")
            )
            trial = f"{name}/{run}/{pair}"
            games.append(RawGame(name, states, np.asarray(moves), rewards, times, trial))
    return games
