"""A world in which an action has two choices, a move and a word, for the tests of such actions."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Masked, MultiDiscrete, TimeStep

NS = (3, 5)
SPACE = MultiDiscrete(NS)


class Signals(AbstractEnv):
    """Each agent sees two numbers, and earns 1 for the move and 1 for the word that they name.

    With a mask, only two moves and two words are allowed, the named ones among them.
    """

    num_agents: int = eqx.field(static=True, default=2)
    masked: bool = eqx.field(static=True, default=True)
    action_space: MultiDiscrete = SPACE
    by_agent = ("action",)

    def reset(self, key):
        state = (jnp.asarray(0), key)
        return self.observe(state), state

    def step(self, key, state, action):
        reward = (action == self._wanted(state)).astype(float).sum(axis=-1)
        time, key = state[0] + 1, jax.random.fold_in(state[1], 1)
        over = jnp.zeros(self.num_agents, bool)
        info = {"action": action}
        return TimeStep(self.observe((time, key)), reward, over, time >= 6, info), (time, key)

    def observe(self, state):
        wanted = self._wanted(state)
        hot = [jax.nn.one_hot(wanted[:, i], n) for i, n in enumerate(self.action_space.ns)]
        observation = jnp.concatenate(hot, axis=-1)
        if not self.masked:
            return observation
        other = [jnp.roll(x, 1, axis=-1) for x in hot]
        return Masked(observation, (observation + jnp.concatenate(other, axis=-1)) > 0)

    def _wanted(self, state):
        keys = jax.random.split(state[1], self.num_agents)
        return jax.vmap(self.action_space.sample)(keys)
