"""The visible state of a world, as integer arrays."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int, Shaped

from .._layout import Layout
from .._world import IDLE, World


class LookCodes(NamedTuple):
    """The state that a picture of a world shows, except its tiles, which never change.

    It can be computed from NumPy arrays, or in a traced program for a web page.

    - `lying`: the code of the object in each cell, in row-major order.
    - `timer`: the timer of each cell.
    - `mark`: the number that `Kinds.overlay` computes for each cell.
    - `place`: the cell of each agent, and -1 for an agent that is not drawn.
    - `direction`, `held`: the direction of each agent, and the code of the object that it holds.
    - `extra`: for each leaf of `Bodies.extra`, the numbers of each agent.
    """

    lying: Int[np.ndarray | jax.Array, " cells"]
    timer: Int[np.ndarray | jax.Array, " cells"]
    mark: Int[np.ndarray | jax.Array, " cells"]
    place: Int[np.ndarray | jax.Array, " agents"]
    direction: Int[np.ndarray | jax.Array, " agents"]
    held: Int[np.ndarray | jax.Array, " agents"]
    extra: tuple[Shaped[np.ndarray | jax.Array, "agents numbers"], ...]


def look_codes(layout: Layout, world: World) -> LookCodes:
    """The state that a picture of a world shows, except its tiles.

    **Arguments:**

    - `layout`: the layout of the world.
    - `world`: the state, with NumPy arrays or traced arrays.

    **Raises:** `ValueError` when the overlay of the kinds does not compute a number for each cell.
    """
    cells, bodies = world.cells, world.bodies
    size, agents = layout.tiles.size, len(bodies.position)
    timer = np.full(size, IDLE, np.int32) if cells.timer is None else cells.timer.ravel()
    position = bodies.position.astype(np.int32)
    # Positions are int8, into which the number of a cell does not fit.
    place = position[:, 0] * layout.tiles.shape[1] + position[:, 1]
    if bodies.active is not None:
        # Once every agent has terminated, the picture shows all agents. `Bodies.goes_on` is not
        # used, since it would convert NumPy arrays to JAX arrays, as `jnp.where` would.
        goes_on = bodies.active if bodies.away is None else bodies.active | (bodies.away > 0)
        drawn = (bodies.active | ~goes_on.any()).astype(np.int32)
        place = (place + 1) * drawn - 1  # -1 where not drawn
    extra = tuple(leaf.reshape(agents, -1) for leaf in jax.tree.leaves(bodies.extra))
    return LookCodes(
        cells.object.ravel(),
        timer,
        _marks(layout, world),
        place,
        bodies.direction,
        bodies.held,
        extra,
    )


def _marks(layout: Layout, world: World) -> Int[np.ndarray | jax.Array, " cells"]:
    """The number that the overlay computes for each cell, in row-major order."""
    overlay = layout.kinds.overlay
    if overlay is None:
        return np.zeros(layout.tiles.size, np.int32)
    numbers = overlay.numbers(layout, world)
    if not isinstance(numbers, jax.Array):
        numbers = np.asarray(numbers)
    if numbers.shape != layout.tiles.shape:
        raise ValueError(
            f"An overlay must give a number for each of the {layout.tiles.shape} cells, but gives "
            f"an array of shape {numbers.shape}."
        )
    return numbers.astype(np.int32).ravel()
