"""A world of two agents whose actions are numbers in a box."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Box, TimeStep


class Reach(AbstractEnv):
    """Two agents see their numbers and the time; they earn less the further each of the two rows of
    an action is from the numbers.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Box = Box(jnp.array([-1.0, 0.0, 5.0]), jnp.array([1.0, 3.0, 6.0]), (2, 3))

    def reset(self, key):
        state = {"goal": jax.random.normal(key, (2, 2)), "time": jnp.zeros(())}
        return self.observe(state), state

    def step(self, key, state, action):
        reward = -jnp.abs(action.sum(axis=-1) - state["goal"]).sum(axis=-1)
        state = {"goal": state["goal"], "time": state["time"] + 1}
        info = {"inside": jax.vmap(self.action_space.contains)(action).all()}
        over = jnp.broadcast_to(state["time"] >= 6, (2,))
        return TimeStep(self.observe(state), reward, over, jnp.array(False), info), state

    def observe(self, state):
        return jnp.concatenate([state["goal"], jnp.full((2, 1), state["time"])], axis=1)
