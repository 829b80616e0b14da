"""Cells that agents can enter, and cells in which something can be placed."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, PRNGKeyArray, UInt8

from .._checks import is_known
from ._kinds import NOTHING, Kinds
from ._layout import Layout, LayoutError
from ._world import Bodies, World


def is_free(
    kinds: Kinds, tile: UInt8[Array, "*cells"], code: UInt8[Array, "*cells"]
) -> Bool[Array, "*cells"]:
    """Whether agents can enter cells: the tile is walkable, and the object in it is not solid.

    **Arguments:**

    - `kinds`: the kinds of the game.
    - `tile`, `code`: the kind of tile of each cell, and the code of the object in it.
    """
    free = tile == kinds.walkable[0]
    for number in kinds.walkable[1:]:
        free |= tile == number
    if kinds.solid_codes.any():
        free &= ~jnp.asarray(kinds.solid_codes)[code]
    return free


def stands_at(bodies: Bodies, position: Int[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
    """Whether an active agent stands at each `(row, col)`."""
    places = bodies.position.astype(position.dtype)
    places = jnp.broadcast_to(places, (*position.shape[:-1], *places.shape))
    here = (position[..., None, :] == places).all(axis=-1)
    if bodies.active is not None:
        here &= jnp.broadcast_to(bodies.active, here.shape)
    return here.any(axis=-1)


def occupied_cells(world: World) -> Bool[Array, "height width"]:
    """The cells in which an active agent stands."""
    position, active = world.bodies.position, world.bodies.active
    stands = jnp.ones(world.num_agents, bool) if active is None else active
    nowhere = jnp.zeros(world.cells.object.shape, bool)
    return nowhere.at[position[:, 0], position[:, 1]].max(stands)


def free_cells(layout: Layout, world: World) -> Bool[Array, "height width"]:
    """The cells that an agent could enter now: walkable tiles without a solid object and without
    an active agent.
    """
    return is_free(layout.kinds, layout.tiles, world.cells.object) & ~occupied_cells(world)


def bare_floor(layout: Layout, world: World) -> Bool[Array, "*batch height width"]:
    """The cells of the floor, the first kind of tile, in which no object lies. Agents may stand
    there.
    """
    floor = layout.tiles == 0
    return floor & (world.cells.object == NOTHING) if layout.kinds.objects else floor


def draw_cells(
    key: PRNGKeyArray, places: Bool[Array, "height width"], count: int
) -> Int8[Array, "count 2"]:
    """Distinct cells, uniformly at random.

    **Arguments:**

    - `key`: the source of randomness.
    - `places`: the cells among which to choose. If there are fewer than `count`, the last ones that
        are drawn are other cells: compiled programs cannot raise an error. `check_room` refuses
        such layouts when a world is built.
    - `count`: the number of cells.

    **Returns:** `(row, col)` of each cell.
    """
    height, width = places.shape
    score = jnp.where(places.reshape(-1), jax.random.uniform(key, (height * width,)), -1.0)
    _, cells = jax.lax.top_k(score, count)
    return jnp.stack(jnp.divmod(cells, width), axis=-1).astype(jnp.int8)


def check_room(places: Bool[Array, "*batch height width"], count: int, what: str) -> None:
    """Checks that there are enough cells in which to place something; see `AbstractStart.check`.

    **Arguments:**

    - `places`: the cells among which to choose. A traced array is not checked.
    - `count`: the number of cells that are needed.
    - `what`: what is placed there, such as `"agents"`.

    **Raises:** `LayoutError` when there are fewer cells than needed.
    """
    if not is_known(places):
        return
    room = int(np.asarray(places).sum(axis=(-2, -1)).min())
    if room < count:
        raise LayoutError(
            f"The layout has {room} free cells, which is too few to place {count} {what} at random."
        )
