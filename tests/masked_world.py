"""A world in which most actions are forbidden, for the tests of masks."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Discrete, Masked, TimeStep

ACTIONS = 5


class Trapdoors(AbstractEnv):
    """In each step a few of five actions are allowed to each agent, and the others are trapdoors.

    A fall costs 100, and ends the fallen agent's task, from where on nothing is allowed to it. An
    episode is cut after 6 steps. What an agent sees does not tell what is allowed.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(ACTIONS)

    def reset(self, key):
        state = (jnp.asarray(0), jnp.zeros(self.num_agents, bool), key)
        return self.observe(state), state

    def step(self, key, state, action):
        allowed = self.observe(state).action_mask
        time, fallen, key = state
        falls = ~jnp.take_along_axis(allowed, action[:, None], axis=1)[:, 0] & ~fallen
        state = (time + 1, fallen | falls, jax.random.fold_in(key, 1))
        reward = jnp.where(falls, -100.0, action.astype(float))
        info = {"fallen": fallen | falls}
        cut = time + 1 >= 6
        return TimeStep(self.observe(state), reward, state[1], cut, info), state

    def observe(self, state):
        time, fallen, key = state
        score = jax.random.uniform(key, (self.num_agents, ACTIONS))
        allowed = (score < 0.4) | (score == score.min(axis=1, keepdims=True))
        seen = jnp.stack([jnp.full(self.num_agents, time), jnp.arange(self.num_agents)], axis=1)
        return Masked(10.0 * seen.astype(float), allowed & ~fallen[:, None])
