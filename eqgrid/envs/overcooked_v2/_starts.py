"""Random initial states of OvercookedV2, with the probabilities of JaxMARL."""

import dataclasses
import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PRNGKeyArray, UInt8

from ..._functions import sample_uniform
from ...grid import IDLE, NOTHING, AbstractStart, Direction, Layout, World
from ._contents import FIRST_INGREDIENT, MAX_INGREDIENTS, PLATE, Tile, contents_of
from ._rules import Menu, place_order, whole_number

_IN_HANDS = (0.5, 0.1, 0.25, 0.15)
_ON_COUNTERS = (0.5, 0.1, 0.3, 0.1)
_IN_POTS = (0.4, 0.35, 0.15, 0.1)
_NUMBERS = 3 + MAX_INGREDIENTS
"""The number of random numbers that decide the contents of one place."""


@jax.jit
def find_rooms(tiles: UInt8[Array, "height width"]) -> Int32[Array, "height width"]:
    """Labels the rooms: equal integers for connected floor cells, and -1 for other cells."""
    floor = tiles == Tile.FLOOR
    number = jnp.where(floor, jnp.arange(floor.size, dtype=jnp.int32).reshape(floor.shape), -1)

    def spread(rooms: Array) -> Array:
        around = jnp.pad(rooms, 1, constant_values=-1)
        sides = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, 2:], around[1:-1, :-2])
        largest = jnp.stack([rooms, *sides]).max(axis=0)
        return jnp.where(floor, largest, -1)

    return jax.lax.while_loop(
        lambda pair: (pair[0] != pair[1]).any(),
        lambda pair: (pair[1], spread(pair[1])),
        (number, spread(number)),
    )[1]


@final
class RandomPlaces(AbstractStart):
    """Places each cook in a random cell of its room, in a random direction.

    **Arguments:**

    - `layout`: the kitchen, whose rooms are computed once.
    """

    rooms: Int32[Array, "height width"]

    def __init__(self, layout: Layout):
        self.rooms = find_rooms(layout.tiles)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        rooms = self.rooms.reshape(-1)
        drawn = sample_uniform(key, (world.num_agents, rooms.size + 1))
        taken, cells = jnp.zeros(rooms.shape, bool), []
        for agent, score in enumerate(drawn[:, :-1]):
            row, col = world.bodies.position[agent]
            free = (rooms == self.rooms[row, col]) & ~taken
            cells.append(jnp.argmax(jnp.where(free, score, -1.0)))
            taken |= jnp.arange(rooms.size) == cells[-1]
        places = jnp.divmod(jnp.stack(cells), self.rooms.shape[1])
        bodies = dataclasses.replace(
            world.bodies,
            position=jnp.stack(places, axis=-1).astype(jnp.int8),
            direction=whole_number(drawn[:, -1], len(Direction)).astype(jnp.int8),
        )
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomKitchen(AbstractStart):
    """Random places, and random objects in hands, on counters and in pots: ingredients, plates and
    ordered soups, and in pots soups of any kind.

    **Arguments:**

    - `layout`: the kitchen.
    - `full_only`: whether only pots with three ingredients cook.
    """

    places: RandomPlaces
    full_only: bool = eqx.field(static=True)

    def __init__(self, layout: Layout, full_only: bool):
        self.places, self.full_only = RandomPlaces(layout), full_only

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        places_key, things_key = jax.random.split(key)
        world = self.places(places_key, layout, world)
        shape, agents = layout.tiles.shape, world.num_agents
        drawn = sample_uniform(things_key, (math.prod(shape) + agents, _NUMBERS))
        here, hands = drawn[agents:].reshape(*shape, _NUMBERS), drawn[:agents]
        soup, timer, filled = self._draw_pots(layout, here)
        filled &= layout.tiles == Tile.POT
        things = _draw_things(layout, here, _ON_COUNTERS)
        things = jnp.where(layout.tiles == Tile.COUNTER, things, world.cells.object)
        cells = dataclasses.replace(
            world.cells,
            object=jnp.where(filled, soup, things),
            timer=jnp.where(filled, timer, world.cells.clock),
        )
        bodies = dataclasses.replace(world.bodies, held=_draw_things(layout, hands, _IN_HANDS))
        return dataclasses.replace(world, cells=cells, bodies=bodies)

    def _draw_pots(
        self, layout: Layout, drawn: Float32[Array, "height width numbers"]
    ) -> tuple[Array, Array, Array]:
        """For every cell, as if it were a pot: contents, timer, and whether it is filled."""
        menu: Menu = layout.params
        state = _which(drawn[..., 0], _IN_POTS)
        number = whole_number(drawn[..., 1], MAX_INGREDIENTS)
        left = 1 + whole_number(drawn[..., 2], menu.cook_time)
        mixed = jnp.asarray(contents_of(layout.kinds).mixed)
        soup, some = jnp.zeros(drawn.shape[:-1], jnp.uint8), jnp.zeros(drawn.shape[:-1], jnp.uint8)
        for i in range(MAX_INGREDIENTS):
            kind = whole_number(drawn[..., 3 + i], menu.num_ingredients)
            soup = mixed[soup, FIRST_INGREDIENT + kind]
            some = jnp.where(number == i, soup, some)
        soup = jnp.where((state == 1) | (not self.full_only), some, soup)
        timer = jnp.where(state == 2, left, jnp.where(state == 3, 0, IDLE))
        return soup, timer.astype(jnp.int16), state > 0


