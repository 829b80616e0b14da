"""What a world is made of: cells, bodies and the time.

A grid is a vmapped cell: write a rule for one cell, one hand or one body, and map it. What never
changes during an episode (where the counters and pots stand) is no state: it lives in `Layout`.
"""

from enum import IntEnum
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int, Int8, Int16, Int32, PyTree, Shaped, UInt8


class Fixture(IntEnum):
    """What is built into a cell. `WALL` is solid and does nothing: it pads a kitchen.

    The 26 planes know these, and no other number may stand in a layout; so it is with `Item`.
    """

    FLOOR = 0
    COUNTER = 1
    POT = 2
    ONION_DISPENSER = 3
    TOMATO_DISPENSER = 4
    DISH_DISPENSER = 5
    SERVING = 6
    WALL = 7


class Item(IntEnum):
    """What lies in a cell or in a hand. A pot that holds any ingredient holds a `SOUP`.

    A soup is more than its kind. So a state keeps one number, a *thing*, for what lies somewhere:
    the `Item`, to which a soup adds its contents; see `as_thing`.
    """

    NOTHING = 0
    ONION = 1
    TOMATO = 2
    DISH = 3
    SOUP = 4


class Ingredient(IntEnum):
    """The position of an ingredient in `contents`, which says how many of each are in a soup."""

    ONION = 0
    TOMATO = 1


class Heading(IntEnum):
    """Where a body faces; also the four move actions."""

    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3


class Action(IntEnum):
    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3
    STAY = 4
    INTERACT = 5


IDLE = -1
"""The timer of a cell in which nothing has started to cook."""


MAX_INGREDIENTS = 3
"""How many ingredients a soup has at most."""

_SOUP, _BASE = np.uint8(Item.SOUP), np.uint8(MAX_INGREDIENTS + 1)

DIGIT = {Ingredient.ONION: _BASE, Ingredient.TOMATO: np.uint8(1)}
"""What one ingredient adds to the thing that a soup is: contents are the digits of a number."""


def as_thing(
    item: Shaped[ArrayLike, "*#things"], contents: Shaped[ArrayLike, "*#things ingredients"]
) -> UInt8[Array, "*things"]:
    """The number of a thing: its `Item`, to which a soup adds `4 * onions + tomatoes`.

    **Arguments:**

    - `item`: an `Item` for each, or one for all.
    - `contents`: how many of each `Ingredient` are in it, at most 3; only read for a `SOUP`.
    """
    item, contents = jnp.asarray(item, jnp.uint8), jnp.asarray(contents, jnp.uint8)
    soup = sum((contents[..., i] * digit for i, digit in DIGIT.items()), start=item)
    return jnp.where(item == _SOUP, soup, item)


def soup_index(thing: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """The contents of a soup as one number, 0 for everything else. It is the flat index of a soup
    in the tables of `Recipes`.
    """
    return jnp.maximum(thing, _SOUP) - _SOUP


def soup_size(thing: UInt8[Array, "*things"]) -> UInt8[Array, "*things"]:
    """How many ingredients are in a soup; 0 for everything else."""
    index = soup_index(thing)
    return index // _BASE + index % _BASE


def read_things(
    thing: Shaped[ArrayLike, "*things"],
) -> tuple[
    Shaped[np.ndarray | np.generic, "*things"],
    Shaped[np.ndarray | np.generic, "*things"],
    Shaped[np.ndarray | np.generic, "*things"],
]:
    """The items, onions and tomatoes of things, without jax: for tables and pictures."""
    thing = np.asarray(thing)
    item = np.minimum(thing, Item.SOUP)
    return item, *np.divmod(thing - item, MAX_INGREDIENTS + 1)


class AbstractHolder(eqx.Module):
    """Something that holds a thing."""

    thing: eqx.AbstractVar[UInt8[Array, "*holders"]]

    @property
    def item(self) -> UInt8[Array, "*holders"]:
        """The `Item` of `thing`."""
        return jnp.minimum(self.thing, _SOUP)

    @property
    def contents(self) -> UInt8[Array, "*holders ingredients"]:
        """How many of each `Ingredient` a soup is made of, else zeros."""
        index = soup_index(jnp.asarray(self.thing))
        return jnp.stack([index // _BASE, index % _BASE], axis=-1)


@final
class Hand(AbstractHolder):
    """What one body holds.

    - `thing`: an `Item`, to which a soup adds its contents; see `as_thing`.
    """

    thing: UInt8[Array, "*bodies"]


@final
class Cell(AbstractHolder):
    """What one cell holds.

    - `thing`: an `Item`, to which a soup adds its contents; see `as_thing`.
    - `timer`: steps until the soup in this pot is ready: `IDLE` before it is started, 0 when ready.
        Everything that is no pot is `IDLE`.
    """

    thing: UInt8[Array, "*grid"]
    timer: Int16[Array, "*grid"]


@final
class Bodies(eqx.Module):
    """Where the agents are, as `(row, col)` with row 0 at the top, and their `Heading`s."""

    position: Int8[Array, "agents 2"]
    heading: Int8[Array, " agents"]
    held: Hand


@final
class World(eqx.Module):
    """The whole state of an episode; `time` counts steps since the reset."""

    cells: Cell
    bodies: Bodies
    time: Int32[Array, ""]

    @property
    def num_agents(self) -> int:
        return self.bodies.heading.shape[-1]


def heading_delta(heading: Int8[Array, "*bodies"]) -> Int8[Array, "*bodies 2"]:
    """One step `(row, col)` in the direction of a heading, and none for what is no heading."""
    down = (heading == Heading.SOUTH).astype(jnp.int8) - (heading == Heading.NORTH).astype(jnp.int8)
    right = (heading == Heading.EAST).astype(jnp.int8) - (heading == Heading.WEST).astype(jnp.int8)
    return jnp.stack([down, right], axis=-1)


def get_cell(grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"]) -> PyTree:
    """The cell at `position` of every array in `grid`."""
    return jax.tree.map(lambda x: x[position[0], position[1]], grid)


def set_cell(
    grid: PyTree[Shaped[Array, "height width ..."]], position: Int[Array, "2"], cell: PyTree
) -> PyTree[Shaped[Array, "height width ..."]]:
    """`grid` with the cell at `position` replaced, in every array."""
    return jax.tree.map(lambda x, new: x.at[position[0], position[1]].set(new), grid, cell)
