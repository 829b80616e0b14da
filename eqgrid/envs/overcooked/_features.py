"""What an agent sees as a short vector, with itself in the middle."""

from enum import IntEnum
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int8, Int32, Integer, Shaped, UInt8

from ...grid import (
    IDLE,
    AbstractObservation,
    Bodies,
    Cell,
    Direction,
    Layout,
    World,
    direction_delta,
)
from ._contents import MAX_INGREDIENTS, Item, Tile, item_of, soup_contents

DISTANCE_UNIT = 5
"""Cells per unit of a distance or a position. The same in every kitchen, so that a number means the
same in every kitchen."""

TIME_UNIT = 20
"""Steps per unit of the time that a pot still cooks: the default cook time."""

NEAREST_POTS = 2
"""How many pots an agent sees, nearest first."""

_DIRECTIONS = tuple(direction.name.lower() for direction in Direction)
_TILES = tuple(tile.name.lower() for tile in Tile)
_ITEMS = tuple(item.name.lower() for item in Item)
_CONTENTS = ("onions", "tomatoes")  # in the order of Ingredient
_SOUP = ("soup_onions", "soup_tomatoes")
_BUILT = (
    Tile.ONION_DISPENSER,
    Tile.TOMATO_DISPENSER,
    Tile.DISH_DISPENSER,
    Tile.SERVING,
)
_LYING = (Item.ONION, Item.TOMATO, Item.DISH, Item.SOUP)
_NEAREST = (
    *(tile.name.lower() for tile in _BUILT),
    "empty_counter",
    *(f"counter_{item.name.lower()}" for item in _LYING),
)
_POT = ("exists", "row", "col", *_CONTENTS, "idle", "cooking", "ready", "full", "time_left")


_NOWHERE = np.iinfo(np.int32).max


@final
class Features(AbstractObservation):
    """A short vector for every agent, with itself in the middle; `docs/features.md` names it all.

    Distances are in units of `DISTANCE_UNIT` cells, times in units of `TIME_UNIT` steps, and
    ingredients in units of a full pot; everything else is 0 or 1. "Nearest" is by Manhattan
    distance, through walls; of equally near cells the first one counts, row by row from the top
    left. What does not exist is all zeros.
    """

    def names(self, num_agents: int) -> tuple[str, ...]:
        """The name of every number in the vector, in its order.

        **Arguments:**

        - `num_agents`: how many agents there are, the one that sees included.

        **Returns:** as many names as an agent sees numbers, no two alike.

        **Raises:** `ValueError` when there is no agent.
        """
        if num_agents < 1:
            raise ValueError(f"There must be at least one agent, not {num_agents}.")
        own = ("row", "col", *_name("direction", _DIRECTIONS), *_name("held", (*_ITEMS, *_SOUP)))
        around = [name for way in _DIRECTIONS for name in _name(way, ("free", "cook"))]
        faced = (*_TILES, *_ITEMS, *_SOUP, "cooking", "ready", "cook")
        found = [name for kind in _NEAREST for name in _name(kind, ("exists", "row", "col"))]
        pots = [name for k in range(NEAREST_POTS) for name in _name(f"pot_{k + 1}", _POT)]
        other = ("row", "col", *_name("direction", _DIRECTIONS), *_name("held", _ITEMS))
        others = [name for k in range(1, num_agents) for name in _name(f"other_{k}", other)]
        return (*_name("own", own), *around, *_name("faced", faced), *found, *pots, *others)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> Float32[Array, "agents features"]:
        """What every agent sees.

        **Arguments:**

        - `layout`: the kitchen.
        - `world`: its state.
        - `steps_left`: not used.

        **Returns:** the numbers that `names` names, for every agent.
        """
        count = world.num_agents
        own_first = (np.arange(count)[:, None] + np.arange(count)[None, :]) % count
        bodies = jax.tree.map(lambda leaf: leaf[own_first], world.bodies)
        places = _places(layout.tiles, world.cells)
        view = jax.vmap(_view, in_axes=(0, None, None, None))
        return view(bodies, layout.tiles, world.cells, places)


def _name(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in names)


def _places(tiles: UInt8[Array, "height width"], cells: Cell) -> Bool[Array, "kinds height width"]:
    """Where everything is that an agent looks for, in the order of `_NEAREST`."""
    counter = tiles == Tile.COUNTER
    return jnp.stack(
        [
            *(tiles == tile for tile in _BUILT),
            *(counter & (item_of(cells.object) == item) for item in (Item.NOTHING, *_LYING)),
        ]
    )


def _view(
    bodies: Bodies,
    tiles: UInt8[Array, "height width"],
    cells: Cell,
    places: Bool[Array, "kinds height width"],
) -> Float32[Array, " features"]:
    """What the first of `bodies` sees."""
    position = bodies.position.astype(jnp.int32)
    here, deltas = position[0], position[1:] - position[:1]
    nearness = _nearness(tiles.shape, here)
    parts = [
        _in_cells(here),
        _one_hot(bodies.direction[0], Direction),
        _one_hot(item_of(bodies.held[0]), Item),
        _in_pots(soup_contents(bodies.held[0])),
        _around(tiles, here, deltas),
        _faced(tiles, cells, here, deltas, bodies.direction[0]),
        _found(places, here, nearness),
        _pots(tiles, cells, here, nearness),
        _others(deltas, bodies),
    ]
    return jnp.concatenate(parts)


