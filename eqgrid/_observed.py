"""Observations that come with something else: the state of the world, or the allowed actions."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree, Shaped

from ._spaces import AbstractSpace


@final
class ObservationAndState(eqx.Module):
    """What agents see, and beside it what only their critics are shown, in training.

    - `local`: what every agent sees.
    - `state`: the whole world, once for every agent, which may stand in the middle of it.
    """

    local: PyTree[Shaped[Array, "..."]]
    state: PyTree[Shaped[Array, "..."]]


@final
class Masked(eqx.Module):
    """An observation that comes with the actions that are allowed in it.

    An environment with `Discrete` actions returns it from `reset`, `step` and `observe`. Policies
    read what is inside, and never choose a forbidden action. Wrappers that change observations
    change what is inside, and leave the mask as it is.

    **Arguments:**

    - `observation`: what every agent sees.
    - `action_mask`: for every agent, which of its actions are allowed; at least one, unless its
        task is over. Where none is, all are equally likely.
    """

    observation: PyTree[Shaped[Array | np.ndarray, "..."]]
    action_mask: Bool[Array | np.ndarray, "*envs agents actions"]


def split_mask(observation: PyTree) -> tuple[PyTree, Any]:
    """What is seen, and which actions are allowed: `None` where all are."""
    if isinstance(observation, Masked):
        return observation.observation, observation.action_mask
    return observation, None


def map_observation(change: Callable[[PyTree], PyTree], observation: PyTree) -> PyTree:
    """The observation with what is seen changed, and with the same mask, if it has one."""
    seen, action_mask = split_mask(observation)
    return change(seen) if action_mask is None else Masked(change(seen), action_mask)


def sample_allowed(
    space: AbstractSpace, observation: PyTree, agent: int | Int[Array, ""], key: PRNGKeyArray
) -> Shaped[Array, "..."]:
    """Draws one action of one agent uniformly, among those that it is allowed.

    **Arguments:**

    - `space`: the actions of one agent.
    - `observation`: what all agents of one environment see, with a mask or without.
    - `agent`: its number.
    - `key`: the source of randomness.
    """
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return space.sample(key)
    allowed = jnp.asarray(action_mask)[agent]
    allowed |= ~allowed.any()
    return jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))
