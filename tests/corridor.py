"""An environment whose classes know nothing of eqgrid."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp


class Result(NamedTuple):
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: dict


class Corridor(eqx.Module):
    """One agent walks to the right end of a corridor."""

    action_space: Any
    num_agents: int = eqx.field(static=True, default=1)
    length: int = eqx.field(static=True, default=7)

    def reset(self, key):
        state = jnp.zeros((), int)
        return self.observe(state), state

    def step(self, key, state, action):
        state = jnp.clip(state + 2 * action[0] - 1, 0, self.length - 1)
        done = (state == self.length - 1)[None]
        info = {"shaped_reward": state[None].astype(float)}
        return Result(
            self.observe(state), done.astype(float), done, jnp.asarray(False), info
        ), state

    def observe(self, state):
        return jax.nn.one_hot(state, self.length)[None]
