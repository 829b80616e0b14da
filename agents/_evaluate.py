"""How much a policy earns."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eqgrid import AbstractVectorEnv

from ._policy import ActorCritic
from ._runner import RunnerState, init_runner, step_runner


@final
class Evaluation(eqx.Module):
    """What a number of episodes came to.

    **Arguments:**

    - `episode_return`: the sum of each agent's raw rewards.
    - `episode_length`: in steps.
    """

    episode_return: Float[Array, "episodes agents"]
    episode_length: Int[Array, " episodes"]


@final
class _EvalState(eqx.Module):
    runner: RunnerState
    key: PRNGKeyArray
    steps: Int[Array, ""]
    finished: Bool[Array, " envs"]
    result: Evaluation


def evaluate(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
    max_steps: int = 100_000,
) -> Evaluation:
    """Plays one episode in each environment.

    It is always the first one, however long it takes: taking whatever ends first would favour short
    episodes. The policy and the environments are inputs of one compiled program, so that parameters
    and frozen moments may change from call to call.

    **Arguments:**

    - `policy`: chooses the actions.
    - `env`: as many environments as episodes are wanted, with `LogEpisodes`. Where observations
        are normalised, freeze the moments (`NormalizeObservation.freeze`).
    - `key`: the source of randomness.
    - `greedy`: take the most probable action, instead of drawing one.
    - `max_steps`: how many steps an episode may have.

    **Returns:** the return and the length of every episode.

    **Raises:** `ValueError` when the environments do not say when an episode ends, or when one does
    not end in `max_steps` steps.
    """
    watch = _play(policy, env, key, greedy, max_steps)
    if not bool(watch.finished.all()):
        raise ValueError(
            f"An episode did not end in {max_steps} steps, so it has no return: put a TimeLimit "
            f"into the environment, or raise max_steps."
        )
    return watch.result


@eqx.filter_jit
def _play(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, greedy: bool, max_steps: int
) -> _EvalState:
    key, init_key = jax.random.split(key)
    runner = init_runner(policy, env, init_key)
    nothing = Evaluation(
        jnp.zeros((env.num_envs, env.num_agents)), jnp.zeros(env.num_envs, dtype=int)
    )
    finished = jnp.zeros(env.num_envs, dtype=bool)
    watch = _EvalState(runner, key, jnp.zeros((), dtype=jnp.int32), finished, nothing)
    arrays, rest = eqx.partition(watch, eqx.is_array)
    arrays = jax.lax.while_loop(
        functools.partial(_unfinished, max_steps),
        functools.partial(_step, policy, env, greedy, rest),
        arrays,
    )
    return eqx.combine(arrays, rest)


def _unfinished(max_steps: int, watch: _EvalState) -> Bool[Array, ""]:
    return ~watch.finished.all() & (watch.steps < max_steps)


def _step(
    policy: ActorCritic, env: AbstractVectorEnv, greedy: bool, rest: _EvalState, arrays: _EvalState
) -> _EvalState:
    watch = eqx.combine(arrays, rest)
    key, uniform_key, env_key = jax.random.split(watch.key, 3)
    uniform = jax.random.uniform(uniform_key, (env.num_envs, env.num_agents))
    _, timestep, runner = step_runner(policy, env, watch.runner, uniform, env_key, greedy=greedy)
    if "episode_return" not in timestep.info:
        raise ValueError(
            "evaluate needs to be told what an episode came to: put LogEpisodes around the "
            "environment, Vectorize(AutoReset(LogEpisodes(env)), num_episodes)."
        )
    first = timestep.done & ~watch.finished
    result = Evaluation(
        jnp.where(first[:, None], timestep.info["episode_return"], watch.result.episode_return),
        jnp.where(first, timestep.info["episode_length"], watch.result.episode_length),
    )
    watch = _EvalState(runner, key, watch.steps + 1, watch.finished | first, result)
    return eqx.filter(watch, eqx.is_array)
