"""The film of one episode."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from agents import ActorCritic
from agents.evaluation._record import record_steps
from eqgrid import AbstractVectorEnv

_LONGEST = 1000
"""In steps: longer episodes are shown up to here."""


def film_episode(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    draw: Callable[[PyTree, Sequence[float]], bytes],
    key: PRNGKeyArray,
    horizon: int | None,
) -> bytes:
    """Plays one episode and draws it.

    **Arguments:**

    - `policy`: chooses the actions, by drawing from its distribution.
    - `env`: one environment (`num_envs=1`), with the wrappers that the policy needs.
    - `draw`: draws states, with what was earned before each of them.
    - `key`: the source of randomness.
    - `horizon`: how many steps an episode has at most, if that is known.

    **Returns:** a GIF, with the score below each picture.
    """
    steps = min(horizon or _LONGEST, _LONGEST)
    states, rewards, done = record(policy, env, key, steps)
    length = int(np.append(np.flatnonzero(done) + 1, steps)[0])
    states, rewards = jax.tree.map(lambda x: x[:length], (states, rewards))
    scores = np.concatenate([[0.0], np.cumsum(rewards)[:-1]])
    return draw(states, scores.tolist())


def record(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[PyTree, Float[Array, " steps"], Bool[Array, " steps"]]:
    """Plays a number of steps in one environment, from the start of an episode.

    **Returns:** the states before each step, the reward of each step (the mean over agents), and
    whether the episode ended with it.
    """
    key, init_key = jax.random.split(key)
    keys = jax.random.split(key, (steps, 2))
    rows, done, _ = record_steps(policy, env, init_key, keys, False)
    states = jax.tree.map(lambda x: x[:, 0], rows["state"])
    return states, jnp.mean(rows["reward"][:, 0], axis=-1), done[:, 0]
