"""What the tests of kitchens share: random kitchens and worlds, scripts, and playing them."""

import contextlib
from enum import IntEnum
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from eqgrid.envs.overcooked import Item, Tile, encode, parse_kitchen
from eqgrid.grid import IDLE, AbstractObservation, Cell, World


class Action(IntEnum):
    """The actions of a cook, as numbers."""

    NORTH = 0
    SOUTH = 1
    EAST = 2
    WEST = 3
    STAY = 4
    INTERACT = 5


LETTERS = "NSEW.I"
"""North, south, east, west, stay, interact: what scripts are written in."""


@final
class Blind(AbstractObservation):
    """Nothing to see: for tests of what happens, which then compile fast."""

    def __call__(self, layout, world, steps_left):
        return jnp.zeros((world.num_agents, 1))


@contextlib.contextmanager
def unchecked():
    """Without checked types, as for a user: a wrong argument meets the library's own words."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@contextlib.contextmanager
def refused(words, error=ValueError):
    """Expects an error of one sentence with these words, as a user meets it."""
    with unchecked(), pytest.raises(error, match=words) as refusal:
        yield refusal
    assert "\n" not in str(refusal.value)


def script(*letters):
    """The actions `[steps, agents]` of one script per agent; shorter ones go on staying."""
    steps = max(map(len, letters))
    columns = [[LETTERS.index(letter) for letter in x.ljust(steps, ".")] for x in letters]
    return jnp.asarray(np.asarray(columns).T, jnp.int32)


def play(env, world, actions):
    """Every timestep and every state after it, for `actions` of `[steps, agents]`, as NumPy arrays.

    The actions are filled up to a multiple of 40, so that few lengths are compiled.
    """
    steps = len(actions)
    rest = jnp.full((-steps % 40, env.num_agents), LETTERS.index("."), jnp.int32)
    told = play_compiled(env, world, jnp.concatenate([actions, rest]))
    return jax.tree.map(lambda x: np.asarray(x)[:steps], told)


@eqx.filter_jit
def play_compiled(env, world, actions):
    """The same within a program."""

    def step(world, action):
        timestep, world = env.step(jax.random.key(0), world, action)
        return world, (timestep, world)

    return jax.lax.scan(step, world, actions)[1]


def at_step(tree, step):
    return jax.tree.map(lambda x: jnp.asarray(x[step]), tree)


def assert_equal(ours, theirs):
    """The same structure, shapes, dtypes and values."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for our, their in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert our.dtype == their.dtype
        np.testing.assert_array_equal(our, their)


def random_layout(rng, shape, agents, recipes=None):
    """A kitchen with a closed border, anything inside, and room for its cooks."""
    solid = list("XXXXPPOTDS#")
    text = rng.choice([*" " * 20, *solid], shape)
    border = np.ones(shape, bool)
    border[1:-1, 1:-1] = False
    text[border] = rng.choice(solid, border.sum())
    inside = np.argwhere(~border)
    starts = [tuple(map(int, x)) for x in rng.permutation(inside)[:agents]]
    for start in starts:
        text[start] = " "
    return parse_kitchen("\n".join("".join(row) for row in text), recipes, starts=starts)


def random_world(rng, layout):
    """Any world that this kitchen could be in."""
    fixtures = np.asarray(layout.tiles)
    counter, pot = fixtures == Tile.COUNTER, fixtures == Tile.POT
    soups = rng.integers(0, 4, (*fixtures.shape, 2)).astype(np.uint8)
    soups[..., 1] = np.minimum(soups[..., 1], 3 - soups[..., 0])
    amount = soups.sum(axis=-1)
    item = np.where(
        counter & (rng.random(fixtures.shape) < 0.5), rng.integers(0, 5, counter.shape), 0
    )
    item[(item == Item.SOUP) & (amount == 0)] = Item.DISH
    item[pot & (amount > 0)] = Item.SOUP
    timer = np.where(pot & (amount > 0), rng.integers(-1, 5, pot.shape), IDLE)
    floor = rng.permutation(np.argwhere(fixtures == Tile.FLOOR))[: layout.num_agents]
    held = rng.integers(0, 5, layout.num_agents)
    held_soups = rng.permutation([(3, 0), (1, 0), (0, 1), (2, 1)])
    held_soups = held_soups[rng.integers(0, 4, layout.num_agents)]
    return eqx.tree_at(
        lambda w: (w.cells, w.bodies.position, w.bodies.direction, w.bodies.held),
        layout.start,
        (
            Cell(encode(item, soups), jnp.asarray(timer, jnp.int16)),
            jnp.asarray(floor, jnp.int8),
            jnp.asarray(rng.integers(0, 4, layout.num_agents), jnp.int8),
            encode(held, held_soups),
        ),
    )


def random_actions(rng, steps, agents):
    """Noisy, with many interactions."""
    return jnp.asarray(
        rng.choice(6, (steps, agents), p=[0.13, 0.13, 0.13, 0.13, 0.08, 0.4]), jnp.int32
    )


def stack(trees):
    return jax.tree.map(lambda *xs: jnp.stack(xs), *trees)


def holds(item, contents=(0, 0)):
    return encode(jnp.asarray(item, jnp.uint8), jnp.asarray(contents, jnp.uint8))


def lies(item, contents=(0, 0), timer=IDLE):
    return Cell(
        encode(jnp.asarray(item, jnp.uint8), jnp.asarray(contents, jnp.uint8)),
        jnp.asarray(timer, jnp.int16),
    )


def put(world, where, cell):
    """`world` with one cell replaced."""
    cells = jax.tree.map(lambda x, new: x.at[where].set(new), world.cells, cell)
    return World(cells, world.bodies, world.time)


def give(world, agent, hand):
    """`world` with something in one agent's hand."""
    held = jax.tree.map(lambda x, new: x.at[agent].set(new), world.bodies.held, hand)
    return eqx.tree_at(lambda w: w.bodies.held, world, held)


def place(world, positions, headings):
    """`world` with the agents elsewhere."""
    return eqx.tree_at(
        lambda w: (w.bodies.position, w.bodies.direction),
        world,
        (jnp.asarray(positions, jnp.int8), jnp.asarray(headings, jnp.int8)),
    )
