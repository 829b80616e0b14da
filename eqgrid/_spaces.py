"""Action spaces of one agent, and observations with an action mask or with the world's state."""

import abc
from collections.abc import Callable, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from ._checks import as_count, is_known
from .typing import PyTree


class AbstractSpace(eqx.Module):
    """The action space of one agent."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray) -> Shaped[Array, "..."]:
        """Samples one action uniformly."""

    @abc.abstractmethod
    def contains(self, x: Shaped[Array, "..."]) -> Bool[Array, ""]:
        """Whether `x`, of the shape of one action, is in this space."""


@final
class Discrete(AbstractSpace):
    """The integers `0, 1, ..., n - 1`.

    ```python
    import jax

    from eqgrid import Discrete

    space = Discrete(5)
    action = space.sample(jax.random.key(0))
    print(space.n, bool(space.contains(action)))  # 5 True
    ```

    **Arguments:**

    - `n`: the number of actions, at least 1.

    **Raises:** `ValueError` when `n` is not an integer of at least 1.
    """

    n: int = eqx.field(static=True)

    def __init__(self, n: int):
        self.n = as_count(n, "Discrete needs at least 1 choice")

    @property
    def num_options(self) -> int:
        """The number of entries of one agent's action mask."""
        return self.n

    def split(self, values: Shaped[Array, "*batch options"]) -> tuple[Shaped[Array, "..."], ...]:
        """As `MultiDiscrete.split`, for the only choice."""
        return (values,)

    def sample(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.randint(key, (), 0, self.n)

    def contains(self, x: Int[Array, ""]) -> Bool[Array, ""]:
        return (x >= 0) & (x < self.n)


@final
class MultiDiscrete(AbstractSpace):
    """Several choices in one action, such as a move and a word to say. An action is an array of
    integers, and entry `i` is one of `0, 1, ..., ns[i] - 1`.

    An action mask (`Masked`) has `sum(ns)` entries for each agent: the options of the first choice,
    then of the second, and so on.

    **Arguments:**

    - `ns`: the number of options of each choice.

    **Raises:** `ValueError` when there is no choice, or a choice has no option.
    """

    ns: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, ns: Sequence[int]):
        self.ns = tuple(as_count(n, "A choice of a MultiDiscrete needs at least 1") for n in ns)
        if not self.ns:
            raise ValueError(
                "MultiDiscrete needs at least 1 choice, such as MultiDiscrete((5, 3))."
            )

    @property
    def num_options(self) -> int:
        """The number of entries of one agent's action mask, and of the logits of a policy."""
        return sum(self.ns)

    def sample(self, key: PRNGKeyArray) -> Int[Array, " choices"]:
        return jax.random.randint(key, (len(self.ns),), 0, jnp.asarray(self.ns))

    def contains(self, x: Int[Array, " choices"]) -> Bool[Array, ""]:
        return jnp.all((x >= 0) & (x < jnp.asarray(self.ns)))

    def split(self, values: Shaped[Array, "*batch options"]) -> tuple[Shaped[Array, "..."], ...]:
        """Splits an array with one entry for every option, such as a mask or logits, by choice.

        **Arguments:**

        - `values`: an array whose last axis has `sum(ns)` entries.

        **Returns:** for each choice, the entries of its options along the last axis.
        """
        return tuple(jnp.split(values, np.cumsum(self.ns)[:-1], axis=-1))


@final
class Box(AbstractSpace):
    """Arrays of real numbers between `low` and `high`, bounds included.

    **Arguments:**

    - `low`, `high`: the bounds; scalars or arrays that broadcast to `shape`. Both must be finite.
    - `shape`: the shape of one agent's action.

    **Raises:** `ValueError` when a bound does not broadcast to `shape` or is not finite, or when a
    low bound is above its high bound. Traced bounds are only checked for their shape.
    """

    low: Float[Array, "*shape"]
    high: Float[Array, "*shape"]

    def __init__(
        self,
        low: float | Float[Array, "..."],
        high: float | Float[Array, "..."],
        shape: tuple[int, ...],
    ):
        try:
            self.low = jnp.broadcast_to(jnp.asarray(low, dtype=float), shape)
            self.high = jnp.broadcast_to(jnp.asarray(high, dtype=float), shape)
        except ValueError as error:
            raise ValueError(
                f"Box bounds must broadcast to shape {shape}: low has shape {jnp.shape(low)}, "
                f"high has shape {jnp.shape(high)}."
            ) from error
        if not is_known(self.low, self.high):
            return
        lowest, highest = np.asarray(self.low), np.asarray(self.high)
        if not (np.isfinite(lowest).all() and np.isfinite(highest).all()):
            raise ValueError(f"Box bounds must be finite, but are {lowest} and {highest}.")
        if np.any(lowest > highest):
            raise ValueError(f"The low bound of a Box is above the high one: {lowest}, {highest}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one agent's action."""
        return self.low.shape

    def sample(self, key: PRNGKeyArray) -> Float[Array, "*shape"]:
        share = jax.random.uniform(key, self.shape, dtype=self.low.dtype)
        # Unlike `low + share * (high - low)`, this sum cannot overflow.
        sampled = (1 - share) * self.low + share * self.high
        return jnp.clip(sampled, self.low, self.high)

    def contains(self, x: Float[Array, "*shape"]) -> Bool[Array, ""]:
        return jnp.all((self.low <= x) & (x <= self.high))


@final
class ObservationAndState(eqx.Module):
    """The observations of the agents, and a state that only their critics use in training.

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
        agent has terminated. If no action is allowed, a policy samples all of them with equal
        probability, and `sample_allowed` ignores the mask. With `MultiDiscrete` actions, the mask
        lists the options of all choices, and these rules apply to each choice.
    """

    observation: PyTree[Shaped[Array | np.ndarray, "..."]]
    action_mask: Bool[Array | np.ndarray, "*envs agents actions"]


def split_mask(observation: PyTree) -> tuple[PyTree, PyTree]:
    """The observation without its mask, and the mask; the mask is `None` if there is none."""
    if isinstance(observation, Masked):
        return observation.observation, observation.action_mask
    return observation, None


def map_observation(change: Callable[[PyTree], PyTree], observation: PyTree) -> PyTree:
    """Applies `change` to the observation inside a `Masked`, if it is one, and keeps the mask."""
    unmasked, action_mask = split_mask(observation)
    changed = change(unmasked)
    return changed if action_mask is None else Masked(changed, action_mask)


def sample_allowed(
    space: AbstractSpace,
    observation: PyTree,
    agent: int | Int[Array, ""],
    key: PRNGKeyArray,
) -> Shaped[Array, "..."]:
    """Samples one action of one agent from its allowed actions.

    **Arguments:**

    - `space`: the action space of one agent.
    - `observation`: the observations of all agents of one environment, with or without a mask.
    - `agent`: the index of the agent.
    - `key`: the source of randomness.
    """
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return space.sample(key)
    allowed = jnp.asarray(action_mask)[agent]
    if not isinstance(space, MultiDiscrete):
        return _sample_one(key, allowed)
    keys = jax.random.split(key, len(space.ns))
    return jnp.stack(list(map(_sample_one, keys, space.split(allowed))))


def _sample_one(key: PRNGKeyArray, allowed: Bool[Array, " options"]) -> Int[Array, ""]:
    """Samples one of the allowed options, or any option if none is allowed."""
    return jax.random.categorical(key, jnp.where(allowed | ~allowed.any(), 0.0, -jnp.inf))
