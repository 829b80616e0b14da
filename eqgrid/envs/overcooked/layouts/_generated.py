"""Randomly generated kitchens in which a soup can be delivered."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray

from ...._checks import as_probability, check_whole
from ....grid import (
    AbstractGenerator,
    Layout,
    LayoutError,
    check_generator,
    check_ranges,
    empty_world,
    next_to,
    reach,
)
from .._contents import Recipes, Tile
from .._kinds import KINDS
from ._solvable import can_deliver, can_deliver_alone

# The arguments with the numbers of stations, and their tiles, in the same order.
_STATION_NAMES = ("onions", "tomatoes", "dishes", "pots", "servings")
_STATIONS = (
    Tile.ONION_DISPENSER,
    Tile.TOMATO_DISPENSER,
    Tile.DISH_DISPENSER,
    Tile.POT,
    Tile.SERVING,
)
_FEWEST_COLS = 5  # two rooms that are one cell wide, and the three walls around and between them


@final
class GeneratedKitchens(AbstractGenerator):
    """Generates kitchens in a grid of fixed size.

    Each inner cell is randomly floor or a counter. In each room, one random floor cell is chosen,
    and all floor that is not connected to it becomes counters, too. Stations then replace random
    counters that can be reached from the floor. The generator rejects kitchens for which
    `can_deliver` finds no plan, and kitchens with two rooms in which a cook could deliver a soup
    without the other room.

    ```python
    import jax

    from eqgrid import AutoReset, make
    from eqgrid.envs.overcooked import GeneratedKitchens
    from eqgrid.grid import RandomLayouts

    kitchens = GeneratedKitchens(5, 5)
    env = RandomLayouts(make("overcooked", layout=kitchens.example), kitchens)
    observation, state = AutoReset(env, lazy=True).reset(jax.random.key(0))
    ```
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    smallest: Int32[Array, "2"]
    two_rooms: Float[Array, ""]
    walls: Float[Array, ""]
    fewest: Int32[Array, " stations"]
    most: Int32[Array, " stations"]
    recipes: Recipes
    example: Layout

    def __init__(
        self,
        height: int = 5,
        width: int = 9,
        *,
        num_agents: int = 2,
        smallest: tuple[int, int] | None = None,
        two_rooms: float | int = 0.0,
        walls: float | int = 0.15,
        onions: tuple[int, int] = (1, 2),
        tomatoes: tuple[int, int] = (0, 0),
        dishes: tuple[int, int] = (1, 2),
        pots: tuple[int, int] = (1, 2),
        servings: tuple[int, int] = (1, 2),
        recipes: Recipes | None = None,
    ):
        """**Arguments:**

        - `height`, `width`: the numbers of rows and columns of the grid, including the borders.
        - `num_agents`: the number of cooks. With two rooms, they start alternately in the left and
            the right room.
        - `smallest`: `(rows, cols)` of the smallest kitchen. A kitchen that is smaller than the
            grid is at the upper left of the grid, with counters around it. By default all kitchens
            fill the grid.
        - `two_rooms`: the probability, before rejection, of a kitchen with two rooms, whose cooks
            must hand items over on counters.
        - `walls`: the probability that an inner cell is a counter.
        - `onions`, `tomatoes`, `dishes`, `pots`, `servings`: the minimum and maximum number of
            these stations.
        - `recipes`: as in `parse_kitchen`.

        **Raises:** `ValueError` (its subclass `LayoutError` for most arguments) when an argument is
        invalid, when the arguments contradict each other, or when no usable kitchen is found.
        """
        ranges = (onions, tomatoes, dishes, pots, servings)
        smallest = (height, width) if smallest is None else smallest
        check_whole(height=height, width=width, num_agents=num_agents, smallest=smallest)
        check_whole(**dict(zip(_STATION_NAMES, ranges, strict=True)))
        _check((height, width), smallest, num_agents, two_rooms, ranges)
        self.height, self.width, self.num_agents = height, width, num_agents
        self.smallest = jnp.asarray(smallest, jnp.int32)
        self.two_rooms, self.walls = as_probability(two_rooms), as_probability(walls)
        self.fewest, self.most = jnp.asarray(np.asarray(ranges, np.int32).T)
        self.recipes = Recipes() if recipes is None else recipes
        start = empty_world(KINDS, (height, width), np.zeros((num_agents, 2), np.int8))
        tiles = jnp.full((height, width), Tile.COUNTER, jnp.uint8)
        # `attempt` reads the shapes in `example`, so a layout without stations comes first.
        self.example = Layout(tiles, start, self.recipes, KINDS)
        self.example = check_generator(
            self, "ask for larger kitchens, fewer walls or fewer stations"
        )

    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        # One call samples all random numbers, since each call adds about a second of compile time.
        cells = self.height * self.width
        uniform = jax.random.uniform(key, (4 * cells + 4 + len(_STATIONS),))
        of_cells, of_rooms, of_stations = jnp.split(uniform, (4 * cells, 4 * cells + 4))
        grids = of_cells.reshape(4, self.height, self.width)  # for walls, rooms, stations, cooks
        rooms, two = self._sample_rooms(of_rooms, grids[0], grids[1])
        floor = rooms.any(axis=0)
        tiles = jnp.where(floor, jnp.uint8(Tile.FLOOR), jnp.uint8(Tile.COUNTER))
        counts = _sample_integers(of_stations, self.fewest, self.most)
        # The places with the best scores get the stations, one kind after the other.
        places = next_to(floor) & ~floor
        score = jnp.where(places, grids[2], -1.0).reshape(-1)
        rank = (score[:, None] < score[None, :]).sum(axis=1, dtype=jnp.int32)
        rank = rank.reshape(places.shape)
        kind = (rank[..., None] >= jnp.cumsum(counts)[None, None]).sum(axis=-1)
        numbers = jnp.asarray([*_STATIONS, Tile.COUNTER], jnp.uint8)
        tiles = jnp.where(places, numbers[kind], tiles)
        position = self._place_cooks(rooms, grids[3])
        bodies = dataclasses.replace(self.example.start.bodies, position=position.astype(jnp.int8))
        start = dataclasses.replace(self.example.start, bodies=bodies)
        layout = Layout(tiles, start, self.recipes, KINDS)
        return layout, self._is_usable(layout, two)

    def _sample_rooms(
        self,
        uniform: Float[Array, "4"],
        of_walls: Float[Array, "height width"],
        score: Float[Array, "height width"],
    ) -> tuple[Bool[Array, "2 height width"], Bool[Array, ""]]:
        """The floor of the left and the right room, and whether there are two rooms. Otherwise both
        masks have the floor of the single room.
        """
        largest = jnp.asarray([self.height, self.width], jnp.int32)
        rows, cols = _sample_integers(uniform[:2], self.smallest, largest)
        middle = _sample_integers(uniform[2], jnp.asarray(2), jnp.maximum(cols - 3, 2))
        two = uniform[3] < self.two_rooms
        row, col = jnp.arange(self.height)[:, None], jnp.arange(self.width)[None, :]
        inside = (row > 0) & (row < rows - 1) & (col > 0) & (col < cols - 1)
        inside &= of_walls >= self.walls
        sides = jnp.stack([inside & (col < middle), inside & (col > middle)])
        rooms = jnp.where(two, sides, inside[None])

        def connected(room: Bool[Array, "height width"]) -> Bool[Array, "height width"]:
            """The floor that is connected to the cell with the best score."""
            return reach(room, jnp.stack(_best(room, score))) & room

        return jax.vmap(connected)(rooms), two

    def _place_cooks(
        self, rooms: Bool[Array, "2 height width"], score: Float[Array, "height width"]
    ) -> Int32[Array, "agents 2"]:
        """`(row, col)` of every cook, in distinct cells, alternately in the left and the right
        room.
        """
        free, positions = rooms, []
        for cook in range(self.num_agents):
            row, col = _best(free[cook % 2], score)
            free = free.at[:, row, col].set(False)
            positions.append(jnp.stack([row, col]))
        return jnp.stack(positions)

    def _is_usable(self, layout: Layout, two_rooms: Bool[Array, ""]) -> Bool[Array, ""]:
        # If a room has too few floor cells, `_place_cooks` puts cooks on other tiles, or into one
        # cell. If it has too few counters, stations are missing.
        position = layout.start.bodies.position
        on_floor = (layout.tiles[position[:, 0], position[:, 1]] == Tile.FLOOR).all()
        same_cell = (position[:, None] == position[None]).all(axis=-1)
        apart = same_cell.sum() == self.num_agents
        stations = jnp.asarray(_STATIONS, jnp.uint8)[:, None, None]
        counts = (layout.tiles[None] == stations).sum(axis=(-2, -1), dtype=jnp.int32)
        enough = (counts >= self.fewest).all()
        hands_over = ~two_rooms | ~can_deliver_alone(layout)
        return on_floor & apart & enough & hands_over & can_deliver(layout)


