import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from race import Race
from wrapper_checks import assert_same, rollout, sample_actions

from eqgrid import AutoReset, LogEpisodes, TimeLimit


def test_logs_finished_episodes_only(key):
    env = AutoReset(LogEpisodes(TimeLimit(CartPole(), 3)))
    _, timesteps, _ = rollout(env, key, jnp.zeros((7, 1), int))
    ends = np.array([False, False, True, False, False, True, False])
    np.testing.assert_array_equal(timesteps.info["episode_done"], ends)
    np.testing.assert_array_equal(timesteps.info["episode_length"], 3 * ends)
    np.testing.assert_array_equal(timesteps.info["episode_return"][:, 0], 3.0 * ends)


def test_is_the_same_inside_and_outside_auto_reset(key):
    limited = TimeLimit(Race(), 5)
    inside = AutoReset(LogEpisodes(limited, totals=("events", "time")))
    outside = LogEpisodes(AutoReset(limited), totals=("events", "time"))
    actions = sample_actions(inside, key, 30)
    _, a, _ = rollout(inside, key, actions)
    _, b, _ = rollout(outside, key, actions)
    assert_same(a, b)
    assert a.info["episode_done"].sum() > 3


def test_shapes_and_dtypes(key):
    env = LogEpisodes(Race(), totals=("events", "shaped_reward"))
    _, timesteps, _ = rollout(env, key, jnp.zeros((1, 3), int))
    shapes = {k: (v.shape[1:], v.dtype) for k, v in timesteps.info.items() if "episode_" in k}
    assert shapes == {
        "episode_return": ((3,), jnp.float32),
        "episode_length": ((), jnp.int32),
        "episode_done": ((), jnp.bool_),
        "episode_events": ((3, 2), jnp.int32),
        "episode_shaped_reward": ((3,), jnp.float32),
    }


def test_changes_nothing_else(key):
    env = LogEpisodes(Race())
    actions = sample_actions(env, key, 5)
    _, logged, _ = rollout(env, key, actions)
    _, plain, _ = rollout(Race(), key, actions)
    kept = {name: logged.info[name] for name in plain.info}
    assert_same(eqx.tree_at(lambda t: t.info, logged, kept), plain)


def test_an_unknown_total_is_refused():
    with pytest.raises(ValueError, match=r"needs info\['evnts'\].*'events', 'raw_reward'"):
        LogEpisodes(Race(), totals=("evnts",))


@pytest.mark.parametrize("name", ["return", "length", "done"])
def test_a_total_may_not_take_a_name_of_its_own(name):
    with pytest.raises(ValueError, match=f"'episode_{name}'"):
        LogEpisodes(Race(), totals=("events", name))


def test_equal_environments_have_equal_structure():
    """What is looked up when building is static, and must not make a program compile again."""
    a, b = (LogEpisodes(Race(), totals=("events",)) for _ in range(2))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert hash(jax.tree.structure(a)) == hash(jax.tree.structure(b))
