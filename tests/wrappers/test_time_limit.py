import equinox as eqx
import jax.numpy as jnp
import numpy as np
from cart_pole import CartPole
from wrapper_checks import rollout

from eqgrid import AppendAgentId, TimeLimit, iter_wrappers, make, replace_innermost, unwrap


def test_cuts_on_the_last_step_and_not_before(key):
    _, timesteps, states = rollout(TimeLimit(CartPole(), 4), key, jnp.zeros((6, 1), int))
    np.testing.assert_array_equal(timesteps.truncated, [False, False, False, True, True, True])
    np.testing.assert_array_equal(states.count, [1, 2, 3, 4, 5, 6])
    assert not timesteps.terminated.any()


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


def test_the_innermost_environment_of_a_stack_is_replaced(key):
    stack = TimeLimit(AppendAgentId(TimeLimit(make("goals", horizon=9), 7)), 5)
    other = replace_innermost(stack, lambda world: make("goals", num_agents=3, horizon=9))
    assert [type(x) for x in iter_wrappers(other)] == [type(x) for x in iter_wrappers(stack)]
    assert (other.num_agents, unwrap(other).num_agents) == (3, 3)
    assert other.reset(key)[0].shape[0] == 3
    assert unwrap(stack).num_agents == 2
