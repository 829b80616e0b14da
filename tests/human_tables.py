"""Small made-up tables of games, in the forms of 2019 and of 2020, and pickles without pandas."""

import json
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from eqgrid import Trajectories
from eqgrid.envs.overcooked import Overcooked, Recipes, parse_kitchen
from eqgrid.envs.overcooked.plans import replay, stored_plans
from eqgrid.envs.overcooked.reference import trajectories_to_reference, worlds_to_reference
from eqgrid.grid import Layout

CRAMPED_TEXT = "XXPXX\nO  2O\nX1  X\nXDXSX"
CRAMPED = parse_kitchen(CRAMPED_TEXT, Recipes(orders=[("onion",) * 3], values=5.0))
"""The kitchen with the price of 2019."""


def episodes(layout: Layout, length: tuple[int, ...] = (60, 45)) -> Trajectories:
    """The first steps of the best plan in `cramped`, in which a soup is delivered, again and again:
    every episode begins where the one before ended.
    """
    actions = stored_plans()["cramped", "classic", 400].joint_actions()[: sum(length)]
    return play_episodes(Overcooked(layout), actions, length)


def play_episodes(env: Overcooked, actions: Int[Array, "steps 2"], length: Sequence[int]):
    """Trajectories of these lengths, in which two cooks do this."""
    states, rewards = replay(env, actions)
    ends = np.cumsum(length) - 1
    return Trajectories(
        state=states,
        action=actions,
        reward=jnp.stack([rewards, rewards], axis=1),
        terminated=jnp.zeros((sum(length), 2), bool),
        truncated=jnp.zeros(sum(length), bool).at[ends].set(True),
        length=jnp.asarray(length, jnp.int32),
    )


def changed(table: dict[str, list[Any]], name: str, row: int, value: Any) -> dict[str, list[Any]]:
    """The table with another value in one cell."""
    column = list(table[name])
    column[row] = value
    return table | {name: column}


def new_table(games: Trajectories, layout: Layout) -> dict[str, list[Any]]:
    """A table in the form of 2020."""
    return trajectories_to_reference(
        games,
        layout,
        layout_name="cramped_room",
        trial_ids=["a", "b"],
        players=[["p", "q"], ["p", "r"]],
    )


def old_table(games: Trajectories, layout: Layout) -> dict[str, list[Any]]:
    """The same games as the tables of 2019 have them."""
    states = [_old_state(state) for state in worlds_to_reference(games.state, layout)]
    new = new_table(games, layout)
    length = [int(x) for x in games.length]
    count = len(states)
    return {
        "cur_gameloop": [float(i) for n in length for i in range(n)],
        "joint_action": [
            str(json.loads(text)).replace("interact", "INTERACT") for text in new["joint_action"]
        ],
        "layout": [str(CRAMPED_TEXT.split("\n"))] * count,
        "layout_name": ["cramped_room"] * count,
        "next_state": [*states[1:], states[-1]],
        "reward": new["reward"],
        "run": ["run-1"] * count,
        "state": states,
        "time_elapsed": [0.15 * (i + 1) for n in length for i in range(n)],
        "workerid_num": [pair for n, pair in zip(length, (4, 7), strict=True) for _ in range(n)],
    }


def _old_state(state: dict[str, Any]) -> str:
    players = []
    for player in state["players"]:
        held = player["held_object"]
        more = {"held_object": _old_object(held)} if held else {}
        at = {"position": [*player["position"]], "orientation": [*player["orientation"]]}
        players.append(at | more)
    things = {",".join(map(str, x["position"])): _old_object(x) for x in state["objects"]}
    return str({"players": players, "objects": things, "order_list": ["onion"]})


def _old_object(thing: dict[str, Any]) -> dict[str, Any]:
    plain = {"name": thing["name"], "position": [*thing["position"]]}
    if thing["name"] == "soup":
        plain["state"] = ["onion", len(thing["_ingredients"]), max(thing["cooking_tick"], 0)]
    return plain


class Call(NamedTuple):
    """A call in a pickle: a name, its arguments, and the state that is set afterwards."""

    module: str
    name: str
    arguments: tuple[Any, ...] | None = ()
    state: Any = None


def to_pickle(value: Any) -> bytes:
    """A pickle with such calls, written without importing what they name."""
    return b"\x80\x04" + _opcodes(value) + b"."


def _opcodes(value: Any) -> bytes:
    if isinstance(value, Call):
        named = b"c" + f"{value.module}\n{value.name}\n".encode()
        if value.arguments is None:
            return named
        called = named + _opcodes(value.arguments) + b"R"
        return called if value.state is None else called + _opcodes(value.state) + b"b"
    if isinstance(value, tuple | list):
        return b"(" + b"".join(map(_opcodes, value)) + (b"l" if isinstance(value, list) else b"t")
    if isinstance(value, dict):
        return b"(" + b"".join(_opcodes(x) for pair in value.items() for x in pair) + b"d"
    return pickle.dumps(value, 3)[2:-1]


def array(values: Any) -> Call:
    """What a pickle has for an array of NumPy."""
    values = np.asarray(values)
    state = (3, "|" if values.dtype == object else "<", None, None, None, -1, -1, 0)
    dtype = Call("numpy", "dtype", (values.dtype.str[1:], False, True), state)
    is_text = values.dtype == object
    content = values.reshape(-1).tolist() if is_text else values.tobytes()
    made = (Call("numpy", "ndarray", None), (0,), b"b")
    whole = (1, values.shape, dtype, False, content)
    return Call("numpy.core.multiarray", "_reconstruct", made, whole)


def index(values: list[str]) -> Call:
    """What a pickle has for the names of columns."""
    names = {"data": array(np.asarray(values, object)), "name": None}
    return Call("pandas.core.indexes.base", "_new_Index", (Call("pandas", "Index", None), names))


def frame(table: dict[str, list[Any]]) -> Call:
    """What a pickle of the pandas of 2019 has for a table."""
    kinds: dict[type, list[str]] = {}
    for name, column in table.items():
        kinds.setdefault(type(column[0]), []).append(name)
    blocks = [
        array(np.asarray([table[name] for name in names], object if kind is str else kind))
        for kind, names in kinds.items()
    ]
    axes = [index(list(table)), index([str(i) for i in range(len(table["state"]))])]
    state = (axes, blocks, [index(names) for names in kinds.values()], {})
    manager = Call("pandas.core.internals.managers", "BlockManager", (), state)
    return Call("pandas.core.frame", "DataFrame", (), {"_data": manager})
