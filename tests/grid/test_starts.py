"""Random starts: what they may be, that all of it happens, and that keys decide."""

import equinox as eqx
import jax
import numpy as np
import pytest
from chances import check_counts
from kitchen_checks import Blind, assert_equal, lies, put

from eqgrid.envs.overcooked import (
    Item,
    Overcooked,
    RandomCounters,
    RandomHeld,
    RandomPots,
    Recipes,
    Tile,
    item_of,
    parse_kitchen,
    soup_contents,
)
from eqgrid.grid import IDLE, RandomDirections, RandomPositions, WithProbability

KITCHEN = "XXPPXXX\nO  2  T\nX1    X\nX   XXX\nXDXSXXX"
RESETS = 1024


@eqx.filter_jit
def reset_many(env, keys):
    return eqx.filter_vmap(env.reset)(keys)[1]


def draw(starts, text=KITCHEN, seed=0):
    """Many first worlds, and the kitchen."""
    layout = parse_kitchen(text, Recipes(cook_times=6))
    env = Overcooked(layout, observation=Blind(), starts=starts)
    worlds = reset_many(env, jax.random.split(jax.random.key(seed), RESETS))
    return jax.tree.map(np.asarray, worlds), layout


def test_cells_are_free_distinct_and_uniform():
    drawn = [draw((RandomPositions(),), seed=seed) for seed in range(4)]
    floor = np.asarray(drawn[0][1].tiles) == Tile.FLOOR
    numbers = np.cumsum(floor).reshape(floor.shape) - 1
    rows, cols = np.moveaxis(np.concatenate([x.bodies.position for x, _ in drawn]), -1, 0)
    assert floor[rows, cols].all()
    check_counts(1 - np.eye(floor.sum()), *numbers[rows, cols].T)


def test_headings_are_uniform_and_independent():
    worlds, _ = draw((RandomDirections(),))
    check_counts(np.ones((4, 4)), *worlds.bodies.direction.T)


@pytest.mark.parametrize("probability", [0, 0.3, 1])
def test_hands_are_full_with_the_given_probability(probability):
    worlds, _ = draw((RandomHeld(probability),))
    held = worlds.bodies.held
    assert abs(np.mean(item_of(held) != Item.NOTHING) - probability) < 0.04
    assert set(np.unique(item_of(held))) <= {Item.NOTHING, Item.ONION, Item.DISH, Item.SOUP}
    amount = soup_contents(held).sum(axis=-1)
    assert ((amount > 0) == (item_of(held) == Item.SOUP)).all()
    if probability == 1:
        assert abs(np.mean(item_of(held) == Item.ONION) - 0.6) < 0.05
        assert abs(np.mean(item_of(held) == Item.DISH) - 0.2) < 0.04
        assert set(np.unique(amount)) == {0, 1, 2, 3}


@pytest.mark.parametrize("soups", [0, 0.5, 1])
def test_as_many_soups_are_held_as_was_asked_for(soups):
    worlds, _ = draw((RandomHeld(1, soups=soups),))
    item = item_of(worlds.bodies.held)
    for kind, share in ((Item.SOUP, soups), (Item.ONION, 0.75 * (1 - soups))):
        assert abs(np.mean(item == kind) - share) < 0.05
    assert (item != Item.NOTHING).all()


def test_things_lie_on_counters_between_two_cells_of_floor():
    text = "XXPPXXX\nO1    T\nX XXX X\nX  2  X\nXDXSXXX"
    worlds, layout = draw((RandomCounters(0.3),), text=text)
    tiles, item = np.asarray(layout.tiles), item_of(worlds.cells.object)
    floor = {(int(row), int(col)) for row, col in np.argwhere(tiles == Tile.FLOOR)}
    between = {
        (row, col)
        for row, col in np.argwhere(tiles == Tile.COUNTER).tolist()
        if {(row - 1, col), (row + 1, col)} <= floor or {(row, col - 1), (row, col + 1)} <= floor
    }
    assert between == {(2, 2), (2, 3), (2, 4)}
    for cell in np.ndindex(*tiles.shape):
        share = np.mean(item[:, *cell] != Item.NOTHING)
        assert abs(share - 0.3) < 0.06 if cell in between else share == 0
    things = item[item != Item.NOTHING]
    assert abs(np.mean(things == Item.DISH) - 0.25) < 0.06
    assert abs(np.mean(things == Item.TOMATO) - 0.375) < 0.06
    assert set(np.unique(things)) == {Item.ONION, Item.TOMATO, Item.DISH}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "kinds"),
    [(KITCHEN, {0, 1}), (KITCHEN.replace("T", "X"), {0}), (KITCHEN.replace("O", "X"), {1})],
)
def test_soups_are_made_of_what_the_kitchen_dispenses(text, kinds):
    worlds, _ = draw((RandomHeld(1), RandomPots(1)), text=text)
    for contents in (soup_contents(worlds.bodies.held), soup_contents(worlds.cells.object)):
        assert {k for k in (0, 1) if contents[..., k].any()} == kinds


@pytest.mark.slow
@pytest.mark.parametrize("full_only", [True, False])
def test_pots_hold_and_cook_what_they_may(full_only):
    worlds, layout = draw((RandomPots(0.5, full_only=full_only),))
    pot = np.asarray(layout.tiles) == Tile.POT
    amount, timer = soup_contents(worlds.cells.object).sum(axis=-1), worlds.cells.timer
    assert (item_of(worlds.cells.object)[:, ~pot] == Item.NOTHING).all()
    assert (timer[:, ~pot] == IDLE).all()
    assert ((amount > 0) == (item_of(worlds.cells.object) == Item.SOUP)).all()
    assert abs(np.mean(amount[:, pot] > 0) - 0.5) < 0.04
    assert set(np.unique(amount[:, pot])) == {0, 1, 2, 3}
    cooking = timer[:, pot] != IDLE
    assert set(np.unique(amount[:, pot][cooking])) == ({3} if full_only else {1, 2, 3})
    assert set(np.unique(timer[:, pot][cooking])) == set(range(7))
    full = amount[:, pot] == 3
    assert abs(np.mean(cooking[full]) - 0.5) < 0.08


def test_pots_that_are_not_drawn_keep_their_soup():
    layout = parse_kitchen(KITCHEN)
    world = put(layout.start, (0, 2), lies(Item.SOUP, (3, 0), 5))
    assert_equal(RandomPots(0.0)(jax.random.key(0), layout, world), world)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0, 0.3, 1])
def test_sometimes_changes_an_episode_altogether_or_not_at_all(probability):
    worlds, layout = draw((WithProbability(probability, (RandomHeld(1), RandomPots(1))),))
    pot = np.asarray(layout.tiles) == Tile.POT
    held = (item_of(worlds.bodies.held) != Item.NOTHING).all(axis=-1)
    filled = (item_of(worlds.cells.object)[:, pot] != Item.NOTHING).all(axis=-1)
    assert (held == filled).all()
    assert abs(np.mean(held) - probability) < 0.05
    for i in np.flatnonzero(~held)[:5]:
        world = jax.tree.map(lambda x, i=i: x[i], worlds)
        assert_equal(world, jax.tree.map(np.asarray, layout.start))


def test_two_of_a_kind_draw_independently():
    """Each start has a key of its own, also beside one of its own kind."""
    worlds, _ = draw((RandomDirections(),))
    again, _ = draw((RandomDirections(), RandomDirections()))
    assert (worlds.bodies.direction != again.bodies.direction).any()
