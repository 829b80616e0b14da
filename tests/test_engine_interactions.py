"""Each interaction as a table of cases, all of them against the rules in plain Python."""

import itertools

import jax
import jax.numpy as jnp
import naive_kitchen
import numpy as np
import pytest
from kitchen_checks import holds, lies

from eqgrid.envs import DYNAMICS
from eqgrid.grid import (
    IDLE,
    AddIngredient,
    Deliver,
    Fixture,
    Ingredient,
    Item,
    PickUp,
    Plate,
    PutDown,
    Recipes,
    StartCooking,
    Take,
)

RECIPES = Recipes(cook_times={("onion",): 7, ("onion", "tomato"): 11})
COOK_TIME = {(o, t): int(RECIPES.cook_time[o, t]) for o, t in itertools.product(range(4), range(4))}
ADD_ONION = AddIngredient(Item.ONION, Ingredient.ONION)
ADD_TOMATO = AddIngredient(Item.TOMATO, Ingredient.TOMATO)
TAKE_DISH = Take(Fixture.DISH_DISPENSER, Item.DISH)
NOTHING, ONION, TOMATO, DISH = (holds(item) for item in list(Item)[:4])
SOUP = holds(Item.SOUP, (2, 1))
EMPTY = lies(Item.NOTHING)


def pot(onions, tomatoes, timer=IDLE):
    return lies(Item.SOUP, (onions, tomatoes), timer)


FIRES = [
    # interaction, fixture, cell, hand -> cell, hand
    (PutDown(), Fixture.COUNTER, EMPTY, ONION, lies(Item.ONION), NOTHING),
    (PutDown(), Fixture.COUNTER, EMPTY, SOUP, lies(Item.SOUP, (2, 1)), NOTHING),
    (PickUp(), Fixture.COUNTER, lies(Item.DISH), NOTHING, EMPTY, DISH),
    (PickUp(), Fixture.COUNTER, lies(Item.SOUP, (2, 1)), NOTHING, EMPTY, SOUP),
    (TAKE_DISH, Fixture.DISH_DISPENSER, EMPTY, NOTHING, EMPTY, DISH),
    (ADD_ONION, Fixture.POT, EMPTY, ONION, pot(1, 0), NOTHING),
    (ADD_ONION, Fixture.POT, pot(1, 1), ONION, pot(2, 1), NOTHING),
    (ADD_TOMATO, Fixture.POT, pot(1, 0), TOMATO, pot(1, 1), NOTHING),
    (Plate(), Fixture.POT, pot(2, 1, 0), DISH, EMPTY, SOUP),
    (Deliver(), Fixture.SERVING, EMPTY, SOUP, EMPTY, NOTHING),
    (StartCooking(), Fixture.POT, pot(1, 0), NOTHING, pot(1, 0, 7), NOTHING),
    (StartCooking(), Fixture.POT, pot(1, 1), NOTHING, pot(1, 1, 11), NOTHING),
    (StartCooking(), Fixture.POT, pot(3, 0), NOTHING, pot(3, 0, 20), NOTHING),
]
IDLES = [
    # interaction, fixture, cell, hand
    (PutDown(), Fixture.COUNTER, EMPTY, NOTHING),
    (PutDown(), Fixture.COUNTER, lies(Item.DISH), ONION),
    (PutDown(), Fixture.FLOOR, EMPTY, ONION),
    (PutDown(), Fixture.WALL, EMPTY, ONION),
    (PutDown(), Fixture.ONION_DISPENSER, EMPTY, ONION),
    (PickUp(), Fixture.COUNTER, EMPTY, NOTHING),
    (PickUp(), Fixture.COUNTER, lies(Item.ONION), DISH),
    (PickUp(), Fixture.POT, pot(3, 0, 0), NOTHING),
    (TAKE_DISH, Fixture.DISH_DISPENSER, EMPTY, DISH),
    (TAKE_DISH, Fixture.ONION_DISPENSER, EMPTY, NOTHING),
    (ADD_ONION, Fixture.POT, pot(2, 1), ONION),
    (ADD_ONION, Fixture.POT, pot(1, 0, 5), ONION),
    (ADD_ONION, Fixture.POT, pot(1, 0, 0), ONION),
    (ADD_ONION, Fixture.POT, EMPTY, TOMATO),
    (ADD_ONION, Fixture.COUNTER, EMPTY, ONION),
    (Plate(), Fixture.POT, pot(3, 0, 1), DISH),
    (Plate(), Fixture.POT, pot(3, 0), DISH),
    (Plate(), Fixture.POT, EMPTY, DISH),
    (Plate(), Fixture.POT, pot(3, 0, 0), NOTHING),
    (Plate(), Fixture.COUNTER, lies(Item.SOUP, (3, 0)), DISH),
    (Deliver(), Fixture.SERVING, EMPTY, DISH),
    (Deliver(), Fixture.SERVING, EMPTY, NOTHING),
    (Deliver(), Fixture.COUNTER, EMPTY, SOUP),
    (StartCooking(), Fixture.POT, EMPTY, NOTHING),
    (StartCooking(), Fixture.POT, pot(3, 0, 4), NOTHING),
    (StartCooking(), Fixture.POT, pot(3, 0, 0), NOTHING),
    (StartCooking(), Fixture.POT, pot(1, 0), DISH),
]


