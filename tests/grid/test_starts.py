"""Random starts: what they may be, that all of it happens, and that keys decide."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import Blind, assert_equal

from eqgrid.envs.overcooked import (
    Item,
    Overcooked,
    RandomCounters,
    RandomHeld,
    RandomPots,
    Recipes,
    Tile,
    encode,
    item_of,
    parse_kitchen,
    soup_contents,
)
from eqgrid.grid import (
    IDLE,
    Cell,
    Direction,
    RandomDirections,
    RandomPositions,
    WithProbability,
    World,
)

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


def fraction(x):
    return np.mean(x)


def test_nothing_is_random_by_default():
    worlds, layout = draw(())
    assert_equal(jax.tree.map(lambda x: x[2], worlds), jax.tree.map(np.asarray, layout.start))


def test_cells_are_free_distinct_and_uniform():
    drawn = [draw((RandomPositions(),), seed=seed) for seed in range(4)]
    fixtures = np.asarray(drawn[0][1].tiles)
    places = np.concatenate([worlds.bodies.position for worlds, _ in drawn])
    assert (fixtures[places[..., 0], places[..., 1]] == Tile.FLOOR).all()
    assert (places[:, 0] != places[:, 1]).any(axis=-1).all()
    floor = int((fixtures == Tile.FLOOR).sum())
    pairs, counts = np.unique(places.reshape(-1, 4), axis=0, return_counts=True)
    assert len(pairs) == floor * (floor - 1)
    expected = len(places) / len(pairs)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    freedom = len(pairs) - 1
    assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom)


def test_twelve_cooks_find_twelve_cells():
    text = "\n".join(["X" * 6, *["X    X"] * 3, "X" * 6])
    starts = [(row, col) for row in range(1, 4) for col in range(1, 5)]
    layout = parse_kitchen(text, starts=starts)
    env = Overcooked(layout, observation=Blind(), starts=(RandomPositions(),))
    _, world = env.reset(jax.random.key(3))
    assert {tuple(p) for p in world.bodies.position.tolist()} == set(starts)
    assert [tuple(p) for p in world.bodies.position.tolist()] != starts


def test_headings_are_uniform_and_independent():
    worlds, _ = draw((RandomDirections(),))
    pairs, counts = np.unique(worlds.bodies.direction, axis=0, return_counts=True)
    assert len(pairs) == len(Direction) ** 2
    assert counts.min() > 0.7 * RESETS / 16
    assert counts.max() < 1.4 * RESETS / 16


@pytest.mark.parametrize("probability", [0, 0.3, 1])
def test_hands_are_full_with_the_given_probability(probability):
    worlds, _ = draw((RandomHeld(probability),))
    held = worlds.bodies.held
    assert abs(fraction(item_of(held) != Item.NOTHING) - probability) < 0.04
    assert set(np.unique(item_of(held))) <= {Item.NOTHING, Item.ONION, Item.DISH, Item.SOUP}
    amount = soup_contents(held).sum(axis=-1)
    assert ((amount > 0) == (item_of(held) == Item.SOUP)).all()
    if probability == 1:
        assert abs(fraction(item_of(held) == Item.ONION) - 0.6) < 0.05
        assert abs(fraction(item_of(held) == Item.DISH) - 0.2) < 0.04
        assert set(np.unique(amount)) == {0, 1, 2, 3}


@pytest.mark.parametrize("soups", [0, 0.5, 1])
def test_as_many_soups_are_held_as_was_asked_for(soups):
    worlds, _ = draw((RandomHeld(1, soups=soups),))
    item = item_of(worlds.bodies.held)
    for kind, share in ((Item.SOUP, soups), (Item.ONION, 0.75 * (1 - soups))):
        assert abs(fraction(item == kind) - share) < 0.05
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
        share = fraction(item[:, *cell] != Item.NOTHING)
        assert abs(share - 0.3) < 0.06 if cell in between else share == 0
    things = item[item != Item.NOTHING]
    assert abs(fraction(things == Item.DISH) - 0.25) < 0.06
    assert abs(fraction(things == Item.TOMATO) - 0.375) < 0.06
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
    assert abs(fraction(amount[:, pot] > 0) - 0.5) < 0.04
    assert set(np.unique(amount[:, pot])) == {0, 1, 2, 3}
    cooking = timer[:, pot] != IDLE
    assert set(np.unique(amount[:, pot][cooking])) == ({3} if full_only else {1, 2, 3})
    assert set(np.unique(timer[:, pot][cooking])) == set(range(7))
    full = amount[:, pot] == 3
    assert abs(fraction(cooking[full]) - 0.5) < 0.08


@pytest.mark.slow
def test_pots_that_are_not_drawn_keep_their_soup():
    layout = parse_kitchen(KITCHEN)
    pot = np.asarray(layout.tiles) == Tile.POT
    soup = encode(Item.SOUP, np.array([3, 0]))
    cells = Cell(
        object=jnp.where(pot, soup, layout.start.cells.object),
        timer=jnp.where(pot, jnp.asarray(5, jnp.int16), layout.start.cells.timer),
    )
    world = World(cells, layout.start.bodies, layout.start.time)
    same = RandomPots(0.0)(jax.random.key(0), layout, world)
    assert_equal(same, world)


@pytest.mark.slow
def test_starts_are_applied_together_and_leave_the_rest_alone():
    worlds, layout = draw((RandomPositions(), RandomDirections(), RandomHeld(), RandomPots()))
    counter = np.asarray(layout.tiles) == Tile.COUNTER
    assert (item_of(worlds.cells.object)[:, counter] == Item.NOTHING).all()
    assert (worlds.time == 0).all()
    for leaf in (worlds.bodies.position, worlds.bodies.direction, item_of(worlds.bodies.held)):
        assert len(np.unique(leaf.reshape(RESETS, -1), axis=0)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0, 0.3, 1])
def test_sometimes_changes_an_episode_altogether_or_not_at_all(probability):
    worlds, layout = draw((WithProbability(probability, (RandomHeld(1), RandomPots(1))),))
    pot = np.asarray(layout.tiles) == Tile.POT
    held = (item_of(worlds.bodies.held) != Item.NOTHING).all(axis=-1)
    filled = (item_of(worlds.cells.object)[:, pot] != Item.NOTHING).all(axis=-1)
    assert (held == filled).all()
    assert abs(fraction(held) - probability) < 0.05
    for i in np.flatnonzero(~held)[:5]:
        world = jax.tree.map(lambda x, i=i: x[i], worlds)
        assert_equal(world, jax.tree.map(np.asarray, layout.start))


def test_64_resets_are_diverse():
    worlds, _ = draw((RandomPositions(), RandomDirections(), RandomHeld(), RandomPots()))
    leaves = [leaf[:64].reshape(64, -1) for leaf in jax.tree.leaves(worlds)]
    assert len(np.unique(np.concatenate(leaves, axis=1), axis=0)) > 60


def test_equal_keys_give_equal_starts_and_other_keys_others():
    starts = (RandomPositions(), RandomDirections(), RandomHeld(), RandomPots())
    assert_equal(draw(starts, seed=7)[0], draw(starts, seed=7)[0])
    one, other = (draw(starts, seed=seed)[0].bodies.position for seed in (7, 8))
    assert (one != other).any()


def test_two_of_a_kind_draw_independently():
    """Each start has a key of its own, also beside one of its own kind."""
    worlds, _ = draw((RandomDirections(),))
    again, _ = draw((RandomDirections(), RandomDirections()))
    assert (worlds.bodies.direction != again.bodies.direction).any()


@pytest.mark.parametrize(
    "kind",
    [RandomHeld, lambda p: RandomHeld(soups=p), RandomPots, lambda p: WithProbability(p, ())],
)
@pytest.mark.parametrize("probability", [-0.1, 1.1])
def test_refuses_what_is_no_probability(kind, probability):
    with pytest.raises(ValueError, match="between 0 and 1"):
        kind(probability)
