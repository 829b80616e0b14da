"""Rollouts: consecutive steps of the agents in many environments, with their values."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid import (
    JOINT_ACTION,
    PARTNER_MASK,
    TimeStep,
    VectorEnvironment,
    batched_cond,
    check_vector_env,
    step_env,
)
from eqgrid.typing import PyTree

from ..policies import ActorCritic, EnvArrays, reset_carry
from ._runner import Decision, RunnerState, check_runner, step_runner


@final
class Rollout(eqx.Module):
    """Consecutive steps of all agents in all environments.

    **Arguments:**

    - `observation`: the observations before each step, as the policy received them.
    - `carry`: the carry before each step, after any reset.
    - `start`: whether the observation was the first one of an episode.
    - `active`: whether the policy learns from the step: the agent's task was not over before it,
        and `WithPartner` did not replace the agent's action.
    - `taken`: the actions that were taken, including a partner's; `None` without `WithPartner`.
    - `raw_action`, `log_prob`, `value`: the sampled raw actions (`AbstractActionHead`),
        their log-probabilities, and the critic's values of the observations.
    - `next_value`: the critic's values of the observations after the step. Where the episode ended,
        this is the final observation, and not the first one of the next episode. The value has no
        meaning where the agent's task was over.
    - `reward`, `terminated`: each agent's reward, and whether its task was over after the step.
    - `done`: whether the episode was over after the step.
    - `info`: the entries `episode_...` of `LogEpisodes`; empty without this wrapper.
    """

    observation: PyTree[Shaped[Array, "time envs ..."]]
    carry: PyTree[Shaped[Array, "time envs agents ..."]]
    start: Bool[Array, "time envs"]
    active: Bool[Array, "time envs agents"]
    taken: Shaped[Array, "time envs agents ..."] | None
    raw_action: Shaped[Array, "time envs agents ..."]
    log_prob: Float[Array, "time envs agents"]
    value: Float[Array, "time envs agents"]
    next_value: Float[Array, "time envs agents"]
    reward: Float[Array, "time envs agents"]
    terminated: Bool[Array, "time envs agents"]
    done: Bool[Array, "time envs"]
    info: dict[str, Shaped[Array, "time envs ..."]]


def collect_rollout(
    policy: ActorCritic, env: VectorEnvironment, runner: RunnerState, key: PRNGKeyArray, length: int
) -> tuple[Rollout, RunnerState]:
    """Collects a rollout: a number of steps in every environment.

    ```python
    import jax

    from agents import actor_critic, collect_rollout, init_runner
    from eqgrid import AutoReset, Vectorize, make

    env = Vectorize(AutoReset(make("goals")), num_envs=4)
    policy = actor_critic(env, jax.random.key(0))
    runner = init_runner(policy, env, jax.random.key(1))
    rollout, runner = collect_rollout(policy, env, runner, jax.random.key(2), length=10)
    print(rollout.reward.shape)  # (10, 4, 2): steps, environments and agents
    ```

    **Arguments:**

    - `policy`: the policy of the agents, from whose distributions actions are sampled.
    - `env`: the environments; they must reset themselves.
    - `runner`: the state before the first step.
    - `key`: the source of randomness.
    - `length`: the number of steps in each environment.

    **Returns:** the rollout, and the state after it.

    **Raises:** `TypeError` or `ValueError` when the policy, the environments and the runner do not
    fit together.
    """
    env = check_vector_env(env, "collect_rollout(policy, env, runner, key, length)")
    check_runner(policy, env, runner)
    noise_key, env_key = jax.random.split(key)
    shape = (length, env.num_envs, env.num_agents)
    # Sampling all random numbers at once is faster than sampling in every step of the scan.
    noise = policy.head.noise(noise_key, env.action_space, shape)
    env_keys = jax.random.split(env_key, length)
    step = functools.partial(_step, policy, env)
    runner, steps = jax.lax.scan(step, runner, (noise, env_keys))
    if not policy.has_recurrent_critic:
        # The values do not depend on the order of the steps, so several steps are computed in one
        # large matrix product. XLA removes the small products from the scan, since nothing uses
        # them. Networks convert their inputs to 4 bytes per number, so memory limits the batch: at
        # most 8,192 observations, or one step of all environments.
        batch_size = max(1, min(16, 2**13 // env.num_envs))
        inputs = (steps["observation"], steps["carry"])
        value = jax.lax.map(lambda x: jax.vmap(policy.value)(*x), inputs, batch_size=batch_size)
        steps["value"] = value
    # The last step needs the value of the observation after the rollout. If an episode starts
    # there, this value needs the initial carry, as in the first step of the next rollout.
    carry = reset_carry(policy.initial_carry(), runner.carry, runner.start)
    last_value = jax.vmap(policy.value)(runner.observation, carry)
    # The value after a step is the value before the next step. Where the episode ended, the next
    # step belongs to another episode, and the final observation is used instead.
    later_value = jnp.concatenate([steps["value"][1:], last_value[None]])
    final_value = steps.pop("final_value")
    next_value = jnp.where(steps["done"][:, :, None], final_value, later_value)
    return Rollout(next_value=next_value, **steps), runner


def _step(
    policy: ActorCritic,
    env: VectorEnvironment,
    runner: RunnerState,
    step_inputs: tuple[Float[Array, "envs agents ..."], PRNGKeyArray],
) -> tuple[RunnerState, dict[str, PyTree[Shaped[Array, "envs ..."]]]]:
    """One step of the scan in `collect_rollout`.

    **Returns:** the next state of the runner, and the step as a dict of the fields of `Rollout`.
    In place of `next_value`, it has `final_value`: the value of the final observation where an
    episode was truncated, and a number without meaning elsewhere.
    """
    noise, env_key = step_inputs
    decision, timestep, next_runner = step_runner(policy, env, runner, noise, env_key)
    final_value = _final_value(policy, env, env_key, runner, decision, timestep)
    # A terminated agent has actions and values until the episode ends, but they have no effect.
    # Learning from them would add noise to the advantages of the agents that still act.
    replaced = timestep.info.get(PARTNER_MASK)
    active = runner.active if replaced is None else runner.active & ~replaced
    # Only the entries of `LogEpisodes` are stored.
    is_logged = {"episode_done", "episode_return", "episode_length"} <= set(timestep.info)
    info = {k: v for k, v in timestep.info.items() if is_logged and k.startswith("episode_")}
    step = {
        "observation": runner.observation,
        "carry": decision.carry,
        "start": runner.start,
        "active": active,
        "taken": timestep.info.get(JOINT_ACTION),
        "raw_action": decision.raw_action,
        "log_prob": decision.log_prob,
        "value": decision.value,
        "final_value": final_value,
        "reward": timestep.reward,
        "terminated": timestep.terminated,
        "done": timestep.done,
        "info": info,
    }
    return next_runner, step


def _final_value(
    policy: ActorCritic,
    env: VectorEnvironment,
    key: PRNGKeyArray,
    runner: RunnerState,
    decision: Decision,
    timestep: TimeStep,
) -> Float[Array, "envs agents"]:
    """The values of the final observations if an episode was truncated in this step, else zeros.

    A time limit ends an episode whose agents could have continued, so they bootstrap from the final
    observation (Pardo et al. 2018). Storing it in every step would double the observations of a
    rollout, and few are needed. So the step is repeated if an episode was truncated.
    """

    def repeat_step(
        policy: ActorCritic,
        env: VectorEnvironment,
        key: PRNGKeyArray,
        env_state: PyTree,
        action: Shaped[Array, "envs agents ..."],
        carry: EnvArrays,
    ) -> Float[Array, "envs agents"]:
        timestep, _ = step_env(env, key, env_state, action)
        return jax.vmap(policy.value)(timestep.final_observation, carry)

    # The repeated step must have the same random numbers.
    key = jax.random.clone(key)
    inputs = (policy, env, key, runner.env_state, decision.action, decision.next_carry)
    # `batched_cond` supports no reverse-mode differentiation, and targets need none.
    inputs = jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, inputs)
    truncated = jnp.any(timestep.done[:, None] & ~timestep.terminated)
    shape, dtype = decision.value.shape, decision.value.dtype
    return batched_cond(truncated, repeat_step, lambda *_: jnp.zeros(shape, dtype), *inputs)
