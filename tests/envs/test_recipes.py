"""What soups are worth, and how long they cook."""

import jax
import pytest
from kitchen_checks import holds

from eqgrid.envs.overcooked import ALL_RECIPES, Item, Recipes

ONION, TOMATO = "onion", "tomato"


def soup(onions, tomatoes):
    return holds(Item.SOUP, (onions, tomatoes))


def test_there_are_nine_recipes():
    assert len(set(ALL_RECIPES)) == 9
    assert {len(recipe) for recipe in ALL_RECIPES} == {1, 2, 3}


def test_all_nine_pay_20_and_cook_20_steps_unless_told_otherwise():
    recipes = Recipes()
    for recipe in ALL_RECIPES:
        onions, tomatoes = recipe.count(ONION), recipe.count(TOMATO)
        assert recipes.payoff(soup(onions, tomatoes)) == 20
        assert recipes.cook_time[onions, tomatoes] == 20


MIXED = (ONION, TOMATO, ONION)
BONUS = {"bonus_orders": [(TOMATO,)], "values": {(TOMATO,): 10, (ONION,): 4}, "bonus_factor": 3}


@pytest.mark.parametrize(
    ("options", "onions", "tomatoes", "paid"),
    [
        ({"orders": [(ONION, ONION, TOMATO)]}, 2, 1, 20),
        ({"orders": [(ONION, ONION, TOMATO)]}, 1, 2, 0),
        ({"orders": [(ONION, ONION, TOMATO)]}, 3, 0, 0),
        ({"orders": [MIXED], "values": {(TOMATO, ONION, ONION): 7}}, 2, 1, 7),
        (BONUS, 0, 1, 30),
        (BONUS, 1, 0, 4),
        (BONUS, 1, 1, 20),
        ({}, 0, 0, 0),
        ({"values": 0.5}, 1, 0, 0.5),
    ],
)
def test_a_soup_pays_its_value_if_it_is_ordered(options, onions, tomatoes, paid):
    """A recipe is a multiset, and a bonus order pays its factor."""
    assert Recipes(**options).payoff(soup(onions, tomatoes)) == paid


def test_every_number_is_an_array_leaf():
    leaves = jax.tree.leaves(Recipes())
    assert len(leaves) == 5
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    dtypes = {str(leaf.dtype) for leaf in leaves}
    assert dtypes == {"float32", "int16", "bool"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"orders": [("leek",)]}, "leek"),
        ({"orders": [()]}, "not a recipe"),
        ({"orders": [(ONION,)], "bonus_orders": [(TOMATO,)]}, "bonus order"),
        ({"cook_times": 1001}, "between 1 and 1000"),
    ],
)
def test_refuses_what_is_no_recipe(options, words):
    with pytest.raises(ValueError, match=words):
        Recipes(**options)
