"""Acting in many environments, and what is remembered of it."""

import functools
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from eqgrid import (
    AbstractVectorEnv,
    AbstractWrapper,
    AutoReset,
    NormalizeReward,
    Vectorize,
    batched_cond,
    unwrap,
)

from ._policy import ActorCritic, reset_carry, sample_action


@final
class RunnerState(eqx.Module):
    """Where the environments, and the agents in them, stand between two steps.

    **Arguments:**

    - `env_state`: the state of the environments.
    - `observation`: what every agent sees.
    - `carry`: what every agent remembers.
    - `start`: whether `observation` is the first one of an episode.
    - `active`: whose task is not over.
    """

    env_state: PyTree
    observation: PyTree[Shaped[Array, "envs agents ..."]]
    carry: PyTree[Shaped[Array, "envs agents ..."]]
    start: Bool[Array, " envs"]
    active: Bool[Array, "envs agents"]


@final
class Rollout(eqx.Module):
    """What happened in a number of steps.

    **Arguments:**

    - `observation`: what the agents saw before each step, exactly as the policy saw it; or the
        states that `observe_fn` makes it of, if those were kept instead.
    - `carry`: what they remembered before each step, after any reset.
    - `start`: whether the observation was the first one of an episode.
    - `active`: whose task was not over before the step. Of the others nothing is learned.
    - `action`, `log_prob`, `value`: what they did, its log-probability, and what they expected.
    - `next_value`: what they expected after the step. Where the episode ended, it is the value of
        the final observation, before the reset; it means nothing where the agent's task was over.
    - `reward`, `terminated`: what each agent earned, and whether its task was over.
    - `done`: whether the episode was over.
    - `info`: what `LogEpisodes` says about finished episodes, if it is there: `episode_...`.
    """

    observation: PyTree[Shaped[Array, "time envs ..."]]
    carry: PyTree[Shaped[Array, "time envs agents ..."]]
    start: Bool[Array, "time envs"]
    active: Bool[Array, "time envs agents"]
    action: Shaped[Array, "time envs agents ..."]
    log_prob: Float[Array, "time envs agents"]
    value: Float[Array, "time envs agents"]
    next_value: Float[Array, "time envs agents"]
    reward: Float[Array, "time envs agents"]
    terminated: Bool[Array, "time envs agents"]
    done: Bool[Array, "time envs"]
    info: dict[str, Shaped[Array, "time envs ..."]]


def init_runner(policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray) -> RunnerState:
    """Starts an episode in every environment.

    **Arguments:**

    - `policy`: whose agents init_runner.
    - `env`: the environments.
    - `key`: the source of randomness.

    **Returns:** where everything stands before the first step.

    **Raises:** `ValueError` when the environments do not start over by themselves.
    """
    _check_resets(env)
    observation, env_state = env.reset(key)
    carry = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (env.num_envs, *x.shape)), policy.initial_carry()
    )
    everybody = jnp.ones((env.num_envs, env.num_agents), dtype=bool)
    return RunnerState(env_state, observation, carry, jnp.ones(env.num_envs, dtype=bool), everybody)


def _check_resets(env: AbstractVectorEnv) -> None:
    core = unwrap(env)
    if not isinstance(core, Vectorize):
        return  # somebody else's many environments: they know
    one = core.env
    while isinstance(one, AbstractWrapper):
        if isinstance(one, AutoReset):
            return
        one = one.env
    raise ValueError(
        "Agents act beyond the end of an episode, so their environments must start over by "
        "themselves: Vectorize(AutoReset(env), num_envs)."
    )


def observe_fn(env: AbstractVectorEnv) -> Callable[[PyTree], PyTree[Shaped[Array, "agents ..."]]]:
    """What makes an observation of the state of one environment, for rollouts that keep states.

    **Raises:** `ValueError` unless it is known that the state of one environment tells.
    """
    while isinstance(env, NormalizeReward):
        env = env.env
    if not isinstance(env, Vectorize):
        raise ValueError(
            f"store_states makes observations of the states of Vectorize(env), with no other "
            f"wrapper around it than NormalizeReward: turn it off for {type(env).__name__}."
        )
    return env.env.observe


def _one_env_states(env: AbstractVectorEnv, state: PyTree) -> PyTree[Shaped[Array, "envs ..."]]:
    """The states that `observe_fn` knows, out of the state of `env`."""
    while isinstance(env, NormalizeReward):
        env, state = env.env, state.env_state
    return state


