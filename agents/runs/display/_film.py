"""Films (GIF) of one episode."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from agents.evaluation._evaluate import Players
from agents.evaluation._record import record_steps
from eqgrid import AbstractVectorEnv, PyTree

_LONGEST = 1000
"""The maximum length of a film, in steps; of a longer episode, only the beginning is shown."""


def film_episode(
    policy: Players,
    env: AbstractVectorEnv,
    draw: Callable[[PyTree, Sequence[float]], bytes],
    key: PRNGKeyArray,
    horizon: int | None,
) -> bytes:
    """Plays one episode and draws it as a GIF.

    **Arguments:**

    - `policy`: the policy, whose actions are sampled.
    - `env`: one environment (`num_envs=1`), with the wrappers that the policy needs.
    - `draw`: draws a film from states with a leading time axis, and the return before each state.
    - `key`: the source of randomness.
    - `horizon`: the maximum length of an episode, in steps; `None` if it is not known.

    **Returns:** the content of a GIF, as `draw` returns it.
    """
    steps = min(horizon or _LONGEST, _LONGEST)
    states, rewards, done = record(policy, env, key, steps)
    length = int(np.append(np.flatnonzero(done) + 1, steps)[0])
    states, rewards = jax.tree.map(lambda x: x[:length], (states, rewards))
    return draw(states, scores_before(np.asarray(rewards)))


def scores_before(rewards: Float[np.ndarray, " steps"]) -> list[float]:
    """The return before each step of an episode, from the rewards of its steps."""
    return np.concatenate([[0.0], np.cumsum(rewards)[:-1]]).tolist()


def record(
    policy: Players, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[PyTree, Float[Array, " steps"], Bool[Array, " steps"]]:
    """Plays a number of steps in one environment, from the start of an episode.

    **Arguments:**

    - `policy`, `env`, `key`: as in `film_episode`.
    - `steps`: the number of steps.

    **Returns:** the states before each step, the reward of each step (the mean over agents), and
    whether an episode ended with it. All of them have a leading axis of steps.
    """
    key, init_key = jax.random.split(key)
    keys = jax.random.split(key, (steps, 2))
    rows, done, _ = record_steps(policy, env, init_key, keys, False)
    states = jax.tree.map(lambda x: x[:, 0], rows["state"])
    return states, jnp.mean(rows["reward"][:, 0], axis=-1), done[:, 0]
