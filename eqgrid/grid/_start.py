"""How an episode starts: a tuple of small changes to the layout's own start."""

import abc
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from ._layout import Layout
from ._recipes import look_up
from ._world import (
    IDLE,
    MAX_INGREDIENTS,
    Cell,
    Fixture,
    Hand,
    Heading,
    Item,
    World,
    as_thing,
    soup_size,
)


class AbstractStart(eqx.Module):
    """Draws one thing about the start of an episode; another distribution is one more Module."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        """The world with that one thing drawn anew."""


def apply_starts(
    starts: tuple[AbstractStart, ...], key: PRNGKeyArray, layout: Layout, world: World
) -> World:
    """Applies every start in order, each with a key of its own."""
    for i, start in enumerate(starts):
        world = start(jax.random.fold_in(key, i), layout, world)
    return world


@final
class Sometimes(AbstractStart):
    """Applies other starts in some episodes, and leaves the rest as they are.

    **Arguments:**

    - `probability`: that an episode is changed.
    - `starts`: what is then applied, in this order.
    """

    probability: Float[Array, ""]
    starts: tuple[AbstractStart, ...]

    def __init__(self, probability: int | float, starts: tuple[AbstractStart, ...]):
        self.probability = _probability(probability)
        self.starts = starts

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        changes_key, starts_key = jax.random.split(key)
        changes = jax.random.bernoulli(changes_key, self.probability)
        changed = apply_starts(self.starts, starts_key, layout, world)
        return jax.tree.map(lambda new, old: jnp.where(changes, new, old), changed, world)


@final
class RandomCells(AbstractStart):
    """Every cook starts in a free cell, uniformly among all ways to place them."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        height, width = layout.fixtures.shape
        floor = (layout.fixtures == Fixture.FLOOR).reshape(-1)
        score = jnp.where(floor, jax.random.uniform(key, (height * width,)), -1.0)
        _, cells = jax.lax.top_k(score, world.num_agents)
        position = jnp.stack(jnp.divmod(cells, width), axis=-1).astype(jnp.int8)
        return eqx.tree_at(lambda w: w.bodies.position, world, position)


@final
class RandomHeadings(AbstractStart):
    """Every cook faces one of the four directions, uniformly."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        heading = jax.random.randint(key, (world.num_agents,), 0, len(Heading), jnp.int8)
        return eqx.tree_at(lambda w: w.bodies.heading, world, heading)


def _draw_soups(
    key: PRNGKeyArray, layout: Layout, shape: tuple[int, ...]
) -> UInt8[Array, "*places"]:
    """Soups of 1 to 3 ingredients that the kitchen dispenses, as things."""
    number = math.prod(shape)
    size_key, kind_key = jax.random.split(key)
    size = jax.random.randint(size_key, (number, 1), 1, MAX_INGREDIENTS + 1)
    has_onions = (layout.fixtures == Fixture.ONION_DISPENSER).any()
    has_tomatoes = (layout.fixtures == Fixture.TOMATO_DISPENSER).any()
    share = jnp.where(has_tomatoes, jnp.where(has_onions, 0.5, 1.0), 0.0)
    tomato = jax.random.bernoulli(kind_key, share, (number, MAX_INGREDIENTS))
    used = jnp.arange(MAX_INGREDIENTS)[None, :] < size
    tomatoes = (tomato & used).sum(axis=1, dtype=jnp.uint8)
    contents = jnp.stack([size[:, 0].astype(jnp.uint8) - tomatoes, tomatoes], axis=-1)
    return as_thing(Item.SOUP, contents).reshape(shape)


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
        self.probability = _probability(probability)

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        some_key, item_key, soup_key = jax.random.split(key, 3)
        agents = world.num_agents
        some = jax.random.bernoulli(some_key, self.probability, (agents,))
        items = jnp.asarray([Item.ONION, Item.DISH, Item.SOUP], jnp.uint8)
        item = jax.random.choice(item_key, items, (agents,), p=jnp.asarray([0.6, 0.2, 0.2]))
        item = jnp.where(some, item, jnp.asarray(Item.NOTHING, jnp.uint8))
        soup = _draw_soups(soup_key, layout, (agents,))
        thing = jnp.where(item == Item.SOUP, soup, item)
        return eqx.tree_at(lambda w: w.bodies.held, world, Hand(thing))


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
        self.probability = _probability(probability)
        self.full_only = full_only

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        shape = layout.fixtures.shape
        some_key, soup_key, cook_key, time_key = jax.random.split(key, 4)
        some = jax.random.bernoulli(some_key, self.probability, shape)
        some &= layout.fixtures == Fixture.POT
        soup = _draw_soups(soup_key, layout, shape)
        cooks = some & jax.random.bernoulli(cook_key, self.probability, shape)
        if self.full_only:
            cooks &= soup_size(soup) == MAX_INGREDIENTS
        cook_time = look_up(layout.recipes.cook_time, soup)
        left = jax.random.uniform(time_key, shape) * (cook_time + 1).astype(jnp.float32)
        timer = jnp.where(cooks, left.astype(jnp.int16), jnp.asarray(IDLE, jnp.int16))
        cells = Cell(
            thing=jnp.where(some, soup, world.cells.thing),
            timer=jnp.where(some, timer, world.cells.timer),
        )
        return World(cells, world.bodies, world.time)


def random_starts(probability: float | int, *, full_only: bool = True) -> tuple[AbstractStart, ...]:
    """What starts an episode anywhere: other cells, headings, hands and pots, all at once.

    **Arguments:**

    - `probability`: that an episode is one of these; 0 for none at all.
    - `full_only`: as in `RandomPots`.
    """
    if probability == 0:
        return ()
    pots = RandomPots(full_only=full_only)
    return (Sometimes(probability, (RandomCells(), RandomHeadings(), RandomHeld(), pots)),)


def _probability(probability: float | int) -> Float[Array, ""]:
    if not 0 <= probability <= 1:
        raise ValueError(f"A probability is between 0 and 1, not {probability}.")
    return jnp.asarray(probability, float)
