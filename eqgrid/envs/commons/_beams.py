"""Beams: where they go, the one that sends agents away, and the one that cleans the river."""

from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Int8, Int16

from ...grid import (
    NOTHING,
    AbstractPhase,
    Step,
    Use,
    World,
    cells_at,
    check_whole,
    direction_delta,
    send_away,
)
from ._kinds import CLEANING_BEAM, POLLUTION, ZAP_BEAM
from ._options import as_steps
from ._state import Tally, is_active, retallied, with_cells

ZAP = Use("zap")
"""The action that fires the beam that sends agents away."""

CLEAN = Use("clean")
"""The action that fires the beam that cleans the river."""

_Places: TypeAlias = Int8[Array, "agents 2"]
_Grid: TypeAlias = Bool[Array, "height width"]


@final
class Shots(eqx.Module):
    """Where the beams of one step go.

    - `lit`: the cells that a beam crosses, with those in which it ends by hitting something.
    - `hit`: the cells in which a beam has hit something.
    - `hits`: the agents whose beam has hit something.
    """

    lit: _Grid
    hit: _Grid
    hits: Bool[Array, " agents"]


def cast(
    step: Step,
    fires: Bool[Array, " agents"],
    stops: Callable[[_Places], Bool[Array, " agents"]],
    length: int,
    radius: int,
) -> Shots:
    """The beams of agents, which are all fired at once.

    A beam is a bundle of rays in the direction that the agent faces. The middle one begins in front
    of the agent. The others begin beside it, `1` to `radius` cells to its left and right, and are
    as much shorter at their far end: with a length of 3 and a radius of 1, nine cells are covered.
    A ray ends before a cell that cannot be entered, and in a cell in which it hits something. Where
    a ray ends at once, those further out are not fired.

    Source: `Grid::HitBeamActual` of DeepMind Lab2D, which is the engine of Melting Pot.

    **Arguments:**

    - `step`: the step.
    - `fires`: the agents that fire.
    - `stops`: whether there is something to hit in a cell of each agent.
    - `length`, `radius`: the number of cells of the middle ray, and of rays on each side.
    """
    bodies = step.world.bodies
    ahead = direction_delta(bodies.direction)
    right = jnp.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    lit = jnp.zeros(step.layout.tiles.shape, bool)
    shots = Shots(lit, lit, jnp.zeros(fires.shape, bool))
    shots, _ = _cast_ray(step, shots, fires, stops, bodies.position + ahead, ahead, length)
    for side in (-right, right):
        going = fires
        for out in range(1, min(radius, length) + 1):
            begin = bodies.position + np.int8(out) * side
            shots, going = _cast_ray(step, shots, going, stops, begin, ahead, length - out + 1)
    return shots


def _cast_ray(
    step: Step,
    shots: Shots,
    goes: Bool[Array, " agents"],
    stops: Callable[[_Places], Bool[Array, " agents"]],
    place: _Places,
    ahead: _Places,
    length: int,
) -> tuple[Shots, Bool[Array, " agents"]]:
    """The shots with one more ray of each agent, and for whom it got past its first cell."""
    lit, hit, hits, first = shots.lit, shots.hit, shots.hits, goes
    for number in range(length):
        goes &= step.is_free(place)
        here = goes & stops(place)
        row, col = place.T
        lit = lit.at[row, col].max(goes, mode="drop")
        hit = hit.at[row, col].max(here, mode="drop")
        hits |= here
        goes &= ~here
        first = goes if number == 0 else first
        place = place + ahead
    return Shots(lit, hit, hits), first


@final
class BeamSize(eqx.Module):
    """The reach of a beam, and how often it is fired.

    **Arguments:**

    - `length`, `radius`: as in `cast`.
    - `cooldown`: the number of steps after a shot in which the agent cannot fire again.

    **Raises:** `ValueError` when a number is out of range.
    """

    length: int = eqx.field(static=True)
    radius: int = eqx.field(static=True)
    cooldown: Int16[Array, ""]

    def __init__(self, length: int, radius: int, cooldown: Int[ArrayLike, ""]):
        check_whole(beam_length=length, beam_radius=radius)
        if not (1 <= length <= 127 and 0 <= radius <= 127):
            raise ValueError(
                f"A beam has a length from 1 to 127 cells and a radius from 0 to 127, not {length} "
                f"and {radius}."
            )
        self.length, self.radius = length, radius
        self.cooldown = as_steps(cooldown, 0, "The cooldown of a beam")

    def next_wait(
        self, wait: Int16[Array, " agents"], fires: Bool[Array, " agents"], world: World
    ) -> Int16[Array, " agents"]:
        """The steps that agents wait for their next shot; who is away does not count them."""
        less = jnp.where(is_active(world), jnp.maximum(wait - 1, 0), wait).astype(jnp.int16)
        return jnp.where(fires, self.cooldown, less)


@final
class Hit:
    """The rule that fires for agents that a zapping beam has hit."""


@final
class Zap(AbstractPhase):
    """The phase in which agents fire their zapping beam, which sends those that it hits away. It
    fires for the agents that shoot, and `Hit` for those that are hit. All shoot at once.

    It erases the beams of the step before.

    **Arguments:**

    - `beam`: the reach of the beam.
    - `away`: the number of steps for which an agent is sent away.
    """

    beam: BeamSize
    away: Int16[Array, ""]

    def __call__(self, step: Step) -> Step:
        tally: Tally = step.world.extra
        fires = step.uses(ZAP) & (tally.zap_wait == 0)
        shots = cast(step, fires, step.occupied, self.beam.length, self.beam.radius)
        row, col = step.world.bodies.position.T
        hit = shots.hit[row, col] & is_active(step.world)
        wait = self.beam.next_wait(tally.zap_wait, fires, step.before)
        world = retallied(step.world, zap_wait=wait)
        world = with_cells(world, extra=shots.lit.astype(jnp.uint8) * np.uint8(ZAP_BEAM))
        return step.then(world, Zap, fires).then(send_away(world, hit, self.away), Hit, hit)


@final
class Clean(AbstractPhase):
    """The phase in which agents fire their cleaning beam, each ray of which removes the first
    pollution that it hits. It fires for the agents that have removed some. It comes after `Zap`,
    and agents that are hit in the same step still clean.

    **Arguments:**

    - `beam`: the reach of the beam.
    """

    beam: BeamSize

    def __call__(self, step: Step) -> Step:
        world, tally = step.world, step.world.extra
        fires = step.uses(CLEAN) & (tally.clean_wait == 0)
        shots = cast(step, fires, lambda x: _is_polluted(world, x), *self._reach)
        objects = jnp.where(shots.hit, jnp.uint8(NOTHING), world.cells.object)
        beams = jnp.where(
            shots.lit & (world.cells.extra == 0), np.uint8(CLEANING_BEAM), world.cells.extra
        )
        wait = self.beam.next_wait(tally.clean_wait, fires, step.before)
        world = retallied(with_cells(world, object=objects, extra=beams), clean_wait=wait)
        return step.then(world, Clean, shots.hits)

    @property
    def _reach(self) -> tuple[int, int]:
        return self.beam.length, self.beam.radius


def _is_polluted(world: World, place: _Places) -> Bool[Array, " agents"]:
    return cells_at(world.cells.object, place, NOTHING) == POLLUTION
