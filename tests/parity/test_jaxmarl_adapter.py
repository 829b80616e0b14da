"""The adapter to JaxMARL: equal trajectories on both sides, in both directions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pages import text_blocks
from rooms import WithRoomsByAgent

from eqgrid import (
    AutoReset,
    Box,
    TimeLimit,
    Vectorize,
    check_env,
    interop,
    make,
    split_mask,
    unwrap_state,
)
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings

with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    jaxmarl = pytest.importorskip(
        "jaxmarl", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
    )
    from_jaxmarl, to_jaxmarl = interop.from_jaxmarl, interop.to_jaxmarl
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:OvercookedV2 is now released:DeprecationWarning"),
]
STEPS = 60


@pytest.fixture(scope="module")
def spread():
    return jaxmarl.make("MPE_simple_spread_v3")


@pytest.mark.parametrize(
    ("name", "options", "actions"),
    [
        ("overcooked", {"layout": "cramped"}, [0, 1, 2, 3, 4, 5]),
        ("harvest", {"layout": "small", "cooldown": 0}, [1, 5, 7]),
    ],
)
def test_one_of_ours_is_the_same_through_the_adapter(name, options, actions, key):
    env = make(name, horizon=30, **options)
    theirs = to_jaxmarl(env)
    observations, state = theirs.reset(key)
    expected, own = env.reset(key)
    step, was_away = eqx.filter_jit(env.step), False
    for i in range(30):
        np.testing.assert_array_equal(observations["agent_1"], expected[1])
        step_key, action_key = jax.random.split(jax.random.fold_in(key, i))
        action = jax.random.choice(action_key, jnp.asarray(actions), (env.num_agents,))
        by_agent = dict(zip(theirs.agents, action, strict=True))
        observations, state, rewards, dones, infos = theirs.step_env(step_key, state, by_agent)
        timestep, own = step(step_key, own, action)
        expected = timestep.observation
        assert [*rewards.values()] == timestep.reward.tolist()
        np.testing.assert_array_equal([*infos["events"].values()], timestep.info["events"])
        assert {bool(done) for done in dones.values()} == {i == 29}
        was_away |= own.bodies.active is not None and not own.bodies.active.all()
    assert was_away == (name == "harvest")
    assert eqx.tree_equal(unwrap_state(state), own)
    assert theirs.observation_space("agent_0").shape == expected.shape[1:]
    assert theirs.action_space("agent_0").n == env.action_space.n
    assert theirs.get_avail_actions(state)["agent_1"].all()


def test_its_step_resets_with_keys_of_plain_numbers():
    theirs = to_jaxmarl(make("overcooked", layout="cramped", horizon=3))
    key = jax.random.PRNGKey(0)
    first, state = theirs.reset(key)
    for _ in range(3):
        seen, state, _, dones, _ = theirs.step(
            key, state, {agent: jnp.array(1) for agent in theirs.agents}
        )
    assert dones["__all__"]
    np.testing.assert_array_equal(seen["agent_0"], first["agent_0"])


@pytest.mark.parametrize(
    "name",
    [
        "MPE_simple_spread_v3",
        pytest.param("overcooked", marks=pytest.mark.slow),
        "MPE_simple_speaker_listener_v4",
        pytest.param("MPE_simple_world_comm_v3", marks=pytest.mark.slow),
        "switch_riddle",
    ],
)
def test_an_environment_of_jaxmarl_is_the_same_through_the_adapter(name, key):
    theirs = jaxmarl.make(name)
    env = from_jaxmarl(theirs, pad=name not in ("MPE_simple_spread_v3", "overcooked"))
    check_env(env)
    _, state = env.reset(key)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        _, world = theirs.reset(key)
    step = eqx.filter_jit(env.step)
    for i in range(STEPS):
        step_key, action_key = jax.random.split(jax.random.fold_in(key, i))
        action = jax.vmap(env.action_space.sample)(jax.random.split(action_key, env.num_agents))
        by_agent = {agent: own(theirs, agent, action[j]) for j, agent in enumerate(theirs.agents)}
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            expected, world, rewards, dones, _ = theirs.step_env(step_key, world, by_agent)
        timestep, state = step(step_key, state, action)
        observation, mask = split_mask(timestep.observation)
        for j, agent in enumerate(theirs.agents):
            size = expected[agent].shape[0]
            np.testing.assert_array_equal(observation[j][:size], expected[agent])
            assert not observation[j][size:].any()
            if mask is not None:
                assert mask[j].sum() == theirs.action_space(agent).n
            assert timestep.reward[j] == rewards[agent]
        assert timestep.done == dones["__all__"]
        if dones["__all__"]:
            break
    assert eqx.tree_equal(env.observe(state), timestep.observation)


def own(theirs, agent, action):
    """The action of an agent that may have fewer actions, or shorter ones, than others."""
    space = theirs.action_space(agent)
    return jnp.minimum(action, space.n - 1) if hasattr(space, "n") else action[: space.shape[0]]


def test_the_end_of_the_time_is_a_cut(spread, key):
    env = from_jaxmarl(spread)
    _, state = env.reset(key)
    step = eqx.filter_jit(env.step)
    for i in range(spread.max_steps + 1):  # noqa: B007
        timestep, state = step(key, state, jnp.zeros(3, jnp.int32))
        if timestep.done:
            break
    assert i >= spread.max_steps - 1
    assert timestep.truncated
    assert not timestep.terminated.any()


def test_the_command_line_knows_what_a_world_of_jaxmarl_is_like():
    kitchen = world_settings("jaxmarl:overcooked")
    assert kitchen.has_shaped_reward
    assert (kitchen.has_images, kitchen.normalize_observation) == (True, False)
    with pytest.raises(UsageError, match="no environment 'MPE_simple_spred'"):
        world_settings("jaxmarl:MPE_simple_spred")
    pair = world_settings("jaxmarl:MPE_simple_speaker_listener_v4")
    assert (pair.has_images, pair.normalize_observation) == (False, True)
    assert "Shorter observations are padded" in pair.remarks()[1]
    assert len(kitchen.remarks()) == 1


def their_masks(env, state):
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return env.get_avail_actions(state.world)


def test_masks_go_through_both_adapters(key):
    theirs = jaxmarl.make("HeuristicEnemySMAX")
    env = from_jaxmarl(theirs, mask=True)
    observation, state = eqx.filter_jit(env.reset)(key)
    allowed = their_masks(theirs, state)
    back = to_jaxmarl(env)
    back = back.get_avail_actions(back.reset(key)[1])
    for i, agent in enumerate(theirs.agents):
        np.testing.assert_array_equal(observation.action_mask[i], allowed[agent])
        np.testing.assert_array_equal(back[f"agent_{i}"], allowed[agent])
    assert 0 < observation.action_mask.sum() < observation.action_mask.size
    action = jnp.argmax(observation.action_mask, axis=1)
    timestep, after = eqx.filter_jit(env.step)(key, state, action)
    allowed = their_masks(theirs, after)
    expected = np.stack([allowed[agent] for agent in theirs.agents])
    np.testing.assert_array_equal(timestep.observation.action_mask, expected)


def test_the_page_tells_the_truth():  # and trains a team
    blocks = text_blocks("JaxMARL")
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})


def test_agents_with_equal_boxes_have_the_same_actions():
    env = from_jaxmarl(jaxmarl.make("MPE_simple_spread_v3", action_type="Continuous"))
    assert isinstance(env.action_space, Box)
    assert env.action_space.low.shape == (5,)
    check_env(env, steps=5)


class Mixed(type(jaxmarl.make("MPE_simple_spread_v3"))):
    """A world in which the first agent steers with numbers, and the others choose."""

    def action_space(self, agent):
        first = jaxmarl.make("MPE_simple_spread_v3", action_type="Continuous")
        return (first if agent == self.agents[0] else super()).action_space(agent)


def test_what_does_not_fit_is_one_sentence(spread):
    with pytest.raises(ValueError, match=r"see \(\d+,\), \(\d+,\): set pad=True"):
        from_jaxmarl(jaxmarl.make("MPE_simple_push_v3"))
    with pytest.raises(ValueError, match="have different actions"):
        from_jaxmarl(jaxmarl.make("MPE_simple_speaker_listener_v4"))
    with pytest.raises(ValueError, match="different kinds or bounds"):
        from_jaxmarl(Mixed(), pad=True)
    with pytest.raises(ValueError, match="is not a dict with an entry for each agent: put a wr"):
        from_jaxmarl(jaxmarl.make("storm_np"))
    with pytest.raises(ValueError, match="has no masks of allowed actions: set mask=False"):
        from_jaxmarl(spread, mask=True)
    with pytest.raises(ValueError, match="to_jaxmarl"):
        to_jaxmarl(Vectorize(AutoReset(TimeLimit(from_jaxmarl(spread), 5)), 2))


def test_an_entry_of_info_is_split_by_declaration(key):
    env = to_jaxmarl(WithRoomsByAgent(make("goals", num_agents=2)))
    _, state = env.reset(key)
    *_, infos = env.step_env(key, state, {"agent_0": jnp.asarray(4), "agent_1": jnp.asarray(4)})
    assert infos["soups"].tolist() == [10, 20]
    assert infos["steps"].keys() == infos["shaped_reward"].keys() == {"agent_0", "agent_1"}
