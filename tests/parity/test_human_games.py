"""Recorded human games: each is replayed from its first state by its actions alone."""

import importlib.util
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, number, pad_to, replay, stack

from eqgrid.envs.overcooked import KITCHENS, Item, Overcooked, Recipes, parse_kitchen
from eqgrid.grid import Layout, World

reason = "needs the [parity] extra: pip install -e '.[test,parity]'"
pandas = pytest.importorskip("pandas", reason=reason)
# The package itself is not imported: only its data is read.
package = importlib.util.find_spec("overcooked_ai_py")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(package is None, reason=reason),
]

FILES = ("clean_train_trials.pickle", "clean_test_trials.pickle")
GAMES, TRANSITIONS, DELIVERIES = 76, 91_102, 1_363
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


def write(record: World, index: tuple[int, int], state: dict) -> None:
    """Fills one state of a game into the record."""
    cells, bodies = record.cells, record.bodies
    for i, player in enumerate(state["players"]):
        bodies.position[index][i] = player["position"][::-1]
        bodies.direction[index][i] = MOVES[tuple(player["orientation"])]
        if held := player.get("held_object"):
            contents = soup(held)[0] if held["name"] == "soup" else (0, 0)
            bodies.held[index][i] = number(Item[held["name"].upper()], contents)
    for thing in state["objects"].values():
        where = (*index, *thing["position"][::-1])
        contents = (0, 0)
        if thing["name"] == "soup":
            contents, cells.timer[where] = soup(thing)
        cells.object[where] = number(Item[thing["name"].upper()], contents)


def soup(thing: dict) -> tuple[tuple[int, int], int]:
    """Contents and timer; a soup that is no longer in a pot has none, which `write` mends."""
    kind, amount, ticks = thing["state"]
    assert kind == "onion"
    assert (ticks > 0) <= (amount == 3)
    # A ready soup's time goes on counting in these games.
    return (amount, 0), max(20 - ticks, 0) if ticks > 0 else -1


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


@pytest.mark.slow
def test_replays_every_recorded_transition():
    games = read_games()
    names = list(TEXTS)
    layouts = dict(zip(names, pad_to([kitchen(name) for name in names]), strict=True))
    steps = max(len(rewards) for *_, rewards in games)
    record = blank_record(layouts[names[0]], len(games), steps + 1)
    actions = np.full((len(games), steps, 2), 4)
    rewards = np.zeros((len(games), steps, 2), np.float32)
    played = np.zeros((len(games), steps), bool)
    for game, (_, states, moves, paid) in enumerate(games):
        for time, state in enumerate(states):
            write(record, (game, time), state)
        actions[game, : len(paid)] = moves
        rewards[game, : len(paid)] = paid[:, None]
        played[game, : len(paid)] = True
    record.time[:] = np.arange(steps + 1)
    pots = np.stack([layouts[name].tiles == 2 for name, *_ in games])[:, None]
    record.cells.timer[:] = np.where(pots, record.cells.timer, -1)

    envs = stack([Overcooked(layouts[name], horizon=steps) for name, *_ in games])
    worlds, told = replay(envs, at(record, slice(None), 0), jnp.asarray(actions), planes=False)

    assert len(games) == GAMES
    assert played.sum() == TRANSITIONS
    assert {name for name, *_ in games} == set(TEXTS)
    assert rewards[..., 0].sum() == 5 * DELIVERIES
    theirs = at(record, slice(None), slice(1, None))
    assert differences((worlds, told["reward"]), (theirs, rewards), played) == {}
