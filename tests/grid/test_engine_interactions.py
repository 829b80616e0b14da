"""Each interaction as a table of cases, all of them against the rules in plain Python."""

import itertools

import jax
import jax.numpy as jnp
import naive_kitchen
import numpy as np
import pytest
from kitchen_checks import holds, lies

from eqgrid.envs.overcooked import (
    ACTIONS,
    DYNAMICS,
    KINDS,
    AddIngredient,
    Deliver,
    Ingredient,
    Item,
    PickUp,
    Plate,
    PutDown,
    Recipes,
    StartCooking,
    Take,
    Tile,
    item_of,
    soup_contents,
)
from eqgrid.grid import IDLE, Bodies, Layout, Step, Turn, empty_world

RECIPES = Recipes(cook_times={("onion",): 7, ("onion", "tomato"): 11})
COOK_TIME = {(o, t): int(RECIPES.cook_time[o, t]) for o, t in itertools.product(range(4), range(4))}
ADD_ONION = AddIngredient(Item.ONION, Ingredient.ONION)
ADD_TOMATO = AddIngredient(Item.TOMATO, Ingredient.TOMATO)
TAKE_DISH = Take(Tile.DISH_DISPENSER, Item.DISH)
NOTHING, ONION, TOMATO, DISH = (holds(item) for item in list(Item)[:4])
SOUP = holds(Item.SOUP, (2, 1))
EMPTY = lies(Item.NOTHING)


def pot(onions, tomatoes, timer=IDLE):
    return lies(Item.SOUP, (onions, tomatoes), timer)


FIRES = [
    # interaction, fixture, cell, hand -> cell, hand
    (PutDown(), Tile.COUNTER, EMPTY, ONION, lies(Item.ONION), NOTHING),
    (PutDown(), Tile.COUNTER, EMPTY, SOUP, lies(Item.SOUP, (2, 1)), NOTHING),
    (PickUp(), Tile.COUNTER, lies(Item.DISH), NOTHING, EMPTY, DISH),
    (PickUp(), Tile.COUNTER, lies(Item.SOUP, (2, 1)), NOTHING, EMPTY, SOUP),
    (TAKE_DISH, Tile.DISH_DISPENSER, EMPTY, NOTHING, EMPTY, DISH),
    (ADD_ONION, Tile.POT, EMPTY, ONION, pot(1, 0), NOTHING),
    (ADD_ONION, Tile.POT, pot(1, 1), ONION, pot(2, 1), NOTHING),
    (ADD_TOMATO, Tile.POT, pot(1, 0), TOMATO, pot(1, 1), NOTHING),
    (Plate(), Tile.POT, pot(2, 1, 0), DISH, EMPTY, SOUP),
    (Deliver(), Tile.SERVING, EMPTY, SOUP, EMPTY, NOTHING),
    (StartCooking(), Tile.POT, pot(1, 0), NOTHING, pot(1, 0, 7), NOTHING),
    (StartCooking(), Tile.POT, pot(1, 1), NOTHING, pot(1, 1, 11), NOTHING),
    (StartCooking(), Tile.POT, pot(3, 0), NOTHING, pot(3, 0, 20), NOTHING),
]
IDLES = [
    # interaction, fixture, cell, hand
    (PutDown(), Tile.COUNTER, EMPTY, NOTHING),
    (PutDown(), Tile.COUNTER, lies(Item.DISH), ONION),
    (PutDown(), Tile.FLOOR, EMPTY, ONION),
    (PutDown(), Tile.WALL, EMPTY, ONION),
    (PutDown(), Tile.ONION_DISPENSER, EMPTY, ONION),
    (PickUp(), Tile.COUNTER, EMPTY, NOTHING),
    (PickUp(), Tile.COUNTER, lies(Item.ONION), DISH),
    (PickUp(), Tile.POT, pot(3, 0, 0), NOTHING),
    (TAKE_DISH, Tile.DISH_DISPENSER, EMPTY, DISH),
    (TAKE_DISH, Tile.ONION_DISPENSER, EMPTY, NOTHING),
    (ADD_ONION, Tile.POT, pot(2, 1), ONION),
    (ADD_ONION, Tile.POT, pot(1, 0, 5), ONION),
    (ADD_ONION, Tile.POT, pot(1, 0, 0), ONION),
    (ADD_ONION, Tile.POT, EMPTY, TOMATO),
    (ADD_ONION, Tile.COUNTER, EMPTY, ONION),
    (Plate(), Tile.POT, pot(3, 0, 1), DISH),
    (Plate(), Tile.POT, pot(3, 0), DISH),
    (Plate(), Tile.POT, EMPTY, DISH),
    (Plate(), Tile.POT, pot(3, 0, 0), NOTHING),
    (Plate(), Tile.COUNTER, lies(Item.SOUP, (3, 0)), DISH),
    (Deliver(), Tile.SERVING, EMPTY, DISH),
    (Deliver(), Tile.SERVING, EMPTY, NOTHING),
    (Deliver(), Tile.COUNTER, EMPTY, SOUP),
    (StartCooking(), Tile.POT, EMPTY, NOTHING),
    (StartCooking(), Tile.POT, pot(3, 0, 4), NOTHING),
    (StartCooking(), Tile.POT, pot(3, 0, 0), NOTHING),
    (StartCooking(), Tile.POT, pot(1, 0), DISH),
]


