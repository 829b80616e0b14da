"""The best plan of a kitchen: that its model is the kitchen, and its value the best of all."""

import tempfile

import jax.numpy as jnp
import pytest
from kitchen_checks import Blind, unchecked
from plans_by_hand import TEXT, best_by_hand, tiny

from eqgrid.envs.overcooked import Overcooked, Recipes, parse_kitchen
from eqgrid_exact import (
    JointModel,
    Layers,
    reachable_counters,
    replay,
    solve,
    trace,
)


@pytest.mark.slow
@pytest.mark.parametrize(("dynamics", "seed"), [("classic", 5), ("interactive", 14)])
def test_the_value_is_that_of_all_plans_and_the_plan_earns_it(dynamics, seed):
    env = tiny(dynamics, seed)
    counters = reachable_counters(env.layout)
    assert len(counters) == 2
    model = JointModel(env, counters)
    expected = best_by_hand(env, dynamics == "interactive", 3)
    assert solve(model, 3) == expected > 0
    with tempfile.TemporaryFile() as file:
        layers = Layers(model, file)
        value = solve(model, 20, layers)
        plan = trace(model, 20, layers)
    assert value >= expected
    assert float(replay(env, jnp.asarray(plan, jnp.int32))[1].sum()) == value
    relaxed = JointModel(env, relaxed=False), JointModel(env, counters, relaxed=True)
    assert solve(relaxed[0], 20) <= value == solve(relaxed[1], 20)


@pytest.fixture(scope="module")
def cramped():
    return Overcooked("cramped", observation=Blind())


@pytest.mark.slow
def test_cramped_without_counters(cramped):
    model = JointModel(cramped)
    with unchecked(), tempfile.TemporaryFile() as file:
        layers = Layers(model, file)
        assert solve(model, 400, layers) == 260
        plan = trace(model, 400, layers)
    assert float(replay(cramped, jnp.asarray(plan, jnp.int32))[1].sum()) == 260
    relaxed = JointModel(cramped, relaxed=True)
    assert solve(relaxed, 33) >= solve(model, 33) == 20
    assert solve(model, 32) == 0


@pytest.mark.slow
def test_what_cannot_be_searched_is_said(cramped):
    with pytest.raises(ValueError, match="within reach are 0,1 0,3 2,0 2,4 3,2"):
        JointModel(cramped, [(0, 2)])
    with pytest.raises(ValueError, match="two cooks, and this kitchen has 3"):
        JointModel(Overcooked("XPXX\nO12S\nX3 D\nXXXX", observation=Blind()))
    recipes = Recipes(orders=[("onion",), ("tomato",)], values={("onion",): 1, ("tomato",): 99})
    odd = parse_kitchen(TEXT, recipes)
    with unchecked(), pytest.raises(ValueError, match="differ too much"):
        JointModel(Overcooked(odd, dynamics="interactive", observation=Blind()))
