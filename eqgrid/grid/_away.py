"""Agents that leave the world for some steps, and come back."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from .._checks import is_known
from ._cells import bare_floor, draw_cells, occupied_cells
from ._kinds import NOTHING
from ._step import AbstractPhase, Step
from ._world import Bodies, World

_LONGEST = np.iinfo(np.int16).max


def send_away(
    world: World, who: Bool[Array, " agents"], steps: int | Int[Array, "*#agents"]
) -> World:
    """Takes agents out of the world for some steps, for use in a phase of a game.

    While an agent is away it does nothing, does not collide and is not observed, and no event
    happens to it. It has not terminated: it observes the world around the place that it left, is
    paid what its team is paid, and comes back by the phase `ComeBack`. What it holds stays with it.

    **Arguments:**

    - `world`: the world.
    - `who`: which agents leave; those that are not active stay as they are.
    - `steps`: the number of steps in which they do nothing, from 1 to 32,767. They are seen again
        in the observation after the last one.

    **Returns:** the world without them.

    **Raises:** `ValueError` when the world has no phase `ComeBack`, or `steps` is out of range;
    traced numbers are not checked.
    """
    active, away = _counters(world.bodies)
    if is_known(steps) and not ((np.asarray(steps) >= 1) & (np.asarray(steps) <= _LONGEST)).all():
        raise ValueError(f"Agents leave for 1 to {_LONGEST:,} steps, not {steps!r:.60}.")
    leaves = who & active
    bodies = dataclasses.replace(
        world.bodies,
        active=active & ~leaves,
        away=jnp.where(leaves, jnp.asarray(steps, jnp.int16), away),
    )
    return dataclasses.replace(world, bodies=bodies)


@final
class ComeBack(AbstractPhase):
    """The phase that brings back agents that were away (see `send_away`), each to a random cell
    without objects and agents. An agent for which there is no such cell waits for the next step.

    It may stand before or after the phase that sends agents away. It fires for those that are back.

    **Arguments:**

    - `tiles`: the names of the kinds of tiles on which they come back; the floor by default.
    """

    tiles: tuple[str, ...] = eqx.field(static=True, default=())

    def __call__(self, step: Step) -> Step:
        world, bodies = step.world, step.world.bodies
        active, away = _counters(bodies)
        waiting = (_counters(step.before.bodies)[1] > 0) & (away > 0)
        away = away - waiting.astype(jnp.int16)
        due = waiting & (away == 0)
        places = self._places(step) & ~occupied_cells(world)
        cells = draw_cells(step.key, places, world.num_agents)
        cell = cells[jnp.maximum(jnp.cumsum(due) - 1, 0)]  # the first of them gets the first cell
        back = due & places[cell[:, 0], cell[:, 1]]
        bodies = dataclasses.replace(
            bodies,
            position=jnp.where(back[:, None], cell, bodies.position),
            active=active | back,
            away=jnp.where(due & ~back, jnp.int16(1), away),
        )
        return step.then(dataclasses.replace(world, bodies=bodies), ComeBack, back)

    def _places(self, step: Step) -> Bool[Array, "height width"]:
        layout, world = step.layout, step.world
        if not self.tiles:
            return bare_floor(layout, world)
        numbers = np.asarray([layout.kinds.tile(name) for name in self.tiles], np.uint8)
        on_tiles = (layout.tiles[..., None] == numbers[None, None]).any(axis=-1)
        return on_tiles & (world.cells.object == NOTHING)


def _counters(bodies: Bodies) -> tuple[Bool[Array, " agents"], Int[Array, " agents"]]:
    if bodies.active is None or bodies.away is None:
        raise ValueError("Nobody can come back: give the world a phase `ComeBack`.")
    return bodies.active, bodies.away
