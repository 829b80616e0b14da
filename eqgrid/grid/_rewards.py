"""Named events, what agents are paid for, and when their tasks are over.

All of them read the finished step: what really happened, never what somebody wanted to do.
"""

import abc
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float32, Real

from .._checks import as_number, is_finite
from ._step import Step


class AbstractEvents(eqx.Module):
    """The named events of a game."""

    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        """For whom each event has happened, in the order of `names`."""


@final
class RuleEvents(AbstractEvents):
    """An event happens where a rule of its type has fired: `RuleEvents(arrival=Arrive)`.

    **Raises:** `ValueError`, in the first step, for an event whose rule no phase can fire.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    rules: tuple[type, ...] = eqx.field(static=True)

    def __init__(self, **rules: type):
        self.names, self.rules = tuple(rules), tuple(rules.values())

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        for name, rule in zip(self.names, self.rules, strict=True):
            if not any(issubclass(known, rule) for known in step.rules):
                known = ", ".join(sorted({x.__name__ for x in step.rules})) or "none"
                raise ValueError(
                    f"The event {name!r} can never happen, since no phase fires {rule.__name__}: "
                    f"the rules that phases fire are {known}."
                )
        return tuple(step.by(rule) for rule in self.rules)


class AbstractReward(eqx.Module):
    """What each agent is paid for one step."""

    @abc.abstractmethod
    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        """The reward of every agent."""


@final
class WeightedEventReward(AbstractReward):
    """Every agent is paid for its own events, each by its weight.

    **Arguments:**

    - `weights`: what each event is worth; those that are not named are worth nothing.
    - `names`: the names of the game's events.
    - `shared`: every agent is paid for the events of all.

    **Raises:** `ValueError` when there is no such event, or a weight is not finite. Weights that
    are being traced are not looked at.
    """

    weights: Float32[Array, " events"]
    shared: bool = eqx.field(static=True)

    def __init__(
        self,
        weights: Mapping[str, Real[ArrayLike, ""]],
        names: tuple[str, ...],
        *,
        shared: bool = False,
    ):
        if unknown := set(weights) - set(names):
            raise ValueError(
                f"There is no event {min(unknown)!r}: the events are {', '.join(names)}."
            )
        worth = [_as_weight(name, weights.get(name, 0.0)) for name in names]
        self.weights = jnp.asarray(worth, jnp.float32)
        self.shared = shared

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        # Added up event by event, in one kernel: a stack begins with a copy of each.
        paid = [x.astype(jnp.float32) * w for x, w in zip(step.happened, self.weights, strict=True)]
        own = sum(paid, start=jnp.zeros(step.world.num_agents, jnp.float32))
        return jnp.broadcast_to(own.sum(), own.shape) if self.shared else own


def _as_weight(name: str, weight: Real[ArrayLike, ""]) -> Float32[Array, ""]:
    needs = f"The event {name!r} needs a finite weight"
    return as_number(weight, float, is_finite, needs).astype(jnp.float32)


class AbstractEnding(eqx.Module):
    """When an agent's task is over."""

    @abc.abstractmethod
    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        """Whose task ends with this step. Once over, it stays over until the next episode."""