def ids(cases):
    return [f"{type(case[0]).__name__}-{i}" for i, case in enumerate(cases)]


def fixture_array(fixture):
    return jnp.asarray(fixture, jnp.uint8)


def same(ours, theirs):
    return all(
        (a == b).all() for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    )


@pytest.mark.parametrize(
    ("rule", "fixture", "cell", "hand", "cell_after", "hand_after"), FIRES, ids=ids(FIRES)
)
def test_an_interaction_fires(rule, fixture, cell, hand, cell_after, hand_after):
    outcome = rule(RECIPES, fixture_array(fixture), cell, hand)
    assert outcome.fired
    assert same(outcome.cell, cell_after)
    assert same(outcome.hand, hand_after)


@pytest.mark.parametrize(("rule", "fixture", "cell", "hand"), IDLES, ids=ids(IDLES))
def test_an_interaction_does_not_fire(rule, fixture, cell, hand):
    assert not rule(RECIPES, fixture_array(fixture), cell, hand).fired


def every_case():
    """All fixtures, cells and hands that there are (a few more than can occur)."""
    soups = [(o, t) for o in range(4) for t in range(4) if 1 <= o + t <= 3]
    cells = [(item, (0, 0), IDLE) for item in range(4)]
    cells += [(Item.SOUP.value, soup, timer) for soup in soups for timer in (IDLE, 0, 1, 20)]
    hands = [(item, (0, 0)) for item in range(4)] + [(Item.SOUP.value, soup) for soup in soups]
    return list(itertools.product([x.value for x in Fixture], cells, hands))


def as_plain(outcomes):
    """What many outcomes leave behind, as tuples: cells and hands."""
    cell, hand = outcomes.cell, outcomes.hand
    arrays = (cell.item, cell.contents, cell.timer, hand.item, hand.contents)
    return [
        ((item, tuple(contents), timer), (held, tuple(inside)))
        for item, contents, timer, held, inside in zip(*(x.tolist() for x in arrays), strict=True)
    ]


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_every_case_is_as_in_plain_python_and_at_most_one_interaction_fires(dynamics):
    rules, _ = DYNAMICS[dynamics]
    cases = every_case()
    fixtures = jnp.asarray([fixture for fixture, _, _ in cases], jnp.uint8)
    items, contents, timers = zip(*[cell for _, cell, _ in cases], strict=True)
    cells = lies(items, contents, timers)
    hands = holds(*zip(*[hand for _, _, hand in cases], strict=True))

    @jax.jit
    @jax.vmap
    def outcomes(fixture, cell, hand):
        return [rule(RECIPES, fixture, cell, hand) for rule in rules]

    found = outcomes(fixtures, cells, hands)
    left = [as_plain(outcome) for outcome in found]
    fired = np.stack([outcome.fired for outcome in found], axis=-1)
    assert fired.sum(axis=-1).max() == 1
    for i, (fixture, cell, hand) in enumerate(cases):
        name, cell_after, hand_after = naive_kitchen.interaction(
            fixture, cell, hand, COOK_TIME, dynamics == "interactive"
        )
        firing = np.flatnonzero(fired[i])
        assert [type(rules[k]).__name__ for k in firing] == ([name] if name else [])
        for k in firing:
            assert left[k][i] == (cell_after, hand_after)
