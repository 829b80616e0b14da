"""The film of one episode, which is recorded state by state."""

import functools
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from agents import ActorCritic, RunnerState, init_runner, step_runner
from eqgrid import AbstractVectorEnv, unwrap_state

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

    - `policy`: plays the episode.
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


@eqx.filter_jit
def record(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[PyTree, Float[Array, " steps"], Bool[Array, " steps"]]:
    """Plays a number of steps, from the start of an episode.

    **Arguments:**

    - `policy`: plays, drawing from its distribution.
    - `env`: one environment (`num_envs=1`).

    **Returns:** the states before each step, the reward of each step (the mean over agents), and
    whether the episode was then over.
    """
    key, init_key = jax.random.split(key)
    runner = init_runner(policy, env, init_key)
    arrays, rest = eqx.partition(runner, eqx.is_array)
    step = functools.partial(_step, policy, env, rest)
    _, recorded = jax.lax.scan(step, arrays, jax.random.split(key, (steps, 2)))
    return recorded


def _step(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    rest: RunnerState,
    arrays: RunnerState,
    keys: Shaped[PRNGKeyArray, " 2"],
) -> tuple[RunnerState, tuple[PyTree, Float[Array, ""], Bool[Array, ""]]]:
    runner = eqx.combine(arrays, rest)
    noise = policy.head.noise(keys[0], env.action_space, (env.num_envs, env.num_agents))
    _, timestep, after = step_runner(policy, env, runner, noise, keys[1])
    world = jax.tree.map(lambda x: x[0], unwrap_state(runner.env_state))
    reward = timestep.earned(runner.active)[0].mean()
    return eqx.filter(after, eqx.is_array), (world, reward, timestep.done[0])
