"""Environments by name, and what their constructor refuses."""

import jax
import numpy as np
import pytest
from kitchen_checks import Blind, assert_equal, refused

from eqgrid.envs import ENVIRONMENTS, make
from eqgrid.envs.overcooked import KITCHENS, Overcooked
from eqgrid.envs.overcooked_v2 import KITCHENS as V2_KITCHENS
from eqgrid.grid import Features, LayoutError, Planes


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
        ("Overcooked-CrampedRoom-V1", {}, "no environment 'Overcooked-CrampedRoom-V1'"),
        ("overcooked", {"layot": "ring"}, "no option 'layot'; did you mean layout"),
        ("overcooked", {"layout": "rng"}, "did you mean ring"),
        ("overcooked", {"dynamics": "clasic"}, "classic or interactive"),
        ("overcooked", {"horizon": 0}, "a horizon from 1 to"),
        ("overcooked", {"horizon": 2**31}, "to 1,073,741,824 steps, but got 2147483648"),
        ("overcooked", {"observation": "plains"}, "planes or features"),
        ("overcooked", {"shaping": {"onion_poting": 1.0}}, "no event 'onion_poting'"),
    ],
)
def test_refuses_in_one_sentence(name, options, words):
    with refused(words):
        make(name, **options)


def made(name, **options):
    with pytest.warns(UserWarning, match=rf"^{name} of CoGrid is '\w+' here, but [^.]*\.$") as told:
        env = make(name, **options)
    assert len(told) == 1
    return env


COGRID = {
    "Overcooked-CrampedRoom-V0": ("cramped", 2, 1000),
    "Overcooked-AsymmetricAdvantages-V0": ("asymmetric", 2, 1000),
    "Overcooked-CoordinationRing-V0": ("ring", 2, 1000),
    "Overcooked-ForcedCoordination-V0": ("forced", 2, 1000),
    "Overcooked-CounterCircuit-V0": ("circuit", 2, 1000),
    "Overcooked-CrampedRoom-SingleAgent-V0": ("cramped", 1, 1000),
    "Overcooked-AsymmetricAdvantages-PartialObs-V0": ("asymm_advantages", 2, 1000),
    "Overcooked-CrampedRoom-LocalView-V0": ("cramped", 2, 1000),
    "Overcooked-CrampedMixedKitchen-V0": ("XPXPX\nO1 2T\nX   X\nXDSXX", 2, 4000),
    "OvercookedV2-CrampedRoomIndicator-V0": ("XXPXX\nO1 2T\nD   R\nXXXSX", 2, 400),
    "OvercookedV2-GroundedCoordSimple-V0": ("grounded_coord_simple", 2, 400),
    "OvercookedV2-GroundedCoordRing-V0": ("grounded_coord_ring", 2, 400),
    "OvercookedV2-TestTimeSimple-V0": ("test_time_simple", 2, 400),
    "OvercookedV2-TestTimeWide-V0": ("test_time_wide", 2, 400),
    "OvercookedV2-DemoCookSimple-V0": ("demo_cook_simple", 2, 400),
    "OvercookedV2-DemoCookWide-V0": ("demo_cook_wide", 2, 400),
    "SearchRescue-Test-V0": ("small", 2, 1000),
}
"""All ids of CoGrid 0.3.2: the kitchen, the number of agents, and `max_steps` there."""


@pytest.mark.parametrize("name", COGRID)
def test_ids_of_cogrid_are_the_nearest_world(name):
    layout, agents, horizon = COGRID[name]
    env = made(name)
    assert (env.num_agents, env.horizon) == (agents, horizon)
    texts = KITCHENS | V2_KITCHENS | {"small": str(make("rescue").layout)}
    expected = texts.get(layout, layout)
    expected = expected.replace("2", " ") if agents == 1 else expected
    rows = [row.strip() for row in expected.strip().splitlines()]
    assert str(env.layout).splitlines() == rows


def test_what_is_known_of_cogrid_is_as_there():
    env = made("Overcooked-CrampedRoom-V0")
    assert env.layout.params.cook_time[3, 0] == 30
    mixed = made("Overcooked-CrampedMixedKitchen-V0").layout.params
    assert [tuple(recipe) for recipe in np.argwhere(mixed.ordered).tolist()] == [(0, 3), (3, 0)]
    narrow = made("OvercookedV2-DemoCookWide-V0")
    assert narrow.reset(jax.random.key(0))[0].shape[1:3] == (5, 5)


def test_options_replace_those_of_cogrid():
    env = made("Overcooked-CoordinationRing-V0", horizon=7, observation="features")
    assert env.horizon == 7
    assert isinstance(env.observation, Features)
    with pytest.raises(ValueError, match="no option 'layot'; did you mean layout"):
        made("SearchRescue-Test-V0", layot="large")


def test_a_bad_kitchen_is_a_layout_error():
    with pytest.raises(LayoutError, match="no start"):
        make("overcooked", layout="XXX\nX X\nXXX")
