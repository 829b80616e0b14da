"""What the parity tests share: replaying games in one compilation, and counting what differs.

A `World` whose arrays lead with `[games, steps]` is a record of games. The records of other
simulators are filled in as NumPy arrays.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from eqgrid.envs.overcooked import Item
from eqgrid.grid import IDLE, AbstractGridWorld, Layout, World


def pad_to(layouts: list[Layout]) -> list[Layout]:
    """The same kitchens, all as large as the largest of them."""
    height = max(layout.tiles.shape[0] for layout in layouts)
    width = max(layout.tiles.shape[1] for layout in layouts)
    return [layout.pad(height, width) for layout in layouts]


def stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *xs: jax.numpy.stack(xs), *trees)


def blank_record(layout: Layout, games: int, steps: int) -> World:
    """A record to fill in: NumPy arrays that lead with `[games, steps]`, of empty worlds."""
    record = jax.tree.map(lambda x: np.zeros((games, steps, *x.shape), x.dtype), layout.start)
    record.cells.timer[:] = IDLE
    return record


def number(item: Any, contents: tuple[Any, Any]) -> Any:
    """What eqgrid keeps for a thing: to a soup it adds what is in it."""
    onions, tomatoes = contents
    return item + (item == Item.SOUP) * (4 * onions + tomatoes)


def at(record: World, *index: Any) -> World:
    return jax.tree.map(lambda x: jax.numpy.asarray(x[index]), record)


@eqx.filter_jit
def replay(
    env: AbstractGridWorld, start: World, actions: jax.Array, *, planes: bool = True
) -> tuple[World, dict[str, jax.Array]]:
    """Plays every game by its actions alone.

    **Arguments:**

    - `env`, `start`, `actions`: one environment, first state and `[steps, agents]` per game.
    - `planes`: whether to keep what the cooks see.

    **Returns:** the states after each step, and what each step told, both `[games, steps, ...]`.
    """

    def play(env: AbstractGridWorld, world: World, actions: jax.Array) -> Any:
        def step(world: World, action: jax.Array) -> Any:
            timestep, world = env.step(jax.random.key(0), world, action)
            told = {
                "reward": timestep.reward,
                "shaped_reward": timestep.info["shaped_reward"],
                "events": timestep.info["events"],
                "planes": timestep.observation if planes else None,
            }
            return world, (world, told)

        return jax.lax.scan(step, world, actions)[1]

    return eqx.filter_vmap(play)(env, start, actions)


def differences(ours: Any, theirs: Any, played: np.ndarray | None = None) -> dict[str, Any]:
    """For every array of two records in which any step differs: how many steps, and the first
    `(game, step)`.

    **Arguments:**

    - `played`: which `[games, steps]` count; all of them unless given.
    """
    found = {}
    pairs = zip(jax.tree.leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, our), their in pairs:
        our, their = np.asarray(our), np.asarray(their)
        assert our.shape == their.shape, (jax.tree_util.keystr(path), our.shape, their.shape)
        wrong = (our != their).reshape(*our.shape[:2], -1).any(axis=-1)
        if played is not None:
            wrong &= played
        if wrong.any():
            found[jax.tree_util.keystr(path)] = (int(wrong.sum()), tuple(np.argwhere(wrong)[0]))
    return found
