"""Action distributions (policy heads): from the outputs of an actor to actions."""

import abc
import functools
import importlib
import math
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eqgrid import AbstractSpace, Box, Discrete, MultiDiscrete, sample_uniform, split_mask
from eqgrid.typing import PyTree

if TYPE_CHECKING:
    import distrax

# Of `ClippedNormalHead`: the initial logarithm of the standard deviation, and its range.
_LOG_STD_START = -0.5
_LOG_STD_RANGE = (-5.0, 2.0)


@runtime_checkable
class ActionDistribution(Protocol):
    """A distribution over raw actions: a PyTree, such as a distribution of distrax."""

    def log_prob(self, value: Any, /) -> Any:
        """The log-probability, or the log-density, of raw actions."""
        ...


@final
class DiagonalNormal(eqx.Module):
    """A normal distribution with diagonal covariance over the numbers of a raw action.

    It replaces `distrax.Independent`, which cannot pass through `eqx.filter_jit`, because the
    structure of its PyTree depends on the values of its leaves.

    **Arguments:**

    - `mean`, `std`: the mean and the standard deviation of every number.
    """

    mean: Float[Array, "*batch numbers"]
    std: Float[Array, "*batch numbers"]

    def log_prob(self, value: Float[Array, "*batch numbers"], /) -> Float[Array, "*batch"]:
        """The log-density of raw actions."""
        return jnp.sum(jnp.asarray(_distrax().Normal(self.mean, self.std).log_prob(value)), axis=-1)

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy, in nats."""
        return jnp.sum(jnp.asarray(_distrax().Normal(self.mean, self.std).entropy()), axis=-1)


@final
class MultiCategorical(eqx.Module):
    """Independent categorical distributions over the choices of a `MultiDiscrete` action.

    It stores logits, since a Module that contains a distribution of distrax cannot pass through
    `eqx.filter_jit`.

    **Arguments:**

    - `logits`: for each choice, one logit for every option.
    """

    logits: tuple[Float[Array, "*batch _"], ...]

    @property
    def choices(self) -> "tuple[distrax.Categorical, ...]":
        """The distribution of each choice, over its options."""
        return tuple(_distrax().Categorical(logits=logits) for logits in self.logits)

    def log_prob(self, value: Int[Array, "*batch choices"], /) -> Float[Array, "*batch"]:
        """The log-probability of all choices together: the sum over the choices."""
        each = [jnp.asarray(x.log_prob(value[..., i])) for i, x in enumerate(self.choices)]
        return functools.reduce(jnp.add, each)


_Space = TypeVar("_Space", bound=AbstractSpace)


class AbstractActionHead(eqx.Module):
    """Policy head: turns an actor's outputs into a distribution, and its samples into actions.

    A *raw action* is a sample of the distribution: it is stored in rollouts and used in the loss.
    The head converts it into an *action*, the input of the environment. Both are equal for discrete
    actions. A head supports one kind of action space, and only distributions that it built.
    """

    @abc.abstractmethod
    def out_size(self, space: Any) -> int:
        """The number of outputs that an actor needs for each agent in this action space."""

    @abc.abstractmethod
    def distribution(self, output: Float[Array, "agents out"]) -> ActionDistribution:
        """Builds the distribution of the agents' raw actions from the actor's outputs."""

    @abc.abstractmethod
    def noise(self, key: PRNGKeyArray, space: Any, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Samples the random numbers for `sample`.

        **Arguments:**

        - `key`: the source of randomness.
        - `space`: the action space of one agent.
        - `shape`: the batch axes, such as `(num_envs, num_agents)`.

        **Returns:** random numbers with the axes of `shape` in front.
        """

    @abc.abstractmethod
    def sample(self, distribution: Any, noise: Float[Array, "..."]) -> Shaped[Array, "..."]:
        """Converts the random numbers of `noise` into raw actions from the distribution."""

    @abc.abstractmethod
    def most_probable(self, distribution: Any) -> Shaped[Array, "..."]:
        """The most probable raw action, which a greedy agent takes."""

    @abc.abstractmethod
    def action(self, raw_action: Shaped[Array, "..."], space: Any) -> Shaped[Array, "..."]:
        """Converts raw actions into actions of the action space."""

    @abc.abstractmethod
    def entropy(self, distribution: Any) -> Float[Array, "*batch"]:
        """The entropy of the agents' distributions, in nats."""


