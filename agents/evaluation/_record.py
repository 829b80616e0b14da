"""Episodes of a policy, recorded step by step."""

import functools
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from agents.policies._policy import ActorCritic
from agents.ppo._runner import RunnerState, init_runner, step_runner
from agents.training._memory import check_memory
from eqgrid import AbstractVectorEnv, Trajectories, unwrap_state

from ._evaluate import check_frozen


def record_episodes(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    *,
    max_steps: int,
    greedy: bool = False,
) -> Trajectories:
    """Plays one episode in each environment, and keeps all that happens in it.

    With the same arguments, they are the episodes that `evaluate` plays.

    **Arguments:**

    - `policy`, `env`, `key`, `greedy`: as in `evaluate`; `env` needs no `LogEpisodes`.
    - `max_steps`: how many steps an episode has at most. There must be memory for as many steps of
        every environment.

    **Returns:** the episodes, in the order of the environments.

    **Raises:** `ValueError` as `evaluate`, and `OutOfMemory` before anything is played.
    """
    check_frozen(env)
    program = cast(Any, _play).lower(policy, env, key, greedy, max_steps).compile()
    check_memory(program)
    rows, done, final = program(policy, env, key, greedy, max_steps)
    ended = np.asarray(done)
    if not ended.any(axis=0).all():
        raise ValueError(
            f"An episode did not end in {max_steps} steps: put a TimeLimit into the environment, "
            f"or raise max_steps."
        )
    length = ended.argmax(axis=0) + 1
    episode = np.repeat(np.arange(len(length)), length)
    step = np.arange(len(episode)) - np.repeat(np.cumsum(length) - length, length)
    rows = jax.tree.map(lambda x: x[step, episode], rows)
    last = jax.tree.map(lambda x: x[length - 1, np.arange(len(length))], final)
    return Trajectories(**rows, length=jnp.asarray(length, jnp.int32), final_observation=last)


@eqx.filter_jit
def _play(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, greedy: bool, max_steps: int
) -> PyTree:
    """All steps of all environments, which lead with `[steps, envs]`.

    **Returns:** what `Trajectories` has a row of for every step, whether an episode was then over,
    and what the agents saw at its end.
    """
    key, init_key = jax.random.split(key)
    runner = init_runner(policy, env, init_key)
    arrays, rest = eqx.partition(runner, eqx.is_array)
    step = functools.partial(_step, policy, env, greedy, rest)
    return jax.lax.scan(step, (key, arrays), None, length=max_steps)[1]


def _step(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    greedy: bool,
    rest: RunnerState,
    at: tuple[PRNGKeyArray, RunnerState],
    _: None,
) -> PyTree:
    runner = eqx.combine(at[1], rest)
    key, noise_key, env_key = jax.random.split(at[0], 3)
    noise = policy.head.noise(noise_key, env.action_space, (env.num_envs, env.num_agents))
    decision, timestep, after = step_runner(policy, env, runner, noise, env_key, greedy=greedy)
    row = {
        "state": unwrap_state(runner.env_state),
        "observation": runner.observation,
        "action": decision.action,
        "reward": timestep.earned(runner.active),
        "terminated": timestep.terminated,
        "truncated": timestep.truncated,
    }
    return (key, eqx.filter(after, eqx.is_array)), (row, timestep.done, timestep.final_observation)
