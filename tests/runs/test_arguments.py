"""The numbers that wrappers, spaces, partners and worlds are built with."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from race import Race

from eqgrid import (
    AppendTimeLeft,
    ConstantPartner,
    Discrete,
    LinearSchedule,
    NoisyPartner,
    NormalizeObservation,
    NormalizeReward,
    OneOf,
    ShapedReward,
    TimeLimit,
    Vectorize,
    WithPartner,
    make,
)
from eqgrid.envs.foraging import Foraging
from eqgrid.envs.goals import Goals
from eqgrid.envs.overcooked import (
    GeneratedKitchens,
    Recipes,
    load_layout,
)
from eqgrid.envs.overcooked_v2 import load_layout as load_v2
from eqgrid.envs.rescue import load_site
from eqgrid.envs.warehouse import Warehouse
from eqgrid.grid import Planes, WithProbability

NAN, INF = float("nan"), float("inf")
NO_NUMBERS = ("3", None, [1, 2], np.ones(2), 1j, True)
"""What no number is. True is none, either."""

WRONG = {
    "whole": (*NO_NUMBERS, 2.5, np.float32(2.0), NAN, INF),
    "positive": (0, -3, np.int64(0), np.int64(-3), *NO_NUMBERS, 2.5, np.float32(2.0), NAN, INF),
    "steps": (0, jnp.asarray(-3), np.int64(0), 2**31, *NO_NUMBERS, jnp.asarray(2.5), NAN, INF),
    "share": (-0.1, 1.1, np.float32(7), jnp.asarray(-1.0), *NO_NUMBERS, NAN, INF),
    "finite": (*NO_NUMBERS, NAN, INF, -INF, np.float32("inf"), 1e39),
    "not negative": (*NO_NUMBERS, NAN, INF, -1e-3, np.float64(-1)),
    "epsilon": (*NO_NUMBERS, NAN, INF, 0, 0.0, 1e-45, np.float64(-1)),
    "above 0": (*NO_NUMBERS, NAN, -INF, 0, 0.0, np.float32(-1)),
}
ACTIONS = Discrete(3)
RACES = Vectorize(Race(), 2)
KITCHEN = make("overcooked", layout="cramped")
ARGUMENTS = {
    "TimeLimit": ("steps", lambda x: TimeLimit(Race(), x)),
    "AppendTimeLeft": ("steps", lambda x: AppendTimeLeft(Goals(), x)),
    "Vectorize": ("positive", lambda x: Vectorize(Race(), x)),
    "Discrete": ("positive", Discrete),
    "NormalizeReward.gamma": ("share", lambda x: NormalizeReward(RACES, x)),
    "NormalizeObservation.epsilon": ("epsilon", lambda x: NormalizeObservation(RACES, x)),
    "NormalizeObservation.clip": ("above 0", lambda x: NormalizeObservation(RACES, clip=x)),
    "LinearSchedule.start": ("finite", lambda x: LinearSchedule(x, 0.0, 10)),
    "WithPartner.noise": ("share", lambda x: WithPartner(Race(), noise=(x, 1.0))),
    "OneOf": ("whole", lambda x: OneOf([ConstantPartner(i) for i in range(3)], x)),
    "WithProbability": ("share", lambda x: WithProbability(x, ())),
    "Planes.radius": ("positive", lambda x: Planes(radius=x)),
    "shaping": ("finite", lambda x: make("overcooked", shaping={"soup_pickup": x})),
    "Recipes.cook_times": ("positive", lambda x: Recipes(cook_times=x)),
    "Foraging.size": ("positive", Foraging),
    "Foraging.penalty": ("not negative", lambda x: Foraging(penalty=x)),
    "GeneratedKitchens.pots": ("whole", lambda x: GeneratedKitchens(pots=x)),
}


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_no_such_number_is_refused_in_one_sentence(name):
    kind, build = ARGUMENTS[name]
    for value in WRONG[kind]:
        if value is None and name == "Planes.radius":  # which may be None
            continue
        with unchecked(), pytest.raises(ValueError, match=r"^[^\n]*\.$"):
            print(name, repr(value), build(value))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: TimeLimit(Race(), x(5)),
        lambda x: AppendTimeLeft(Goals(), x(5)),
        lambda x: make("goals", horizon=x(5)),
        lambda x: OneOf([ConstantPartner(0), ConstantPartner(1)], x(1)),
        lambda x: NormalizeReward(RACES, x(1)),
        lambda x: WithPartner(Race(), share=x(1)),
        lambda x: NormalizeObservation(RACES, clip=x(3)),
    ],
)
@pytest.mark.parametrize("kind", [int, np.int32, np.int64, np.uint8, jnp.asarray])
def test_a_number_may_be_of_any_library(build, kind):
    leaves = (jax.tree.leaves(eqx.filter(build(x), eqx.is_array)) for x in (kind, int))
    for one, other in zip(*leaves, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


MAPPED = {
    "WithPartner.share": (lambda x: WithPartner(KITCHEN, share=x), lambda w: w.share),
    "WithPartner.noise": (
        lambda x: WithPartner(KITCHEN, noise=(0.1, x)),
        lambda w: w.noise[..., 1],
    ),
    "NoisyPartner": (lambda x: NoisyPartner(ConstantPartner(1), x, ACTIONS), lambda p: p.level),
    "WithProbability": (lambda x: WithProbability(x, ()), lambda s: s.probability),
    "NormalizeReward": (lambda x: NormalizeReward(RACES, x, x, x), lambda w: w.gamma),
    "NormalizeObservation": (lambda x: NormalizeObservation(RACES, x, x), lambda w: w.clip),
    "ShapedReward": (lambda x: ShapedReward(Race(), x), lambda w: w.schedule.weight),
    "LinearSchedule": (lambda x: LinearSchedule(x, x, x), lambda s: s.steps),
    "shaping": (
        lambda x: make("overcooked", shaping={"soup_pickup": x}),
        lambda w: w.shaping.weights.sum(axis=-1),
    ),
    "Foraging.penalty": (lambda x: Foraging(penalty=x), lambda w: w.reward.penalty),
}
MAPPED_COUNTS = {
    "TimeLimit": (lambda x: TimeLimit(Race(), x), lambda w: w.limit),
    "AppendTimeLeft": (lambda x: AppendTimeLeft(Goals(), x), lambda w: w.horizon),
    "GridWorld": (lambda x: make("goals", horizon=x), lambda w: w.horizon),
    "OneOf": (lambda x: OneOf([ConstantPartner(1)] * 9, x), lambda p: p.number),
}


@pytest.mark.parametrize("name", [*MAPPED, *MAPPED_COUNTS])
def test_a_batch_of_modules_is_built_under_a_map(name):
    build, leaf = (MAPPED | MAPPED_COUNTS)[name]
    values = jnp.asarray([3, 5, 8]) if name in MAPPED_COUNTS else jnp.asarray([0.25, 0.5, 1.0])
    np.testing.assert_array_equal(leaf(eqx.filter_vmap(build)(values)), values)


def make_kitchen(layout):
    return make("overcooked", layout=layout)


LOADS = [load_layout, load_v2, load_site, Goals, Warehouse, make_kitchen]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("layout", [3, None, 2.5, ["XXX"], np.zeros((3, 3))])
def test_what_names_no_layout_is_refused(load, layout):
    words = r"^A layout is given as .*, but this one is "
    with unchecked(), pytest.raises(ValueError, match=words):
        load(layout)


def test_bounds_of_noise_come_in_order():
    with pytest.raises(ValueError, match="the smaller one first"):
        WithPartner(KITCHEN, noise=(0.5, 0.2))
    with unchecked(), pytest.raises(ValueError, match="two numbers"):
        WithPartner(KITCHEN, noise=(0.1, 0.2, 0.3))


def test_the_infinite_bonus_of_the_reference_can_be_compared_but_not_used(tmp_path):
    assert load_layout("tutorial_3").params.bonus_factor == INF
    path = tmp_path / "mine.layout"
    path.write_text("""{'grid': 'XXPXX\\nO  2O\\nX1  X\\nXDXSX', 'order_bonus': float('inf')}""")
    with pytest.raises(ValueError, match="its 'order_bonus' is infinite"):
        load_layout(path)
