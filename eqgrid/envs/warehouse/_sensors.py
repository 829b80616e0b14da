"""The observation of a robot's sensors, as one vector."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ..._checks import check_whole
from ...grid import AbstractObservation, Direction, Layout, World
from ._kinds import Load, Tile

_ORDER = (Direction.NORTH, Direction.SOUTH, Direction.WEST, Direction.EAST)
_DIRECTIONS = tuple(direction.name.lower() for direction in _ORDER)
_INDEX = np.asarray([_ORDER.index(direction) for direction in Direction], np.uint8)
"""The index of each `Direction` in the reference's order: up, down, left, right."""

# The seven numbers of a cell are encoded as the bits of a byte, from the lowest bit on. Bits 1 to 4
# are the directions of a robot.
_NUM_BITS = 7
_ROBOT, _FACES_UP, _SHELF, _REQUESTED = (np.uint8(1 << bit) for bit in (0, 1, 5, 6))


@final
class Sensors(AbstractObservation):
    """A robot's own state, and the contents of the cells around it: `agents numbers`, as float32,
    with `8 + 7 * cells` numbers.

    A robot's own 8 numbers come first: its column and row, counted from 0 within the walls; whether
    it carries a shelf; its direction, one-hot (up, down, left, right); and whether its cell is not
    a rack.

    Then come 7 numbers for each cell of the window around the robot, in row-major order, including
    its own cell: whether there is a robot; the direction of this robot, one-hot (up if there is no
    robot); whether there is a shelf, carried or not; and whether the shelf is requested. Cells
    outside the warehouse are encoded as empty cells.

    Source: the flattened observation of `rware` 2.0.0, without messages.

    **Arguments:**

    - `radius`: the range of the sensors in cells, to every side.

    **Raises:** `ValueError` when the range is below 1.
    """

    radius: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        check_whole(sensor_range=self.radius)
        if self.radius < 1:
            raise ValueError(f"Sensors need a range of at least 1 cell, not {self.radius}.")

    def names(self) -> tuple[str, ...]:
        """The name of every number in the vector, in order."""
        own = ("col", "row", "carries", *(f"faces_{x}" for x in _DIRECTIONS), "off_rack")
        cell = ("robot", *(f"robot_faces_{x}" for x in _DIRECTIONS), "shelf", "requested")
        reach = range(-self.radius, self.radius + 1)
        around = [f"{name}_at_{row}_{col}" for row in reach for col in reach for name in cell]
        return (*own, *around)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents numbers"]:
        bodies = world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        load = jnp.where(bodies.held == Load.NOTHING, world.cells.object[row, col], bodies.held)
        faces = jnp.asarray(_INDEX)[bodies.direction]
        robots = _ROBOT | (_FACES_UP << faces) | _shelf_bits(load)
        bits = (_shelf_bits(world.cells.object) | _FACES_UP).at[row, col].set(robots)
        # The walls around the warehouse already are one row and column of padding.
        bits = jnp.pad(bits, self.radius - 1, constant_values=_FACES_UP)
        window = (2 * self.radius + 1,) * 2
        corners = bodies.position.astype(jnp.int32) - 1
        seen = jnp.stack([jax.lax.dynamic_slice(bits, tuple(corner), window) for corner in corners])
        seen = seen[..., None]
        seen = (seen >> np.arange(_NUM_BITS, dtype=np.uint8)[None, None, None]) & np.uint8(1)
        numbers = [
            (bodies.position[:, ::-1] - jnp.int8(1)).astype(jnp.float32),
            (bodies.held != Load.NOTHING).astype(jnp.float32)[:, None],
            jax.nn.one_hot(faces, len(Direction), dtype=jnp.float32),
            (layout.tiles[row, col] != Tile.RACK).astype(jnp.float32)[:, None],
            seen.astype(jnp.float32).reshape(world.num_agents, -1),
        ]
        return jnp.concatenate(numbers, axis=-1)


def _shelf_bits(load: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells"]:
    """The bits of `_SHELF` and `_REQUESTED` for each code of `Load`."""
    requested = jnp.where(load == Load.REQUESTED, _REQUESTED, np.uint8(0))
    return jnp.where(load == Load.NOTHING, np.uint8(0), _SHELF | requested)
