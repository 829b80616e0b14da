"""Small made-up tables of games, in the forms of 2019 and of 2020."""

import json
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from eqgrid import Trajectories
from eqgrid.envs.overcooked import Overcooked, Recipes, parse_kitchen
from eqgrid.envs.overcooked.reference import trajectories_to_reference, worlds_to_reference
from eqgrid.grid import Layout
from eqgrid_exact import replay, stored_plans

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
