"""Egocentric observations: planes that turn with the agent, with an optional line of sight."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Shaped, UInt8

from ..._checks import check_whole
from .._layout import Layout
from .._world import Bodies, Direction, World, direction_delta
from ._observation import AbstractObservation
from ._planes import Planes, look_up, opaque_rows, table_rows, with_layers

_CLOCKWISE = (Direction.NORTH, Direction.EAST, Direction.SOUTH, Direction.WEST)
_TURNS = np.argsort(_CLOCKWISE)
"""The number of quarter turns from north to each direction."""
_RELATIVE = np.asarray(_CLOCKWISE, np.int8)[(_TURNS[None] - _TURNS[:, None]) % 4]
"""The direction of an agent (column), as seen by an agent that faces another direction (row)."""


@final
class Egocentric(AbstractObservation):
    """Planes of a window around each agent, turned so that the agent faces up.

    The directions of agents are turned, too: in its own observation, an agent faces north, and an
    agent that comes towards it faces south.

    ```python
    from eqgrid import make
    from eqgrid.grid import Egocentric, Planes

    view = Egocentric(Planes(radius=3), ahead=3, line_of_sight=True)
    env = make("goals").with_observation(view)
    ```

    **Arguments:**

    - `planes`: the planes, with a `radius`.
    - `ahead`: by how many cells the window is moved forwards, from 0 to the radius. With 0, the
        agent is in the middle of the window; with the radius, it is in the middle of the lowest
        row. `Egocentric(Planes(radius=3), ahead=3)` has the size of MiniGrid's usual view.
    - `line_of_sight`: whether cells behind an opaque tile or object (see `Kind`) are hidden: they
        look like cells outside the grid. Light spreads from the agent row by row: a lit cell that
        is not opaque lights the cells next to it in its row, and the three nearest cells of the
        next row. This is MiniGrid's rule (`Grid.process_vis` in `minigrid/core/grid.py`), which
        eqgrid also applies to the rows behind the agent.

    **Raises:** `ValueError` when the planes have no radius, or `ahead` is not from 0 to the radius.
    """

    planes: Planes
    ahead: int = eqx.field(static=True, default=0)
    line_of_sight: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_whole(ahead=self.ahead)
        if self.planes.radius is None:
            raise ValueError("Egocentric needs planes of a window: give Planes a `radius`.")
        if not 0 <= self.ahead <= self.planes.radius:
            raise ValueError(
                f"`ahead` must be from 0 to the radius, {self.planes.radius}, not {self.ahead}."
            )

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols planes"]:
        own = world.bodies.direction
        directions = jnp.asarray(_RELATIVE)[own[:, None], own[None, :]]
        rows, outside = table_rows(self.planes, layout, world, steps_left, directions)
        rows, table_layers, layers = with_layers(self.planes, layout, world, steps_left, rows)
        outside, nothing = outside.astype(rows.dtype), jnp.zeros((), jnp.uint8)
        # Row numbers are turned before the look-up, since each of them stands for many planes.
        rows = self._turn(rows, world.bodies, outside)
        layers = {n: self._turn(layer, world.bodies, nothing) for n, layer in layers.items()}
        if self.line_of_sight:
            opaque = jnp.asarray(opaque_rows(self.planes, layout.kinds, table_layers))[rows]
            radius = self.planes.radius or 0
            see = functools.partial(visible_cells, row=radius + self.ahead, col=radius)
            visible = jax.vmap(see)(opaque)
            rows = jnp.where(visible, rows, outside)
            layers = {n: jnp.where(visible, layer, nothing) for n, layer in layers.items()}
        return look_up(self.planes, layout.kinds, rows, table_layers, layers)

    def _turn(
        self,
        grids: Shaped[Array, "agents height width"],
        bodies: Bodies,
        outside: Shaped[Array, ""],
    ) -> Shaped[Array, "agents side side"]:
        radius = self.planes.radius or 0
        turn = functools.partial(_turned_window, outside, radius=radius, ahead=self.ahead)
        return jax.vmap(turn)(grids, bodies.position, bodies.direction)


def _turned_window(
    outside: Shaped[Array, ""],
    grid: Shaped[Array, "height width"],
    position: Int8[Array, "2"],
    direction: Int8[Array, ""],
    *,
    radius: int,
    ahead: int,
) -> Shaped[Array, "side side"]:
    """Cuts the window around a body out of a grid, and turns it so that the body faces up."""
    height, width = grid.shape
    side = np.arange(-radius, radius + 1, dtype=np.int32)
    # How far each cell of the window is in front of the body, and to its right.
    front, right = ahead - side[:, None], side[None, :]
    row_step, col_step = direction_delta(direction).astype(jnp.int32)
    row = position[0].astype(jnp.int32) + front * row_step + right * col_step
    col = position[1].astype(jnp.int32) + front * col_step - right * row_step
    # One gather cuts and turns at once; turning by `rot90` would compute all four turns.
    inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    cell = jnp.where(inside, row * width + col, 0)
    return jnp.where(inside, grid.reshape(-1).at[cell].get(mode="promise_in_bounds"), outside)


def visible_cells(
    opaque: Bool[Array, "rows cols"], *, row: int, col: int
) -> Bool[Array, "rows cols"]:
    """The cells that an agent that faces up can see; see `Egocentric`.

    **Arguments:**

    - `opaque`: the cells that hide what is behind them.
    - `row`, `col`: the cell of the agent.
    """
    clear = ~opaque
    ahead, behind = _spread(clear[row::-1], col), _spread(clear[row:], col)
    return jnp.concatenate([ahead[:0:-1], behind])


def _spread(clear: Bool[Array, "rows cols"], col: int) -> Bool[Array, "rows cols"]:
    """The lit cells. The first row is the agent's, and each further row is further away from it."""
    cols = np.arange(clear.shape[1])
    # The number of opaque cells of a row up to each column, with and without the column itself.
    up_to = jnp.cumsum(~clear, axis=1)
    before = up_to - (~clear).astype(up_to.dtype)
    # Whether light passes from one column (axis 1) to another (axis 2): equal counts mean that no
    # opaque cell is in its way. The last cell may be opaque.
    rightwards = (before[:, :, None] == before[:, None, :]) & (cols[:, None] <= cols)[None]
    leftwards = (up_to[:, :, None] == up_to[:, None, :]) & (cols[:, None] >= cols)[None]
    lit, rows = jnp.asarray(cols == col), []
    for right, left, passes in zip(rightwards, leftwards, clear, strict=True):
        # As in MiniGrid, light spreads to the right in a first pass, and to the left in a second.
        once = (lit[:, None] & right).any(axis=0)
        twice = (once[:, None] & left).any(axis=0)
        rows.append(twice)
        # In each pass, a lit cell lights two cells of the next row: straight on, and to the right
        # in the first pass or to the left in the second.
        first, second = (once & passes)[:-1], (twice & passes)[1:]
        lit = jnp.pad(first, (0, 1)) | jnp.pad(first, (1, 0))
        lit |= jnp.pad(second, (1, 0)) | jnp.pad(second, (0, 1))
    return jnp.stack(rows)
