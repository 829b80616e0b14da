import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from race import Race
from wrapper_checks import rollout

from eqgrid import (
    AppendAgentId,
    AutoReset,
    TimeLimit,
    iter_wrappers,
    make,
    replace_innermost,
    unwrap,
)


def test_cuts_on_the_last_step_and_not_before(key):
    _, timesteps, states = rollout(TimeLimit(CartPole(), 4), key, jnp.zeros((6, 1), int))
    np.testing.assert_array_equal(timesteps.truncated, [False, False, False, True, True, True])
    np.testing.assert_array_equal(states.count, [1, 2, 3, 4, 5, 6])
    assert not timesteps.terminated.any()


def test_a_limit_of_one_cuts_every_step(key):
    env = AutoReset(TimeLimit(CartPole(), 1))
    _, timesteps, _ = rollout(env, key, jnp.zeros((3, 1), int))
    assert timesteps.truncated.all()


@pytest.mark.slow
def test_a_cut_is_no_end_of_the_task(key):
    """Both are reported where both happen, and neither stands in for the other."""
    env = TimeLimit(Race(goal=100.0), 2)
    _, cut, _ = rollout(env, key, jnp.zeros((2, 3), int))
    assert cut.truncated[-1]
    assert not cut.terminated.any()
    # From a start below 2, two strides of at least 1 reach 2, in the second step at the latest.
    _, both, _ = rollout(TimeLimit(Race(goal=2.0), 2), key, jnp.full((2, 3), 2))
    assert both.truncated[-1]
    assert both.terminated[-1].all()
    assert not both.truncated[0]


def test_an_inner_cut_is_kept(key):
    actions = jnp.zeros((5, 1), int)
    for inner, outer in [(2, 4), (4, 2)]:
        _, timesteps, _ = rollout(TimeLimit(TimeLimit(CartPole(), inner), outer), key, actions)
        np.testing.assert_array_equal(timesteps.truncated, [False, True, True, True, True])


def test_limits_can_be_batched(key):
    envs = eqx.filter_vmap(lambda limit: TimeLimit(CartPole(), limit))(jnp.array([1, 3]))
    roll = eqx.filter_vmap(rollout, in_axes=(eqx.if_array(0), None, None))
    _, timesteps, _ = roll(envs, key, jnp.zeros((4, 1), int))
    np.testing.assert_array_equal(timesteps.truncated.sum(axis=1), [4, 2])


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit):
    with pytest.raises(ValueError, match=f"from 1 to 1,073,741,824 steps, but got {limit}"):
        TimeLimit(CartPole(), limit)


@pytest.mark.slow
def test_changes_nothing_else(key):
    actions = jax.random.randint(key, (8, 3), 0, 3)
    _, plain, _ = rollout(Race(), key, actions)
    _, limited, _ = rollout(TimeLimit(Race(), 3), key, actions)
    restored = eqx.tree_at(lambda t: t.truncated, limited, plain.truncated)
    assert eqx.tree_equal(restored, plain)


def test_the_innermost_environment_of_a_stack_is_replaced(key):
    stack = TimeLimit(AppendAgentId(TimeLimit(make("goals", horizon=9), 7)), 5)
    other = replace_innermost(stack, lambda world: make("goals", num_agents=3, horizon=9))
    assert [type(x) for x in iter_wrappers(other)] == [type(x) for x in iter_wrappers(stack)]
    assert (other.num_agents, unwrap(other).num_agents) == (3, 3)
    assert other.reset(key)[0].shape[0] == 3
    assert unwrap(stack).num_agents == 2