def collect_rollout(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    runner: RunnerState,
    key: PRNGKeyArray,
    length: int,
    *,
    store_states: bool = False,
) -> tuple[Rollout, RunnerState]:
    """Acts for a number of steps in every environment.

    **Arguments:**

    - `policy`: chooses the actions, by drawing from its distribution.
    - `env`: the environments; they must reset themselves.
    - `runner`: where everything stands.
    - `key`: the source of randomness.
    - `length`: how many steps to take in each environment.
    - `store_states`: keep the states that the observations are made of, not the observations.

    **Returns:** what happened, and where everything stands now.

    **Raises:** `ValueError` when states are to be kept that do not tell the observations.
    """
    if store_states:
        observe_fn(env)
    uniform_key, env_key = jax.random.split(key)
    uniform = jax.random.uniform(uniform_key, (length, env.num_envs, env.num_agents))
    env_keys = jax.random.split(env_key, length)
    runner, (seen, chosen, earned, info, final_value) = jax.lax.scan(
        functools.partial(_interact, policy, env, store_states), runner, (uniform, env_keys)
    )
    (observation, carries, start, active), (action, log_prob, value) = seen, chosen
    reward, terminated, done = earned
    if not (store_states or policy.has_recurrent_critic):
        # Many steps at once are one large product; the small ones of the scan, then unused, vanish.
        # About 8,192 moments, or one step: what a network reads takes four bytes a number.
        steps = max(1, min(16, 2**13 // env.num_envs))
        value = jax.lax.map(
            lambda step: jax.vmap(policy.value)(*step), (observation, carries), batch_size=steps
        )
    carry = reset_carry(policy, runner.carry, runner.start)
    last_value = jax.vmap(policy.value)(runner.observation, carry)
    later_value = jnp.concatenate([value[1:], last_value[None]])
    next_value = jnp.where(done[:, :, None], final_value, later_value)
    rollout = Rollout(
        observation=observation,
        carry=carries,
        start=start,
        active=active,
        action=action,
        log_prob=log_prob,
        value=value,
        next_value=next_value,
        reward=reward,
        terminated=terminated,
        done=done,
        info=info,
    )
    return rollout, runner


def _interact(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    store_states: bool,
    runner: RunnerState,
    step_inputs: tuple[Float[Array, "envs agents"], PRNGKeyArray],
) -> tuple[RunnerState, tuple[PyTree, ...]]:
    uniform, env_key = step_inputs
    carry = reset_carry(policy, runner.carry, runner.start)
    distribution, value, next_carry = jax.vmap(policy)(runner.observation, carry)
    action = sample_action(distribution, uniform)
    timestep, env_state = env.step(env_key, runner.env_state, action)
    done = timestep.done
    kept = _one_env_states(env, runner.env_state) if store_states else runner.observation
    seen = (kept, carry, runner.start, runner.active)
    chosen = (action, distribution.log_prob(action), value)
    info = _logged(timestep.info)
    earned = (timestep.reward, timestep.terminated, done)
    # The value of a final observation counts only where an episode was cut short: the step is taken
    # again to see it, and in all other steps it costs nothing. It is a target, so no gradient flows
    # through it; `batched_cond` has none backwards.
    again = (policy, env, env_key, runner.env_state, action, next_carry)
    cut = jnp.any(done[:, None] & ~timestep.terminated)
    shape, dtype = value.shape, value.dtype
    final_value = batched_cond(
        cut, _final_value, lambda *_: jnp.zeros(shape, dtype), *_without_gradient(again)
    )
    runner = RunnerState(env_state, timestep.observation, next_carry, done, timestep.acts_next)
    return runner, (seen, chosen, earned, info, final_value)


def _logged(info: dict[str, Shaped[Array, "envs ..."]]) -> dict[str, Shaped[Array, "envs ..."]]:
    """What `LogEpisodes` says. Entries of an environment without it are its own affair."""
    if not {"episode_done", "episode_return", "episode_length"} <= set(info):
        return {}
    return {name: value for name, value in info.items() if name.startswith("episode_")}


def _final_value(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    env_state: PyTree,
    action: Shaped[Array, "envs agents ..."],
    carry: PyTree[Shaped[Array, "envs agents ..."]],
) -> Float[Array, "envs agents"]:
    timestep, _ = env.step(key, env_state, action)
    return jax.vmap(policy.value)(timestep.final_observation, carry)


def _without_gradient(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)
