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
from ..overcooked import label_regions
from ._contents import FIRST_INGREDIENT, MAX_INGREDIENTS, PLATE, Tile, contents_of
from ._rules import Menu, as_integer, place_order

# The probabilities of nothing, a plate, an ingredient, and a soup that may be ordered.
_IN_HANDS = (0.5, 0.1, 0.25, 0.15)
_ON_COUNTERS = (0.5, 0.1, 0.3, 0.1)

# The probabilities of an empty pot, a pot that has not been started, a cooking and a ready pot.
_IN_POTS = (0.4, 0.35, 0.15, 0.1)

_NUM_UNIFORM = 3 + MAX_INGREDIENTS  # the random numbers that determine the contents of one place


def find_rooms(tiles: UInt8[Array, "height width"]) -> Int32[Array, "height width"]:
    """Labels the rooms: equal integers for connected floor cells, and -1 for other cells."""
    return label_regions(tiles == Tile.FLOOR)


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
        uniform = sample_uniform(key, (world.num_agents, rooms.size + 1))
        taken, cells = jnp.zeros(rooms.shape, bool), []
        for agent, score in enumerate(uniform[:, :-1]):
            row, col = world.bodies.position[agent]
            free = (rooms == self.rooms[row, col]) & ~taken
            cells.append(jnp.argmax(jnp.where(free, score, -1.0)))
            taken |= jnp.arange(rooms.size) == cells[-1]
        places = jnp.divmod(jnp.stack(cells), self.rooms.shape[1])
        bodies = dataclasses.replace(
            world.bodies,
            position=jnp.stack(places, axis=-1).astype(jnp.int8),
            direction=as_integer(uniform[:, -1], len(Direction)).astype(jnp.int8),
        )
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomKitchen(AbstractStart):
    """Random places, and random objects in hands, on counters and in pots. Hands and counters get
    plates, ingredients and soups that may be ordered; pots get soups of any kind.

    **Arguments:**

    - `layout`: the kitchen.
    - `full_only`: whether pots that are cooking or ready always have three ingredients.
    """

    places: RandomPlaces
    full_only: bool = eqx.field(static=True)

    def __init__(self, layout: Layout, full_only: bool):
        self.places, self.full_only = RandomPlaces(layout), full_only

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        places_key, objects_key = jax.random.split(key)
        world = self.places(places_key, layout, world)
        shape, agents = layout.tiles.shape, world.num_agents
        uniform = sample_uniform(objects_key, (math.prod(shape) + agents, _NUM_UNIFORM))
        of_cells, of_hands = uniform[agents:].reshape(*shape, _NUM_UNIFORM), uniform[:agents]
        soup, timer, is_filled = self._sample_pots(layout, of_cells)
        is_filled &= layout.tiles == Tile.POT
        objects = _sample_objects(layout, of_cells, _ON_COUNTERS)
        objects = jnp.where(layout.tiles == Tile.COUNTER, objects, world.cells.object)
        cells = dataclasses.replace(
            world.cells,
            object=jnp.where(is_filled, soup, objects),
            timer=jnp.where(is_filled, timer, world.cells.clock),
        )
        held = _sample_objects(layout, of_hands, _IN_HANDS)
        bodies = dataclasses.replace(world.bodies, held=held)
        return dataclasses.replace(world, cells=cells, bodies=bodies)

    def _sample_pots(
        self, layout: Layout, uniform: Float32[Array, "height width numbers"]
    ) -> tuple[Array, Array, Array]:
        """For every cell, as if it were a pot: contents, timer, and whether it is filled."""
        menu: Menu = layout.params
        state = _sample_index(uniform[..., 0], _IN_POTS)
        last = as_integer(uniform[..., 1], MAX_INGREDIENTS)  # the index of the last ingredient
        left = 1 + as_integer(uniform[..., 2], menu.cook_time)
        mixed = jnp.asarray(contents_of(layout.kinds).mixed)
        shape = uniform.shape[:-1]
        full, partial = jnp.zeros(shape, jnp.uint8), jnp.zeros(shape, jnp.uint8)
        for i in range(MAX_INGREDIENTS):
            ingredient = as_integer(uniform[..., 3 + i], menu.num_ingredients)
            full = mixed[full, FIRST_INGREDIENT + ingredient]
            partial = jnp.where(last == i, full, partial)
        soup = jnp.where((state == 1) | (not self.full_only), partial, full)
        timer = jnp.where(state == 2, left, jnp.where(state == 3, 0, IDLE))
        return soup, timer.astype(jnp.int16), state > 0


def _sample_objects(
    layout: Layout, uniform: Float32[Array, "*places numbers"], shares: Sequence[float]
) -> UInt8[Array, "*places"]:
    """Random codes of nothing, a plate, an ingredient or a soup that may be ordered."""
    menu: Menu = layout.params
    kind = _sample_index(uniform[..., 0], shares)
    ingredient = FIRST_INGREDIENT + as_integer(uniform[..., 1], menu.num_ingredients)
    soup = menu.recipes[as_integer(uniform[..., 2], menu.num_recipes)]
    code = jnp.where(kind == 1, jnp.uint8(PLATE), jnp.uint8(NOTHING))
    code = jnp.where(kind == 2, ingredient.astype(jnp.uint8), code)
    return jnp.where(kind == 3, soup, code)


def _sample_index(
    uniform: Float32[Array, "*places"], shares: Sequence[float]
) -> Int32[Array, "*places"]:
    """Converts uniform random numbers in [0, 1) to indices with the probabilities in `shares`."""
    bounds = np.cumsum(shares)[:-1]
    return sum(((uniform >= x).astype(jnp.int32) for x in bounds), start=jnp.zeros((), jnp.int32))


@final
class PermuteIngredients(AbstractStart):
    """Samples a permutation of some ingredients for the observation of each cook, independently and
    for a whole episode; see `PermutedPlanes` and `PermutedFeatures`.

    **Arguments:**

    - `ingredients`: the ingredients to permute, as indices into `INGREDIENTS`.
    """

    ingredients: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        chosen = jnp.asarray(self.ingredients, jnp.uint8)
        shuffled = jax.vmap(lambda agent_key: jax.random.permutation(agent_key, chosen))(
            jax.random.split(key, world.num_agents)
        )
        permutation = world.bodies.extra.at[:, chosen].set(shuffled)
        bodies = dataclasses.replace(world.bodies, extra=permutation)
        return dataclasses.replace(world, bodies=bodies)


@final
class StartFrom(AbstractStart):
    """Starts each episode in one of the given worlds, uniformly at random.

    **Arguments:**

    - `worlds`: the worlds, along a leading axis.
    """

    worlds: World

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        index = as_integer(jax.random.uniform(key), len(self.worlds.time))
        chosen = jax.tree.map(lambda leaf: leaf[index], self.worlds)
        # The time and the permutations of ingredients belong to the new episode.
        bodies = dataclasses.replace(chosen.bodies, extra=world.bodies.extra)
        chosen = dataclasses.replace(chosen, bodies=bodies, time=world.time)
        return place_order(layout, chosen, chosen.extra.recipe)
