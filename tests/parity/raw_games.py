"""Recorded human games as pandas and JSON read them, without the readers of eqgrid."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from eqgrid.envs.overcooked import KITCHENS, Recipes, parse_kitchen
from eqgrid.grid import Layout

pandas = pytest.importorskip("pandas", reason="needs the [parity] extra")
# The package itself is not imported: only its data is read.
package = importlib.util.find_spec("overcooked_ai_py")

FILES = ("clean_train_trials.pickle", "clean_test_trials.pickle")
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


def read_games() -> list[tuple[str, list[dict], np.ndarray, np.ndarray]]:
    """The name, states, actions and rewards of each game."""
    folder = Path(package.origin).parent / "data" / "human_data"
    parsed: dict[str, dict] = {}

    def parse(text: str) -> dict:
        if text not in parsed:  # written by Python, but much faster to read as JSON
            json_text = text.replace("'", '"').replace("False", "false").replace("None", "null")
            parsed[text] = json.loads(json_text)
        return parsed[text]

    games = []
    for file in FILES:
        table = pandas.read_pickle(folder / file)
        for (name, *_), rows in table.groupby(["layout_name", "workerid_num", "run"]):
            rows = rows.sort_values("cur_gameloop")
            assert (rows.cur_gameloop.to_numpy() == np.arange(len(rows))).all()
            states = [parse(text) for text in (*rows.state, rows.next_state.iloc[-1])]
            assert states[1:] == [parse(text) for text in rows.next_state]
            moves = [
                [MOVES[a if isinstance(a, str) else tuple(a)] for a in parse(text)]
                for text in rows.joint_action
            ]
            games.append((name, states, np.asarray(moves), rows.reward.to_numpy(np.float32)))
    return games
