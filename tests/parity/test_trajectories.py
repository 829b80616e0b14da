"""Tables of episodes, read by the reference."""

import json
from unittest import mock

import equinox as eqx
import numpy as np
import pytest
from human_tables import play_episodes
from kitchen_checks import unchecked
from test_recorded_states import normal
from test_reference import actions_module, build, mdp_module

from agents import read_table, write_table
from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.reference import (
    trajectories_from_reference,
    trajectories_to_reference,
)
from eqgrid_exact import stored_plans

pandas = pytest.importorskip("pandas", reason="needs the [parity] extra")
with mock.patch.object(np, "Inf", np.inf, create=True):  # the reference was written for NumPy 1
    benchmarking = pytest.importorskip("overcooked_ai_py.agents.benchmarking")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_the_reference_plays_what_is_written(tmp_path, suffix):
    """Its simulator goes through the same states and rewards by the recorded actions alone, and its
    own check of trajectories passes."""
    env = Overcooked("ring", dynamics="interactive")
    plan = stored_plans()["ring", "interactive", 400]
    episodes = play_episodes(env, plan.joint_actions(), [400])
    path = tmp_path / f"ring.{suffix}"
    with unchecked():
        table = trajectories_to_reference(episodes, env.layout, layout_name="coordination_ring")
        write_table(path, table)
        assert eqx.tree_equal(trajectories_from_reference(read_table(path), env.layout), episodes)

    frame = pandas.read_parquet(path) if suffix == "parquet" else pandas.DataFrame(read_table(path))
    mdp = build(frame.layout_name[0])
    texts = (json.loads(text) for text in frame.joint_action)  # as its data_processing_utils do
    joint = [tuple(x if x == "interact" else tuple(x) for x in text) for text in texts]
    assert set(sum(joint, ())) <= set(actions_module.Action.ALL_ACTIONS)
    state = mdp.get_standard_start_state()
    for text, actions, reward in zip(frame.state, joint, frame.reward, strict=True):
        theirs = mdp_module.OvercookedState.from_dict(json.loads(text))
        assert normal(theirs) == normal(state)
        state, infos = mdp.get_state_transition(state, actions)
        assert sum(infos["sparse_reward_by_agent"]) == reward
    assert frame.score.iloc[-1] == plan.value
    check_by_the_reference(mdp, frame, joint)


def check_by_the_reference(mdp, frame, joint):
    """It takes every kitchen for one that changes, which it does not check, and cannot build an
    environment of its own parameters: so both are told to it.
    """
    evaluator, env = benchmarking.AgentEvaluator, benchmarking.OvercookedEnv
    trajectories = {
        "ep_states": [[playable(json.loads(text)) for text in frame.state]],
        "ep_actions": [joint],
        "ep_rewards": [list(frame.reward)],
        "mdp_params": [{}],
        "env_params": [{"_variable_mdp": False}],
    }
    envs = [mdp], [env.from_mdp(mdp, horizon=1250, info_level=0)]
    with mock.patch.object(evaluator, "get_mdps_and_envs_from_trajectories", return_value=envs):
        evaluator.check_trajectories(trajectories, from_json=True)
        wrong = trajectories | {"ep_rewards": [[1, *frame.reward[1:]]]}
        with pytest.raises(AssertionError):
            evaluator.check_trajectories(wrong, from_json=True)


def playable(state):
    """The reference cannot play on from soups that its own `to_dict` says are not started."""
    for thing in state["objects"]:
        if thing.get("cook_time") == -1:
            del thing["cook_time"]
    return mdp_module.OvercookedState.from_dict(state)