@final
class CategoricalHead(AbstractActionHead):
    """A categorical distribution over the actions of a `Discrete` space, with one logit each."""

    def __init__(self, space: Discrete | None = None):
        """**Arguments:**

        - `space`: the action space, which the head does not need.
        """

    def out_size(self, space: Discrete) -> int:
        return _checked_space(self, space, Discrete).n

    def distribution(self, output: Float[Array, "agents out"]) -> "distrax.Categorical":
        return _distrax().Categorical(logits=output)

    def noise(
        self, key: PRNGKeyArray, space: Discrete, shape: tuple[int, ...]
    ) -> Float[Array, "..."]:
        return sample_uniform(key, shape)

    def sample(
        self, distribution: "distrax.Categorical", noise: Float[Array, "*batch"]
    ) -> Int[Array, "*batch"]:
        return sample_action(distribution, noise)

    def most_probable(self, distribution: "distrax.Categorical") -> Int[Array, "*batch"]:
        return jnp.asarray(distribution.mode())

    def action(self, raw_action: Int[Array, "*batch"], space: Discrete) -> Int[Array, "*batch"]:
        return raw_action

    def entropy(self, distribution: "distrax.Categorical") -> Float[Array, "*batch"]:
        return entropy(distribution)


@final
class MultiCategoricalHead(AbstractActionHead):
    """Independent categorical distributions over the choices of a `MultiDiscrete` space, with one
    logit for every option of every choice, in the order of the choices.

    **Arguments:**

    - `space`: the action space, which assigns the outputs of an actor to choices.
    """

    space: MultiDiscrete

    def out_size(self, space: MultiDiscrete) -> int:
        space = _checked_space(self, space, MultiDiscrete)
        if space.ns != self.space.ns:
            raise ValueError(
                f"The policy makes choices of {self.space.ns} options, but the environment has "
                f"choices of {space.ns}."
            )
        return space.num_options

    def distribution(self, output: Float[Array, "agents out"]) -> MultiCategorical:
        return MultiCategorical(self.space.split(output))

    def noise(
        self, key: PRNGKeyArray, space: MultiDiscrete, shape: tuple[int, ...]
    ) -> Float[Array, "..."]:
        return sample_uniform(key, (*shape, len(space.ns)))

    def sample(
        self, distribution: MultiCategorical, noise: Float[Array, "*batch choices"]
    ) -> Int[Array, "*batch choices"]:
        choices = enumerate(distribution.choices)
        return jnp.stack([sample_action(x, noise[..., i]) for i, x in choices], axis=-1)

    def most_probable(self, distribution: MultiCategorical) -> Int[Array, "*batch choices"]:
        return jnp.stack([jnp.asarray(x.mode()) for x in distribution.choices], axis=-1)

    def action(
        self, raw_action: Int[Array, "*batch choices"], space: MultiDiscrete
    ) -> Int[Array, "*batch choices"]:
        return raw_action

    def entropy(self, distribution: MultiCategorical) -> Float[Array, "*batch"]:
        """The entropy of all choices together, in nats: the sum over the choices."""
        return functools.reduce(jnp.add, [entropy(x) for x in distribution.choices])


@final
class ClippedNormalHead(AbstractActionHead):
    """A normal distribution for each number of an action in a `Box`, clipped to the bounds.

    The actor outputs the means, then `log(std) + 0.5` for every standard deviation. Their units are
    those in which the box spans -1 to 1, and a new actor has standard deviations near 0.6. A raw
    action is the sample before clipping: the loss treats clipping as a part of the environment. So
    the log-density of a raw action is exact everywhere.
    """

    def __init__(self, space: Box | None = None):
        """**Arguments:**

        - `space`: the action space, which the head does not need.
        """

    def out_size(self, space: Box) -> int:
        return 2 * math.prod(_checked_space(self, space, Box).shape)

    def distribution(self, output: Float[Array, "agents out"]) -> DiagonalNormal:
        mean, log_std = jnp.split(output, 2, axis=-1)
        std = jnp.exp(jnp.clip(log_std + _LOG_STD_START, *_LOG_STD_RANGE))
        return DiagonalNormal(mean, std)

    def noise(self, key: PRNGKeyArray, space: Box, shape: tuple[int, ...]) -> Float[Array, "..."]:
        numbers = math.prod(space.shape)
        # Sampling along one axis compiles faster, as in `sample_uniform`.
        flat = jax.random.normal(key, (math.prod(shape) * numbers,))
        return flat.reshape(*shape, numbers)

    def sample(
        self, distribution: DiagonalNormal, noise: Float[Array, "*batch numbers"]
    ) -> Float[Array, "*batch numbers"]:
        return distribution.mean + distribution.std * noise

    def most_probable(self, distribution: DiagonalNormal) -> Float[Array, "*batch numbers"]:
        return distribution.mean

    def action(self, raw_action: Float[Array, "*batch numbers"], space: Box) -> Float[Array, "..."]:
        scaled = raw_action.reshape(-1, *space.shape).astype(space.low.dtype)
        weight = (1 + jnp.clip(scaled, -1.0, 1.0)) / 2
        low, high = (jnp.broadcast_to(x[None], weight.shape) for x in (space.low, space.high))
        # A weighted sum of the bounds, since `high - low` may overflow.
        action = jnp.clip((1 - weight) * low + weight * high, low, high)
        return action.reshape(*raw_action.shape[:-1], *space.shape)

    def entropy(self, distribution: DiagonalNormal) -> Float[Array, "*batch"]:
        """The entropy of the raw actions (before clipping), in nats, in closed form."""
        return distribution.entropy()


