"""The best plan of a kitchen: that its model is the kitchen, and its value the best of all."""

import dataclasses
import functools
import itertools
import tempfile

import jax.numpy as jnp
import naive_kitchen as naive
import numpy as np
import pytest
from kitchen_checks import Blind, random_world, unchecked

from eqgrid.envs.overcooked import (
    JointModel,
    Layers,
    Overcooked,
    Recipes,
    choose_spacing,
    item_of,
    parse_kitchen,
    reachable_counters,
    replay,
    solve,
    soup_contents,
    trace,
)

TEXT = """
#PD#
O12S
T  X
#X##
"""
"""Two cooks who are in each other's way, and two counters."""

VALUES = {("onion",): 10, ("onion", "tomato"): 20, ("tomato", "tomato"): 10}


def tiny(dynamics, seed):
    """The kitchen in any state, so that there is much to gain in a few steps."""
    recipes = Recipes(orders=VALUES, values=VALUES, cook_times=2)
    layout = parse_kitchen(TEXT, recipes)
    start = random_world(np.random.default_rng(seed), layout)
    layout = dataclasses.replace(layout, start=start)
    return Overcooked(layout, dynamics=dynamics, observation=Blind())


def best_by_hand(env, by_hand, steps):
    """The best return over all joint actions, by the rules in plain Python, state by state."""
    start, params = env.layout.start, env.layout.params
    tiles = np.asarray(env.layout.tiles)
    fixtures = {tuple(map(int, place)): int(tiles[tuple(place)]) for place in np.ndindex(4, 4)}
    times = {place: int(params.cook_time[place]) for place in np.ndindex(4, 4)}
    pays = np.asarray(jnp.where(params.ordered, params.value, 0))
    item, inside = item_of(start.cells.object), soup_contents(start.cells.object)
    cells = tuple(
        (place, (int(item[place]), tuple(inside[place].tolist()), int(start.cells.clock[place])))
        for place in fixtures
    )
    bodies = start.bodies
    hands = zip(item_of(bodies.held).tolist(), soup_contents(bodies.held).tolist(), strict=True)
    first = (
        cells,
        tuple(map(tuple, bodies.position.tolist())),
        tuple(bodies.direction.tolist()),
        tuple((thing, tuple(contents)) for thing, contents in hands),
    )

    @functools.cache
    def best(state, left):
        if not left:
            return 0.0
        names = ("cells", "positions", "headings", "hands")
        known = dict(zip(names, (dict(state[0]), *state[1:]), strict=True))
        most = 0.0
        for actions in itertools.product(range(6), repeat=2):
            after, done = naive.step(fixtures, known, actions, times, by_hand)
            paid = sum(
                float(pays[known["hands"][cook][1]])
                for cook, what in enumerate(done)
                if what == "Deliver"
            )
            key = (tuple(after["cells"].items()), *(tuple(after[name]) for name in names[1:]))
            most = max(most, paid + best(key, left - 1))
        return most

    return best(first, steps)


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
        layers = Layers(model, file, 8)
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
        layers = Layers(model, file, choose_spacing(model, 400, 2**30))
        assert solve(model, 400, layers) == 260
        plan = trace(model, 400, layers)
    assert float(replay(cramped, jnp.asarray(plan, jnp.int32))[1].sum()) == 260
    relaxed = JointModel(cramped, relaxed=True)
    assert solve(relaxed, 33) >= solve(model, 33) == 20
    assert solve(model, 32) == 0
    with pytest.raises(ValueError, match="GiB on the disk"):
        choose_spacing(model, 400, 2 * model.num_states)


@pytest.mark.slow
def test_what_cannot_be_searched_is_said(cramped):
    with pytest.raises(ValueError, match="reached are 0,1 0,3 2,0 2,4 3,2"):
        JointModel(cramped, [(0, 2)])
    with pytest.raises(ValueError, match="two cooks, and this kitchen has 3"):
        JointModel(Overcooked("XPXX\nO12S\nX3 D\nXXXX", observation=Blind()))
    recipes = Recipes(orders=[("onion",), ("tomato",)], values={("onion",): 1, ("tomato",): 99})
    odd = parse_kitchen(TEXT, recipes)
    with unchecked(), pytest.raises(ValueError, match="pay too differently"):
        JointModel(Overcooked(odd, dynamics="interactive", observation=Blind()))
    with pytest.raises(ValueError, match="allow it more, or use fewer counters"):
        JointModel(cramped, max_bytes=1000)
