"""Worlds of eqgrid, or a batch of five kitchens that are padded to the size of the largest."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eqgrid import AbstractEnv, AutoReset
from eqgrid.envs import make
from eqgrid.envs.overcooked import (
    KITCHENS,
    Overcooked,
    Tile,
    load_layout,
    random_starts as choose_starts,
)
from eqgrid.grid import AbstractGridWorld, Layout, empty_world


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    """**Raises:** `ValueError` when there is no such kitchen, or it is too small for the cooks."""
    world, options = spec["world"], spec["options"]
    if world == "overcooked":
        worlds = _build_kitchens(**options, num_agents=spec["num_agents"])
    else:
        worlds = [make(world, **options)]
    return batch([AutoReset(env, lazy=spec["lazy_resets"]) for env in worlds], num_envs)


def batch(envs: Sequence[AbstractEnv], num_envs: int) -> tuple[Any, Any, Any]:
    """Batches environments that differ only in their arrays: environment `i` of the batch is a copy
    of `envs[i % len(envs)]`.

    **Returns:** the arrays, and the vectorised `reset` and `step`.
    """
    static = eqx.filter(envs[0], eqx.is_array, inverse=True)
    arrays = [eqx.filter(env, eqx.is_array) for env in envs]
    params, axis = arrays[0], None
    if len(envs) > 1:
        turn = np.arange(num_envs) % len(envs)
        params, axis = jax.tree.map(lambda *xs: jnp.stack(xs)[turn], *arrays), 0

    def reset(params: Any, key: jax.Array) -> Any:
        return eqx.combine(params, static).reset(key)[1]

    def step(params: Any, key: jax.Array, state: Any, action: jax.Array) -> Any:
        timestep, state = eqx.combine(params, static).step(key, state, action)
        return timestep.observation, timestep.reward, state

    return params, jax.vmap(reset, (axis, 0)), jax.vmap(step, (axis, 0, 0, 0))


def _build_kitchens(
    layout: str, observation: Any, random_starts: float, num_agents: int
) -> list[AbstractGridWorld]:
    names = list(KITCHENS) if layout == "mixed" else [layout]
    layouts = [_with_cooks(load_layout(name), num_agents) for name in names]
    height, width = (max(layout.tiles.shape[i] for layout in layouts) for i in (0, 1))
    starts = choose_starts(random_starts)
    return [
        Overcooked(layout.pad(height, width), observation=observation, starts=starts)
        for layout in layouts
    ]


def _with_cooks(layout: Layout, number: int) -> Layout:
    """The same kitchen with another number of cooks, the new ones on the first free cells."""
    tiles = np.asarray(layout.tiles)
    starts = [tuple(position) for position in layout.start.bodies.position.tolist()]
    free = [tuple(cell) for cell in np.argwhere(tiles == Tile.FLOOR).tolist()]
    starts += [cell for cell in free if cell not in starts]
    if len(free) < number:
        raise ValueError(f"{number} cooks do not fit onto the {len(free)} free cells of a kitchen.")
    start = empty_world(layout.kinds, tiles.shape, np.asarray(starts[:number]))
    return eqx.tree_at(lambda x: x.start, layout, start)
