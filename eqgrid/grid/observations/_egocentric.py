"""Egocentric: planes that turn with the agent, with an optional line of sight."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8, Int32, Integer, Shaped, UInt8

from ..._checks import check_whole
from .._kinds import Kinds
from .._layout import Layout
from .._world import Bodies, Direction, World, direction_delta
from ._observation import AbstractObservation
from ._planes import Planes, look_up, opaque_rows, table_rows, with_layers

_CLOCKWISE = (Direction.NORTH, Direction.EAST, Direction.SOUTH, Direction.WEST)
_RELATIVE = np.zeros((4, 4), np.int8)
"""The direction of another agent (column) as seen by an agent that faces a direction (row)."""
for _i, _own in enumerate(_CLOCKWISE):
    for _j, _other in enumerate(_CLOCKWISE):
        _RELATIVE[_own, _other] = _CLOCKWISE[(_j - _i) % 4]


@final
class Egocentric(AbstractObservation):
    """Planes of the window around each agent, turned so that the direction that it faces is up.

    Directions are turned, too: an agent sees itself facing north, and another agent that comes
    towards it facing south.

    ```python
    from eqgrid import make
    from eqgrid.grid import Egocentric, Planes

    view = Egocentric(Planes(radius=3), ahead=3, line_of_sight=True)
    env = make("goals").with_observation(view)
    ```

    **Arguments:**

    - `planes`: the planes, with a `radius`.
    - `ahead`: by how many cells the window is moved forwards, from 0 to the radius. By default the
        agent is in the middle; with the radius, it is in the middle of the lowest row, as in
        MiniGrid, where `Egocentric(Planes(radius=3), ahead=3)` is the size of the usual view.
    - `line_of_sight`: whether what is behind an opaque tile or object (see `Kind`) is hidden, as
        what is outside the grid is. The rule is as in MiniGrid (`Grid.process_vis` in
        `minigrid/core/grid.py`), and behind the agent the same rule backwards: from row to row,
        away from the agent, light spreads from every lit cell that is not opaque to the cells
        next to it and to the three next cells of the next row.

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
        rows, marks, layers = with_layers(self.planes, layout, world, steps_left, rows)
        outside, nothing = outside.astype(rows.dtype), jnp.zeros((), jnp.uint8)
        # Turned as row numbers, before the look-up, which makes many planes of each.
        rows = self._turn(rows, world.bodies, outside)
        layers = {n: self._turn(layer, world.bodies, nothing) for n, layer in layers.items()}
        if self.line_of_sight:
            visible = self._visible(layout.kinds, rows, marks)
            rows = jnp.where(visible, rows, outside)
            layers = {n: jnp.where(visible, layer, nothing) for n, layer in layers.items()}
        return look_up(self.planes, layout.kinds, rows, marks, layers)

    def _turn(
        self,
        grids: Shaped[Array, "agents height width"],
        bodies: Bodies,
        outside: Shaped[Array, ""],
    ) -> Shaped[Array, "agents side side"]:
        radius = self.planes.radius or 0
        turn = functools.partial(_turned_window, outside, radius=radius, ahead=self.ahead)
        return jax.vmap(turn)(grids, bodies.position, bodies.direction)

    def _visible(
        self, kinds: Kinds, rows: Integer[Array, "agents side side"], marks: tuple[int, ...]
    ) -> Bool[Array, "agents side side"]:
        opaque = jnp.asarray(opaque_rows(self.planes, kinds, marks))[rows]
        radius = self.planes.radius or 0
        look = functools.partial(visible_cells, row=radius + self.ahead, col=radius)
        return jax.vmap(look)(opaque)


def _turned_window(
    outside: Shaped[Array, ""],
    grid: Shaped[Array, "height width"],
    position: Int8[Array, "2"],
    direction: Int8[Array, ""],
    *,
    radius: int,
    ahead: int,
) -> Shaped[Array, "side side"]:
    """The window around a body, cut out of a grid and turned so that its direction is up."""
    height, width = grid.shape
    side = np.arange(-radius, radius + 1, dtype=np.int32)
    up, right = ahead - side[:, None], side[None, :]
    down, across = direction_delta(direction).astype(jnp.int32)
    row = position[0].astype(jnp.int32) + up * down + right * across
    col = position[1].astype(jnp.int32) + up * across - right * down
    # One gather cuts and turns at once; turning by `rot90` would compute all four turns.
    inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    cell = jnp.where(inside, row * width + col, 0)
    return jnp.where(inside, grid.reshape(-1).at[cell].get(mode="promise_in_bounds"), outside)


def visible_cells(
    opaque: Bool[Array, "rows cols"], *, row: int, col: int
) -> Bool[Array, "rows cols"]:
    """The cells that an agent sees which faces up; see `Egocentric`.

    **Arguments:**

    - `opaque`: the cells that hide what is behind them.
    - `row`, `col`: the place of the agent.
    """
    clear = ~opaque
    ahead, behind = _spread(clear[row::-1], col), _spread(clear[row:], col)
    return jnp.concatenate([ahead[:0:-1], behind])


def _spread(clear: Bool[Array, "rows cols"], col: int) -> Bool[Array, "rows cols"]:
    """The lit cells; the first row is the agent's row, and later ones are further away."""
    cols = np.arange(clear.shape[1])
    ends = jnp.cumsum(~clear, axis=1)  # opaque cells up to each column, which ends the light
    starts = ends - (~clear).astype(ends.dtype)
    # Whether light at one column (axis 1) reaches another one (axis 2) to its right or left.
    rightwards = (starts[:, :, None] == starts[:, None, :]) & (cols[:, None] <= cols)[None]
    leftwards = (ends[:, :, None] == ends[:, None, :]) & (cols[:, None] >= cols)[None]
    lit, rows = jnp.asarray(cols == col), []
    # Row by row away from the agent, since the light of a row depends on the one before it.
    for right, left, passes in zip(rightwards, leftwards, clear, strict=True):
        once = (lit[:, None] & right).any(axis=0)
        twice = (once[:, None] & left).any(axis=0)
        rows.append(twice)
        # In MiniGrid, the first pass continues to the right, and the second one to the left.
        first, second = (once & passes)[:-1], (twice & passes)[1:]
        lit = jnp.pad(first, (0, 1)) | jnp.pad(first, (1, 0))
        lit |= jnp.pad(second, (1, 0)) | jnp.pad(second, (0, 1))
    return jnp.stack(rows)
