"""Observations with a second part: the state of the world, or a mask of allowed actions."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from ._spaces import AbstractSpace, MultiDiscrete
from .typing import PyTree


@final
class ObservationAndState(eqx.Module):
    """The agents' observations, together with the state that only their critics use in training.

    - `local`: the observation of each agent.
    - `state`: the state of the whole world, once per agent, possibly centred on that agent.
    """

    local: PyTree[Shaped[Array, "..."]]
    state: PyTree[Shaped[Array, "..."]]


@final
class Masked(eqx.Module):
    """An observation with an action mask.

    Environments with `Discrete` or `MultiDiscrete` actions may return it from `reset`, `step` and
    `observe`. Policies take `observation` as their input, and never sample a forbidden action.
    Wrappers that change observations change `observation`, and leave the mask as it is.

    **Arguments:**

    - `observation`: the observation of each agent.
    - `action_mask`: for each agent, which of its actions are allowed; at least one, unless the
        agent has terminated. Where none is allowed, all are equally likely. With `MultiDiscrete`
        actions, this holds for the options of each choice, which stand one after the other.
    """

    observation: PyTree[Shaped[Array | np.ndarray, "..."]]
    action_mask: Bool[Array | np.ndarray, "*envs agents actions"]


def split_mask(observation: PyTree) -> tuple[PyTree, Any]:
    """The observation without its mask, and the mask: `None` if all actions are allowed."""
    if isinstance(observation, Masked):
        return observation.observation, observation.action_mask
    return observation, None


def map_observation(change: Callable[[PyTree], PyTree], observation: PyTree) -> PyTree:
    """Applies `change` to the observation inside a `Masked`, if it is one, and keeps the mask."""
    seen, action_mask = split_mask(observation)
    return change(seen) if action_mask is None else Masked(change(seen), action_mask)


def sample_allowed(
    space: AbstractSpace,
    observation: PyTree,
    agent: int | Int[Array, ""],
    key: PRNGKeyArray,
    logits: Float[Array, " actions"] | None = None,
) -> Shaped[Array, "..."]:
    """Samples one action of one agent from its allowed actions.

    **Arguments:**

    - `space`: the action space of one agent.
    - `observation`: the observations of all agents of one environment, with or without a mask.
    - `agent`: the index of the agent.
    - `key`: the source of randomness.
    - `logits`: unnormalised log-probabilities of the actions of a `Discrete` space; all are equally
        likely if it is `None`.
    """
    _, action_mask = split_mask(observation)
    if logits is not None:
        if action_mask is None:
            return jax.random.categorical(key, logits)
        return _sample_one(key, jnp.asarray(action_mask)[agent], logits)
    if action_mask is None:
        return space.sample(key)
    allowed = jnp.asarray(action_mask)[agent]
    if not isinstance(space, MultiDiscrete):
        return _sample_one(key, allowed)
    keys = jax.random.split(key, len(space.ns))
    return jnp.stack(list(map(_sample_one, keys, space.split(allowed))))


def _sample_one(
    key: PRNGKeyArray,
    allowed: Bool[Array, " options"],
    logits: Float[Array, " options"] | float = 0.0,
) -> Int[Array, ""]:
    """Samples one of the allowed options, or any option if none is allowed."""
    return jax.random.categorical(key, jnp.where(allowed | ~allowed.any(), logits, -jnp.inf))
