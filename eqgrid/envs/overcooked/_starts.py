"""What is random about the start of an episode in a kitchen."""

import dataclasses
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ...grid import (
    IDLE,
    AbstractStart,
    Layout,
    RandomDirections,
    RandomPositions,
    WithProbability,
    World,
    as_probability,
)
from ._contents import MAX_INGREDIENTS, Item, Tile, encode, soup_size
from ._recipes import look_up


def _draw_soups(
    key: PRNGKeyArray, layout: Layout, shape: tuple[int, ...]
) -> UInt8[Array, "*places"]:
    """Soups of 1 to 3 ingredients that the kitchen dispenses, as codes."""
    number = math.prod(shape)
    size_key, kind_key = jax.random.split(key)
    size = jax.random.randint(size_key, (number, 1), 1, MAX_INGREDIENTS + 1)
    has_onions = (layout.tiles == Tile.ONION_DISPENSER).any()
    has_tomatoes = (layout.tiles == Tile.TOMATO_DISPENSER).any()
    share = jnp.where(has_tomatoes, jnp.where(has_onions, 0.5, 1.0), 0.0)
    tomato = jax.random.bernoulli(kind_key, share, (number, MAX_INGREDIENTS))
    used = jnp.arange(MAX_INGREDIENTS)[None, :] < size
    tomatoes = (tomato & used).sum(axis=1, dtype=jnp.uint8)
    contents = jnp.stack([size[:, 0].astype(jnp.uint8) - tomatoes, tomatoes], axis=-1)
    return encode(Item.SOUP, contents).reshape(shape)


@final
class RandomHeld(AbstractStart):
    """Every cook holds something with some probability: an onion (60%), a dish (20%) or a soup
    (20%).

    The shares are those of `get_random_start_state_fn` in Overcooked-AI; the soup's 1 to 3
    ingredients are drawn from those that the kitchen dispenses.

    **Arguments:**

    - `probability`: that a cook holds anything.
    """

    probability: Float[Array, ""]

    def __init__(self, probability: float | int = 0.5):
        self.probability = as_probability(probability)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        some_key, item_key, soup_key = jax.random.split(key, 3)
        agents = world.num_agents
        some = jax.random.bernoulli(some_key, self.probability, (agents,))
        items = jnp.asarray([Item.ONION, Item.DISH, Item.SOUP], jnp.uint8)
        item = jax.random.choice(item_key, items, (agents,), p=jnp.asarray([0.6, 0.2, 0.2]))
        item = jnp.where(some, item, jnp.asarray(Item.NOTHING, jnp.uint8))
        soup = _draw_soups(soup_key, layout, (agents,))
        thing = jnp.where(item == Item.SOUP, soup, item)
        bodies = dataclasses.replace(world.bodies, held=thing)
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomPots(AbstractStart):
    """Every pot holds 1 to 3 ingredients with some probability, and then cooks with the same one.

    As in `get_random_start_state_fn` of Overcooked-AI, except that the ingredients are drawn from
    those that the kitchen dispenses and that a soup that cooks may be anywhere between started and
    ready.

    **Arguments:**

    - `probability`: that a pot holds anything, and that what it holds is cooking.
    - `full_only`: only pots of three ingredients may cook (the `classic` dynamics).
    """

    probability: Float[Array, ""]
    full_only: bool = eqx.field(static=True)

    def __init__(self, probability: float | int = 0.5, full_only: bool = True):
        self.probability = as_probability(probability)
        self.full_only = full_only

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        shape = layout.tiles.shape
        some_key, soup_key, cook_key, time_key = jax.random.split(key, 4)
        some = jax.random.bernoulli(some_key, self.probability, shape)
        some &= layout.tiles == Tile.POT
        soup = _draw_soups(soup_key, layout, shape)
        cooks = some & jax.random.bernoulli(cook_key, self.probability, shape)
        if self.full_only:
            cooks &= soup_size(soup) == MAX_INGREDIENTS
        cook_time = look_up(layout.params.cook_time, soup)
        left = jax.random.uniform(time_key, shape) * (cook_time + 1).astype(jnp.float32)
        timer = jnp.where(cooks, left.astype(jnp.int16), jnp.asarray(IDLE, jnp.int16))
        cells = dataclasses.replace(
            world.cells,
            object=jnp.where(some, soup, world.cells.object),
            timer=jnp.where(some, timer, world.cells.clock),
        )
        return dataclasses.replace(world, cells=cells)


def random_starts(probability: float | int, *, full_only: bool = True) -> tuple[AbstractStart, ...]:
    """What starts an episode anywhere: other cells, directions, hands and pots, all at once.

    **Arguments:**

    - `probability`: that an episode is one of these; 0 for none at all.
    - `full_only`: as in `RandomPots`.
    """
    if probability == 0:
        return ()
    pots = RandomPots(full_only=full_only)
    return (
        WithProbability(probability, (RandomPositions(), RandomDirections(), RandomHeld(), pots)),
    )
