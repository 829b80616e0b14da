import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from race import Race

from eqgrid import AbstractEnv, AppendAgentId, Discrete, TimeStep


def test_appends_to_vectors_and_pictures(key):
    """With twelve agents, so that no order of names can mix up 10 and 2."""
    plain, _ = Race(num_agents=12).reset(key)
    observation, _ = AppendAgentId(Race(num_agents=12)).reset(key)
    vector, picture = observation["vector"], observation["picture"]
    assert vector.shape == (12, 13 + 12)
    assert picture.shape == (12, 2, 3, 2 + 12)
    assert (vector.dtype, picture.dtype) == (jnp.float32, jnp.uint8)
    np.testing.assert_array_equal(vector[:, :13], plain["vector"])
    np.testing.assert_array_equal(picture[..., :2], plain["picture"])
    for agent in range(12):
        np.testing.assert_array_equal(np.flatnonzero(vector[agent, 13:]), [agent])
        planes = np.asarray(picture[agent, :, :, 2:])
        assert (planes[..., agent] == 1).all()
        assert planes.sum() == 2 * 3


def test_a_single_agent_gets_a_one(key):
    observation, _ = AppendAgentId(CartPole()).reset(key)
    assert observation.shape == (1, 5)
    assert observation[0, -1] == 1


class Scalar(AbstractEnv):
    """An environment that shows one number per agent."""

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = jnp.zeros(2)
        return self.observe(state), state

    def step(self, key, state, action):
        end = jnp.zeros(2, bool)
        return TimeStep(self.observe(state), jnp.zeros(2), end, jnp.asarray(False), {}), state

    def observe(self, state):
        return state


def test_one_number_per_agent_is_refused():
    with pytest.raises(ValueError, match="return it as `agents 1`"):
        AppendAgentId(Scalar())
