"""A wrapper with entries of `info` for two rooms, in worlds of as many agents."""

import equinox as eqx
import jax.numpy as jnp

from eqgrid import AbstractEnv, AbstractWrapper


class WithRooms(AbstractWrapper):
    """Counts soups for each of two rooms, and steps for each agent."""

    env: AbstractEnv

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        more = {"soups": jnp.array([10.0, 20.0]), "rooms": jnp.array([2])}
        info = {**timestep.info, **more, "steps": jnp.arange(self.num_agents)}
        return eqx.tree_at(lambda t: t.info, timestep, info), state

    def observe(self, state):
        return self.env.observe(state)


class WithRoomsByAgent(WithRooms):
    """It declares the entry with a row for each agent."""

    by_agent = ("steps",)
