"""A room with rivers of lava, or walls, each with one crossing."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, PRNGKeyArray

from ....grid import NOTHING, Direction, LayoutError
from .._kinds import LAVA, WALL
from ._room import AbstractSquareRoom, Drawn, check_side, draw_number, nearest_to_corner, with_goal

_FAR = 2**20


@final
class CrossingRoom(AbstractSquareRoom):
    """Agents start in the upper left corner, the goal is in the lower right one, and rivers between
    them can be crossed in one cell each (`CrossingEnv`).

    **Arguments:**

    - `size`: the number of rows and of columns, walls included; odd.
    - `crossings`: the number of rivers.
    - `lava`: whether rivers are of lava; otherwise they are walls.
    """

    size: int = eqx.field(static=True, default=9)
    crossings: int = eqx.field(static=True, default=1)
    lava: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_side(self.size, 5, "The size of a room with crossings", odd=True)
        most = 2 * len(self._lines)
        if not 1 <= self.crossings <= most:
            raise LayoutError(
                f"A room of size {self.size} has from 1 to {most} crossings, not {self.crossings}."
            )

    @property
    def _lines(self) -> range:
        """The rows, or the columns, in which a river may be."""
        return range(2, self.size - 2, 2)

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def most_agents(self) -> int:
        inner = self.size - 2
        wide = min(self.crossings, len(self._lines))  # rivers that do not cross are largest
        free = inner**2 - wide * inner
        free -= (self.crossings - wide) * (inner - wide)
        return free + self.crossings - 1

    def draw(self, key: PRNGKeyArray, num_agents: int) -> Drawn:
        rivers_key, path_key, gaps_key = jax.random.split(key, 3)
        lines = np.asarray(self._lines, np.int32)
        order = jax.random.permutation(rivers_key, 2 * len(lines))
        chosen = jnp.zeros(2 * len(lines), bool).at[order[: self.crossings]].set(True)
        across, down = chosen[len(lines) :], chosen[: len(lines)]
        objects = with_goal(self.size)
        inner = np.zeros(self.shape, bool)
        inner[1:-1, 1:-1] = True
        river = jnp.zeros(self.size, bool).at[lines].set(across)[:, None]
        river = river | jnp.zeros(self.size, bool).at[lines].set(down)[None, :]
        code = jnp.uint8(LAVA if self.lava else WALL)
        objects = jnp.where(river & jnp.asarray(inner), code, objects)
        rightwards = jax.random.permutation(path_key, self.crossings) < down.sum()
        gaps = self._gaps(gaps_key, self._limits(across), self._limits(down), rightwards)
        objects = objects.at[gaps[:, 0], gaps[:, 1]].set(jnp.uint8(NOTHING))
        position = nearest_to_corner(objects == NOTHING, num_agents)
        return Drawn(objects, position, jnp.full(num_agents, Direction.EAST, jnp.int8))

    def _limits(self, chosen: Bool[Array, " lines"]) -> Int32[Array, " limits"]:
        """The walls and rivers in one direction, in order; what is missing is far away."""
        lines = jnp.asarray(np.asarray(self._lines, np.int32))
        rivers = jnp.sort(jnp.where(chosen, lines, _FAR))
        limits = jnp.concatenate([jnp.zeros(1, jnp.int32), rivers, jnp.full(1, _FAR, jnp.int32)])
        return limits.at[1 + chosen.sum()].set(self.size - 1)

    def _gaps(
        self,
        key: PRNGKeyArray,
        rows: Int32[Array, " limits"],
        cols: Int32[Array, " limits"],
        rightwards: Bool[Array, " crossings"],
    ) -> Int32[Array, "crossings 2"]:
        """The cell of each crossing, on a path from part to part, to the right or down."""

        def cross(
            part: tuple[Array, Array], told: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], Array]:
            (row, col), (key, right) = part, told
            low, high = (
                jnp.where(right, rows[row], cols[col]),
                jnp.where(right, rows[row + 1], cols[col + 1]),
            )
            along = draw_number(key, low + 1, high)
            gap_row = jnp.where(right, along, rows[row + 1])
            gap_col = jnp.where(right, cols[col + 1], along)
            down = (~right).astype(jnp.int32)
            return (row + down, col + 1 - down), jnp.stack([gap_row, gap_col])

        first = (jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return jax.lax.scan(cross, first, (jax.random.split(key, self.crossings), rightwards))[1]
