"""How much a policy earns."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from agents.policies._policy import ActorCritic
from agents.ppo._runner import RunnerState, init_runner, step_runner
from eqgrid import (
    AbstractVectorEnv,
    LogEpisodes,
    NormalizeObservation,
    TimeStep,
    Vectorize,
    iter_wrappers,
    unwrap,
)


@final
class Evaluation(eqx.Module):
    """What a number of episodes came to.

    **Arguments:**

    - `episode_return`: the sum of each agent's raw rewards until its task was over, see `TimeStep`;
        not a number where `finished` is false.
    - `episode_length`: in steps; 0 where `finished` is false.
    - `totals`: what `LogEpisodes(env, totals)` has summed, by name, such as `"events"`; 0 where
        `finished` is false.
    - `finished`: whether the episode ended in the number of steps that it may have.
    """

    episode_return: Float[Array, "*seeds episodes agents"]
    episode_length: Int[Array, "*seeds episodes"]
    totals: dict[str, Shaped[Array, "..."]]
    finished: Bool[Array, "*seeds episodes"]


@final
class _EvalState(eqx.Module):
    runner: RunnerState
    key: PRNGKeyArray
    steps: Int[Array, ""]
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

    It is a pure function: it may be called inside `eqx.filter_jit`, and mapped over keys, policies
    or environments with `eqx.filter_vmap`. There, no exception can depend on what is computed, so
    look at `Evaluation.finished`.

    **Arguments:**

    - `policy`: chooses the actions.
    - `env`: as many environments as episodes are wanted, with `LogEpisodes`. Where observations
        are normalised, their moments must be frozen (`NormalizeObservation.freeze`). The moments of
        a `NormalizeReward` change nothing here: returns are sums of raw rewards.
    - `key`: the source of randomness.
    - `greedy`: take the most probable action, instead of drawing one.
    - `max_steps`: how many steps an episode may have.

    **Returns:** the return and the length of every episode.

    **Raises:** `ValueError` when the environments do not say when an episode ends, when they
    normalise observations with moments that move, or when an episode does not end in `max_steps`
    steps and the call is not traced.
    """
    check_frozen(env)
    result = _play(policy, env, key, greedy, max_steps).result
    if not isinstance(result.finished, Tracer) and not bool(result.finished.all()):
        raise ValueError(
            f"An episode did not end in {max_steps} steps, so it has no return: put a TimeLimit "
            f"into the environment, or raise max_steps."
        )
    return result


def check_frozen(env: AbstractVectorEnv) -> None:
    """**Raises:** `ValueError` when observations are normalised with moments that move."""
    for wrapper in iter_wrappers(env):
        if isinstance(wrapper, NormalizeObservation) and not wrapper.frozen:
            raise ValueError(
                "evaluate needs the moments that the policy was trained with: freeze them in the "
                "environments of the evaluation, NormalizeObservation(env).freeze(env_state), "
                "where env_state is the state of the environments that it was trained in."
            )


@eqx.filter_jit
def _play(
    policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray, greedy: bool, max_steps: int
) -> _EvalState:
    key, init_key = jax.random.split(key)
    runner = init_runner(policy, env, init_key)
    nothing = Evaluation(
        episode_return=jnp.full((env.num_envs, env.num_agents), jnp.nan, dtype=float),
        episode_length=jnp.zeros(env.num_envs, dtype=int),
        totals=_empty_totals(env),
        finished=jnp.zeros(env.num_envs, dtype=bool),
    )
    watch = _EvalState(runner, key, jnp.zeros((), dtype=jnp.int32), nothing)
    arrays, rest = eqx.partition(watch, eqx.is_array)
    arrays = jax.lax.while_loop(
        functools.partial(_unfinished, max_steps),
        functools.partial(_step, policy, env, greedy, rest),
        arrays,
    )
    return eqx.combine(arrays, rest)


def _empty_totals(env: AbstractVectorEnv) -> dict[str, Shaped[Array, "episodes ..."]]:
    core = unwrap(env)
    logs = iter_wrappers(core.env) if isinstance(core, Vectorize) else ()
    one = next((log.empty_totals() for log in logs if isinstance(log, LogEpisodes)), {})
    return jax.tree.map(lambda x: jnp.zeros((env.num_envs, *x.shape), x.dtype), one)


def _unfinished(max_steps: int, watch: _EvalState) -> Bool[Array, ""]:
    return ~watch.result.finished.all() & (watch.steps < max_steps)


def _step(
    policy: ActorCritic, env: AbstractVectorEnv, greedy: bool, rest: _EvalState, arrays: _EvalState
) -> _EvalState:
    watch = eqx.combine(arrays, rest)
    key, noise_key, env_key = jax.random.split(watch.key, 3)
    noise = policy.head.noise(noise_key, env.action_space, (env.num_envs, env.num_agents))
    _, timestep, runner = step_runner(policy, env, watch.runner, noise, env_key, greedy=greedy)
    if "episode_return" not in timestep.info:
        raise ValueError(
            "evaluate needs to be told what an episode came to: put LogEpisodes around the "
            "environment, Vectorize(AutoReset(LogEpisodes(env)), num_episodes)."
        )
    watch = _EvalState(runner, key, watch.steps + 1, _with_ended(watch.result, timestep))
    return eqx.filter(watch, eqx.is_array)


def _with_ended(result: Evaluation, timestep: TimeStep) -> Evaluation:
    """Takes in the first episodes that ended with this step."""
    first = timestep.done & ~result.finished
    # A loop needs the dtypes that it started with, whatever those of the environment are.
    episode_return = timestep.info["episode_return"].astype(result.episode_return.dtype)
    episode_length = timestep.info["episode_length"].astype(result.episode_length.dtype)
    totals = {
        name: eqx.filter_vmap(jnp.where)(first, timestep.info[f"episode_{name}"], old)
        for name, old in result.totals.items()
    }
    return Evaluation(
        episode_return=jnp.where(first[:, None], episode_return, result.episode_return),
        episode_length=jnp.where(first, episode_length, result.episode_length),
        totals=totals,
        finished=result.finished | first,
    )
