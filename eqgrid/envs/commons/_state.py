"""What is counted for every agent in an episode."""

import dataclasses
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int16, Int32

from ...grid import Layout, World


@final
class Tally(eqx.Module):
    """Numbers of every agent, in `World.extra`.

    - `zap_wait`, `clean_wait`: the number of steps in which the agent cannot fire this beam.
    - `apples`: the number of apples that the agent has eaten in this episode.
    - `apple_steps`: the sum of the numbers of the steps in which it ate them, from 1.
    - `present`: the number of steps in which it was not away.
    """

    zap_wait: Int16[Array, " agents"]
    clean_wait: Int16[Array, " agents"]
    apples: Int32[Array, " agents"]
    apple_steps: Int32[Array, " agents"]
    present: Int32[Array, " agents"]


def with_tally(layout: Layout) -> Layout:
    """The layout with an empty `Tally`, and cells without beams, at the start."""
    agents = layout.num_agents
    waits, counts = jnp.zeros(agents, jnp.int16), jnp.zeros(agents, jnp.int32)
    return layout.with_start(
        cell_extra=jnp.zeros(layout.tiles.shape, jnp.uint8),
        extra=Tally(waits, waits, counts, counts, counts),
    )


def retallied(world: World, **changes: Any) -> World:
    """The world with changes to its `Tally`."""
    return dataclasses.replace(world, extra=dataclasses.replace(world.extra, **changes))


def with_cells(world: World, **changes: Any) -> World:
    """The world with changes to its cells."""
    return dataclasses.replace(world, cells=dataclasses.replace(world.cells, **changes))


def is_active(world: World) -> Bool[Array, " agents"]:
    """Which agents are not away."""
    active = world.bodies.active
    return jnp.ones(world.num_agents, bool) if active is None else active
