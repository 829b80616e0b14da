"""A race: a small environment of several agents, for the tests of the wrappers."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eqgrid import AbstractEnv, Discrete, TimeStep


class RaceState(eqx.Module):
    position: Float[Array, " agents"]
    time: Int[Array, ""]
    key: PRNGKeyArray


class Race(AbstractEnv):
    """Runners start anywhere in [0, 2) and stop, each in its own time, at the goal.

    An episode's luck comes from a typed key in its state and not from the key of `step`, so that a
    step can be repeated. The observation is a dict of a float vector and a uint8 picture.
    """

    goal: Float[Array, ""]
    num_agents: int = eqx.field(static=True)
    action_space: Discrete

    def __init__(self, num_agents: int = 3, goal: float | Float[Array, ""] = 4.0):
        self.goal = jnp.asarray(goal, dtype=float)
        self.num_agents = num_agents
        self.action_space = Discrete(3)

    def reset(self, key):
        start_key, luck_key = jax.random.split(key)
        position = jax.random.uniform(start_key, (self.num_agents,), maxval=2.0)
        state = RaceState(position=position, time=jnp.asarray(0), key=luck_key)
        return self.observe(state), state

    def step(self, key, state, action):
        luck_key, next_key = jax.random.split(state.key)
        running = state.position < self.goal
        stride = 0.5 * action.astype(float) + jax.random.uniform(luck_key, action.shape)
        stride = jnp.where(running, stride, 0.0)
        state = RaceState(state.position + stride, state.time + 1, next_key)
        arrived = state.position >= self.goal
        reward = 10.0 * (arrived & running).astype(float) - 0.5
        info = {
            "shaped_reward": stride,
            "events": jnp.stack([50 * action, (arrived & running).astype(int)], -1).astype(
                jnp.uint8
            ),
            "raw_reward": reward,
            "time": state.time,
        }
        timestep = TimeStep(self.observe(state), reward, arrived, jnp.asarray(False), info)
        return timestep, state

    def observe(self, state):
        ahead = state.position[:, None] - state.position[None, :]
        vector = jnp.concatenate([state.position[:, None], ahead], axis=1)
        picture = jnp.outer(10.0 * state.position, jnp.arange(12.0)).astype(jnp.uint8)
        return {"vector": vector, "picture": picture.reshape(-1, 2, 3, 2)}
