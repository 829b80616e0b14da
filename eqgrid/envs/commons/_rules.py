"""Apples that grow, pollution, and beams."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float32, Int, Int8, Int16, Real, UInt8

from ..._checks import as_probability, check_whole, is_known
from ..._functions import sample_uniform
from ...grid import NOTHING, AbstractPhase, Step, Use, World, cells_at, direction_delta, send_away
from ._kinds import APPLE, CLEANING_BEAM, ORCHARD, POLLUTION, RIVER, ZAP_BEAM
from ._state import Tally, as_steps, is_active, retallied, with_cells

_WIDEST = 8
"""The largest radius in which apples are counted, so that a count fits into 8 bits."""


@final
class Eat(AbstractPhase):
    """The phase in which agents eat the apples in their cells. It fires for agents that eat. The
    `Tally` counts the eaten apples and the steps in which an agent is present.
    """

    def __call__(self, step: Step) -> Step:
        world = step.world
        active, (row, col) = is_active(world), world.bodies.position.T
        objects = world.cells.object
        eats = (objects[row, col] == APPLE) & active
        eaten = jnp.where(eats, jnp.uint8(NOTHING), objects[row, col])
        tally: Tally = world.extra
        now = eats.astype(jnp.int32)
        world = retallied(
            with_cells(world, object=objects.at[row, col].min(eaten)),
            apples=tally.apples + now,
            apple_steps=tally.apple_steps + now * (world.time + 1),
            present=tally.present + active.astype(jnp.int32),
        )
        return step.then(world, Eat, eats)


@final
class Regrow(AbstractPhase):
    """The phase of `Harvest` in which apples grow again in cells of the orchard without one, each
    with a probability that depends on how many apples are near.

    As in the source, apples are counted before the step, and an apple that grows under an agent is
    eaten at once. Source: `DensityRegrow` of Melting Pot
    (`lua/levels/commons_harvest/components.lua`). The idea is from Janssen et al. (2010) and
    Perolat et al. (2017).

    **Arguments:**

    - `probabilities`: the probability per step for 0, 1, 2, ... apples nearby. The last entry also
        applies to more apples.
    - `radius`: the Euclidean distance, in cells, up to which apples count as nearby.

    **Raises:** `ValueError` when a number is out of range.
    """

    probabilities: Float32[Array, " counts"]
    radius: int = eqx.field(static=True)

    def __init__(self, probabilities: Sequence[Real[ArrayLike, ""]], radius: int = 2):
        check_whole(radius=radius)
        if not 1 <= radius <= _WIDEST or not len(probabilities):
            raise ValueError(
                f"Regrow needs at least one probability, and a radius from 1 to {_WIDEST}."
            )
        needs = "The probabilities of regrowth must be from 0 to 1"
        chances = [as_probability(x, needs).astype(jnp.float32) for x in probabilities]
        self.probabilities, self.radius = jnp.stack(chances), radius

    def __call__(self, step: Step) -> Step:
        before = step.before.cells.object == APPLE
        near = count_near(before, self.radius)
        most = jnp.uint8(min(len(self.probabilities) - 1, 255))
        probability = self.probabilities[jnp.minimum(near, most)]
        return _grow(step, ~before, probability)


@final
class GrowByCleanWater(AbstractPhase):
    """The phase of `Cleanup` in which apples grow in cells of the orchard without one. The
    probability falls linearly with the share of the river that is polluted.

    Source: `AppleGrow` of Melting Pot (`lua/levels/clean_up/components.lua`), after Hughes et al.
    (2018).

    **Arguments:**

    - `rate`: the largest probability per step.
    - `depletion`: the polluted share from which on nothing grows.
    - `restoration`: the polluted share up to which apples grow at the largest rate; less than
        `depletion`.

    **Raises:** `ValueError` when a number is out of range.
    """

    rate: Float32[Array, ""]
    depletion: Float32[Array, ""]
    restoration: Float32[Array, ""]

    def __init__(
        self,
        rate: Real[ArrayLike, ""],
        depletion: Real[ArrayLike, ""],
        restoration: Real[ArrayLike, ""],
    ):
        needs = "Cleanup needs a growth rate and thresholds from 0 to 1"
        numbers = (as_probability(x, needs) for x in (rate, depletion, restoration))
        self.rate, self.depletion, self.restoration = (x.astype(jnp.float32) for x in numbers)
        if is_known(depletion, restoration) and np.asarray(depletion) <= np.asarray(restoration):
            raise ValueError(
                f"Cleanup needs a threshold of depletion above that of restoration, but got "
                f"{depletion!r:.60} and {restoration!r:.60}."
            )

    def __call__(self, step: Step) -> Step:
        before = step.before.cells.object
        share = polluted_share(step.layout.tiles, before)
        growth = (self.depletion - share) / (self.depletion - self.restoration)
        probability = self.rate * jnp.clip(growth, 0.0, 1.0)
        return _grow(step, before != APPLE, jnp.broadcast_to(probability, before.shape))


def polluted_share(
    tiles: UInt8[Array, "height width"], objects: UInt8[Array, "height width"]
) -> Float32[Array, ""]:
    """The share of the cells of the river that are polluted.

    ```python
    import jax

    from eqgrid import make
    from eqgrid.envs.commons import polluted_share

    env = make("cleanup", layout="small")
    observation, state = env.reset(jax.random.key(0))
    print(polluted_share(env.layout.tiles, state.cells.object))
    ```
    """
    river = (tiles == RIVER).sum(dtype=jnp.int32)
    return (objects == POLLUTION).sum(dtype=jnp.int32) / jnp.maximum(river, 1)


def count_near(marked: Bool[Array, "height width"], radius: int) -> UInt8[Array, "height width"]:
    """For each cell, how many other marked cells are at most `radius` away (Euclidean distance)."""
    height, width = marked.shape
    padded = jnp.pad(marked.astype(jnp.uint8), radius)
    reach = range(-radius, radius + 1)
    count = jnp.zeros(marked.shape, jnp.uint8)
    for down in reach:
        for right in reach:
            if 0 < down**2 + right**2 <= radius**2:
                row, col = radius + down, radius + right
                count += padded[row : row + height, col : col + width]
    return count


def _grow(
    step: Step, bare: Bool[Array, "height width"], probability: Float32[Array, "height width"]
) -> Step:
    """Lets apples grow in the cells of the orchard that are bare."""
    objects = step.world.cells.object
    grows = sample_uniform(step.key, objects.shape) < probability
    grows &= (step.layout.tiles == ORCHARD) & bare
    return step.then(with_cells(step.world, object=jnp.where(grows, jnp.uint8(APPLE), objects)))


@final
class Pollute(AbstractPhase):
    """The phase of `Cleanup` that pollutes a clean cell of the river, sampled uniformly.

    Source: `DirtSpawner` of Melting Pot (`lua/levels/clean_up/components.lua`).

    **Arguments:**

    - `probability`: the probability per step.
    - `delay`: the number of steps at the beginning of an episode in which nothing is polluted.

    **Raises:** `ValueError` when a number is out of range.
    """

    probability: Float32[Array, ""]
    delay: Int16[Array, ""]

    def __init__(self, probability: Real[ArrayLike, ""], delay: Int[ArrayLike, ""]):
        needs = "Pollution needs a probability from 0 to 1"
        self.probability = as_probability(probability, needs).astype(jnp.float32)
        self.delay = as_steps(delay, 0, "The delay of pollution")

    def __call__(self, step: Step) -> Step:
        world, objects = step.world, step.world.cells.object
        clean = (step.layout.tiles == RIVER) & (objects != POLLUTION)
        happens, which = jax.random.uniform(step.key, (2,))
        happens = (happens < self.probability) & (world.time >= self.delay.astype(jnp.int32))
        # The n-th clean cell is the one at which the running count of clean cells is n. So two
        # random numbers are enough, where `draw_cells` needs one for each cell.
        rank = jnp.cumsum(clean.reshape(-1), dtype=jnp.int32).reshape(clean.shape)
        drawn = (which * rank[-1, -1].astype(jnp.float32)).astype(jnp.int32) + 1
        here = clean & (rank == drawn) & happens
        objects = jnp.where(here, np.uint8(POLLUTION), objects)
        return step.then(with_cells(world, object=objects))


ZAP = Use("zap")
"""The action that fires the beam that sends agents away."""

CLEAN = Use("clean")
"""The action that fires the beam that cleans the river."""

_Places: TypeAlias = Int8[Array, "agents 2"]
_Grid: TypeAlias = Bool[Array, "height width"]


@final
class Shots(eqx.Module):
    """Where the beams of one step go.

    - `lit`: the cells that a beam crosses, also those in which it ends by hitting something.
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
    of the agent. The others begin `1` to `radius` cells to its left and right, and are shorter by
    the same number of cells: with a length of 3 and a radius of 1, the beam covers nine cells.
    A ray ends before a cell that cannot be entered, and in a cell in which it hits something. If a
    side ray ends in its first cell, the rays beyond it on this side are not fired.

    Source: `Grid::HitBeamActual` of DeepMind Lab2D, which is the engine of Melting Pot.

    **Arguments:**

    - `step`: the step.
    - `fires`: the agents that fire.
    - `stops`: for one cell of each agent, whether a beam hits something in this cell.
    - `length`, `radius`: the number of cells of the middle ray, and of rays on each side.
    """
    bodies = step.world.bodies
    ahead = direction_delta(bodies.direction)
    right = jnp.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    # Of each cell: 1 where a beam crosses it, 2 where a beam hits something in it.
    beams = jnp.zeros(step.layout.tiles.shape, jnp.uint8)
    # Side rays are fired also where the middle ray ends in its first cell.
    begin = bodies.position + ahead
    beams, hits, _ = _cast_ray(step, beams, fires, stops, begin, ahead, length)
    for side in (-right, right):
        going = fires
        for out in range(1, min(radius, length) + 1):
            begin = bodies.position + np.int8(out) * side
            ray = _cast_ray(step, beams, going, stops, begin, ahead, length - out + 1)
            beams, hits_of_ray, going = ray
            hits |= hits_of_ray
    return Shots(beams > 0, beams > 1, hits)


def _cast_ray(
    step: Step,
    beams: UInt8[Array, "height width"],
    active: Bool[Array, " agents"],
    stops: Callable[[_Places], Bool[Array, " agents"]],
    place: _Places,
    ahead: _Places,
    length: int,
) -> tuple[UInt8[Array, "height width"], Bool[Array, " agents"], Bool[Array, " agents"]]:
    """The beams with one more ray of each agent, whether each ray hits something, and whether it
    gets past its first cell.
    """
    hits, passed_first = jnp.zeros_like(active), active
    for number in range(length):
        active &= step.is_free(place)
        hits_here = active & stops(place)
        value = active.astype(jnp.uint8) + hits_here.astype(jnp.uint8)
        beams = beams.at[place[:, 0], place[:, 1]].max(value, mode="drop")
        hits |= hits_here
        active &= ~hits_here
        passed_first = active if number == 0 else passed_first
        place = place + ahead
    return beams, hits, passed_first


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
        """The steps until each agent's next shot. The countdown pauses while an agent is away."""
        less = jnp.where(is_active(world), jnp.maximum(wait - 1, 0), wait).astype(jnp.int16)
        return jnp.where(fires, self.cooldown, less)


@final
class Hit:
    """The rule that fires for agents that a zapping beam has hit."""


@final
class Zap(AbstractPhase):
    """The phase in which agents fire their zapping beam, which sends the agents that it hits away.
    It fires for the agents that shoot, and `Hit` for the agents that are hit. All shoot at once.

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
        shots = cast(
            step,
            fires,
            lambda place: cells_at(world.cells.object, place, NOTHING) == POLLUTION,
            self.beam.length,
            self.beam.radius,
        )
        objects = jnp.where(shots.hit, jnp.uint8(NOTHING), world.cells.object)
        beams = jnp.where(
            shots.lit & (world.cells.extra == 0), np.uint8(CLEANING_BEAM), world.cells.extra
        )
        wait = self.beam.next_wait(tally.clean_wait, fires, step.before)
        world = retallied(with_cells(world, object=objects, extra=beams), clean_wait=wait)
        return step.then(world, Clean, shots.hits)
