"""A tiny kitchen, and the best return in it by the rules in plain Python."""

import dataclasses
import functools
import itertools

import jax.numpy as jnp
import naive_kitchen as naive
import numpy as np
from kitchen_checks import Blind, random_world

from eqgrid.envs.overcooked import Overcooked, Recipes, item_of, parse_kitchen, soup_contents

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


def best_by_hand(env, by_hand, steps, seat=None, chances=None):
    """The best return over all joint actions, by the rules in plain Python, state by state.

    With `chances`, the cook in `seat` has the best actions, and the other one acts at random, with
    probabilities that depend on its direction and on what it holds.
    """
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
        held = any(any(contents) for _, contents in state[3])
        if not left or (left == 1 and not held):  # only a soup in a hand is delivered at once
            return 0.0
        names = ("cells", "positions", "headings", "hands")
        known = dict(zip(names, (dict(state[0]), *state[1:]), strict=True))
        worth = np.zeros((6, 6))
        for actions in itertools.product(range(6), repeat=2):
            after, done = naive.step(fixtures, known, actions, times, by_hand)
            paid = sum(
                float(pays[known["hands"][cook][1]])
                for cook, what in enumerate(done)
                if what == "Deliver"
            )
            key = (tuple(after["cells"].items()), *(tuple(after[name]) for name in names[1:]))
            worth[actions] = paid + best(key, left - 1)
        if chances is None:
            return worth.max()
        own = chances(known["headings"][1 - seat], known["hands"][1 - seat][0])
        return ((worth if seat == 0 else worth.T) @ own).max()

    return best(first, steps)
