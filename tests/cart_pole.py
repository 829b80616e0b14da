"""Cart-pole (Barto, Sutton & Anderson, 1983) with the constants of Gymnasium's CartPole-v1."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Discrete, TimeStep


class CartPole(AbstractEnv):
    num_agents: int = eqx.field(static=True, default=1)
    action_space: Discrete = Discrete(2)

    def reset(self, key):
        state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return self.observe(state), state

    def step(self, key, state, action):
        _, speed, angle, spin = state
        push = jnp.where(action[0] == 1, 10.0, -10.0)
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        drive = (push + 0.05 * spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * drive) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        pull = drive - 0.05 * turn * cos / 1.1
        state = state + 0.02 * jnp.stack([speed, pull, spin, turn])
        fallen = jnp.any(jnp.abs(state[::2]) > jnp.array([2.4, jnp.pi / 15]), keepdims=True)
        info = {"shaped_reward": jnp.cos(state[2:3])}
        return TimeStep(self.observe(state), jnp.ones(1), fallen, jnp.array(False), info), state

    def observe(self, state):
        return state[None]
