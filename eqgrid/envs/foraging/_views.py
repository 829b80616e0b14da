"""The observations of lbforaging: a vector, or a window of the field. Walls are not observed."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int8, Int32, UInt8

from ..._checks import check_whole
from ...grid import NOTHING, AbstractObservation, Layout, World
from ._field import FLOOR, MAX_LEVEL

_PADDING = (-1, -1, 0)
"""The entry of food or of an agent that is not observed."""

_LEVEL_BASE = 256
"""A number above every level."""


@final
class VectorView(AbstractObservation):
    """The positions and levels of food and agents as a vector: `agents numbers`, as float32.

    The vector lists `(row, col, level)` of each observed food in row-major order, then of the agent
    itself, then of the other observed agents by index. The list of food and the list of agents are
    each padded with `(-1, -1, 0)` at the end.

    Rows and columns are relative to the upper left corner of the visible window, clipped to the
    field: row 0 is `max(0, row - sight)` of the agent.

    Source: `_make_obs` and `_make_gym_obs` of lbforaging. As in lbforaging, food is observed up to
    `sight` rows and columns away. Other agents are observed up to relative row and column
    `2 * sight`, so near the upper or left edge an agent sees other agents further away than food.

    **Arguments:**

    - `num_food`: the maximum number of food items.
    - `sight`: the range of sight in cells.
    - `levels`: whether the levels of agents are observed; if not, an agent's entry is `(row, col)`.

    **Raises:** `ValueError` when `sight` is not positive.
    """

    num_food: int = eqx.field(static=True)
    sight: int = eqx.field(static=True)
    levels: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _check_sight(self.sight)

    def names(self, num_agents: int) -> tuple[str, ...]:
        """The name of every number in the vector, in order.

        **Arguments:**

        - `num_agents`: the number of agents, including the observer.
        """
        of_agent = ("row", "col", "level") if self.levels else ("row", "col")
        foods = [f"food_{i + 1}_{x}" for i in range(self.num_food) for x in ("row", "col", "level")]
        agents = ["own", *(f"other_{i}" for i in range(1, num_agents))]
        return (*foods, *(f"{agent}_{x}" for agent in agents for x in of_agent))

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents numbers"]:
        bodies, agents = world.bodies, world.num_agents
        foods, exists = _find_food(world.cells.object, self.num_food)
        position = bodies.position.astype(jnp.int32) - 1
        own_first = np.asarray(
            [[i, *(j for j in range(agents) if j != i)] for i in range(agents)], np.int32
        )
        entries = jnp.concatenate([position, bodies.extra[:, None]], axis=1)[own_first]
        foods = jnp.broadcast_to(foods, (agents, *foods.shape))
        if self.sight < max(layout.tiles.shape) - 3:  # otherwise everything is in sight
            foods, entries = self._in_sight(foods, exists, entries, position)
        if not self.levels:
            entries = entries[..., :2]
        parts = foods.reshape(agents, -1), entries.reshape(agents, -1)
        return jnp.concatenate(parts, axis=1).astype(jnp.float32)

    def _in_sight(
        self,
        foods: Int32[Array, "agents food 3"],
        exists: Bool[Array, " food"],
        entries: Int32[Array, "agents agents 3"],
        position: Int32[Array, "agents 2"],
    ) -> tuple[Int32[Array, "agents food 3"], Int32[Array, "agents agents 3"]]:
        """The food and agents that each agent observes, relative to its visible window."""
        near = (jnp.abs(foods[..., :2] - position[:, None]) <= self.sight).all(axis=-1)
        corner = position - jnp.minimum(position, self.sight)  # the upper left cell of the window
        shift = jnp.pad(corner, ((0, 0), (0, 1)))[:, None]
        foods, entries = foods - shift, entries - shift
        place = entries[..., :2]
        seen = ((place >= 0) & (place <= 2 * self.sight)).all(axis=-1)
        keep = jax.vmap(_observed_first)
        return keep(foods, near & exists[None]), keep(entries, seen)


def _find_food(
    objects: UInt8[Array, "height width"], number: int
) -> tuple[Int32[Array, "food 3"], Bool[Array, " food"]]:
    """The `(row, col, level)` of every food in row-major order, and whether it exists.

    Each food is encoded as one integer, `cell * 256 + level`. The first food has the smallest code,
    and each next food the smallest code above the previous code. This needs neither sorting nor
    gathering.
    """
    field = objects[1:-1, 1:-1].astype(jnp.int32)
    rows, cols = field.shape
    cells = np.arange(rows * cols, dtype=np.int32).reshape(rows, cols)
    none = np.int32(rows * cols * _LEVEL_BASE)
    codes = jnp.where(field == NOTHING, none, jnp.asarray(cells * _LEVEL_BASE) + field)
    found = [codes.min()]
    for _ in range(number - 1):
        found.append(jnp.where(codes > found[-1], codes, none).min())
    foods = jnp.stack(found)
    cell, level = foods // _LEVEL_BASE, foods % _LEVEL_BASE
    exists = foods < none
    entries = jnp.stack([cell // cols, cell % cols, level], axis=1)
    return jnp.where(exists[:, None], entries, np.asarray([_PADDING], np.int32)), exists


def _observed_first(entries: Int32[Array, "n 3"], seen: Bool[Array, " n"]) -> Int32[Array, "n 3"]:
    """Moves the observed entries to the front, in order, and pads the rest with `_PADDING`."""
    padding = np.asarray(_PADDING, np.int32)
    before = np.tri(len(seen), k=-1, dtype=bool)
    rank = (seen[None, :] & before).sum(axis=1, dtype=jnp.int32)
    # Entry [i, j] is whether entry i moves to place j.
    goes = seen[:, None] & (rank[:, None] == np.arange(len(seen), dtype=np.int32)[None, :])
    # The sums are 0 in places without an entry, and become the padding.
    moved = jnp.where(goes[..., None], (entries - padding[None])[:, None], 0).sum(
        axis=0, dtype=jnp.int32
    )
    return moved + padding[None]


# The codes of cells in a window: 0 outside the field, `_EMPTY`, `_EMPTY + level` for food, and
# `_AGENTS + level` for agents.
_EMPTY, _AGENTS = 1, MAX_LEVEL + 1


@final
class GridView(AbstractObservation):
    """A window of the field centred on the agent: `agents rows cols 3`, as uint8.

    Its planes are the levels of agents, the levels of food, and the empty cells of the field. If
    several agents are in one cell, the window shows the last agent.

    Source: `_make_gym_obs` of lbforaging, whose arrays are float32 and channels-first.

    **Arguments:**

    - `sight`: the range of sight in cells: the window has `2 * sight + 1` rows and columns.
    - `levels`: whether the levels of agents are observed; if not, every agent is a 1.

    **Raises:** `ValueError` when `sight` is not positive.
    """

    sight: int = eqx.field(static=True)
    levels: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _check_sight(self.sight)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols 3"]:
        bodies = world.bodies
        field = (layout.tiles == FLOOR).astype(jnp.uint8) * np.uint8(_EMPTY)
        cells = field + world.cells.object
        shown = bodies.extra.astype(jnp.uint8) if self.levels else jnp.ones_like(bodies.held)
        for (row, col), level in zip(bodies.position, shown, strict=True):
            cells = cells.at[row, col].set(level + np.uint8(_AGENTS))
        windows = jax.vmap(self._window, in_axes=(None, 0))(cells, bodies.position)
        agents = jnp.maximum(windows, np.uint8(_AGENTS)) - np.uint8(_AGENTS)
        food = jnp.clip(windows, np.uint8(_EMPTY), np.uint8(_AGENTS)) - np.uint8(_EMPTY)
        food = jnp.where(agents > 0, np.uint8(0), food)
        return jnp.stack([agents, food, (windows == _EMPTY).astype(jnp.uint8)], axis=-1)

    def _window(
        self, cells: UInt8[Array, "height width"], position: Int8[Array, "2"]
    ) -> UInt8[Array, "rows cols"]:
        padded = jnp.pad(cells, self.sight - 1)  # the walls are one more row of padding
        start = tuple(position.astype(jnp.int32) - 1)
        return jax.lax.dynamic_slice(padded, start, (2 * self.sight + 1,) * 2)


def _check_sight(sight: int) -> None:
    check_whole(sight=sight)
    if sight < 1:
        raise ValueError(f"The range of sight must be at least 1 cell, not {sight}.")
