"""Random initial states of Overcooked."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Real, UInt8

from ..._checks import as_probability
from ..._functions import sample_uniform
from ...grid import (
    IDLE,
    AbstractStart,
    Layout,
    RandomDirections,
    RandomPositions,
    WithProbability,
    World,
)
from ._contents import MAX_INGREDIENTS, Item, Tile, encode, look_up, soup_size

_INGREDIENT_SHARE = 0.75  # among items that are not soups; the rest are dishes
_SOUP_SHARE = 0.5  # among the items that cooks hold in `random_starts`
_NUMBERS_PER_SOUP = 1 + MAX_INGREDIENTS  # random numbers for the size and each ingredient


@final
class RandomHeld(AbstractStart):
    """Gives each cook an item with some probability: a soup, or otherwise an onion (75%) or a dish
    (25%).

    The default shares are as in `get_random_start_state_fn` in Overcooked-AI: 60% onions, 20%
    dishes, 20% soups. A soup has 1 to 3 ingredients, sampled from the ingredients that the kitchen
    dispenses.

    **Arguments:**

    - `probability`: the probability that a cook holds an item.
    - `soups`: the share of soups among held items.
    """

    probability: Float[Array, ""]
    soups: Float[Array, ""]

    def __init__(self, probability: Real[ArrayLike, ""] = 0.5, soups: Real[ArrayLike, ""] = 0.2):
        self.probability = as_probability(probability)
        self.soups = as_probability(soups)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        # One call samples all random numbers, since each call adds a third of a second of compile
        # time.
        some, kind, *soup = sample_uniform(key, (2 + _NUMBERS_PER_SOUP, world.num_agents))
        items = jnp.asarray([Item.ONION, Item.DISH], jnp.uint8)
        simple = items[(kind >= _INGREDIENT_SHARE * (1 - self.soups)).astype(jnp.int32)]
        held = jnp.where(kind < 1 - self.soups, simple, _random_soups(jnp.stack(soup), layout))
        held = jnp.where(some < self.probability, held, jnp.asarray(Item.NOTHING, jnp.uint8))
        bodies = dataclasses.replace(world.bodies, held=held)
        return dataclasses.replace(world, bodies=bodies)


@final
class RandomPots(AbstractStart):
    """Fills each pot with 1 to 3 ingredients with some probability, and starts each filled pot with
    the same probability.

    This follows `get_random_start_state_fn` of Overcooked-AI, with two differences: only
    ingredients that the kitchen dispenses are sampled, and the remaining time of a started soup is
    uniform.

    **Arguments:**

    - `probability`: the probability that a pot is filled, and that a filled pot is cooking.
    - `full_only`: whether only pots with three ingredients may cook, as in the `classic` dynamics.
    """

    probability: Float[Array, ""]
    full_only: bool = eqx.field(static=True)

    def __init__(self, probability: Real[ArrayLike, ""] = 0.5, full_only: bool = True):
        self.probability = as_probability(probability)
        self.full_only = full_only

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        shape = layout.tiles.shape
        some, start, time, *soup = sample_uniform(key, (3 + _NUMBERS_PER_SOUP, *shape))
        is_filled = (some < self.probability) & (layout.tiles == Tile.POT)
        soup = _random_soups(jnp.stack(soup), layout)
        is_started = is_filled & (start < self.probability)
        if self.full_only:
            is_started &= soup_size(soup) == MAX_INGREDIENTS
        cook_time = look_up(layout.params.cook_time, soup)
        left = time * (cook_time + 1).astype(jnp.float32)
        timer = jnp.where(is_started, left.astype(jnp.int16), jnp.asarray(IDLE, jnp.int16))
        cells = dataclasses.replace(
            world.cells,
            object=jnp.where(is_filled, soup, world.cells.object),
            timer=jnp.where(is_filled, timer, world.cells.clock),
        )
        return dataclasses.replace(world, cells=cells)


@final
class RandomCounters(AbstractStart):
    """Puts an item with some probability on each empty counter between two floor cells: an
    ingredient that the kitchen dispenses (75%), or a dish (25%).

    Cooks can hand items over on such counters. If items already lie there, a cook can learn to pick
    them up before another cook has learned to put them down.

    **Arguments:**

    - `probability`: the probability that such a counter gets an item.
    """

    probability: Float[Array, ""]

    def __init__(self, probability: Real[ArrayLike, ""] = 0.4):
        self.probability = as_probability(probability)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        some, kind, which = sample_uniform(key, (3, *layout.tiles.shape))
        floor = jnp.pad(layout.tiles == Tile.FLOOR, 1)
        between = (floor[:-2, 1:-1] & floor[2:, 1:-1]) | (floor[1:-1, :-2] & floor[1:-1, 2:])
        empty = (layout.tiles == Tile.COUNTER) & (world.cells.object == Item.NOTHING)
        items = jnp.asarray([Item.ONION, Item.TOMATO], jnp.uint8)
        ingredient = items[(which < _tomato_share(layout)).astype(jnp.int32)]
        item = jnp.where(kind < _INGREDIENT_SHARE, ingredient, jnp.asarray(Item.DISH, jnp.uint8))
        chosen = between & empty & (some < self.probability)
        objects = jnp.where(chosen, item, world.cells.object)
        return dataclasses.replace(world, cells=dataclasses.replace(world.cells, object=objects))


def random_starts(
    probability: Real[ArrayLike, ""], *, full_only: bool = True, counters: Real[ArrayLike, ""] = 0
) -> tuple[AbstractStart, ...]:
    """Initializers for random positions, directions, held items, pots and, optionally, items on
    counters. Each episode has either all of them or none.

    Half of the held items are soups, so that cooks learn early that deliveries are rewarded.

    **Arguments:**

    - `probability`: the share of episodes with a random initial state; 0 for none.
    - `full_only`: as in `RandomPots`.
    - `counters`: the probability in `RandomCounters`; 0 for no items on counters.
    """
    if probability == 0:
        return ()
    starts = (
        RandomPositions(),
        RandomDirections(),
        RandomHeld(soups=_SOUP_SHARE),
        RandomPots(full_only=full_only),
        *((RandomCounters(counters),) if counters else ()),
    )
    return (WithProbability(probability, starts),)


def _random_soups(
    uniform: Float[Array, "numbers *places"], layout: Layout
) -> UInt8[Array, "*places"]:
    """Random soups of 1 to 3 ingredients that the kitchen dispenses, as codes.

    **Arguments:**

    - `uniform`: `_NUMBERS_PER_SOUP` uniform random numbers in [0, 1) for each soup.
    - `layout`: the kitchen.
    """
    size = 1 + jnp.floor(uniform[0] * MAX_INGREDIENTS).astype(jnp.uint8)
    used = jnp.stack([i < size for i in range(MAX_INGREDIENTS)])
    tomatoes = (used & (uniform[1:] < _tomato_share(layout))).sum(axis=0, dtype=jnp.uint8)
    return encode(Item.SOUP, jnp.stack([size - tomatoes, tomatoes], axis=-1))


def _tomato_share(layout: Layout) -> Float[Array, ""]:
    """The share of tomatoes among the ingredients that the kitchen dispenses."""
    has_onions = (layout.tiles == Tile.ONION_DISPENSER).any()
    has_tomatoes = (layout.tiles == Tile.TOMATO_DISPENSER).any()
    return jnp.where(has_tomatoes, jnp.where(has_onions, 0.5, 1.0), 0.0)
