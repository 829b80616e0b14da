"""Scripted cooks: their ways, and the soups that they deliver."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from scipy import ndimage

from eqgrid import ConstantPartner, OneOf, make, play
from eqgrid.envs.overcooked import KITCHENS, ScriptedCook, Tile, load_layout
from eqgrid.envs.overcooked._ways import FAR, count_steps, label_regions

ROLES = ("greedy", "onion", "dish")
LEAST = {"cramped": 200, "asymmetric": 340, "ring": 200, "forced": 200, "circuit": 100}
"""What two greedy cooks earn at least, in 400 steps."""


def steps_by_hand(floor, targets, toll):
    """Bellman's equation, solved cell by cell."""
    steps = np.full(floor.shape, FAR)
    cells = list(itertools.product(*map(range, floor.shape)))

    def beside(row, col):
        near = [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
        return [x for x in near if 0 <= x[0] < floor.shape[0] and 0 <= x[1] < floor.shape[1]]

    for cell in cells:
        if floor[cell] and any(targets[x] for x in beside(*cell)):
            steps[cell] = 0
    for _ in cells:
        for cell in cells:
            if floor[cell]:
                ways = [steps[x] + toll[x] + 1 for x in beside(*cell) if floor[x]]
                steps[cell] = min([steps[cell], *ways])
    return steps


@pytest.mark.parametrize("seed", range(3))
def test_ways_are_the_shortest(seed):
    rng = np.random.default_rng(seed)
    floor, targets = rng.random((6, 7)) < 0.7, rng.random((6, 7)) < 0.1
    toll = rng.integers(0, 3, (6, 7)) * (rng.random((6, 7)) < 0.2)
    steps = count_steps(jnp.asarray(floor), jnp.asarray(targets), jnp.asarray(toll, jnp.int32))
    np.testing.assert_array_equal(steps, steps_by_hand(floor, targets, toll))


def test_regions_are_those_of_scipy():
    floor = np.random.default_rng(0).random((8, 9)) < 0.6
    regions, (labels, _) = np.asarray(label_regions(jnp.asarray(floor))), ndimage.label(floor)
    pairs = set(zip(regions.ravel().tolist(), labels.ravel().tolist(), strict=True))
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
    assert (-1, 0) in pairs


@eqx.filter_jit
def returns(env, teams, seats, keys):
    """The returns of pairs out of many partners, in as many episodes as there are keys."""

    def game(pair, key):
        return play(env, tuple(teams.pick(number) for number in pair), key).episode_return[0]

    return eqx.filter_vmap(eqx.filter_vmap(game, in_axes=(None, 0)), in_axes=(0, None))(seats, keys)


def padded(name):
    """A kitchen as large as the largest one, so that all five are one program."""
    return load_layout(name).pad(5, 9)


PAIRS = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.fixture(scope="module")
def earned():
    """The mean returns of pairs of roles, greedy cooks and those who stay, in every kitchen."""
    keys = jax.random.split(jax.random.key(0), 4)
    means = {}
    for name in KITCHENS:
        layout = padded(name)
        cooks = [*(ScriptedCook(layout, role) for role in ROLES), ConstantPartner(4)]
        env = make("overcooked", layout=layout, observation="features")
        means[name] = np.asarray(returns(env, OneOf(cooks), jnp.asarray(PAIRS), keys)).mean(axis=-1)
    return {name: dict(zip(PAIRS, mean, strict=True)) for name, mean in means.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", KITCHENS)
def test_two_greedy_cooks_deliver_in_every_kitchen(earned, name):
    assert earned[name][0, 0] >= LEAST[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cramped", "asymmetric", "ring", "circuit"])
def test_one_brings_onions_and_one_brings_dishes(earned, name):
    assert earned[name][1, 2] > 40
    assert earned[name][2, 1] > 40
    assert earned[name][1, 1] == earned[name][2, 2] == 0


@pytest.mark.slow
def test_a_greedy_cook_needs_nobody(earned):
    assert earned["cramped"][0, 3] >= 120
    assert earned["ring"][3, 0] >= 100
    assert earned["forced"][0, 3] == 0


@pytest.mark.slow
def test_a_full_pot_is_started_by_hand(key):
    env = make("overcooked", dynamics="interactive", observation="features")
    cook = ScriptedCook("cramped")
    assert eqx.filter_jit(play)(env, (cook, cook), key).episode_return[0] >= 120


def test_cooks_of_all_roles_are_one_structure():
    cooks = [ScriptedCook("cramped", role) for role in ROLES]
    assert len(OneOf(cooks).stacks) == 1
    assert cooks[0].tiles[0, 2] == Tile.POT


def test_no_such_role():
    with unchecked(), pytest.raises(ValueError, match="no role 'waiter' for a cook: choose greedy"):
        ScriptedCook("cramped", "waiter")
