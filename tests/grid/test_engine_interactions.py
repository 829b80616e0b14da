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
    Item,
    Recipes,
    Tile,
    item_of,
    soup_contents,
)
from eqgrid.grid import IDLE, Bodies, Layout, Step, Turn, empty_world

RECIPES = Recipes(cook_times={("onion",): 7, ("onion", "tomato"): 11})
COOK_TIME = {(o, t): int(RECIPES.cook_time[o, t]) for o, t in itertools.product(range(4), range(4))}


def outcome_of(rule, tile, cell, held):
    """What a rule makes of a faced cell and of a hand: what fired, the cell, and the hand."""
    start = empty_world(KINDS, (3, 3), np.ones((1, 2), np.int8))
    layout = Layout(jnp.zeros((3, 3), jnp.uint8), start, RECIPES, KINDS)
    step = Step(layout, jnp.zeros(1, int), jax.random.key(0), start, start, ACTIONS)
    body = Bodies(jnp.ones(2, jnp.int8), jnp.zeros((), jnp.int8), held)
    outcome = rule(Turn(step, 0, jnp.asarray([0, 1]), tile, cell, body))
    return outcome.fired, outcome.cell, outcome.body.held


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
