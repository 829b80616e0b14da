"""Action distributions (policy heads): from the outputs of an actor to actions."""

import abc
import math
from typing import Any, Protocol, final, runtime_checkable

import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from eqgrid import AbstractSpace, Box, Discrete, split_mask

_LOG_STD_START = -0.5
_LOG_STD_RANGE = (-5.0, 2.0)


@runtime_checkable
class ActionDistribution(Protocol):
    """A distribution of choices, as a PyTree, such as those of distrax."""

    def log_prob(self, value: Any, /) -> Any:
        """The logarithm of the probability, or of the density, of choices."""
        ...


@final
class DiagonalNormal(eqx.Module):
    """Independent normal distributions of the numbers of a choice.

    `distrax.Independent` does not pass through `eqx.filter_jit`: its leaves depend on their values.

    **Arguments:**

    - `mean`, `std`: of every number.
    """

    mean: Float[Array, "*batch numbers"]
    std: Float[Array, "*batch numbers"]

    def log_prob(self, value: Float[Array, "*batch numbers"], /) -> Float[Array, "*batch"]:
        """The logarithm of the density of choices."""
        return jnp.sum(jnp.asarray(distrax.Normal(self.mean, self.std).log_prob(value)), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy, in nats."""
        return jnp.sum(jnp.asarray(distrax.Normal(self.mean, self.std).entropy()), axis=-1)


class AbstractActionHead(eqx.Module):
    """How the numbers that an actor gives become actions of an action space.

    A *choice* is what is drawn, stored in rollouts and judged by the loss; an *action* is what it
    means in the environment. Both are the same for discrete actions. A head is made for one kind of
    action space, and reads only distributions that it made.
    """

    @abc.abstractmethod
    def out_size(self, space: Any) -> int:
        """How many numbers an actor must give for each agent."""

    @abc.abstractmethod
    def distribution(self, output: Float[Array, "agents out"]) -> ActionDistribution:
        """The distribution of the agents' choices."""

    @abc.abstractmethod
    def noise(self, key: PRNGKeyArray, space: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draws the random numbers that `choose` needs for `shape` many agents."""

    @abc.abstractmethod
    def choose(self, distribution: Any, noise: Float[Array, "..."]) -> Shaped[Array, "..."]:
        """Turns random numbers into choices that follow the distribution."""

    @abc.abstractmethod
    def most_probable(self, distribution: Any) -> Shaped[Array, "..."]:
        """The choice of a greedy agent."""

    @abc.abstractmethod
    def action(self, choice: Shaped[Array, "..."], space: Any) -> Shaped[Array, "..."]:
        """The actions of the environment that choices stand for."""

    @abc.abstractmethod
    def entropy(self, distribution: Any) -> Float[Array, "*batch"]:
        """The entropy of the agents' choices, in nats."""


@final
class CategoricalHead(AbstractActionHead):
    """One logit per action of a `Discrete` space."""

    def out_size(self, space: Discrete) -> int:
        return space.n

    def distribution(self, output: Float[Array, "agents out"]) -> distrax.Categorical:
        return distrax.Categorical(logits=output)

    def noise(
        self, key: PRNGKeyArray, space: Discrete, shape: tuple[int, ...]
    ) -> Float[Array, "..."]:
        return jax.random.uniform(key, shape)

    def choose(
        self, distribution: distrax.Categorical, noise: Float[Array, "*batch"]
    ) -> Int[Array, "*batch"]:
        return sample_action(distribution, noise)

    def most_probable(self, distribution: distrax.Categorical) -> Int[Array, "*batch"]:
        return jnp.asarray(distribution.mode())

    def action(self, choice: Int[Array, "*batch"], space: Discrete) -> Int[Array, "*batch"]:
        return choice

    def entropy(self, distribution: distrax.Categorical) -> Float[Array, "*batch"]:
        return entropy(distribution)


@final
class ClippedNormalHead(AbstractActionHead):
    """A normal distribution for each number of an action in a `Box`, clipped to the bounds.

    The actor gives the means, then the logarithms of the standard deviations, in units in which the
    box reaches from -1 to 1; a deviation starts near 0.6. A choice is the number before it is
    clipped, so that its log-probability is exact wherever it lies, and equal in a rollout and in
    its replay. To the loss, clipping is a part of the environment.
    """

    def out_size(self, space: Box) -> int:
        return 2 * math.prod(space.shape)

    def distribution(self, output: Float[Array, "agents out"]) -> DiagonalNormal:
        mean, log_std = jnp.split(output, 2, axis=-1)
        std = jnp.exp(jnp.clip(log_std + _LOG_STD_START, *_LOG_STD_RANGE))
        return DiagonalNormal(mean, std)

    def noise(self, key: PRNGKeyArray, space: Box, shape: tuple[int, ...]) -> Float[Array, "..."]:
        return jax.random.normal(key, (*shape, math.prod(space.shape)))

    def choose(
        self, distribution: DiagonalNormal, noise: Float[Array, "*batch numbers"]
    ) -> Float[Array, "*batch numbers"]:
        return distribution.mean + distribution.std * noise

    def most_probable(self, distribution: DiagonalNormal) -> Float[Array, "*batch numbers"]:
        return distribution.mean

    def action(self, choice: Float[Array, "*batch numbers"], space: Box) -> Float[Array, "..."]:
        units = choice.reshape(-1, *space.shape).astype(space.low.dtype)
        share = (1 + jnp.clip(units, -1.0, 1.0)) / 2
        low, high = (
            jnp.broadcast_to(bound[None], share.shape) for bound in (space.low, space.high)
        )
        # Weighed so, since `high - low` may be more than a float can hold.
        action = jnp.clip((1 - share) * low + share * high, low, high)
        return action.reshape(*choice.shape[:-1], *space.shape)

    def entropy(self, distribution: DiagonalNormal) -> Float[Array, "*batch"]:
        """The entropy of the choices, in nats, which is known in closed form."""
        return distribution.entropy()


def head_for(space: AbstractSpace) -> AbstractActionHead:
    """What makes actions of a space.

    **Raises:** `ValueError` when no distribution is known for it, or when it is no sound `Box`.
    """
    if isinstance(space, Discrete):
        return CategoricalHead()
    if not isinstance(space, Box):
        raise ValueError(
            f"Agents choose among a number of actions or in a box of numbers: the environment's "
            f"action space must be Discrete or Box, but it is {type(space).__name__}."
        )
    if not all(jnp.issubdtype(bound.dtype, jnp.floating) for bound in (space.low, space.high)):
        raise ValueError(
            f"The bounds of a Box must be floating-point numbers, but are {space.low.dtype} and "
            f"{space.high.dtype}: for whole numbers, use Discrete."
        )
    if math.prod(space.shape) == 0:
        raise ValueError(f"An action must have at least one number, but has shape {space.shape}.")
    traced = isinstance(space.low, Tracer) or isinstance(space.high, Tracer)
    if not traced and not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(
            f"Actions are stretched to a Box, so its bounds must be finite, but they are "
            f"{space.low} and {space.high}."
        )
    return ClippedNormalHead()


def mask_logits(
    logits: Float[Array, "*batch actions"], action_mask: Bool[Array, "*batch actions"] | None
) -> Float[Array, "*batch actions"]:
    """Gives forbidden actions the lowest finite logit: the probability 0, and no gradient. The
    log-probabilities stay finite.

    **Arguments:**

    - `logits`: one for every action.
    - `action_mask`: which actions are allowed; `None` where all are. Where none is, all become
        equally likely.
    """
    if action_mask is None:
        return logits
    return jnp.where(action_mask, logits, jnp.finfo(logits.dtype).min)


def check_mask(space: AbstractSpace, observation: PyTree) -> None:
    """Lets an observation through whose mask, if it has one, fits the actions.

    **Arguments:**

    - `space`: the actions of one agent.
    - `observation`: the shapes of what all agents see.

    **Raises:** `ValueError` when it does not.
    """
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return
    if not isinstance(space, Discrete):
        raise ValueError(
            f"A mask of actions needs Discrete actions, but those of the environment are of a "
            f"{type(space).__name__}: return the observation without Masked."
        )
    if action_mask.dtype != bool or action_mask.shape[-1:] != (space.n,):
        raise ValueError(
            f"A mask must have one truth value for each of the {space.n} actions, but is "
            f"{action_mask.dtype}{list(action_mask.shape)}, agents first."
        )


def sample_action(
    distribution: distrax.Categorical, uniform: Float[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """Turns uniform numbers into actions, by inversion of the cumulative probabilities.

    distrax draws one number, and takes two logarithms, per action that there is: on a CPU that was
    half of the time of acting, and a quarter of the time to compile it.

    **Arguments:**

    - `distribution`: from which to draw.
    - `uniform`: uniform in [0, 1).

    **Returns:** one action per number.
    """
    cumulative = jnp.cumsum(distribution.probs, axis=-1)
    # In units of the sum, which is 1 but for rounding: so what has no probability is never drawn.
    level = (uniform * cumulative[..., -1])[..., None]
    return jnp.sum(level >= cumulative[..., :-1], axis=-1, dtype=jnp.int32)


def entropy(distribution: distrax.Categorical) -> Float[Array, "*batch"]:
    """The entropy, in nats. What has no probability adds nothing, not even to the gradient.

    distrax normalises the logits when it is made and once more for the entropy: forwards and
    backwards that took a thirtieth of training.

    **Arguments:**

    - `distribution`: made from logits; the gradient by probabilities is no number where one is 0.

    **Returns:** one entropy per distribution.
    """
    probability = jnp.exp(distribution.logits)
    logits = jnp.where(probability > 0, distribution.logits, 0.0)
    return -jnp.sum(probability * logits, axis=-1)
