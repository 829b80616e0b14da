"""The state of both worlds, and the measures of Perolat et al. (2017): efficiency, equality,
sustainability and peace.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float32, Int, Int16, Int32, Real, Shaped

from ..._checks import as_number, is_finite
from ..._functions import Partial
from ...grid import InfoEntry, Layout, Step, World

_LONGEST = 2**15 - 1


def as_steps(number: Int[ArrayLike, ""], smallest: int, what: str) -> Int16[Array, ""]:
    """A number of steps as an array leaf.

    **Raises:** `ValueError` when it is less than `smallest`, or does not fit into 16 bits.
    """
    needs = f"{what} needs a number of steps from {smallest} to {_LONGEST:,}"
    steps = as_number(number, int, lambda x: smallest <= x <= _LONGEST, needs)
    return steps.astype(jnp.int16)


def as_penalty(number: Real[ArrayLike, ""], what: str) -> Float32[Array, ""]:
    """The negative of a cost, as a reward.

    **Raises:** `ValueError` when it is not finite.
    """
    return -as_number(number, float, is_finite, f"{what} needs a finite cost").astype(jnp.float32)


@final
class Tally(eqx.Module):
    """Numbers of every agent, in `World.extra`.

    - `zap_wait`, `clean_wait`: the number of steps in which the agent cannot fire this beam.
    - `apples`: the number of apples that the agent has eaten in this episode.
    - `apple_steps`: the sum of the times at which the agent ate them: the first step is 1.
    - `present`: the number of steps in which the agent was not away.
    """

    zap_wait: Int16[Array, " agents"]
    clean_wait: Int16[Array, " agents"]
    apples: Int32[Array, " agents"]
    apple_steps: Int32[Array, " agents"]
    present: Int32[Array, " agents"]


def start_tally(layout: Layout) -> Layout:
    """The layout with an empty `Tally`, and cells without beams, at the start."""
    agents = layout.num_agents
    waits, counts = jnp.zeros(agents, jnp.int16), jnp.zeros(agents, jnp.int32)
    return layout.with_start(
        cell_extra=jnp.zeros(layout.tiles.shape, jnp.uint8),
        extra=Tally(waits, waits, counts, counts, counts),
    )


def replace_tally(world: World, **changes: Shaped[Array, "..."]) -> World:
    """The world with changes to its `Tally`."""
    return dataclasses.replace(world, extra=dataclasses.replace(world.extra, **changes))


def replace_cells(world: World, **changes: Shaped[Array, "..."]) -> World:
    """The world with changes to its cells."""
    return dataclasses.replace(world, cells=dataclasses.replace(world.cells, **changes))


def is_active(world: World) -> Bool[Array, " agents"]:
    """Which agents are not away."""
    active = world.bodies.active
    return jnp.ones(world.num_agents, bool) if active is None else active


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
    have the same number, `1 / agents` when one has them all, and 0 before the first apple is eaten.

    Source: the equality metric of Perolat et al. (2017), with apples for returns.
    """
    apples = world.extra.apples
    total = apples.sum(dtype=jnp.int32)
    differences = jnp.abs(apples[:, None] - apples[None, :]).sum(dtype=jnp.int32)
    gini = _share(differences, 2 * len(apples) * total)
    return jnp.where(total > 0, 1 - gini, 0.0)


def sustainability(world: World) -> Float32[Array, ""]:
    """The mean time at which apples were eaten; the first step is 1. It is the mean over the apples
    of each agent, and then the mean over the agents that have eaten any; 0 if no agent has.

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
"""The measures by name. In the last state of an episode, they describe the whole episode."""


def _share(
    part: Int32[Array, "*shape"], whole: Int32[Array, "*#shape"]
) -> Float32[Array, "*shape"]:
    """`part / whole`, and 0 where `whole` is 0."""
    return jnp.where(whole > 0, part / jnp.maximum(whole, 1), 0.0)


def _change(measure: Measure, step: Step) -> Float32[Array, ""]:
    """The change of a measure in a step. `LogEpisodes` sums the changes over an episode, which
    gives the measure of the whole episode.
    """
    return measure(step.world) - measure(step.before)


CHANGES: dict[str, InfoEntry] = {name: Partial(_change, x) for name, x in MEASURES.items()}
"""The entries of `info` of both worlds: the change of each measure."""
