"""The feature vector of Overcooked-AI, on which published human models were trained."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int8, Int16, Int32, UInt8

from .... import batched_cond
from ...._checks import check_whole
from ....grid import IDLE, AbstractObservation, Bodies, Cell, Direction, Layout, World, get_cell
from .._contents import MAX_INGREDIENTS, Item, Tile, item_of, soup_contents, soup_size
from .._ways import FAR, STEPS, around, spread

_HELD = (Item.ONION, Item.SOUP, Item.DISH, Item.TOMATO)
_SOURCES = (Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER, Tile.DISH_DISPENSER, Tile.SERVING)
_NOWHERE = -1
_BATCH = 256  # the number of cells from which distances are computed at once


@final
class ReferenceFeatures(AbstractObservation):
    """The feature vector of `OvercookedGridworld.featurize_state` in Overcooked-AI, as `float32`:
    96 numbers for two cooks.

    The vector of a cook has four parts: its own features, the features of every other cook in the
    order of the cooks, the `(col, row)` offset to every other cook, and its own `(col, row)`. The
    features of one cook are:

    | numbers | meaning |
    |---|---|
    | 4 | the direction: north, south, east, west |
    | 4 | the held item: onion, soup, dish, tomato |
    | 6 | `(col, row)` offset to the nearest dispenser of onions, tomatoes, dishes; 0 if held |
    | 2 | zeros |
    | 2 | onions and tomatoes in the held soup |
    | 2 | `(col, row)` offset to the nearest serving hatch |
    | 2 | zeros |
    | 10 per pot | see below; zeros if fewer pots can be reached |
    | 4 | whether there is no floor to the north, south, east, west |

    Pots are sorted by distance. The features of a pot are whether it exists, is empty, is full or
    started, is cooking, and is ready; its onions and tomatoes; the steps until it is ready; and the
    `(col, row)` offset to it.

    "Nearest" means the fewest moves and turns until the cook faces the tile, ignoring other cooks.
    Ties go to the first cell in row-major order. The features of a tile that cannot be reached are
    0. The columns of zeros are the offsets to the nearest soup and the nearest empty counter: the
    reference's default planner (`NO_COUNTERS_PARAMS`) finds no path to a counter, and policies were
    trained with these zeros.

    - `tiles`: the tiles of the layout for which `nearest` was computed.
    - `nearest`: for each position and direction of a cook, `(row, col)` of the nearest dispensers,
        hatch and pots; -1 where there is none. If the layout has other tiles, as with a random
        layout per episode, every step searches for these cells, which takes longer.
    """

    tiles: UInt8[Array, "*batch height width"]
    nearest: Int8[Array, "*batch height width directions places 2"]

    def __init__(self, layout: Layout, num_pots: int = 2):
        """**Arguments:**

        - `layout`: the kitchen.
        - `num_pots`: the number of pots in the features of a cook.

        **Raises:** `ValueError` for a kitchen with one cook, for which the reference has no such
        vector, and for `num_pots` below 1.
        """
        if layout.num_agents < 2:
            raise ValueError(
                "The reference's features are for two cooks or more: choose the observation "
                "'features' or 'planes' for one cook."
            )
        check_whole(num_pots=num_pots)
        if num_pots < 1:
            raise ValueError(f"A cook must see at least 1 pot, but `num_pots` is {num_pots}.")
        self.tiles, self.nearest = layout.tiles, _tabulate(layout.tiles, num_pots)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents features"]:
        count, bodies = world.num_agents, world.bodies
        places = self._nearest_places(layout.tiles, bodies)
        of_cooks = jax.vmap(_cook_features, in_axes=(None, None, 0, 0))
        own = of_cooks(layout, world.cells, bodies, places)
        position = bodies.position[:, ::-1].astype(jnp.float32)
        others = np.asarray([[j for j in range(count) if j != i] for i in range(count)])
        to_others = position[others] - position[:, None]
        parts = (own, own[others], to_others, position)
        return jnp.concatenate([part.reshape(count, -1) for part in parts], axis=-1)

    def _nearest_places(
        self, tiles: UInt8[Array, "height width"], bodies: Bodies
    ) -> Int8[Array, "agents places 2"]:
        """`(row, col)` of the nearest sources and pots of each cook."""
        num_pots = self.nearest.shape[-2] - len(_SOURCES)
        if tiles.shape != self.tiles.shape:
            return _search(num_pots, tiles, self.nearest, bodies)
        changed = (tiles != self.tiles).any()
        search = functools.partial(_search, num_pots)

        def look_up(_: Array, nearest: Array, bodies: Bodies) -> Int8[Array, "agents places 2"]:
            return nearest[bodies.position[:, 0], bodies.position[:, 1], bodies.direction]

        return batched_cond(changed, search, look_up, tiles, self.nearest, bodies)


def _search(
    num_pots: int,
    tiles: UInt8[Array, "height width"],
    nearest: Int8[Array, "..."],
    bodies: Bodies,
) -> Int8[Array, "agents places 2"]:
    """Computes the entries that the table would have for these tiles. `nearest` is not used, but
    `batched_cond` needs two branches with the same arguments.
    """

    def of_cook(position: Int8[Array, "2"], direction: Int8[Array, ""]) -> Array:
        return _nearest(tiles, num_pots, position)[direction]

    return jax.vmap(of_cook)(bodies.position, bodies.direction)


@eqx.filter_jit
def _tabulate(
    tiles: UInt8[Array, "height width"], num_pots: int
) -> Int8[Array, "height width directions places 2"]:
    height, width = tiles.shape
    cells = jnp.asarray(np.argwhere(np.ones((height, width), bool)), jnp.int8)
    find = functools.partial(_nearest, tiles, num_pots)
    found = jax.lax.map(find, cells, batch_size=min(_BATCH, len(cells)))
    return found.reshape(height, width, *found.shape[1:])


def _nearest(
    tiles: UInt8[Array, "height width"], num_pots: int, position: Int8[Array, "2"]
) -> Int8[Array, "directions places 2"]:
    """`(row, col)` of the nearest sources and pots from one cell, by direction."""
    height, width = tiles.shape
    floor = tiles == Tile.FLOOR
    first = jnp.full(tiles.shape, FAR, jnp.int16).at[position[0], position[1]].set(0)
    costs = _costs(spread(floor, first, jnp.ones((), jnp.int16))).astype(jnp.int32)
    cell = jnp.arange(height * width, dtype=jnp.int32).reshape(1, height, width)
    # Adding the number of the cell makes all keys different, and breaks ties: the first cell wins.
    keys = costs * (height * width) + cell
    out_of_reach = np.int32(FAR * height * width)
    found = []
    for tile, count in (*((source, 1) for source in _SOURCES), (Tile.POT, num_pots)):
        left = jnp.where((tiles == tile)[None], keys, out_of_reach)
        for _ in range(count):
            found.append(left.min(axis=(-2, -1)))
            left = jnp.where(left == found[-1][:, None, None], out_of_reach, left)
    nearest = jnp.stack(found, axis=-1)
    cell = nearest % (height * width)
    place = jnp.stack([cell // width, cell % width], axis=-1)
    return jnp.where((nearest < out_of_reach)[..., None], place, _NOWHERE).astype(jnp.int8)


def _costs(steps: Int16[Array, "height width"]) -> Int16[Array, "directions height width"]:
    """The number of moves and turns until a cook faces each cell, for each of its directions.

    A cook faces the direction of its last move, and a move towards a solid cell only turns it.

    Source: `MotionPlanner.min_cost_to_feature` of Overcooked-AI, which adds the interaction.

    **Arguments:**

    - `steps`: the number of moves to every floor cell.
    """
    best = jnp.full((len(Direction), *steps.shape), FAR, jnp.int16)
    for facing, step in enumerate(STEPS):
        beside, behind = _shift(steps, step), _shift(steps, 2 * step)
        # A cook that comes from the cell behind already faces the cell; otherwise it must turn.
        turns = (behind >= beside).astype(jnp.int16)
        cost = jnp.where(beside < FAR, beside + turns, FAR)[None]
        # A cook that need not move turns unless it has the right direction.
        in_place = (np.arange(len(Direction)) != facing).astype(np.int16)[:, None, None]
        cost = jnp.where((beside == 0)[None], in_place, cost)
        best = jnp.minimum(best, cost.astype(jnp.int16))
    return best


def _shift(
    steps: Int16[Array, "height width"], step: Int32[np.ndarray, "2"]
) -> Int16[Array, "height width"]:
    """For each cell, the value at that cell minus `step`."""
    height, width = steps.shape
    wide = jnp.pad(steps, 2, constant_values=FAR)
    row, col = (2 - step).tolist()
    return wide[row : row + height, col : col + width]


def _cook_features(
    layout: Layout, cells: Cell, body: Bodies, places: Int8[Array, "places 2"]
) -> Float32[Array, " numbers"]:
    here, place = body.position.astype(jnp.int32), places.astype(jnp.int32)
    exists = place[:, 0] != _NOWHERE
    offsets = jnp.where(exists[:, None], place - here[None], 0)[:, ::-1]
    to_sources, to_pots = offsets[: len(_SOURCES)], offsets[len(_SOURCES) :]
    pots, pot_exists = place[len(_SOURCES) :], exists[len(_SOURCES) :]
    item = item_of(body.held)
    has_one = jnp.stack([item == x for x in (Item.ONION, Item.TOMATO, Item.DISH)])
    zeros = jnp.zeros(2, jnp.int32)
    parts = (
        body.direction == np.arange(len(Direction), dtype=np.int8),
        jnp.stack([item == x for x in _HELD]),
        jnp.where(has_one[:, None], 0, to_sources[:3]),
        zeros,
        soup_contents(body.held),
        to_sources[3],
        zeros,
        jnp.where(pot_exists[:, None], _pot_features(cells, pots, to_pots), 0.0),
        around(layout.tiles, body.position) != Tile.FLOOR,
    )
    return jnp.concatenate([part.astype(jnp.float32).reshape(-1) for part in parts])


def _pot_features(
    cells: Cell, pots: Int32[Array, "pots 2"], offsets: Int32[Array, "pots 2"]
) -> Float32[Array, "pots 10"]:
    soup, timer = jax.vmap(get_cell, in_axes=(None, 0))((cells.object, cells.clock), pots)
    size, started = soup_size(soup), timer != IDLE
    full = started | (size == MAX_INGREDIENTS)
    flags = (jnp.ones_like(full), size == 0, full, timer > 0, timer == 0)
    time_left = jnp.maximum(timer, 0)[:, None]
    numbers = (jnp.stack(flags, axis=-1), soup_contents(soup), time_left, offsets)
    return jnp.concatenate([x.astype(jnp.float32) for x in numbers], axis=-1)
