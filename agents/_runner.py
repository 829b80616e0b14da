"""One step of the agents in their environments, for rollouts, evaluations and films alike."""

from typing import final

import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from eqgrid import AbstractVectorEnv, AbstractWrapper, AutoReset, TimeStep, Vectorize, unwrap

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
class Decision(eqx.Module):
    """What the agents decided in one step.

    **Arguments:**

    - `carry`: what they remembered when they decided: the initial carry where an episode started.
    - `distribution`: from which their actions were taken.
    - `action`, `log_prob`: what they did, and its log-probability.
    - `value`: what they expected to earn.
    - `next_carry`: what they remember in the next step.
    """

    carry: PyTree[Shaped[Array, "envs agents ..."]]
    distribution: distrax.Categorical
    action: Shaped[Array, "envs agents ..."]
    log_prob: Float[Array, "envs agents"]
    value: Float[Array, "envs agents"]
    next_carry: PyTree[Shaped[Array, "envs agents ..."]]


def init_runner(policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray) -> RunnerState:
    """Starts an episode in every environment.

    **Arguments:**

    - `policy`: whose agents will act.
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


def act(
    policy: ActorCritic,
    runner: RunnerState,
    uniform: Float[Array, "envs agents"],
    *,
    greedy: bool = False,
) -> Decision:
    """Decides what every agent does next.

    **Arguments:**

    - `policy`: decides.
    - `runner`: what the agents see and remember. Where an episode starts, they forget.
    - `uniform`: uniform in [0, 1): the chance that decides which actions are drawn.
    - `greedy`: take the most probable action, instead of drawing one.

    **Returns:** what they decided.
    """
    carry = reset_carry(policy, runner.carry, runner.start)
    distribution, value, next_carry = jax.vmap(policy)(runner.observation, carry)
    action = jnp.asarray(distribution.mode()) if greedy else sample_action(distribution, uniform)
    log_prob = jnp.asarray(distribution.log_prob(action))
    return Decision(carry, distribution, action, log_prob, value, next_carry)


def step_runner(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    runner: RunnerState,
    uniform: Float[Array, "envs agents"],
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[Decision, TimeStep, RunnerState]:
    """Decides with `act`, and takes one step in every environment.

    **Arguments:**

    - `policy`, `runner`, `uniform`, `greedy`: as in `act`.
    - `env`: the environments; they must reset themselves.
    - `key`: the source of randomness of the environments.

    **Returns:** what the agents decided, what the environments answered, and where everything
    stands now.
    """
    decision = act(policy, runner, uniform, greedy=greedy)
    timestep, env_state = env.step(key, runner.env_state, decision.action)
    runner = RunnerState(
        env_state, timestep.observation, decision.next_carry, timestep.done, timestep.acts_next
    )
    return decision, timestep, runner


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