def _checked_space(head: AbstractActionHead, space: AbstractSpace, kind: type[_Space]) -> _Space:
    if not isinstance(space, kind):
        raise ValueError(
            f"A {type(head).__name__} needs actions of a {kind.__name__}, but the environment has "
            f"{space!r:.60}."
        )
    return space


def head_for(space: AbstractSpace) -> AbstractActionHead:
    """The policy head for an action space.

    **Raises:** `ValueError` unless the space is `Discrete`, `MultiDiscrete`, or a `Box` of at least
    one number with finite floating-point bounds. Traced bounds are not checked for being finite.
    """
    if isinstance(space, Discrete):
        return CategoricalHead()
    if isinstance(space, MultiDiscrete):
        return MultiCategoricalHead(space)
    if not isinstance(space, Box):
        raise ValueError(
            f"The environment's action space must be Discrete, MultiDiscrete or Box, but it is "
            f"{type(space).__name__}: pass a head of your own to actor_critic."
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
            f"Actions are scaled to a Box, so its bounds must be finite, but they are "
            f"{space.low} and {space.high}."
        )
    return ClippedNormalHead()


def mask_logits(
    logits: Float[Array, "*batch actions"], action_mask: Bool[Array, "*batch actions"] | None
) -> Float[Array, "*batch actions"]:
    """Masks the logits of forbidden actions with the lowest finite logit.

    Their probability becomes 0, they get no gradient, and log-probabilities stay finite.

    **Arguments:**

    - `logits`: one logit for every action.
    - `action_mask`: which actions are allowed; `None` allows all. If no action is allowed, all
        become equally likely.

    **Returns:** the masked logits.
    """
    if action_mask is None:
        return logits
    return jnp.where(action_mask, logits, jnp.finfo(logits.dtype).min)


def check_mask(space: AbstractSpace, observation: PyTree) -> None:
    """Checks that the action mask of an observation, if it has one, fits the action space.

    **Arguments:**

    - `space`: the action space of one agent.
    - `observation`: the shapes of the observations of all agents.

    **Raises:** `ValueError` when the mask does not fit.
    """
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return
    if not isinstance(space, Discrete | MultiDiscrete):
        raise ValueError(
            f"A mask of actions needs Discrete or MultiDiscrete actions, but those of the "
            f"environment are of a {type(space).__name__}: return the observation without Masked."
        )
    if action_mask.dtype != bool or action_mask.shape[-1:] != (space.num_options,):
        raise ValueError(
            f"A mask must have one boolean for each of the {space.num_options} actions, but is "
            f"{action_mask.dtype}{list(action_mask.shape)}, with the agents first."
        )


def sample_action(
    distribution: "distrax.Categorical", uniform: Float[Array, "*batch"]
) -> Int[Array, "*batch"]:
    """Samples actions by inverse transform sampling: it inverts the cumulative probabilities.

    distrax samples a random number and computes two logarithms for every possible action. On a CPU,
    this took half of the time of acting, and a quarter of its compilation.

    **Arguments:**

    - `distribution`: the distribution to sample from.
    - `uniform`: random numbers, uniform in [0, 1).

    **Returns:** one action per random number.
    """
    cumulative = jnp.cumsum(distribution.probs, axis=-1)
    # Scaled by the sum, which may differ from 1 by rounding. So actions of probability 0 are never
    # sampled.
    level = (uniform * cumulative[..., -1])[..., None]
    return jnp.sum(level >= cumulative[..., :-1], axis=-1, dtype=jnp.int32)


def entropy(distribution: "distrax.Categorical") -> Float[Array, "*batch"]:
    """The entropy of categorical distributions, in nats.

    Actions of probability 0 contribute nothing to the entropy or its gradient. The entropy of
    distrax normalises the logits again, which took a thirtieth of the time of training.

    **Arguments:**

    - `distribution`: a distribution from logits. If it was built from probabilities, the gradient
        is NaN where a probability is 0.

    **Returns:** one entropy per distribution.
    """
    probability = jnp.exp(distribution.logits)
    logits = jnp.where(probability > 0, distribution.logits, 0.0)
    return -jnp.sum(probability * logits, axis=-1)


def _distrax() -> Any:
    """Imports distrax for the first distribution, and not when a command starts: distrax imports
    TensorFlow Probability, which takes a third of the time of the start.
    """
    return importlib.import_module("distrax")
