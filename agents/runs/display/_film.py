"""One episode, recorded state by state."""

import functools

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from agents import ActorCritic, RunnerState, init_runner, step_runner
from eqgrid import AbstractVectorEnv, unwrap_state


@eqx.filter_jit
def record(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[PyTree, Float[Array, " steps"], Bool[Array, " steps"]]:
    """Plays a number of steps, from the start of an episode.

    **Arguments:**

    - `policy`: who plays, drawing from its distribution.
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
