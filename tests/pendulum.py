"""The torque-limited pendulum with the constants of Gymnasium's Pendulum-v1."""

import equinox as eqx
import jax
import jax.numpy as jnp

from eqgrid import AbstractEnv, Box, TimeStep


class Pendulum(AbstractEnv):
    num_agents: int = eqx.field(static=True, default=1)
    action_space: Box = Box(-2.0, 2.0, (1,))

    def reset(self, key):
        limit = jnp.array([jnp.pi, 1.0])
        state = jax.random.uniform(key, (2,), minval=-limit, maxval=limit)
        return self.observe(state), state

    def step(self, key, state, action):
        angle, speed = state
        torque = jnp.clip(action[0, 0], -2.0, 2.0)
        wrapped = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
        cost = wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = jnp.clip(speed + 0.05 * (15.0 * jnp.sin(angle) + 3.0 * torque), -8.0, 8.0)
        state = jnp.stack([angle + 0.05 * speed, speed])
        never = jnp.zeros(1, dtype=bool)
        return TimeStep(self.observe(state), -cost[None], never, jnp.array(False), {}), state

    def observe(self, state):
        angle, speed = state
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])[None]
