"""The reference's features without the reference: `tests/parity` compares them with it."""

from collections import deque

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import give, holds, lies, place, put, random_layout, stack, unchecked

from eqgrid.envs.overcooked import KITCHENS, Item, Overcooked, Tile, load_layout, parse_kitchen
from eqgrid.envs.overcooked.reference import ReferenceFeatures
from eqgrid.grid import Direction

STEPS = [(-1, 0), (1, 0), (0, 1), (0, -1)]
KINDS = (Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER, Tile.DISH_DISPENSER, Tile.SERVING)
LATER = jnp.asarray(0, jnp.int32)
CRAMPED = load_layout("cramped")


def see(layout, world, features=None):
    features = ReferenceFeatures(layout) if features is None else features
    return np.asarray(eqx.filter_jit(features)(layout, world, LATER))


def costs(tiles, position, direction):
    """Moves and turns until each tile that is no floor is faced, by a search over everything that
    a cook can do; those that cannot be faced are left out."""
    start = (*position, direction)
    found, queue, faced = {start: 0}, deque([start]), {}
    while queue:
        state = queue.popleft()
        row, col, facing = state
        ahead = (row + STEPS[facing][0], col + STEPS[facing][1])
        if tiles[ahead] != Tile.FLOOR:
            faced.setdefault(ahead, found[state])
        for action, (down, right) in enumerate(STEPS):
            there = (row + down, col + right)
            after = (*(there if tiles[there] == Tile.FLOOR else (row, col)), action)
            if after not in found:
                found[after] = found[state] + 1
                queue.append(after)
    return faced


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_nearest_is_what_a_search_finds(seed, num_pots):
    layout = random_layout(np.random.default_rng(seed), (6, 7), 2)
    tiles = np.asarray(layout.tiles)
    nearest = np.asarray(ReferenceFeatures(layout, num_pots).nearest)
    wanted = [*((kind, 0) for kind in KINDS), *((Tile.POT, k) for k in range(num_pots))]
    for row, col in np.argwhere(tiles == Tile.FLOOR):
        for direction in Direction:
            faced = costs(tiles, (row, col), direction)
            for i, (kind, rank) in enumerate(wanted):
                order = sorted((cost, at) for at, cost in faced.items() if tiles[at] == kind)
                expected = order[rank][1] if rank < len(order) else (-1, -1)
                assert tuple(nearest[row, col, direction, i]) == expected


@pytest.mark.slow
def test_every_number_of_a_cook():
    """The first cook holds a soup and sees a pot that cooks; the second one holds a dish.

    XXPXX
    O   O
    X   X
    XDXSX
    """
    world = place(CRAMPED.start, [(2, 1), (1, 3)], [Direction.WEST, Direction.NORTH])
    world = give(give(world, 0, holds(Item.SOUP, (2, 1))), 1, holds(Item.DISH))
    world = put(world, (0, 2), lies(Item.SOUP, (3, 0), timer=7))
    no_pot = [0] * 10
    first = [0, 0, 0, 1, 0, 1, 0, 0, -1, -1, 0, 0, 0, 1, 0, 0, 2, 1, 2, 1, 0, 0]
    first += [1, 0, 1, 1, 0, 3, 0, 7, 1, -2, *no_pot, 0, 1, 0, 1]
    second = [1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]
    second += [1, 0, 1, 1, 0, 3, 0, 7, -1, -1, *no_pot, 1, 0, 1, 0]
    expected = [[*first, *second, 2, -1, 1, 2], [*second, *first, -2, 1, 3, 1]]
    np.testing.assert_array_equal(
        see(CRAMPED, world), np.asarray(expected, np.float32), strict=True
    )


@pytest.mark.parametrize(
    ("contents", "timer", "expected"),
    [
        ((1, 0), -1, [1, 0, 0, 0, 0, 1, 0, 0]),
        ((1, 2), -1, [1, 0, 1, 0, 0, 1, 2, 0]),
        ((0, 1), 5, [1, 0, 1, 1, 0, 0, 1, 5]),
        ((2, 0), 0, [1, 0, 1, 0, 1, 2, 0, 0]),
    ],
)
def test_what_a_pot_says(contents, timer, expected):
    world = put(CRAMPED.start, (0, 2), lies(Item.SOUP, contents, timer=timer))
    assert see(CRAMPED, world)[0, 22:30].tolist() == expected
    assert see(CRAMPED, CRAMPED.start)[0, 22:30].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(5, 9), (6, 10)])
def test_a_table_of_another_layout_does_no_harm(size):
    """As when layouts are drawn, and the module is that of another one."""
    features = ReferenceFeatures(load_layout("ring").pad(5, 9), num_pots=3)
    layout = load_layout("forced").pad(*size)
    own = see(layout, layout.start, ReferenceFeatures(layout, num_pots=3))
    np.testing.assert_array_equal(see(layout, layout.start, features), own)
    padded = [load_layout(name).pad(*size) for name in KITCHENS]
    look = jax.vmap(lambda layout: features(layout, layout.start, LATER))
    each = [see(x, x.start, ReferenceFeatures(x, num_pots=3)) for x in padded]
    np.testing.assert_array_equal(
        look(stack([eqx.tree_at(_params, x, None) for x in padded])), each
    )


def _params(layout):
    return layout.params


@pytest.mark.slow
def test_three_cooks():
    layout = parse_kitchen("XXPXX\nO1 2O\nX 3 X\nXDXSX")
    seen = see(layout, layout.start)
    assert seen.shape == (3, 3 * 48)
    own = seen[:, :46]
    np.testing.assert_array_equal(seen[1], [*own[1], *own[0], *own[2], -2, 0, -1, 1, 3, 1])
    env = Overcooked(layout, observation="features96")
    np.testing.assert_array_equal(env.observe(layout.start), seen)


def test_refuses_what_the_reference_cannot_do():
    with pytest.raises(ValueError, match="for two cooks or more"):
        Overcooked("XXPXX\nO1  O\nX   X\nXDXSX", observation="features96")
    with pytest.raises(ValueError, match="at least 1 pot"):
        ReferenceFeatures(CRAMPED, num_pots=0)
    with unchecked(), pytest.raises(ValueError, match="choose features96, timed_features, planes"):
        Overcooked(observation="features95")