def ids(cases):
    return [f"{type(case[0]).__name__}-{i}" for i, case in enumerate(cases)]


def fixture_array(fixture):
    return jnp.asarray(fixture, jnp.uint8)


def outcome_of(rule, tile, cell, held):
    """What a rule makes of a faced cell and of a hand: what fired, the cell, and the hand."""
    start = empty_world(KINDS, (3, 3), np.ones((1, 2), np.int8))
    layout = Layout(jnp.zeros((3, 3), jnp.uint8), start, RECIPES, KINDS)
    step = Step(layout, jnp.zeros(1, int), jax.random.key(0), start, start, ACTIONS)
    body = Bodies(jnp.ones(2, jnp.int8), jnp.zeros((), jnp.int8), held)
    outcome = rule(Turn(step, 0, jnp.asarray([0, 1]), tile, cell, body))
    return outcome.fired, outcome.cell, outcome.body.held


def same(ours, theirs):
    return all(
        (a == b).all() for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    )


@pytest.mark.parametrize(
    ("rule", "fixture", "cell", "hand", "cell_after", "hand_after"), FIRES, ids=ids(FIRES)
)
def test_an_interaction_fires(rule, fixture, cell, hand, cell_after, hand_after):
    fired, *left = outcome_of(rule, fixture_array(fixture), cell, hand)
    assert fired
    assert same(left, [cell_after, hand_after])


@pytest.mark.parametrize(("rule", "fixture", "cell", "hand"), IDLES, ids=ids(IDLES))
def test_an_interaction_does_not_fire(rule, fixture, cell, hand):
    assert not outcome_of(rule, fixture_array(fixture), cell, hand)[0]


def every_case():
    """All fixtures, cells and hands that there are (a few more than can occur)."""
    soups = [(o, t) for o in range(4) for t in range(4) if 1 <= o + t <= 3]
    cells = [(item, (0, 0), IDLE) for item in range(4)]
    cells += [(Item.SOUP.value, soup, timer) for soup in soups for timer in (IDLE, 0, 1, 20)]
    hands = [(item, (0, 0)) for item in range(4)] + [(Item.SOUP.value, soup) for soup in soups]
    return list(itertools.product([x.value for x in Tile], cells, hands))


def as_plain(outcome):
    """What many turns leave behind, as tuples: cells and hands."""
    _, cell, held = outcome
    arrays = (
        *(item_of(cell.object), soup_contents(cell.object), cell.timer),
        *(item_of(held), soup_contents(held)),
    )
    return [
        ((item, tuple(contents), timer), (mine, tuple(inside)))
        for item, contents, timer, mine, inside in zip(*(x.tolist() for x in arrays), strict=True)
    ]


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_every_case_is_as_in_plain_python_and_at_most_one_interaction_fires(dynamics):
    rules = DYNAMICS[dynamics][0].rules
    cases = every_case()
    fixtures = jnp.asarray([fixture for fixture, _, _ in cases], jnp.uint8)
    items, contents, timers = zip(*[cell for _, cell, _ in cases], strict=True)
    cells = lies(items, contents, timers)
    hands = holds(*zip(*[hand for _, _, hand in cases], strict=True))

    @jax.jit
    @jax.vmap
    def outcomes(fixture, cell, hand):
        return [outcome_of(rule, fixture, cell, hand) for rule in rules]

    found = outcomes(fixtures, cells, hands)
    left = [as_plain(outcome) for outcome in found]
    fired = np.stack([outcome[0] for outcome in found], axis=-1)
    assert fired.sum(axis=-1).max() == 1
    for i, (fixture, cell, hand) in enumerate(cases):
        name, cell_after, hand_after = naive_kitchen.interaction(
            fixture, cell, hand, COOK_TIME, dynamics == "interactive"
        )
        firing = np.flatnonzero(fired[i])
        assert [type(rules[k]).__name__ for k in firing] == ([name] if name else [])
        for k in firing:
            assert left[k][i] == (cell_after, hand_after)
