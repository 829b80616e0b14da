"""Environments by name, and what their constructor refuses."""

import pytest
from kitchen_checks import Blind, assert_equal, refused

from eqgrid.envs import ENVIRONMENTS, make
from eqgrid.envs.overcooked import Overcooked
from eqgrid.grid import Features, Planes


def test_makes_what_the_constructor_makes():
    options = {"layout": "ring", "dynamics": "interactive", "horizon": 7}
    env = make("overcooked", **options)
    assert isinstance(env, Overcooked)
    assert_equal(env, Overcooked(**options))


HORIZONS = {
    **{"overcooked": 400, "overcooked_v2": 400, "foraging": 50, "warehouse": 500, "rescue": 250},
    **{"minigrid": 640, "goals": 50, "harvest": 1000, "cleanup": 1000},
}


def test_the_default_horizons_are_those_of_the_references():
    assert {name: int(make(name).horizon) for name in ENVIRONMENTS} == HORIZONS


def test_observations_go_by_name_or_are_modules():
    assert isinstance(make("overcooked").observation, Planes)
    assert isinstance(make("overcooked", observation="features").observation, Features)
    assert isinstance(make("overcooked", observation=Blind()).observation, Blind)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("overkooked", {}, "did you mean overcooked"),
        ("overcooked", {"layot": "ring"}, "no option 'layot'; did you mean layout"),
        ("overcooked", {"layout": "rng"}, "did you mean ring"),
        ("overcooked", {"horizon": 0}, "a horizon from 1 to"),
        ("overcooked", {"horizon": 4.0}, "steps, but got the float 4.0, not an int"),
        ("goals", {"num_agents": 2.0}, "`num_agents` must be a whole number, but is the float 2.0"),
        ("foraging", {"size": "8"}, "`size` must be whole numbers, but has the str '8'"),
        ("overcooked", {"observation": "plains"}, "planes or features"),
        ("overcooked", {"shaping": {"onion_poting": 1.0}}, "no event 'onion_poting'"),
    ],
)
def test_refuses_in_one_sentence(name, options, words):
    with refused(words):
        make(name, **options)
