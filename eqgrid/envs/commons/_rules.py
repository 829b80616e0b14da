"""The rules of Harvest and Cleanup: eating and growing apples, pollution, and beams."""

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
from ._state import Tally, as_steps, is_active, replace_cells, replace_tally

_WIDEST = 8
"""The largest radius in which apples are counted, so that a count fits into 8 bits."""


@final
class Eat(AbstractPhase):
    """The phase in which agents eat the apples in their cells. It fires for agents that eat, and
    counts their apples, and the steps in which agents are present, in the `Tally`.
    """

    def __call__(self, step: Step) -> Step:
        world = step.world
        active, (row, col) = is_active(world), world.bodies.position.T
        objects = world.cells.object
        eats = (objects[row, col] == APPLE) & active
        left = jnp.where(eats, jnp.uint8(NOTHING), objects[row, col])
        tally: Tally = world.extra
        eaten = eats.astype(jnp.int32)
        world = replace_tally(
            # An agent that is away may have the same position as an agent that eats. NOTHING is 0,
            # so with `min` the agent that eats decides.
            replace_cells(world, object=objects.at[row, col].min(left)),
            apples=tally.apples + eaten,
            apple_steps=tally.apple_steps + eaten * (world.time + 1),
            present=tally.present + active.astype(jnp.int32),
        )
        return step.then(world, Eat, eats)


@final
class Regrow(AbstractPhase):
    """The phase of `Harvest` in which apples grow again in cells of the orchard without an apple.
    The probability of each cell depends on the number of apples nearby.

    As in the source, apples are counted before the step, and an apple that grows under an agent is
    eaten at once.

    Source: `DensityRegrow` of Melting Pot (`lua/levels/commons_harvest/components.lua`). The idea
    is from Janssen et al. (2010) and Perolat et al. (2017).

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
        checked = [as_probability(x, needs).astype(jnp.float32) for x in probabilities]
        self.probabilities, self.radius = jnp.stack(checked), radius

    def __call__(self, step: Step) -> Step:
        apples = step.before.cells.object == APPLE
        nearby = count_near(apples, self.radius)
        last = jnp.uint8(min(len(self.probabilities) - 1, 255))
        probability = self.probabilities[jnp.minimum(nearby, last)]
        return _grow(step, ~apples, probability)


@final
class GrowByCleanWater(AbstractPhase):
    """The phase of `Cleanup` in which apples grow in cells of the orchard without an apple. The
    probability falls linearly with the share of the river that is polluted.

    Source: `AppleGrow` of Melting Pot (`lua/levels/clean_up/components.lua`), after Hughes et al.
    (2018).

    **Arguments:**

    - `rate`: the largest probability per step.
    - `depletion`: the polluted share at and above which no apples grow.
    - `restoration`: the polluted share at and below which apples grow at the largest rate; less
        than `depletion`.

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
                f"Cleanup needs a depletion threshold above the restoration threshold, but got "
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
    return step.then(replace_cells(step.world, object=jnp.where(grows, jnp.uint8(APPLE), objects)))


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
        event_uniform, cell_uniform = jax.random.uniform(step.key, (2,))
        happens = event_uniform < self.probability
        happens &= world.time >= self.delay.astype(jnp.int32)
        # The cell is found by its rank among the clean cells, counted from 1. This needs one random
        # number, while `sample_cells` needs one random number for each cell.
        rank = jnp.cumsum(clean.reshape(-1), dtype=jnp.int32).reshape(clean.shape)
        num_clean = rank[-1, -1].astype(jnp.float32)
        chosen = (cell_uniform * num_clean).astype(jnp.int32) + 1
        here = clean & (rank == chosen) & happens
        objects = jnp.where(here, np.uint8(POLLUTION), objects)
        return step.then(replace_cells(world, object=objects))


ZAP = Use("zap")
"""The action that fires the beam that sends agents away."""

CLEAN = Use("clean")
"""The action that fires the beam that cleans the river."""

_Places: TypeAlias = Int8[Array, "agents 2"]
_Grid: TypeAlias = Bool[Array, "height width"]


@final
class Shots(eqx.Module):
    """Where the beams of one step go.

    - `lit`: the cells that a beam crosses, including the cells in which it hits something.
    - `hit`: the cells in which a beam hits something.
    - `hits`: the agents whose beam hits something.
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
    """Fires the beams of agents, all at once.

    A beam consists of rays in the direction that the agent faces. The middle ray covers the
    `length` cells in front of the agent. On each side, ray number `i` of `radius` begins `i` cells
    beside the agent, and covers `length + 1 - i` cells. With a length of 3 and a radius of 1, the
    beam covers nine cells.

    A ray ends before a cell that cannot be entered, and in a cell in which it hits something. If a
    side ray ends in its first cell, the rays beyond it on this side are not fired.

    Source: `Grid::HitBeamActual` of DeepMind Lab2D, which is the engine of Melting Pot.

    **Arguments:**

    - `step`: the step.
    - `fires`: the agents that fire.
    - `stops`: returns, for one cell of each agent, whether a beam hits something in this cell.
    - `length`: the number of cells of the middle ray.
    - `radius`: the number of rays on each side.
    """
    bodies = step.world.bodies
    ahead = direction_delta(bodies.direction)
    right = jnp.stack([ahead[:, 1], -ahead[:, 0]], axis=1)
    # In each cell: 1 if a beam crosses it, 2 if a beam hits something in it.
    beams = jnp.zeros(step.layout.tiles.shape, jnp.uint8)
    first = bodies.position + ahead
    beams, hits, _ = _cast_ray(step, beams, fires, stops, first, ahead, length)
    for side in (-right, right):
        going = fires  # also the agents whose middle ray ends in its first cell
        for number in range(1, min(radius, length) + 1):
            first = bodies.position + np.int8(number) * side
            cells = length + 1 - number
            beams, ray_hits, going = _cast_ray(step, beams, going, stops, first, ahead, cells)
            hits |= ray_hits
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
    """Adds one ray of each active agent, whose first cell is `place`.

    **Returns:** the beams of `cast`; whether each ray hits something; and whether it continues
    after its first cell.
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
    """The size of a beam, and how often it can be fired.

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
        """The number of steps in which each agent cannot fire: `cooldown` after a shot, else one
        less than before. The countdown pauses while an agent is away.
        """
        fewer = jnp.where(is_active(world), jnp.maximum(wait - 1, 0), wait).astype(jnp.int16)
        return jnp.where(fires, self.cooldown, fewer)


@final
class Hit:
    """The rule that fires for agents that a zapping beam hits; see `Zap`."""


@final
class Zap(AbstractPhase):
    """The phase in which agents fire zapping beams, all at once. A beam sends the agents that it
    hits away. `Zap` fires for the agents that shoot, and `Hit` for the agents that are hit.

    The phase also erases the beams of the previous step.

    **Arguments:**

    - `beam`: the size of the beam.
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
        world = replace_tally(step.world, zap_wait=wait)
        world = replace_cells(world, extra=shots.lit.astype(jnp.uint8) * np.uint8(ZAP_BEAM))
        return step.then(world, Zap, fires).then(send_away(world, hit, self.away), Hit, hit)


@final
class Clean(AbstractPhase):
    """The phase in which agents fire cleaning beams. Each ray removes the first pollution that it
    hits. `Clean` fires for the agents whose beam removes some. It comes after `Zap`, and agents
    that are zapped in the same step still clean.

    **Arguments:**

    - `beam`: the size of the beam.
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
        world = replace_tally(replace_cells(world, object=objects, extra=beams), clean_wait=wait)
        return step.then(world, Clean, shots.hits)
