"""Episodes as tables of Overcooked-AI, without it: `tests/parity` compares with the reference."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from human_tables import changed
from kitchen_checks import refused, unchecked

from eqgrid import Trajectories, make
from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.reference import (
    trajectories_from_reference,
    trajectories_to_reference,
    world_to_reference,
)
from eqgrid_exact import replay, stored_plans

COLUMNS = [
    *("state", "joint_action", "reward", "time_left", "score", "time_elapsed", "cur_gameloop"),
    *("layout", "layout_name", "trial_id", "player_0_id", "player_1_id"),
    *("player_0_is_human", "player_1_is_human"),
]
"""`NEW_SCHEMA` of `src/human_aware_rl/static/human_data/README.md` of Overcooked-AI, in the order
of its files."""
STEPS, EPISODES = 60, (25, 35)
KITCHEN = Overcooked("cramped")
LAYOUT = KITCHEN.layout


def episodes():
    """The first steps of the best plan, in which a soup is delivered, as two episodes."""
    plan = stored_plans()["cramped", "classic", 400]
    actions = plan.joint_actions()[:STEPS]
    states, rewards = replay(KITCHEN, actions)
    ends = np.cumsum(EPISODES) - 1
    return Trajectories(
        state=states,
        action=actions,
        reward=jnp.stack([rewards, rewards], axis=1),
        terminated=jnp.zeros((STEPS, 2), bool),
        truncated=jnp.zeros(STEPS, bool).at[ends].set(True),
        length=jnp.asarray(EPISODES, jnp.int32),
    )


@pytest.fixture(scope="module")
def table():
    with unchecked():
        return trajectories_to_reference(
            episodes(), LAYOUT, layout_name="cramped_room", players=[["a", "b"], ["c", "d"]]
        )


def test_the_columns_are_those_of_the_reference(table):
    assert list(table) == COLUMNS
    assert {len(column) for column in table.values()} == {STEPS}
    whole = episodes()
    rewards = np.asarray(whole.reward[:, 0])
    assert rewards.sum() == 20
    assert table["reward"] == rewards.tolist()
    assert table["trial_id"] == ["0"] * 25 + ["1"] * 35
    assert table["player_1_id"] == ["b"] * 25 + ["d"] * 35
    assert table["cur_gameloop"] == [*range(1, 26), *range(1, 36)]
    assert table["time_left"] == [*map(float, range(24, -1, -1)), *map(float, range(34, -1, -1))]
    assert table["score"] == [0.0] * 25 + np.cumsum(rewards[25:]).tolist()
    first = jax.tree.map(lambda x: x[7], whole.state)
    assert table["state"][7] == json.dumps(world_to_reference(first, LAYOUT))
    moves = [[0, -1], [0, 1], [1, 0], [-1, 0], [0, 0], "interact"]
    expected = [[moves[i] for i in joint] for joint in whole.action.tolist()]
    assert [json.loads(text) for text in table["joint_action"]] == expected
    assert json.loads(table["layout"][0])[0] == ["X", "X", "P", "X", "X"]


def test_a_table_is_read_back_exactly(table):
    with unchecked():
        assert eqx.tree_equal(trajectories_from_reference(table, LAYOUT), episodes())


def test_rows_of_any_order_and_of_one_kitchen_are_read(table):
    mixed = {name: [*column, column[0]] for name, column in table.items()}
    mixed = changed(changed(mixed, "layout", -1, '["XX"]'), "layout_name", -1, "other")
    order = np.random.default_rng(0).permutation(STEPS + 1)
    mixed = {name: [column[i] for i in order] for name, column in mixed.items()}
    mixed["joint_action"] = [text.upper() for text in mixed["joint_action"]]
    trials = {
        mixed["trial_id"][i]: None for i in range(STEPS + 1) if mixed["layout_name"][i][0] == "c"
    }
    with unchecked():
        read = trajectories_from_reference(mixed, LAYOUT, layout_name="cramped_room")
    expected = [25, 35] if list(trials) == ["0", "1"] else [35, 25]
    assert read.length.tolist() == expected
    assert np.asarray(read.reward).sum() == np.asarray(episodes().reward).sum()
    with pytest.raises(ValueError, match="rows of another kitchen"):
        trajectories_from_reference(mixed, LAYOUT)


BAD = {
    "no column": (lambda t: {k: v for k, v in t.items() if k != "reward"}, "no column 'reward'"),
    "no rows": (lambda t: {name: [] for name in t}, "has no rows: there"),
    "no JSON": (lambda t: changed(t, "state", 3, "{"), "Row 3: the state is not JSON"),
    "no state": (lambda t: changed(t, "state", 3, "{}"), "Row 3: .* has no 'objects'"),
    "odd action": (
        lambda t: changed(t, "joint_action", 2, "[[0, 0], [1, 1]]"),
        "Row 2: the joint_action must be 2 of",
    ),
    "lost row": (lambda t: changed(t, "cur_gameloop", 4, 99), "The trial '0' lacks a row"),
    "other kitchen": (
        lambda t: t | {"layout": [json.dumps(["XPX", "OXX"])] * STEPS},
        "rows of another kitchen",
    ),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_one_sentence(table, change, words):
    with refused(words):
        trajectories_from_reference(change(table), LAYOUT)


def test_what_the_reference_does_not_know_is_refused(table):
    whole = episodes()
    with pytest.raises(ValueError, match="Tables of Overcooked-AI support only kitchens"):
        trajectories_to_reference(whole, make("goals").layout)
    with pytest.raises(ValueError, match="no rows with the layout_name 'ring'"):
        trajectories_from_reference(table, LAYOUT, layout_name="ring")
    unfair = eqx.tree_at(lambda x: x.reward, whole, whole.reward.at[3, 0].set(1.0))
    with pytest.raises(ValueError, match="rewards of these cooks differ"):
        trajectories_to_reference(unfair, LAYOUT)