def _in_cells(distance: Int32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return distance.astype(jnp.float32) / DISTANCE_UNIT


def _in_pots(contents: UInt8[Array, "*cells ingredients"]) -> Float32[Array, "*cells ingredients"]:
    return contents.astype(jnp.float32) / MAX_INGREDIENTS


def _one_hot(
    index: Integer[Array, "*shape"], kinds: type[IntEnum]
) -> Float32[Array, "*shape kinds"]:
    return jax.nn.one_hot(index, len(kinds), dtype=jnp.float32)


def _look_up(
    grid: Shaped[Array, "height width *rest"], position: Int32[Array, "*places 2"], outside: int
) -> Shaped[Array, "..."]:
    at = grid.at[position[..., 0], position[..., 1]]
    return at.get(mode="fill", fill_value=outside, wrap_negative_indices=False)


def _around(
    tiles: UInt8[Array, "height width"],
    here: Int32[Array, "2"],
    deltas: Int32[Array, "others 2"],
) -> Float32[Array, " features"]:
    """For each direction: whether one can go there, and whether another agent is there."""
    steps = direction_delta(jnp.arange(len(Direction), dtype=jnp.int8)).astype(jnp.int32)
    cook = (steps[:, None] == deltas[None]).all(axis=-1).any(axis=-1)
    floor = _look_up(tiles, here[None] + steps, Tile.WALL) == Tile.FLOOR
    return jnp.stack([floor & ~cook, cook], axis=-1).reshape(-1).astype(jnp.float32)


def _faced(
    tiles: UInt8[Array, "height width"],
    cells: Cell,
    here: Int32[Array, "2"],
    deltas: Int32[Array, "others 2"],
    direction: Int8[Array, ""],
) -> Float32[Array, " features"]:
    step = direction_delta(direction).astype(jnp.int32)
    place = here + step
    timer = _look_up(cells.clock, place, IDLE)
    cook = (deltas == step[None]).all(axis=-1).any()
    return jnp.concatenate(
        [
            _one_hot(_look_up(tiles, place, Tile.WALL), Tile),
            _one_hot(_look_up(item_of(cells.object), place, Item.NOTHING), Item),
            _in_pots(_look_up(soup_contents(cells.object), place, 0)),
            jnp.stack([timer > 0, timer == 0, cook]).astype(jnp.float32),
        ]
    )


def _nearness(shape: tuple[int, ...], here: Int32[Array, "2"]) -> Int32[Array, "height width"]:
    """The distance to every cell, and below it the cell's number: so no two are alike, and the
    smallest tells which cell it is.
    """
    height, width = shape
    rows, cols = jnp.arange(height, dtype=jnp.int32), jnp.arange(width, dtype=jnp.int32)
    distance = jnp.abs(rows - here[0])[:, None] + jnp.abs(cols - here[1])[None, :]
    return distance * (height * width) + rows[:, None] * width + cols[None, :]


def _found(
    places: Bool[Array, "kinds height width"],
    here: Int32[Array, "2"],
    nearness: Int32[Array, "height width"],
) -> Float32[Array, " features"]:
    """For each kind: whether there is one, and which way the nearest is."""
    nearest = jnp.where(places, nearness[None], _NOWHERE).min(axis=(1, 2))
    exists, place = _decode(nearest, nearness.shape)
    return _direction(exists, place, here).reshape(-1)


def _decode(
    nearest: Int32[Array, " found"], shape: tuple[int, ...]
) -> tuple[Bool[Array, " found"], Int32[Array, "found 2"]]:
    """Whether there is one, and where."""
    number = nearest % (shape[0] * shape[1])
    return nearest < _NOWHERE, jnp.stack([number // shape[1], number % shape[1]], axis=-1)


def _direction(
    exists: Bool[Array, " found"], place: Int32[Array, "found 2"], here: Int32[Array, "2"]
) -> Float32[Array, "found 3"]:
    delta = jnp.where(exists[:, None], _in_cells(place - here[None]), 0.0)
    return jnp.concatenate([exists.astype(jnp.float32)[:, None], delta], axis=-1)


def _pots(
    tiles: UInt8[Array, "height width"],
    cells: Cell,
    here: Int32[Array, "2"],
    nearness: Int32[Array, "height width"],
) -> Float32[Array, " features"]:
    """The nearest pots, and what is in them."""
    left = jnp.where(tiles == Tile.POT, nearness, _NOWHERE)
    nearest = []
    for _ in range(NEAREST_POTS):
        nearest.append(left.min())
        left = jnp.where(left == nearest[-1], _NOWHERE, left)
    exists, place = _decode(jnp.stack(nearest), tiles.shape)
    contents, timer = (
        _look_up(soup_contents(cells.object), place, 0),
        _look_up(cells.clock, place, IDLE),
    )
    full = contents.sum(axis=-1) >= MAX_INGREDIENTS
    flags = jnp.stack([timer == IDLE, timer > 0, timer == 0, full], axis=-1).astype(jnp.float32)
    time_left = jnp.maximum(timer, 0).astype(jnp.float32)[:, None] / TIME_UNIT
    inside = jnp.concatenate([_in_pots(contents), flags, time_left], axis=-1)
    inside = jnp.where(exists[:, None], inside, 0.0)
    return jnp.concatenate([_direction(exists, place, here), inside], axis=-1).reshape(-1)


def _others(deltas: Int32[Array, "others 2"], bodies: Bodies) -> Float32[Array, " features"]:
    """All but the first of `bodies`."""
    direction, held = (
        _one_hot(bodies.direction[1:], Direction),
        _one_hot(item_of(bodies.held[1:]), Item),
    )
    return jnp.concatenate([_in_cells(deltas), direction, held], axis=-1).reshape(-1)
