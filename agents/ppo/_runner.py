"""One step of the agents in their environments, for rollouts, evaluations and films alike."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from agents.policies._heads import ActionDistribution
from agents.policies._policy import ActorCritic, reset_carry
from eqgrid import (
    AbstractSpace,
    AbstractVectorEnv,
    AbstractWrapper,
    AutoReset,
    TimeStep,
    Vectorize,
    unwrap,
)


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
    - `distribution`: from which their choices were taken.
    - `choice`, `log_prob`: what was taken, and its log-probability.
    - `action`: what it means in the environments.
    - `value`: what they expected to earn.
    - `next_carry`: what they remember in the next step.
    """

    carry: PyTree[Shaped[Array, "envs agents ..."]]
    distribution: ActionDistribution
    choice: Shaped[Array, "envs agents ..."]
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
    action_space: AbstractSpace,
    runner: RunnerState,
    noise: Float[Array, "envs agents ..."],
    *,
    greedy: bool = False,
) -> Decision:
    """Decides what every agent does next.

    **Arguments:**

    - `policy`: decides.
    - `action_space`: that of the environments.
    - `runner`: what the agents see and remember. Where an episode starts, they forget.
    - `noise`: the random numbers that decide which actions are drawn, as
        `policy.head.noise(key, action_space, (num_envs, num_agents))` makes them.
    - `greedy`: take the most probable choice, instead of drawing one.

    **Returns:** what they decided.
    """
    carry = reset_carry(policy, runner.carry, runner.start)
    distribution, value, next_carry = jax.vmap(policy)(runner.observation, carry)
    head = policy.head
    choice = head.most_probable(distribution) if greedy else head.choose(distribution, noise)
    return Decision(
        carry=carry,
        distribution=distribution,
        choice=choice,
        action=head.action(choice, action_space),
        log_prob=jnp.asarray(distribution.log_prob(choice)),
        value=value,
        next_carry=next_carry,
    )


def step_runner(
    policy: ActorCritic,
    env: AbstractVectorEnv,
    runner: RunnerState,
    noise: Float[Array, "envs agents ..."],
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[Decision, TimeStep, RunnerState]:
    """Decides with `act`, and takes one step in every environment.

    **Arguments:**

    - `policy`, `runner`, `noise`, `greedy`: as in `act`.
    - `env`: the environments; they must reset themselves.
    - `key`: the source of randomness of the environments.

    **Returns:** what the agents decided, what the environments answered, and where everything
    stands now.
    """
    decision = act(policy, env.action_space, runner, noise, greedy=greedy)
    timestep, env_state = env.step(key, runner.env_state, decision.action)
    runner = RunnerState(
        env_state, timestep.observation, decision.next_carry, timestep.done, timestep.acts_next
    )
    return decision, timestep, runner


def _check_resets(env: AbstractVectorEnv) -> None:
    core = unwrap(env)
    if not isinstance(core, Vectorize):
        return  # custom vector environments are assumed to reset themselves
    one = core.env
    while isinstance(one, AbstractWrapper):
        if isinstance(one, AutoReset):
            return
        one = one.env
    raise ValueError(
        "Agents act beyond the end of an episode, so their environments must start over by "
        "themselves: Vectorize(AutoReset(env), num_envs)."
    )
