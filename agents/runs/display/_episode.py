"""The film of one episode."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from agents import ActorCritic
from eqgrid import AbstractVectorEnv

from ._film import record

_LONGEST = 1000
"""In steps: what is not shown of an episode is more of the same."""


def film_episode(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    draw: Callable[[PyTree, Sequence[float]], bytes],
    key: PRNGKeyArray,
    horizon: int | None,
) -> bytes:
    """Plays one episode and draws it.

    **Arguments:**

    - `policy`: who plays.
    - `env`: the world in one environment (`num_envs=1`), as the policy must be shown it.
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
