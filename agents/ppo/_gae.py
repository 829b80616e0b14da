"""Generalised advantage estimation."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@runtime_checkable
class AdvantageEstimator(Protocol):
    """A function that `PPO.advantage` may be: `gae`, or another with its arguments."""

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

        The arguments are those of `gae`. All real numbers are in units of the reward, also where
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
    """Estimates how much better each action was than its agent's average one.

    Source: Schulman et al. 2016, "High-dimensional continuous control using generalized advantage
    estimation", equation 16. Two different things end it: the *bootstrap* (the value of what
    follows) is cut where the agent's task is over, the *trace* (the sum over later errors) there
    and where the episode ends. So a time limit cuts the trace, but not the bootstrap.

    **Arguments:**

    - `reward`: what each step earned.
    - `value`: the value of what the agent saw before the step.
    - `next_value`: the value of what the step led to, before any reset.
    - `terminated`: whether the agent's task was over after the step.
    - `done`: whether the episode was over after the step, for whatever reason.
    - `gamma`: gamma, per step.
    - `gae_lambda`: lambda, per step.

    **Returns:** the advantage of every step. Added to `value` it is the critic's target.
    """
    ended = terminated | done[:, :, None]
    error = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    decay = jnp.where(ended, 0.0, gamma * gae_lambda)
    _, advantage = jax.lax.scan(
        _accumulate, jnp.zeros_like(error[0]), (error, decay), reverse=True, unroll=4
    )
    return advantage


def _accumulate(
    later: Float[Array, "envs agents"],
    step: tuple[Float[Array, "envs agents"], Float[Array, "envs agents"]],
) -> tuple[Float[Array, "envs agents"], Float[Array, "envs agents"]]:
    error, decay = step
    advantage = error + decay * later
    return advantage, advantage
