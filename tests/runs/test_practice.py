"""Kitchens that are trained in besides the one that counts."""

import equinox as eqx
import jax
import numpy as np
import pytest
from command_lines import parse
from scripts import shipped_script

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import load_layout
from eqgrid.grid import LayoutError, RandomLayouts
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import dump, load

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
    one, other = (eqx.filter_eval_shape(world.reset, key)[0] for world in (train, judged))
    assert one.shape == other.shape
    with pytest.raises(UsageError, match="larger than those of --env"):
        parse("--env.practice", "circuit", "--env.observation", "planes")
    with pytest.raises(UsageError, match="There is no layout"):
        parse("--env.practice", "nowhere", "--env.observation", "planes")
    assert parse("--env.practice", "circuit").env.practice == ("circuit",)


def test_a_settings_file_holds_the_text(tmp_path):
    config = parse("--env.layout", "cramped", "--env.practice", HAND_OVER, "ring")
    assert config.env.practice == (HAND_OVER, "ring")
    (tmp_path / "config.toml").write_text(dump(config))
    assert load(tmp_path / "config.toml", shipped_script("ippo")) == config


@pytest.mark.parametrize(
    ("layout", "practice"), [("generated", "ring"), ("ring", "generated")], ids=lambda x: x
)
def test_generated_kitchens_are_no_practice(layout, practice):
    with pytest.raises(UsageError, match="leave it out"):
        parse("--env.layout", layout, "--env.practice", practice)


@pytest.mark.parametrize(
    ("practice", "says"),
    [("rimg", "ring"), ("XXPX\nX1 O\nXDSX", "agents")],
    ids=["unknown", "one cook"],
)
def test_practice_that_does_not_fit_is_refused(practice, says):
    with pytest.raises(LayoutError, match=says):
        Kitchen(practice=(practice,)).build(train=True)
