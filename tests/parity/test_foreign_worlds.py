"""The command line in a world of each library that is behind an adapter."""

import json

import numpy as np
import pytest
from command_lines import call

from eqgrid.interop._foreign import implicit_promotion
from eqgrid_lab.worlds import LIBRARIES

WORLDS = {
    "jaxmarl": "jaxmarl:MPE_simple_speaker_listener_v4",
    "gymnax": "gymnax:CartPole-v1",
    "jaxnasium": "jaxnasium:CartPole-v1",
}
SMALL = ("--num-envs", "4", "--width", "8", "--total-steps", "128", "--eval-every", "128")
SMALL += ("--ppo.rollout-length", "16", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2")
SMALL += ("--eval-episodes", "2", "--env.horizon", "20")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:OvercookedV2 is now released:DeprecationWarning"),
    # Of gymnax before 1.0.
    pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning"),
]


@pytest.mark.slow
@pytest.mark.parametrize("library", WORLDS)
def test_the_command_line_trains_in_its_world(library, tmp_path):
    with implicit_promotion():
        pytest.importorskip(LIBRARIES[library].module, reason="needs the [parity] extra")
    args = ("--env.name", WORLDS[library], *SMALL, "--out", tmp_path / "run")
    assert call(*args) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["world"], result["env_steps"]) == (WORLDS[library], 128)
    assert np.isfinite(result["eval_return_mean"])
