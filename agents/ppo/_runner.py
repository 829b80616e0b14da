"""One step of the agents in their environments, for rollouts, evaluations and videos."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid import (
    AbstractAutoReset,
    AbstractSpace,
    TimeStep,
    VectorEnvironment,
    Vectorize,
    check_vector_env,
    contains_wrapper,
    step_env,
    unwrap,
)
from eqgrid.typing import PyTree

from ..policies import (
    ActionDistribution,
    ActorCritic,
    EnvArrays,
    Players,
    check_acts,
    check_players,
    describe,
    reset_carry,
)


@final
class RunnerState(eqx.Module):
    """The state of the environments and of the agents in them, between two steps.

    ```python
    import jax

    from agents import actor_critic, collect_rollout, init_runner
    from eqgrid import AutoReset, Vectorize, make

    env = Vectorize(AutoReset(make("goals")), num_envs=4)
    policy = actor_critic(env, jax.random.key(0))
    runner = init_runner(policy, env, jax.random.key(1))
    _, later = collect_rollout(policy, env, runner, jax.random.key(2), length=10)
    print(later.observation.shape == runner.observation.shape)  # True
    ```

    **Arguments:**

    - `env_state`: the state of the environments.
    - `observation`: the observation of every agent.
    - `carry`: the carry of every agent.
    - `start`: whether `observation` is the first one of an episode.
    - `active`: whether the agent's task is not over.
    """

    env_state: PyTree
    observation: EnvArrays
    carry: PyTree[Shaped[Array, "envs ..."]]
    start: Bool[Array, " envs"]
    active: Bool[Array, "envs agents"]


@final
class Decision(eqx.Module):
    """The actions of the agents in one step, with the outputs of the policy.

    **Arguments:**

    - `carry`: the carry before the step: the initial carry where an episode started.
    - `distribution`: the distribution of the choices.
    - `raw_action`, `log_prob`: the sampled raw actions and their log-probabilities.
    - `action`: the raw actions, converted to actions of the environments.
    - `value`: the values of the observations.
    - `next_carry`: the carry after the step.
    """

    carry: EnvArrays
    distribution: ActionDistribution
    raw_action: Shaped[Array, "envs agents ..."]
    action: Shaped[Array, "envs agents ..."]
    log_prob: Float[Array, "envs agents"]
    value: Float[Array, "envs agents"]
    next_carry: EnvArrays


def init_runner(policy: Players, env: VectorEnvironment, key: PRNGKeyArray) -> RunnerState:
    """Starts an episode in every environment.

    ```python
    import jax

    from agents import actor_critic, init_runner
    from eqgrid import AutoReset, Vectorize, make

    env = Vectorize(AutoReset(make("goals")), num_envs=4)
    policy = actor_critic(env, jax.random.key(0))
    runner = init_runner(policy, env, jax.random.key(1))
    print(runner.start.shape)  # (4,): every environment begins an episode
    ```

    **Arguments:**

    - `policy`: the policy of the agents, another actor, or a team of partners.
    - `env`: the environments.
    - `key`: the source of randomness.

    **Returns:** the state before the first step.

    **Raises:** `ValueError` when the environments do not reset themselves.
    """
    env = check_vector_env(env, "init_runner(policy, env, key)")
    check_players(policy)
    core = unwrap(env)  # custom vector environments are assumed to reset themselves
    if isinstance(core, Vectorize) and not contains_wrapper(core.env, AbstractAutoReset):
        raise ValueError(
            "The environments must reset themselves when an episode ends: use "
            "Vectorize(AutoReset(env), num_envs)."
        )
    observation, env_state = env.reset(key)
    if isinstance(policy, ActorCritic):
        check_acts(policy, env, observation)
    carry = _initial_carries(policy, env.num_envs)
    start = jnp.ones(env.num_envs, dtype=bool)
    active = jnp.ones((env.num_envs, env.num_agents), dtype=bool)
    return RunnerState(env_state, observation, carry, start, active)


def _initial_carries(policy: Players, num_envs: int) -> PyTree[Shaped[Array, "envs ..."]]:
    carry = policy.initial_carry()
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), carry)


def check_runner(policy: ActorCritic, env: VectorEnvironment, runner: RunnerState) -> None:
    """Checks that a policy and the state of a runner fit the environments.

    **Raises:** `TypeError` or `ValueError` that names the part that does not fit.
    """
    if not isinstance(runner, RunnerState):
        raise TypeError(
            f"The runner must be a RunnerState, such as init_runner(policy, env, key), but is "
            f"of the type {type(runner).__name__}."
        )
    if runner.start.shape != (env.num_envs,):
        raise ValueError(
            f"The runner has {runner.start.shape[0]} environments, but the environment has "
            f"{env.num_envs}."
        )
    check_acts(policy, env, runner.observation)
    wanted = eqx.filter_eval_shape(_initial_carries, policy, env.num_envs)
    found, wanted = describe(runner.carry), describe(wanted)
    if found != wanted:
        raise ValueError(
            f"The policy needs the carry {wanted}, but the runner has {found}: it is the runner of "
            "another policy."
        )


def act(
    policy: ActorCritic,
    action_space: AbstractSpace,
    runner: RunnerState,
    noise: Float[Array, "envs agents ..."],
    *,
    greedy: bool = False,
) -> Decision:
    """Computes the actions of all agents in all environments.

    **Arguments:**

    - `policy`: the policy of the agents.
    - `action_space`: the action space of one agent.
    - `runner`: the observations and the carry of the agents, which is reset where an episode
        starts.
    - `noise`: the random numbers for sampling raw actions, from
        `policy.head.noise(key, action_space, (num_envs, num_agents))`.
    - `greedy`: take the most probable choices instead of sampling them.

    **Returns:** the actions, with the outputs of the policy.
    """
    # The carry is reset before the step and not after it: then the decision stores the carry that
    # the policy received.
    carry = reset_carry(policy.initial_carry(), runner.carry, runner.start)
    distribution, value, next_carry = jax.vmap(policy)(runner.observation, carry)
    head = policy.head
    raw_action = head.most_probable(distribution) if greedy else head.sample(distribution, noise)
    return Decision(
        carry=carry,
        distribution=distribution,
        raw_action=raw_action,
        action=head.action(raw_action, action_space),
        log_prob=jnp.asarray(distribution.log_prob(raw_action)),
        value=value,
        next_carry=next_carry,
    )


def step_runner(
    policy: ActorCritic,
    env: VectorEnvironment,
    runner: RunnerState,
    noise: Float[Array, "envs agents ..."],
    key: PRNGKeyArray,
    *,
    greedy: bool = False,
) -> tuple[Decision, TimeStep, RunnerState]:
    """Computes actions with `act`, and takes one step in every environment.

    **Arguments:**

    - `policy`, `runner`, `noise`, `greedy`: as in `act`.
    - `env`: the environments; they must reset themselves.
    - `key`: the source of randomness of the environments.

    **Returns:** the result of `act`, the time step of the environments, and the next state.
    """
    decision = act(policy, env.action_space, runner, noise, greedy=greedy)
    timestep, env_state = step_env(env, key, runner.env_state, decision.action)
    found, wanted = describe(timestep.observation), describe(runner.observation)
    if found != wanted:
        raise ValueError(
            f"The runner has the observations {wanted}, but the environment returns {found}: it is "
            "the runner of other environments."
        )
    # `acts_next` is true for all agents after a reset, since terminated agents act again then. The
    # carry is reset by `act`, not here, because the values of final observations need the old one.
    runner = RunnerState(
        env_state, timestep.observation, decision.next_carry, timestep.done, timestep.acts_next
    )
    return decision, timestep, runner
