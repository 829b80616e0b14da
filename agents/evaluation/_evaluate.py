"""Complete episodes of a policy: their returns, or recordings of all their steps."""

import functools
from typing import Any, cast, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eqgrid import (
    LogEpisodes,
    NormalizeObservation,
    TimeStep,
    Trajectories,
    VectorEnvironment,
    Vectorize,
    check_vector_env,
    iter_wrappers,
    step_env,
    unwrap,
    unwrap_state,
)
from eqgrid.typing import PyTree

from ..policies import (
    ActorCritic,
    PartnerTeam,
    Players,
    TrainedPolicy,
    check_players,
    reset_carry,
)
from ..ppo import RunnerState, init_runner, step_runner
from ..training import check_memory

_MAX_STEPS = 100_000
"""The default limit of `evaluate`, which is static in the compiled program."""

_STEPS_PER_CHECK = 10
"""The number of steps after which an evaluation checks whether all episodes have ended. Fewer steps
are slower on a GPU, where each check makes the host wait. More steps are slower on a CPU, since
steps are made after the last episode has ended.
"""


@final
class Evaluation(eqx.Module):
    """The returns, lengths and totals of a number of episodes.

    **Arguments:**

    - `episode_return`: the sum of each agent's raw rewards until its task was over (see
        `TimeStep`); NaN where `finished` is false.
    - `episode_length`: the number of steps; 0 where `finished` is false.
    - `totals`: the sums over the episode that `LogEpisodes(env, totals)` computes, by name, such as
        `"events"`; 0 where `finished` is false.
    - `finished`: whether the episode ended within `max_steps`.
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
    policy: Players,
    env: VectorEnvironment,
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
    max_steps: int = _MAX_STEPS,
) -> Evaluation:
    """Evaluates a policy: plays one episode in each environment.

    The first episode of each environment counts, however long it takes: counting the episodes that
    end first would favour short ones. The policy and the environments are inputs of one compiled
    program, so new parameters and frozen moments do not recompile it.

    `evaluate` is a pure function: it may be called inside `eqx.filter_jit`, and mapped over keys,
    policies or environments with `eqx.filter_vmap`. There, it cannot raise for unfinished episodes,
    so check `Evaluation.finished`.

    ```python
    import jax

    from agents import actor_critic, evaluate
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    envs = Vectorize(AutoReset(LogEpisodes(make("goals"))), 16)
    result = evaluate(actor_critic(envs, jax.random.key(0)), envs, jax.random.key(1))
    print(result.episode_return.mean())
    ```

    **Arguments:**

    - `policy`: the policy of the agents: an `ActorCritic`, a `TrainedPolicy`, or any other
        `AbstractActor`; or a `PartnerTeam`.
    - `env`: one environment for each episode, with `LogEpisodes`. If observations are normalised,
        their moments must be frozen (`NormalizeObservation.freeze`). `NormalizeReward` has no
        effect: returns are sums of raw rewards.
    - `key`: the source of randomness.
    - `greedy`: take the most probable actions instead of sampling them. It has no effect on a
        `PartnerTeam`.
    - `max_steps`: the largest number of steps of an episode.

    **Returns:** the returns, the lengths and the totals of all episodes.

    **Raises:** `ValueError` when the environments lack `LogEpisodes`, when they normalise
    observations with moments that are not frozen, when an actor cannot act in them, or when an
    episode does not end within `max_steps` and the call is not traced.
    """
    env = check_vector_env(env, "evaluate(policy, env, key)")
    check_playable(policy, env)
    result = _play(policy, env, key, greedy, max_steps).result
    if not isinstance(result.finished, Tracer) and not bool(result.finished.all()):
        raise ValueError(
            f"An episode did not end in {max_steps} steps, so it has no return: put a TimeLimit "
            f"into the environment, or raise max_steps."
        )
    return result


def compile_evaluation(policy: Players, env: VectorEnvironment) -> None:
    """Compiles the program of `evaluate` for arguments of the same shapes, without playing.

    Call it in a thread during training, so that the first evaluation does not wait for XLA.

    **Arguments:**

    - `policy`, `env`: as in `evaluate`; the values of their arrays are not read.
    """
    cast(Any, _play).lower(policy, env, jax.random.key(0), False, _MAX_STEPS).compile()


def check_playable(policy: Players, env: VectorEnvironment) -> None:
    """Checks that episodes can be played.

    **Raises:** `ValueError` when observations are normalised with moments that are not frozen, or
    when a trained policy or a team of partners cannot act in the environments.
    """
    check_players(policy)
    if isinstance(policy, TrainedPolicy | PartnerTeam):
        policy.check(env)
    for wrapper in iter_wrappers(env):
        if isinstance(wrapper, NormalizeObservation) and not wrapper.frozen:
            raise ValueError(
                "evaluate needs the moments that the policy was trained with: freeze them in the "
                "environments of the evaluation, NormalizeObservation(env).freeze(env_state), "
                "where env_state is the state of the environments that it was trained in."
            )


@eqx.filter_jit
def _play(
    policy: Players, env: VectorEnvironment, key: PRNGKeyArray, greedy: bool, max_steps: int
) -> _EvalState:
    key, init_key = jax.random.split(key)
    runner = init_runner(policy, env, init_key)
    core = unwrap(env)
    wrappers = iter_wrappers(core.env) if isinstance(core, Vectorize) else ()
    totals = next((x.empty_totals() for x in wrappers if isinstance(x, LogEpisodes)), {})
    empty = Evaluation(
        episode_return=jnp.full((env.num_envs, env.num_agents), jnp.nan, dtype=float),
        episode_length=jnp.zeros(env.num_envs, dtype=int),
        totals=jax.tree.map(lambda x: jnp.zeros((env.num_envs, *x.shape), x.dtype), totals),
        finished=jnp.zeros(env.num_envs, dtype=bool),
    )

    def unfinished(state: _EvalState) -> Bool[Array, ""]:
        return ~state.result.finished.all() & (state.steps < max_steps)

    def some_steps(state: _EvalState) -> _EvalState:
        return jax.lax.fori_loop(0, _STEPS_PER_CHECK, lambda _, x: step(x), state)

    step = functools.partial(_step, policy, env, greedy, max_steps)
    start = _EvalState(runner, key, jnp.zeros((), dtype=jnp.int32), empty)
    return jax.lax.while_loop(unfinished, some_steps, start)


def _step(
    policy: Players, env: VectorEnvironment, greedy: bool, max_steps: int, state: _EvalState
) -> _EvalState:
    """Takes one step in all environments, and stores the results of the episodes that ended."""
    keys = jax.random.split(state.key, 3)
    _, timestep, runner = step_episodes(policy, env, state.runner, keys[1:], greedy)
    if "episode_return" not in timestep.info:
        raise ValueError(
            "evaluate needs the returns of episodes: put LogEpisodes around the environment, "
            "Vectorize(AutoReset(LogEpisodes(env)), num_episodes)."
        )
    ended = Evaluation(
        episode_return=timestep.info["episode_return"],
        episode_length=timestep.info["episode_length"],
        totals={name: timestep.info[f"episode_{name}"] for name in state.result.totals},
        finished=timestep.done,
    )
    # Only the first episode of an environment counts. The limit is checked in every step, since the
    # loop around `_STEPS_PER_CHECK` steps may exceed it.
    counts = timestep.done & ~state.result.finished & (state.steps < max_steps)

    def replace(old: Shaped[Array, "..."], new: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        # A loop must keep its initial dtypes, whatever those of the environment are.
        return jax.vmap(jnp.where)(counts, new.astype(old.dtype), old)

    result = jax.tree.map(replace, state.result, ended)
    return _EvalState(runner, keys[0], state.steps + 1, result)


def step_episodes(
    policy: Players,
    env: VectorEnvironment,
    runner: RunnerState,
    keys: Shaped[PRNGKeyArray, " 2"],
    greedy: bool,
) -> tuple[Shaped[Array, "envs agents ..."], TimeStep, RunnerState]:
    """Takes one step in all environments, for evaluations, recordings and videos.

    **Arguments:**

    - `policy`, `env`, `greedy`: as in `evaluate`.
    - `runner`: the state of the environments and of the agents in them.
    - `keys`: the sources of randomness of the actions, and of the environments.

    **Returns:** the actions, the time step of the environments, and the next state.
    """
    if isinstance(policy, ActorCritic):
        # Sampling all random numbers at once is faster than using a key for each environment.
        noise = policy.head.noise(keys[0], env.action_space, (env.num_envs, env.num_agents))
        decision, timestep, runner = step_runner(policy, env, runner, noise, keys[1], greedy=greedy)
        return decision.action, timestep, runner
    carry = reset_carry(policy.initial_carry(), runner.carry, runner.start)
    own_keys = jax.random.split(keys[0], env.num_envs)
    if isinstance(policy, PartnerTeam):
        state = unwrap_state(runner.env_state)
        action, carry = jax.vmap(policy.act)(runner.observation, state, carry, own_keys)
    else:
        act = functools.partial(policy.act, greedy=greedy)
        action, carry = jax.vmap(act)(runner.observation, carry, own_keys)
    timestep, env_state = step_env(env, keys[1], runner.env_state, action)
    runner = RunnerState(env_state, timestep.observation, carry, timestep.done, timestep.acts_next)
    return action, timestep, runner


def record_episodes(
    policy: Players,
    env: VectorEnvironment,
    key: PRNGKeyArray,
    *,
    max_steps: int,
    greedy: bool = False,
) -> Trajectories:
    """Plays one episode in each environment, and records all of its steps.

    With the same arguments, `evaluate` plays the same episodes.

    **Arguments:**

    - `policy`, `env`, `key`, `greedy`: as in `evaluate`; `env` needs no `LogEpisodes`.
    - `max_steps`: the largest number of steps of an episode. This many steps of every environment
        must fit into memory.

    **Returns:** the episodes, in the order of the environments.

    **Raises:** `ValueError` as `evaluate`, and `OutOfMemory`, before anything is played, when the
    steps do not fit into memory.
    """

    def split(key: PRNGKeyArray, _: None) -> tuple[PRNGKeyArray, Shaped[PRNGKeyArray, " 2"]]:
        keys = jax.random.split(key, 3)
        return keys[0], keys[1:]

    env = check_vector_env(env, "record_episodes(policy, env, key)")
    check_playable(policy, env)
    key, init_key = jax.random.split(key)
    _, keys = jax.lax.scan(split, key, length=max_steps)  # the keys of the steps of `evaluate`
    inputs = (policy, env, init_key, keys, greedy)
    program = cast(Any, record_steps).lower(*inputs).compile()
    check_memory(program)
    rows, done, final = program(*inputs)
    return Trajectories.from_steps(rows, done, final)


@eqx.filter_jit
def record_steps(
    policy: Players,
    env: VectorEnvironment,
    init_key: PRNGKeyArray,
    keys: Shaped[PRNGKeyArray, "steps 2"],
    greedy: bool,
) -> tuple[dict[str, PyTree], Bool[Array, "steps envs"], PyTree]:
    """Plays a number of steps in each environment, from the start of an episode.

    **Arguments:**

    - `policy`, `env`, `greedy`: as in `evaluate`.
    - `init_key`: the source of randomness of the first reset.
    - `keys`: the keys of the actions, and of the environments, in every step.

    **Returns:** the fields of `Trajectories` that have a row for every step, whether an episode
    ended with the step, and the final observations; all have the leading axes `[steps, envs]`.
    """

    def step(runner: RunnerState, keys: Shaped[PRNGKeyArray, " 2"]) -> tuple[RunnerState, Any]:
        action, timestep, after = step_episodes(policy, env, runner, keys, greedy)
        row = {
            "state": unwrap_state(runner.env_state),
            "observation": runner.observation,
            "action": action,
            "reward": timestep.counted_reward(runner.active),
            "terminated": timestep.terminated,
            "truncated": timestep.truncated,
        }
        return after, (row, timestep.done, timestep.final_observation)

    return jax.lax.scan(step, init_runner(policy, env, init_key), keys)[1]
