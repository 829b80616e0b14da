"""The film of one episode."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from agents import ActorCritic
from eqgrid import AbstractVectorEnv
from eqgrid.grid import GridWorld, RandomLayouts
from experiments._film import record

_LONGEST = 1000
"""In steps: what is not shown of an episode is more of the same."""


def film_episode(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    world: GridWorld | RandomLayouts,
    key: PRNGKeyArray,
    horizon: int,
) -> bytes:
    """Plays one episode and draws it.

    **Arguments:**

    - `policy`: who plays.
    - `env`: the world in one environment (`num_envs=1`), as the policy must be shown it.
    - `world`: the world, which draws its states.
    - `key`: the source of randomness.
    - `horizon`: how many steps an episode has at most.

    **Returns:** a GIF, with the score below each picture.
    """
    steps = min(horizon, _LONGEST)
    states, rewards, done = record(policy, env, key, steps)
    length = int(np.append(np.flatnonzero(done) + 1, steps)[0])
    states, rewards = jax.tree.map(lambda x: x[:length], (states, rewards))
    scores = np.concatenate([[0.0], np.cumsum(rewards)[:-1]])
    return world.render_episode(
        states,
        captions=[f"{score:g}" for score in scores],
        cell_pixels=min(64, max(4, 1024 // max(world.shape))),
    )