def _draw_things(
    layout: Layout, drawn: Float32[Array, "*places numbers"], shares: Sequence[float]
) -> UInt8[Array, "*places"]:
    """Random codes of nothing, a plate, an ingredient or a soup that may be ordered."""
    menu: Menu = layout.params
    which = _which(drawn[..., 0], shares)
    ingredient = FIRST_INGREDIENT + whole_number(drawn[..., 1], menu.num_ingredients)
    soup = menu.recipes[whole_number(drawn[..., 2], menu.num_recipes)]
    thing = jnp.where(which == 1, jnp.uint8(PLATE), jnp.uint8(NOTHING))
    thing = jnp.where(which == 2, ingredient.astype(jnp.uint8), thing)
    return jnp.where(which == 3, soup, thing)


def _which(drawn: Float32[Array, "*places"], shares: Sequence[float]) -> Int32[Array, "*places"]:
    """Converts uniform random numbers to indices into `shares`, which has their probabilities."""
    bounds = np.cumsum(shares)[:-1]
    return sum(((drawn >= x).astype(jnp.int32) for x in bounds), start=jnp.zeros((), jnp.int32))


@final
class PermuteIngredients(AbstractStart):
    """Permutes some ingredients in each cook's observation for a whole episode, independently for
    each cook; see `PermutedPlanes` and
    `PermutedFeatures`.

    **Arguments:**

    - `ingredients`: the ingredients to permute, as indices into `INGREDIENTS`.
    """

    ingredients: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        some = jnp.asarray(self.ingredients, jnp.uint8)
        shuffled = jax.vmap(lambda one: jax.random.permutation(one, some))(
            jax.random.split(key, world.num_agents)
        )
        meant = world.bodies.extra.at[:, some].set(shuffled)
        bodies = dataclasses.replace(world.bodies, extra=meant)
        return dataclasses.replace(world, bodies=bodies)


@final
class StartFrom(AbstractStart):
    """Starts each episode in one of the given worlds, uniformly at random.

    **Arguments:**

    - `worlds`: the worlds, along a leading axis.
    """

    worlds: World

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        index = whole_number(jax.random.uniform(key), len(self.worlds.time))
        chosen = jax.tree.map(lambda leaf: leaf[index], self.worlds)
        bodies = dataclasses.replace(chosen.bodies, extra=world.bodies.extra)
        chosen = dataclasses.replace(chosen, bodies=bodies, time=world.time)
        return place_order(layout, chosen, chosen.extra.recipe)
