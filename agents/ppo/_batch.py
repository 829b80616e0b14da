"""Training batches: rollouts cut into sequences, and minibatches of sequences."""

import dataclasses
import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from eqgrid.typing import PyTree

from ._rollout import Rollout


@final
class Minibatch(eqx.Module):
    """Sequences of a rollout, each of `chunk` consecutive steps of one environment.

    **Arguments:**

    - `rollout`: the steps, with axes `[chunk, sequences]` in place of `[time, envs]`, and without
        `carry` and `info`.
    - `carry`: the carry of the agents before the first step of each sequence.
    - `advantage`: the estimated advantage of each action.
    - `target`: the regression target of the critic.
    """

    rollout: Rollout
    carry: PyTree[Shaped[Array, "sequences agents ..."]]
    advantage: Float[Array, "chunk sequences agents"]
    target: Float[Array, "chunk sequences agents"]


def cut_rollout(
    rollout: Rollout,
    advantage: Float[Array, "time envs agents"],
    target: Float[Array, "time envs agents"],
    chunk: int,
) -> Minibatch:
    """Cuts a rollout into sequences.

    **Arguments:**

    - `rollout`: the rollout.
    - `advantage`, `target`: the values of every step, as in `Minibatch`.
    - `chunk`: the number of steps of a sequence; it must divide the length of the rollout.

    **Returns:** all sequences; together, they contain every step once.
    """

    def cut(x: Shaped[Array, "time envs ..."]) -> Shaped[Array, "chunk sequences ..."]:
        # [time, envs] -> [chunks, chunk, envs] -> [chunk, chunks * envs]
        length, num_envs, *rest = x.shape
        x = x.reshape(length // chunk, chunk, num_envs, *rest)
        return jnp.moveaxis(x, 1, 0).reshape(chunk, -1, *rest)

    # Only the carry before each sequence is kept. Later carries depend on the parameters, so every
    # gradient step computes them again (Kapturowski et al. 2019, "stored state").
    carry = jax.tree.map(lambda x: x[::chunk].reshape(-1, *x.shape[2:]), rollout.carry)
    steps = (dataclasses.replace(rollout, carry=None, info={}), advantage, target)
    steps, advantage, target = jax.tree.map(cut, steps)
    return Minibatch(steps, carry, advantage, target)


def shuffle(
    key: PRNGKeyArray, num_sequences: int, num_epochs: int, num_minibatches: int
) -> Int[Array, "steps sequences"]:
    """Samples the minibatches of all gradient steps of an update.

    **Arguments:**

    - `key`: the source of randomness.
    - `num_sequences`: the number of sequences in the batch.
    - `num_epochs`: the number of passes over the batch.
    - `num_minibatches`: the number of minibatches per epoch; it must divide `num_sequences`.

    **Returns:** for every gradient step, the sequences of its minibatch, as indices (rows) into the
    batch. Every epoch contains every sequence once.
    """
    if num_sequences > 2**18:
        # The trick below would leave fewer than 14 random bits, and ties would keep neighbours
        # together.
        keys = jax.random.split(key, num_epochs)
        rows = jax.vmap(lambda key: jax.random.permutation(key, num_sequences))(keys)
    else:
        # Each number has random high bits, and its row in the low bits. Sorting such numbers is
        # five times faster than an argsort. The rows break ties of the high bits, which about 16
        # rows share if there are 2^18 rows.
        low = jnp.uint32(2 ** (num_sequences - 1).bit_length() - 1)
        # Sampling random bits along one axis compiles three times as fast.
        bits = jax.random.bits(key, (num_epochs * num_sequences,))
        index = jnp.arange(num_sequences, dtype=jnp.uint32)[None]
        bits = bits.reshape(num_epochs, num_sequences) & ~low
        rows = jnp.sort(bits | index, axis=-1) & low
    return rows.astype(jnp.int32).reshape(num_epochs * num_minibatches, -1)


def minibatch(batch: Minibatch, rows: Int[Array, " picked"]) -> Minibatch:
    """Picks sequences of a batch by their rows."""
    # Rows are in bounds by construction, so XLA need not clamp them. Sequences are the first axis
    # of the carry, and the second axis of everything else.
    steps = dataclasses.replace(batch, carry=None)
    steps = jax.tree.map(lambda x: x.at[:, rows].get(mode="promise_in_bounds"), steps)
    carry = jax.tree.map(lambda x: x.at[rows].get(mode="promise_in_bounds"), batch.carry)
    return dataclasses.replace(steps, carry=carry)


def of_agent(batch: Minibatch, agent: Int[Array, "chunk sequences"]) -> Minibatch:
    """Picks one agent for each step. The axis of the agents stays, with one entry.

    **Arguments:**

    - `batch`: sequences of all agents.
    - `agent`: the agent of each step. It may change within a sequence where an episode starts.
    """

    def pick(agent: Int[Array, "..."], x: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        if x.ndim == agent.ndim:  # `start` and `done` have no axis of the agents
            return x
        index = agent.reshape(*agent.shape, *[1] * (x.ndim - agent.ndim))
        return jnp.take_along_axis(x, index, axis=agent.ndim)

    steps = jax.tree.map(functools.partial(pick, agent), dataclasses.replace(batch, carry=None))
    # The carry before a sequence is needed for the agent of its first step only: where the agent
    # changes, an episode starts, and the carry is reset.
    carry = jax.tree.map(functools.partial(pick, agent[0]), batch.carry)
    return dataclasses.replace(steps, carry=carry)


def nearest_divisors(wanted: int, total: int) -> str:
    """The largest divisor of `total` below `wanted` and the smallest one above it, as a text."""
    divisors = [n for n in range(1, total + 1) if total % n == 0]
    below = [n for n in divisors if n < wanted][-1:]
    above = [n for n in divisors if n > wanted][:1]
    return " and ".join(str(n) for n in below + above)
