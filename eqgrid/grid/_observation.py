"""What the agents see."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int16, Int32, Shaped, UInt8

from ._layout import Layout
from ._world import (
    IDLE,
    MAX_INGREDIENTS,
    Bodies,
    Cell,
    Fixture,
    Heading,
    Ingredient,
    Item,
    World,
    read_things,
    soup_index,
)


class AbstractObservation(eqx.Module):
    """A view of the world for every agent."""

    @abc.abstractmethod
    def __call__(self, layout: Layout, world: World) -> Shaped[Array, "agents ..."]:
        """What every agent sees."""


@final
class Planes(AbstractObservation):
    """The 26 planes of `lossless_state_encoding` in Overcooked-AI, here `[agents, row, col,
    plane]`.

    | plane | what it marks |
    |---|---|
    | 0, 1 | where one is, where the others are |
    | 2-5, 6-9 | the same by heading (north, south, east, west), one's own and the others' |
    | 10-15 | pots, counters, onion, tomato and dish dispensers, serving hatches |
    | 16, 17 | onions and tomatoes in pots that have not been started |
    | 18, 19 | onions and tomatoes in all other soups, held ones too |
    | 20 | steps until the soup in a pot is ready (at most 255) |
    | 21 | ready soups |
    | 22-24 | dishes, onions, tomatoes, on counters and in hands |
    | 25 | ones everywhere when fewer than 40 steps are left |

    What a cell shows depends on few things, so the 26 numbers of every possible cell stand in a
    table, and a step only looks them up: the planes are most of the cost of a step.

    The reference knows two cooks only; with more, the planes of "the other" mark all others.

    **Arguments:**

    - `horizon`: how many steps an episode has, for plane 25.
    """

    horizon: Int32[Array, ""]

    def __init__(self, horizon: int | Int[Array, ""] = 400):
        self.horizon = jnp.asarray(horizon, jnp.int32)

    def __call__(self, layout: Layout, world: World) -> UInt8[Array, "agents height width 26"]:
        urgent = self.horizon - world.time < 40
        rows = _rows_of_cells(layout, world.cells) + urgent.astype(jnp.int16) * _NUM_ROWS
        rows = jnp.broadcast_to(rows, (world.num_agents, *rows.shape))
        row, col = world.bodies.position[:, 0], world.bodies.position[:, 1]
        of_bodies = _rows_of_bodies(world.bodies) + urgent.astype(jnp.int16) * _NUM_ROWS
        rows = rows.at[:, row, col].set(of_bodies, unique_indices=True)
        return jnp.asarray(_ROWS).at[rows].get(mode="promise_in_bounds")


def _rows_of_cells(layout: Layout, cells: Cell) -> Int16[Array, "height width"]:
    """Which row each cell shows when nobody stands in it."""
    lying = layout.fixtures.astype(jnp.int16) * _THINGS + cells.thing.astype(jnp.int16)
    timer = jnp.minimum(cells.timer, _TIMES - 1)
    started = _STARTED + soup_index(cells.thing).astype(jnp.int16) * _TIMES + timer
    return jnp.where(cells.timer == IDLE, lying, started)


def _rows_of_bodies(bodies: Bodies) -> Int16[Array, "agents bodies"]:
    """Which row each agent sees where a body stands, on floor, where nothing can lie."""
    own = np.eye(len(bodies.heading), dtype=bool)
    place = np.where(own, _OWN, _OTHER).astype(np.int16) + bodies.heading[None].astype(jnp.int16)
    return place * _THINGS + bodies.held.thing[None].astype(jnp.int16)


def _make_rows() -> UInt8[np.ndarray, "rows 26"]:
    """The 26 numbers of a cell, for everything that can be in it.

    First the things that lie in each place or are held there: row `place * _THINGS + thing`, where
    a place is a fixture or a body. Then what is in a pot that was started: `_STARTED + contents *
    _TIMES + timer`. And all of it once more for the last 40 steps.
    """
    place, thing = np.divmod(np.arange(_STARTED), _THINGS)
    contents, timer = np.divmod(np.arange((_THINGS - Item.SOUP) * _TIMES), _TIMES)
    timer = np.concatenate([np.full_like(place, IDLE), timer])
    place = np.concatenate([place, np.full_like(contents, Fixture.POT)])
    thing = np.concatenate([thing, Item.SOUP + contents])
    item, onions, tomatoes = read_things(thing)
    in_idle_pot = (place == Fixture.POT) & (timer == IDLE)
    planes = [
        (place >= _OWN) & (place < _OTHER),
        place >= _OTHER,
        *(place == _OWN + heading for heading in Heading),
        *(place == _OTHER + heading for heading in Heading),
        place == Fixture.POT,
        place == Fixture.COUNTER,
        place == Fixture.ONION_DISPENSER,
        place == Fixture.TOMATO_DISPENSER,
        place == Fixture.DISH_DISPENSER,
        place == Fixture.SERVING,
        np.where(in_idle_pot, onions, 0),
        np.where(in_idle_pot, tomatoes, 0),
        np.where(in_idle_pot, 0, onions),
        np.where(in_idle_pot, 0, tomatoes),
        np.maximum(timer, 0),
        (item == Item.SOUP) & ((place != Fixture.POT) | (timer == 0)),
        item == Item.DISH,
        item == Item.ONION,
        item == Item.TOMATO,
    ]
    rows = [np.stack([*planes, np.full_like(place, urgent)], axis=-1) for urgent in (0, 1)]
    return np.concatenate(rows).astype(np.uint8)


_OWN = len(Fixture)
_OTHER = _OWN + len(Heading)
_THINGS = Item.SOUP + (MAX_INGREDIENTS + 1) ** len(Ingredient)
_STARTED = (_OTHER + len(Heading)) * _THINGS
_TIMES = 256
_ROWS = _make_rows()
_NUM_ROWS = len(_ROWS) // 2
assert len(_ROWS) <= np.iinfo(np.int16).max, "row numbers are int16"
