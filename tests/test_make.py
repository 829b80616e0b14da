"""Environments by name, and what their constructor refuses."""

import pytest
from kitchen_checks import Blind, assert_equal, unchecked

from eqgrid.envs import make
from eqgrid.envs.overcooked import Overcooked
from eqgrid.grid import Features, GridWorld, LayoutError, Planes


def test_makes_what_the_constructor_makes():
    options = {"layout": "ring", "dynamics": "interactive", "horizon": 7}
    env = make("overcooked", **options)
    assert isinstance(env, GridWorld)
    assert_equal(env, Overcooked(**options))


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
        ("overcooked", {"dynamics": "clasic"}, "classic or interactive"),
        ("overcooked", {"horizon": 0}, "at least 1 step"),
        ("overcooked", {"horizon": -3}, "at least 1 step"),
        ("overcooked", {"horizon": 2**31}, "at most 1,073,741,824, but the horizon is 2147483648"),
        ("overcooked", {"observation": "plains"}, "planes or features"),
        ("overcooked", {"shaping": {"onion_poting": 1.0}}, "no event 'onion_poting'"),
    ],
)
def test_refuses_in_one_sentence(name, options, words):
    with unchecked(), pytest.raises(ValueError, match=words) as refusal:
        make(name, **options)
    assert "\n" not in str(refusal.value)


def test_a_bad_kitchen_is_a_layout_error():
    with pytest.raises(LayoutError, match="no start"):
        make("overcooked", layout="XXX\nX X\nXXX")
