"""Tables of episodes, read by the reference, and its human games, read by us."""

import copy
import json
from unittest import mock

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from raw_games import TEXTS, kitchen, read_games
from test_recorded_states import normal
from test_reference import actions_module, build, mdp_module

from agents import read_table, write_table
from eqgrid import Trajectories
from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.plans import replay, stored_plans
from eqgrid.envs.overcooked.reference import (
    trajectories_from_reference,
    trajectories_to_reference,
    worlds_to_reference,
)

pandas = pytest.importorskip("pandas", reason="needs the [parity] extra")
with mock.patch.object(np, "Inf", np.inf, create=True):  # the reference was written for NumPy 1
    benchmarking = pytest.importorskip("overcooked_ai_py.agents.benchmarking")
pytestmark = pytest.mark.parity
STEPS = 300
"""Of each human game."""


def as_trajectories(states, actions, rewards, lengths):
    ends = np.cumsum(lengths) - 1
    return Trajectories(
        state=states,
        action=jnp.asarray(actions, jnp.int32),
        reward=jnp.stack([jnp.asarray(rewards)] * 2, axis=1),
        terminated=jnp.zeros((len(rewards), 2), bool),
        truncated=jnp.zeros(len(rewards), bool).at[ends].set(True),
        length=jnp.asarray(lengths, jnp.int32),
    )


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_the_reference_plays_what_is_written(tmp_path, suffix):
    """Its simulator goes through the same states and rewards by the recorded actions alone, and its
    own check of trajectories passes."""
    env = Overcooked("ring", dynamics="interactive")
    plan = stored_plans()["ring", "interactive", 400]
    states, rewards = replay(env, plan.joint_actions())
    episodes = as_trajectories(states, plan.joint_actions(), rewards, [400])
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


@pytest.mark.slow
def test_human_games_there_and_back(tmp_path):
    """The beginning of one of each kitchen, in the columns in which their newer games are kept."""
    games = {
        name: (states[: STEPS + 1], actions[:STEPS], rewards[:STEPS])
        for name, states, actions, rewards in read_games()
    }
    assert set(games) == set(TEXTS)
    tables = []
    for name, (states, actions, rewards) in games.items():
        moves = [[0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "INTERACT"]
        count = len(rewards)
        tables.append(
            {
                "state": [json.dumps(state) for state in states[:-1]],
                "joint_action": [json.dumps([moves[i] for i in joint]) for joint in actions],
                "reward": rewards.tolist(),
                "cur_gameloop": list(range(1, count + 1)),
                "layout": [json.dumps(kitchen_rows(name))] * count,
                "layout_name": [name] * count,
                "trial_id": [f"{name} 1"] * count,
            }
        )
    frame = pandas.concat([pandas.DataFrame(table) for table in tables])
    for name, (states, actions, rewards) in games.items():
        layout = kitchen(name)
        with unchecked():
            read = trajectories_from_reference(frame, layout, layout_name=name)
            write_table(tmp_path / f"{name}.parquet", trajectories_to_reference(read, layout))
            again = trajectories_from_reference(read_table(tmp_path / f"{name}.parquet"), layout)
            written = worlds_to_reference(again.state, layout)
        assert eqx.tree_equal(again, read)
        np.testing.assert_array_equal(read.action, actions)
        np.testing.assert_array_equal(read.reward[:, 0], rewards)
        for step, (state, ours) in enumerate(zip(states[:-1], written, strict=True)):
            # The states of 2019 have no time: their steps are counted.
            listed = copy.copy(state) | {"objects": [*state["objects"].values()], "timestep": step}
            listed |= {"all_orders": [{"ingredients": ["onion"] * 3}]}
            assert ours == normal(mdp_module.OvercookedState.from_dict(listed))


def kitchen_rows(name):
    """Rows as the games of 2019 have them, with the marks of the cooks."""
    return [row.strip() for row in TEXTS[name].strip().splitlines()]
