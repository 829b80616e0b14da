"""Generalised advantage estimation."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@runtime_checkable
class AdvantageEstimator(Protocol):
    """The type of `PPO.advantage`: `gae`, or another function or Module with these arguments."""

    def __call__(
        self,
        reward: Float[Array, "time envs agents"],
        value: Float[Array, "time envs agents"],
        next_value: Float[Array, "time envs agents"],
        terminated: Bool[Array, "time envs agents"],
        done: Bool[Array, "time envs"],
        *,
        gamma: float | Float[Array, ""],
        gae_lambda: float | Float[Array, ""],
    ) -> Float[Array, "time envs agents"]:
        """Estimates the advantage of every action of a rollout. The critic's target is this
        advantage plus `value`.

        The arguments are as in `gae`. Values are in units of the reward, even if
        `PPO.normalize_values` is set.
        """
        ...


def gae(
    reward: Float[Array, "time envs agents"],
    value: Float[Array, "time envs agents"],
    next_value: Float[Array, "time envs agents"],
    terminated: Bool[Array, "time envs agents"],
    done: Bool[Array, "time envs"],
    *,
    gamma: float | Float[Array, ""],
    gae_lambda: float | Float[Array, ""],
) -> Float[Array, "time envs agents"]:
    """Estimates the advantage of each action by generalised advantage estimation.

    Source: Schulman et al. 2016, "High-dimensional continuous control using generalized advantage
    estimation", equation 16. The *bootstrap* (the value after the step) is 0 where the agent's task
    is over. The *trace* (the sum over later errors) ends there, and where the episode ends. So a
    time limit ends the trace, but keeps the bootstrap.

    **Arguments:**

    - `reward`: the reward of each step.
    - `value`: the value of the observation before each step.
    - `next_value`: the value of the observation after each step, before any reset.
    - `terminated`: whether the agent's task was over after the step.
    - `done`: whether the episode was over after the step, for any reason.
    - `gamma`: the discount factor per step.
    - `gae_lambda`: the decay of the trace per step.

    **Returns:** the advantage of every step. The critic's target is this advantage plus `value`.
    """
    # An agent whose task is over gets no later reward, so its bootstrap is 0. An agent at a time
    # limit would have continued, so its bootstrap stays.
    ended = terminated | done[:, :, None]
    # `where` and not a product: values after the end of a task have no meaning, and 0 * inf is NaN.
    error = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    decay = jnp.where(ended, 0.0, gamma * gae_lambda)

    # Equation 16 as a recursion, backwards in time: the advantage of a step is its error, plus the
    # decayed advantage of the step after it.
    def accumulate(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        error, decay = step
        advantage = error + decay * later
        return advantage, advantage

    # The body is too small to hide the cost of the loop, so an iteration has several steps.
    nothing = jnp.zeros_like(error[0])
    return jax.lax.scan(accumulate, nothing, (error, decay), reverse=True, unroll=8)[1]
