"""Kitchens that are trained in besides the one that counts."""

import equinox as eqx
import jax
import numpy as np
import pytest

from eqgrid.envs.overcooked import load_layout
from eqgrid.grid import LayoutError, RandomLayouts
from experiments._config import dump, load, parse
from experiments._errors import UsageError
from experiments._worlds import Kitchen

HAND_OVER = """
XXXPPXXX
X  1   X
D XXXX S
XX 2  XX
XXXOOXXX
"""


def test_training_draws_both_and_evaluation_one(key):
    kitchen = Kitchen(layout="circuit", practice=(HAND_OVER,))
    world = kitchen.build(train=True)
    assert isinstance(world, RandomLayouts)
    _, states = eqx.filter_jit(eqx.filter_vmap(world.reset))(jax.random.split(key, 40))
    tiles = np.asarray(states.layout.tiles)
    circuit, hand_over = (np.asarray(load_layout(x).tiles) for x in ("circuit", HAND_OVER))
    in_circuit = (tiles == circuit).all((1, 2))
    assert 5 < in_circuit.sum() < 35
    assert ((tiles == hand_over).all((1, 2)) == ~in_circuit).all()

    judged = kitchen.build(train=False)
    assert not isinstance(judged, RandomLayouts)
    assert (np.asarray(judged.layout.tiles) == circuit).all()
    assert kitchen.parts() == {}
    assert kitchen.optimum == Kitchen(layout="circuit").optimum


def test_images_keep_their_size(key):
    kitchen = Kitchen(layout="circuit", practice=("cramped",), observation="planes")
    train, judged = (kitchen.build(train=x) for x in (True, False))
    assert train.reset(key)[0].shape == judged.reset(key)[0].shape
    with pytest.raises(UsageError, match="larger than those of --env"):
        parse("ippo", ["--env.practice", "circuit", "--env.observation", "planes"])
    assert parse("ippo", ["--env.practice", "circuit"]).env.practice == ("circuit",)


def test_a_settings_file_holds_the_text(tmp_path):
    config = parse("ippo", ["--env.layout", "forced", "--env.practice", HAND_OVER, "ring"])
    assert config.env.practice == (HAND_OVER, "ring")
    (tmp_path / "config.toml").write_text(dump("ippo", config))
    assert load(tmp_path / "config.toml", "ippo") == config


@pytest.mark.parametrize(
    ("layout", "practice"), [("generated", "ring"), ("ring", "generated")], ids=lambda x: x
)
def test_generated_kitchens_are_no_practice(layout, practice):
    with pytest.raises(UsageError, match="leave it out"):
        parse("ippo", ["--env.layout", layout, "--env.practice", practice])


@pytest.mark.parametrize(
    ("practice", "says"),
    [("rimg", "ring"), ("XXPX\nX1 O\nXDSX", "agents")],
    ids=["unknown", "one cook"],
)
def test_practice_that_does_not_fit_is_refused(practice, says):
    with pytest.raises(LayoutError, match=says):
        Kitchen(practice=(practice,)).build(train=True)


def test_only_training_starts_on_the_plan():
    kitchen = Kitchen(layout="ring", plan_starts=1.0, random_starts=0.0)
    keys = jax.random.split(jax.random.key(0), 64)
    moved = {}
    for train in (True, False):
        env = kitchen.build(train=train)
        worlds = eqx.filter_vmap(env.reset)(keys)[1]
        start = np.asarray(env.layout.start.bodies.position)
        moved[train] = bool((np.asarray(worlds.bodies.position) != start).any())
    assert moved == {True: True, False: False}
    assert kitchen.as_judged() == Kitchen(layout="ring")


@pytest.mark.parametrize(
    "flags",
    [
        ["--env.layout", "ring", "--env.practice", "forced"],
        ["--env.layout", "ring", "--env.horizon", "399"],
        ["--env.layout", "ring,forced"],
        ["--env.layout", "generated"],
    ],
    ids=lambda flags: flags[-1],
)
def test_without_one_plan_nothing_starts_on_it(flags):
    with pytest.raises(UsageError, match="is for one kitchen with a stored plan, without"):
        parse("ippo", [*flags, "--env.plan-starts", "0.5"])
    assert parse("ippo", ["--env.layout", "ring", "--env.plan-starts", "0.5"])
