"""JaxMARL's `overcooked` (`classic` dynamics, onions only), from equal starts.

Its cooks start elsewhere and face random directions, so each game here starts from a state of its
own; every other game from one of its random states, with full hands and pots. Its shaping and its
observation differ from the reference's, and are not compared.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, number, pad_to, replay
from kitchen_checks import stack
from scripted_cooks import Cooks, Kitchen, Scene

from eqgrid.envs.overcooked import KITCHENS, Item, Overcooked, parse_kitchen
from eqgrid.grid import World

with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    jaxmarl = pytest.importorskip(
        "jaxmarl.environments.overcooked",
        reason="needs the [parity] extra: pip install -e '.[test,parity]'",
    )
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:OvercookedV2 is now released:DeprecationWarning"),
]

THEIR_NAMES = {
    "cramped": "cramped_room",
    "asymmetric": "asymm_advantages",
    "ring": "coord_ring",
    "forced": "forced_coord",
    "circuit": "counter_circuit",
}
GAMES, HORIZON = 26, 400
EMPTY_POT, FULL_POT = 23, 20
ITEMS = np.zeros(16, np.uint8)
ITEMS[[3, 5, 9]] = Item.ONION, Item.DISH, Item.SOUP


class TheirGames:
    """Games in JaxMARL, which does not know strict promotion."""

    def __init__(self, name: str):
        layout = jaxmarl.overcooked_layouts[THEIR_NAMES[name]]
        self.usual = jaxmarl.Overcooked(layout=layout, max_steps=10 * HORIZON)
        self.random = jaxmarl.Overcooked(layout=layout, random_reset=True, max_steps=10 * HORIZON)
        self.reset = jax.jit(self._reset)
        self.step = jax.jit(self._step)

    def _reset(self, key: jax.Array) -> Any:
        keys = jax.random.split(key, GAMES // 2)
        states = [jax.vmap(env.reset)(keys)[1] for env in (self.usual, self.random)]
        return jax.tree.map(lambda *xs: jnp.stack(xs, 1).reshape(GAMES, *xs[0].shape[1:]), *states)

    def _step(self, state: Any, actions: jax.Array) -> Any:
        def one(state: Any, action: jax.Array) -> Any:
            joint = {"agent_0": action[0], "agent_1": action[1]}
            _, state, rewards, _, _ = self.usual.step_env(jax.random.key(0), state, joint)
            return state, jnp.stack([rewards["agent_0"], rewards["agent_1"]])

        return jax.vmap(one)(state, actions)

    def write(self, record: World, time: int, state: Any) -> None:
        """Fills one state of all games into the record."""
        height, width = self.usual.height, self.usual.width
        edge = (state.maze_map.shape[1] - height) // 2
        maze = np.asarray(state.maze_map)[:, edge : edge + height, edge : edge + width]
        thing, status = maze[..., 0], maze[..., 2].astype(int)
        pot = thing == 8
        item = np.where(pot & (status < EMPTY_POT), Item.SOUP, ITEMS[thing])
        onions = np.where(pot, np.minimum(EMPTY_POT - status, 3), 3 * (item == Item.SOUP))
        here = slice(None), time, slice(height), slice(width)
        record.cells.object[here] = number(item, (onions, 0))
        record.cells.timer[here] = np.where(pot & (status < FULL_POT), status, -1)
        bodies = record.bodies
        bodies.position[:, time] = np.asarray(state.agent_pos)[..., ::-1]
        bodies.direction[:, time] = state.agent_dir_idx
        held = ITEMS[np.asarray(state.agent_inv)]
        bodies.held[:, time] = number(held, (3 * (held == Item.SOUP), 0))
        record.time[:, time] = state.step


def scene(record: World, game: int, time: int) -> Scene:
    things, timers = record.cells.object[game, time], record.cells.timer[game, time]
    bodies = jax.tree.map(lambda x: x[game, time].tolist(), record.bodies)
    cooks = [
        (tuple(position), heading, min(held, Item.SOUP))
        for position, heading, held in zip(
            bodies.position, bodies.direction, bodies.held, strict=True
        )
    ]
    lying = {
        (int(row), int(col)): (
            min(int(things[row, col]), Item.SOUP),
            divmod(max(int(things[row, col]) - Item.SOUP, 0), 4),
            int(timers[row, col]),
        )
        for row, col in np.argwhere(things)
    }
    return Scene(cooks, lying)


QUICK = ("cramped", "forced")
LAYOUTS = dict(zip(KITCHENS, pad_to([parse_kitchen(x) for x in KITCHENS.values()]), strict=True))


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in KITCHENS]
)
def test_follows_jaxmarl_on(name: str):
    layout = LAYOUTS[name]
    kitchen = Kitchen([row.strip() for row in KITCHENS[name].strip().splitlines()], [(3, 0)])
    teams = [Cooks(kitchen, seed, by_hand=False) for seed in range(GAMES)]
    record = blank_record(layout, GAMES, HORIZON + 1)
    actions = np.zeros((GAMES, HORIZON, 2), np.int32)
    rewards = np.zeros((GAMES, HORIZON, 2), np.float32)
    theirs = TheirGames(name)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state = theirs.reset(jax.random.key(1))
        theirs.write(record, 0, state)
        for time in range(HORIZON):
            actions[:, time] = [team.act(scene(record, g, time)) for g, team in enumerate(teams)]
            state, rewards[:, time] = theirs.step(state, jnp.asarray(actions[:, time]))
            theirs.write(record, time + 1, state)

    env = stack([Overcooked(layout, horizon=HORIZON)] * GAMES)
    worlds, told = replay(env, at(record, slice(None), 0), jnp.asarray(actions), planes=False)

    assert GAMES * HORIZON >= 10_000
    deliveries = rewards[..., 0].sum(axis=1) / 20
    assert (deliveries[::2] > 0).all(), deliveries
    assert set(np.unique(record.bodies.direction[:, 0])) == {0, 1, 2, 3}
    recorded = at(record, slice(None), slice(1, None))
    assert differences((worlds, told["reward"]), (recorded, rewards)) == {}
    print(f"{name}: {GAMES * HORIZON} steps, {deliveries.sum():.0f} soups")
