"""Rollouts: consecutive steps of the agents in many environments, with their values."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid import REPLACED, TAKEN, AbstractVectorEnv, TimeStep, batched_cond
from eqgrid.typing import PyTree

from ..policies import ActorCritic, EnvArrays, reset_carry
from ._runner import Decision, RunnerState, step_runner


@final
class Rollout(eqx.Module):
    """Consecutive steps of all agents in all environments.

    **Arguments:**

    - `observation`: the observations before each step, as the policy received them.
    - `carry`: the carry before each step, after any reset.
    - `start`: whether the observation was the first one of an episode.
    - `active`: whether the step is used for learning: the agent's task was not over before it, and
        `WithPartner` did not replace its action.
    - `taken`: the actions that were taken, including a partner's; `None` without `WithPartner`.
    - `raw_action`, `log_prob`, `value`: the sampled raw actions (`AbstractActionHead`),
        their log-probabilities, and the critic's values of the observations.
    - `next_value`: the critic's values after the step. Where the episode ended, it is the value of
        the final observation, before the reset; it has no meaning where the agent's task was over.
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
    policy: ActorCritic,
    env: AbstractVectorEnv,
    runner: RunnerState,
    key: PRNGKeyArray,
    length: int,
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
    """
    noise_key, env_key = jax.random.split(key)
    shape = (length, env.num_envs, env.num_agents)
    # One draw for the whole rollout: drawing in every step of the scan costs more.
    noise = policy.head.noise(noise_key, env.action_space, shape)
    env_keys = jax.random.split(env_key, length)
    interact = functools.partial(_interact, policy, env)
    runner, steps = jax.lax.scan(interact, runner, (noise, env_keys))
    # A critic without memory needs no order, so that its values are computed after the scan.
    if not policy.has_recurrent_critic:
        steps["value"] = _values(policy, env.num_envs, steps["observation"], steps["carry"])
    # The last step needs the value of the state after the rollout. If an episode starts there, the
    # value needs the initial carry, as in the first step of the next rollout.
    carry = reset_carry(policy.initial_carry(), runner.carry, runner.start)
    last_value = jax.vmap(policy.value)(runner.observation, carry)
    # The value after a step is that before the next one, except where the episode ended: the next
    # observation there is the first one of another episode.
    later_value = jnp.concatenate([steps["value"][1:], last_value[None]])
    final_value = steps.pop("final_value")
    next_value = jnp.where(steps["done"][:, :, None], final_value, later_value)
    return Rollout(next_value=next_value, **steps), runner


def _values(
    policy: ActorCritic,
    num_envs: int,
    observation: PyTree[Shaped[Array, "time envs ..."]],
    carry: PyTree[Shaped[Array, "time envs agents ..."]],
) -> Float[Array, "time envs agents"]:
    """The values of all steps, of which several are computed at once in one large matrix product.
    XLA removes the small products inside the scan, which are then unused.
    """
    # At most 8,192 steps of single environments at once, or one step of all: networks convert their
    # inputs to 4 bytes per number, which limits how many fit into memory.
    batch_size = max(1, min(16, 2**13 // num_envs))
    return jax.lax.map(
        lambda step: jax.vmap(policy.value)(*step), (observation, carry), batch_size=batch_size
    )


def _interact(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    runner: RunnerState,
    step_inputs: tuple[Float[Array, "envs agents ..."], PRNGKeyArray],
) -> tuple[RunnerState, dict[str, PyTree[Shaped[Array, "envs ..."]]]]:
    """One step of the scan in `collect_rollout`.

    **Returns:** the next state of the runner, and the step as a dict of the fields of `Rollout`.
    In place of `next_value` it has `final_value`: the value of the final observation where an
    episode was truncated, which has no meaning elsewhere.
    """
    noise, env_key = step_inputs
    decision, timestep, next_runner = step_runner(policy, env, runner, noise, env_key)
    final_value = _final_value(policy, env, env_key, runner, decision, timestep)
    step = {
        "observation": runner.observation,
        "carry": decision.carry,
        "start": runner.start,
        "active": _learned_from(runner, timestep),
        "taken": timestep.info.get(TAKEN),
        "raw_action": decision.raw_action,
        "log_prob": decision.log_prob,
        "value": decision.value,
        "final_value": final_value,
        "reward": timestep.reward,
        "terminated": timestep.terminated,
        "done": timestep.done,
        "info": _logged(timestep.info),
    }
    return next_runner, step


def _learned_from(runner: RunnerState, timestep: TimeStep) -> Bool[Array, "envs agents"]:
    """Whether the agent's task was not over, and `WithPartner` did not replace its action."""
    replaced = timestep.info.get(REPLACED)
    # A terminated agent has actions and values until the episode ends, but they change nothing.
    # Learning from them would add noise to the advantages of the agents that still act.
    return runner.active if replaced is None else runner.active & ~replaced


def _logged(info: dict[str, Shaped[Array, "envs ..."]]) -> dict[str, Shaped[Array, "envs ..."]]:
    """The entries of `LogEpisodes` on ended episodes. Other entries of `info` are not stored."""
    if not {"episode_done", "episode_return", "episode_length"} <= set(info):
        return {}
    return {name: value for name, value in info.items() if name.startswith("episode_")}


def _final_value(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    runner: RunnerState,
    decision: Decision,
    timestep: TimeStep,
) -> Float[Array, "envs agents"]:
    """The values of final observations, which are needed only where an episode was truncated.

    If there is such an episode, the step is repeated to get its final observation; other steps cost
    nothing. The values are targets, so no gradient flows through them, and `batched_cond` supports
    no reverse-mode differentiation.
    """
    # The repeated step must have the same random numbers.
    key = jax.random.clone(key)
    again = (policy, env, key, runner.env_state, decision.action, decision.next_carry)
    # A time limit ends an episode whose agents could have continued, so they bootstrap from the
    # final observation (Pardo et al. 2018). Storing this observation in every step would double the
    # observations of a rollout, and nearly all of it would be thrown away.
    cut = jnp.any(timestep.done[:, None] & ~timestep.terminated)
    shape, dtype = decision.value.shape, decision.value.dtype
    return batched_cond(
        cut, _step_again, lambda *_: jnp.zeros(shape, dtype), *_without_gradient(again)
    )


def _step_again(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    env_state: PyTree,
    action: Shaped[Array, "envs agents ..."],
    carry: EnvArrays,
) -> Float[Array, "envs agents"]:
    timestep, _ = env.step(key, env_state, action)
    return jax.vmap(policy.value)(timestep.final_observation, carry)


def _without_gradient(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)