def _sample_integers(
    uniform: Float[Array, "*shape"], low: Int32[Array, "*shape"], high: Int32[Array, "*shape"]
) -> Int32[Array, "*shape"]:
    """Converts uniform random numbers in [0, 1) to integers from `low` to `high`, inclusive."""
    return low + jnp.floor(uniform * (high - low + 1).astype(jnp.float32)).astype(jnp.int32)


def _best(
    cells: Bool[Array, "height width"], score: Float[Array, "height width"]
) -> tuple[Array, ...]:
    """The row and the column of the cell with the best score; no score may be negative."""
    return jnp.unravel_index(jnp.argmax(jnp.where(cells, score, -1.0)), cells.shape)


def _check(
    size: tuple[int, int],
    smallest: tuple[int, int],
    num_agents: int,
    two_rooms: float | int,
    ranges: tuple[tuple[int, int], ...],
) -> None:
    if num_agents < 1:
        raise LayoutError(f"A kitchen needs at least 1 cook, not {num_agents}.")
    if not all(3 <= low <= high <= 127 for low, high in zip(smallest, size, strict=True)):
        raise LayoutError(
            f"A kitchen has at least 3 and at most 127 rows and columns, but `smallest` "
            f"is {smallest} and the grid is {size}."
        )
    if two_rooms and smallest[1] < _FEWEST_COLS:
        raise LayoutError(
            f"Two rooms need at least {_FEWEST_COLS} columns, but the smallest kitchen has "
            f"{smallest[1]}."
        )
    if two_rooms and num_agents < 2:
        raise LayoutError("Two rooms need a cook in each: ask for at least 2 cooks.")
    check_ranges(dict(zip(_STATION_NAMES, ranges, strict=True)))
    onions, tomatoes, *others = (most for _, most in ranges)
    if not (onions or tomatoes) or not all(others):
        raise LayoutError(
            "A soup needs onions or tomatoes, dishes, a pot and a serving hatch: ask for at least "
            "one of each."
        )
    border = 2 * (smallest[0] + smallest[1]) - 8  # without the corners, which are out of reach
    inner = (smallest[0] - 2) * (smallest[1] - 2) - 1  # at least one cell is floor
    if (fewest := sum(fewest for fewest, _ in ranges)) > border + inner:
        raise LayoutError(
            f"{fewest} stations do not fit into a kitchen of {smallest[0]} by {smallest[1]} cells: "
            "ask for fewer, or for a larger kitchen."
        )
