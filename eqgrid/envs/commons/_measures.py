"""The measures of Perolat et al. (2017) of how a group does: efficiency, equality, sustainability
and peace.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

from ..._partial import Partial
from ...grid import InfoEntry, Step, World
from ._state import Tally

Measure: TypeAlias = Callable[[World], Float32[Array, ""]]
"""A measure of the episode so far, as a function of the state."""


def efficiency(world: World) -> Float32[Array, ""]:
    """The apples that all agents have eaten, per step of the episode so far.

    Source: the utilitarian metric of Perolat et al. (2017), with apples for returns, so that shared
    rewards do not change it.
    """
    return _share(world.extra.apples.sum(dtype=jnp.int32), world.time)


def equality(world: World) -> Float32[Array, ""]:
    """1 minus the Gini coefficient of the numbers of apples that the agents have eaten: 1 when all
    have as many, and `1 / agents` when one has them all; 0 as long as nobody has any.

    Source: the equality metric of Perolat et al. (2017), with apples for returns.
    """
    apples = world.extra.apples
    total = apples.sum(dtype=jnp.int32)
    differences = jnp.abs(apples[:, None] - apples[None, :]).sum(dtype=jnp.int32)
    gini = _share(differences, 2 * len(apples) * total)
    return jnp.where(total > 0, 1 - gini, 0.0)


def sustainability(world: World) -> Float32[Array, ""]:
    """The mean number of the step, from 1, in which an agent has eaten an apple: the mean of each
    agent, and of them the mean over the agents that have eaten any; 0 as long as nobody has.

    Source: the sustainability metric of Perolat et al. (2017).
    """
    tally: Tally = world.extra
    eaters = (tally.apples > 0).sum(dtype=jnp.int32)
    means = _share(tally.apple_steps, tally.apples)
    return means.sum() / jnp.maximum(eaters, 1).astype(jnp.float32)


def peace(world: World) -> Float32[Array, ""]:
    """The mean number of agents that were not away, over the steps of the episode so far.

    Source: the peace metric of Perolat et al. (2017).
    """
    return _share(world.extra.present.sum(dtype=jnp.int32), world.time)


MEASURES: dict[str, Measure] = {
    "efficiency": efficiency,
    "equality": equality,
    "sustainability": sustainability,
    "peace": peace,
}
"""The measures by name. In the last state of an episode they are those of the episode."""


def _share(
    part: Int32[Array, "*shape"], whole: Int32[Array, "*#shape"]
) -> Float32[Array, "*shape"]:
    """A quotient, and 0 where there is nothing to divide by."""
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1), 0.0)


def _change(measure: Measure, step: Step) -> Float32[Array, ""]:
    """By how much a measure changes in a step. The sum over an episode, which `LogEpisodes`
    computes, is the measure of the episode.
    """
    return measure(step.world) - measure(step.before)


CHANGES: dict[str, InfoEntry] = {name: Partial(_change, x) for name, x in MEASURES.items()}
"""The entries of `info` of both worlds."""
