"""What the tests of `agents` share: an environment with every kind of end, and a GRU."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from agents import MLP, AbstractNetwork, actor_critic, collect_rollout, init_runner
from eqgrid import (
    AbstractEnv,
    AutoReset,
    Discrete,
    LogEpisodes,
    NormalizeObservation,
    TimeStep,
    Vectorize,
)


class Clock(AbstractEnv):
    """An episode of 3 to 9 steps that a coin ends by a time limit or by the end of the task.

    The first agent's task is over after 4 steps already. An agent sees its number, the time, and
    the length and the kind of its episode; it earns `10 * time + number + action`.
    """

    num_agents: int = eqx.field(static=True, default=2)
    action_space: Discrete = Discrete(3)

    def reset(self, key):
        length_key, kind_key = jax.random.split(key)
        length = jax.random.randint(length_key, (), 3, 10)
        state = jnp.stack([jnp.asarray(0), length, jax.random.bernoulli(kind_key).astype(int)])
        return self.observe(state), state

    def step(self, key, state, action):
        state = state + jnp.array([1, 0, 0])
        time, length, limited = state
        number = jnp.arange(self.num_agents)
        reward = (10 * time + number + action).astype(float)
        over = (time >= length) & (limited == 0)
        terminated = over | ((number == 0) & (time >= 4))
        truncated = (time >= length) & (limited == 1)
        return TimeStep(self.observe(state), reward, terminated, truncated, {}), state

    def observe(self, state):
        shared = jnp.broadcast_to(state.astype(float), (self.num_agents, 3))
        return jnp.concatenate([jnp.arange(self.num_agents, dtype=float)[:, None], shared], axis=1)


class GRU(AbstractNetwork):
    """A recurrent network, as a user would write one."""

    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self, in_shape, out_size, *, final_scale, key):
        cell_key, head_key = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(in_shape[0], 8, key=cell_key)
        self.head = eqx.nn.Linear(8, out_size, key=head_key)

    def initial_carry(self):
        return jnp.full(8, 0.5)

    def __call__(self, x, carry):
        carry = self.cell(x, carry)
        return 3.0 * self.head(carry), carry


def loud_mlp(in_shape, out_size, *, final_scale, key):
    """An MLP whose first policy is far from uniform, so that a wrong log-probability shows."""
    return MLP(in_shape, out_size, width=16, final_scale=1.0, key=key)


def clocks(num_envs, *, num_agents=2, normalize=False):
    env = Vectorize(AutoReset(LogEpisodes(Clock(num_agents))), num_envs)
    return NormalizeObservation(env) if normalize else env


@eqx.filter_jit
def roll(policy, env, key, length, **choices):
    init_key, collect_key = jax.random.split(key)
    return collect_rollout(
        policy, env, init_runner(policy, env, init_key), collect_key, length, **choices
    )


@eqx.filter_jit
def build(env, key, **choices):
    """`actor_critic` in one compilation, which is faster than operation by operation."""
    return actor_critic(env, key, **choices)


def assert_close(a, b, tolerance=1e-5):
    """Two PyTrees of numbers are equal but for rounding."""
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance),
        eqx.filter(a, eqx.is_inexact_array),
        eqx.filter(b, eqx.is_inexact_array),
    )
