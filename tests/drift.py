"""A world in which chance alone moves the agents, for tests of keys."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Discrete, TimeStep


class Drift(AbstractEnv):
    """The key of each step says how far the agents move, and nothing in the state does.

    An agent sees a 0 and its place, and earns its place after the step. No episode ends.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(3)

    def reset(self, key):
        state = jax.random.uniform(key, (self.num_agents,))
        return self.observe(state), state

    def step(self, key, state, action):
        state = state + jax.random.uniform(key, (self.num_agents,))
        over = jnp.zeros(self.num_agents, bool)
        info = {"shaped_reward": state, "events": jnp.zeros((self.num_agents, 1), int)}
        return TimeStep(self.observe(state), state, over, jnp.asarray(False), info), state

    def observe(self, state):
        return jnp.stack([jnp.zeros(self.num_agents), state], axis=1)
