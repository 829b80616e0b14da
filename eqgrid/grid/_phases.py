"""Phases of a step other than motion and interaction: speech, absence, and updates of all cells."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, PRNGKeyArray, Shaped, UInt8

from .._checks import is_known
from ._actions import Say, words_of
from ._kinds import NOTHING
from ._starts import bare_floor, occupied_cells, sample_cells
from ._step import AbstractPhase, Step
from ._world import IDLE, Bodies, Cell, Direction, World

_LONGEST = np.iinfo(np.int16).max  # the largest value of `Bodies.away`


@final
class Speak(AbstractPhase):
    """The phase in which agents say words with `Say` actions. Until the next step, a word can be
    heard by the feature `Heard`, or read from `Bodies.said`. The phase fires for agents that speak.
    """

    def __call__(self, step: Step) -> Step:
        # Words are counted from 1, so that 0 stands for silence without a second array.
        said = jnp.zeros(step.world.num_agents, jnp.uint8)
        for number, word in enumerate(words_of(step.actions), start=1):
            said = jnp.where(step.chose(Say(word)), jnp.uint8(number), said)
        bodies = dataclasses.replace(step.world.bodies, said=said)
        return step.then(dataclasses.replace(step.world, bodies=bodies), Speak, said > 0)


def send_away(
    world: World, who: Bool[Array, " agents"], steps: int | Int[Array, "*#agents"]
) -> World:
    """Takes agents out of the world for some steps, for use in a phase of a game.

    While an agent is away, it does nothing, does not collide and is not observed, and no event
    happens to it. It has not terminated: it observes the world around the cell that it left, gets
    the reward of its team, and comes back by the phase `ComeBack`. It keeps the object that it
    holds.

    **Arguments:**

    - `world`: the world.
    - `who`: which agents leave; inactive agents stay as they are.
    - `steps`: the number of steps in which they do nothing, from 1 to 32,767. The observation after
        the last of these steps shows them again.

    **Returns:** the world without them.

    **Raises:** `ValueError` when the world has no phase `ComeBack`, or `steps` is out of range;
    traced numbers are not checked.
    """
    active, away = _active_and_away(world.bodies)
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
    without objects and agents. If there is no such cell for an agent, it waits for the next step.

    This phase may come before or after the phase that sends agents away. It fires for the agents
    that come back.

    **Arguments:**

    - `tiles`: the names of the kinds of tiles on which they come back; the floor by default.
    """

    tiles: tuple[str, ...] = eqx.field(static=True, default=())

    def __call__(self, step: Step) -> Step:
        world, bodies = step.world, step.world.bodies
        active, away = _active_and_away(bodies)
        # Agents that leave in this step do not count down yet, whatever the order of the phases.
        waiting = (_active_and_away(step.before.bodies)[1] > 0) & (away > 0)
        away = away - waiting.astype(jnp.int16)
        due = waiting & (away == 0)
        places = self._places(step) & ~occupied_cells(world)
        # One cell per agent is sampled, since the number of agents that are due is not static. The
        # cumulative sum counts them, so that the first agent gets the first cell, and so on.
        cells = sample_cells(step.key, places, world.num_agents)
        cell = cells[jnp.maximum(jnp.cumsum(due) - 1, 0)]
        back = due & places[cell[:, 0], cell[:, 1]]  # `sample_cells` may run out of places
        bodies = dataclasses.replace(
            bodies,
            position=jnp.where(back[:, None], cell, bodies.position),
            active=active | back,
            away=jnp.where(due & ~back, jnp.int16(1), away),  # without a place, wait one more step
        )
        return step.then(dataclasses.replace(world, bodies=bodies), ComeBack, back)

    def _places(self, step: Step) -> Bool[Array, "height width"]:
        """The cells to which agents can come back."""
        layout, world = step.layout, step.world
        if not self.tiles:
            return bare_floor(layout, world)
        numbers = np.asarray([layout.kinds.tile(name) for name in self.tiles], np.uint8)
        on_tiles = (layout.tiles[..., None] == numbers[None, None]).any(axis=-1)
        return on_tiles & (world.cells.object == NOTHING)


def _active_and_away(bodies: Bodies) -> tuple[Bool[Array, " agents"], Int[Array, " agents"]]:
    if bodies.active is None or bodies.away is None:
        raise ValueError("Agents cannot come back: give the world a phase `ComeBack`.")
    return bodies.active, bodies.away


@final
class Spot(eqx.Module):
    """The input of a tick rule: one cell, and the four cells next to it, before the rule.

    - `params`: the parameters of the game.
    - `tile`, `cell`: the kind of tile of the cell, and its contents.
    - `beside`: the tiles and contents of the cells to the north, south, east and west. Rules read
        them as `next_tiles` and `next_cells`.
    - `step_key`, `rule`, `number`: the key of the phase, and the numbers of the rule and of the
        cell. Rules read them as `key`.
    """

    params: Any
    tile: UInt8[Array, ""]
    cell: Cell
    beside: tuple[tuple[UInt8[Array, ""], Cell], ...]
    step_key: PRNGKeyArray
    rule: int = eqx.field(static=True)
    number: Int32[Array, ""]

    @property
    def next_tiles(self) -> UInt8[Array, "4"]:
        """The kinds of tiles to the north, south, east and west; a wall beyond the edge."""
        return jnp.stack([tile for tile, _ in self.beside])

    @property
    def next_cells(self) -> Cell:
        """The contents of the cells to the north, south, east and west, along a leading axis;
        nothing beyond the edge.
        """
        return jax.tree.map(lambda *x: jnp.stack(x), *[cell for _, cell in self.beside])

    @property
    def key(self) -> PRNGKeyArray:
        """The random key of this cell for this rule in this step."""
        return jax.random.fold_in(jax.random.fold_in(self.step_key, self.rule), self.number)


class AbstractTick(eqx.Module):
    """A rule that updates one cell in every step, such as a timer that counts down.

    ```python
    import dataclasses
    from typing import final

    import jax.numpy as jnp

    from eqgrid.grid import IDLE, NOTHING, AbstractTick, Cell, Spot, Tick


    @final
    class Vanish(AbstractTick):
        # An object disappears when the timer of its cell ends
        def __call__(self, spot: Spot) -> Cell:
            timer = jnp.where(spot.cell.timer == IDLE, IDLE, spot.cell.clock - 1)
            code = jnp.where(timer == 0, NOTHING, spot.cell.object).astype(jnp.uint8)
            timer = jnp.where(timer == 0, IDLE, timer).astype(jnp.int16)
            return dataclasses.replace(spot.cell, object=code, timer=timer)


    phases = (Tick((Vanish(),)),)
    ```
    """

    @abc.abstractmethod
    def __call__(self, spot: Spot) -> Cell:
        """The cell after the step. The parts of `spot` that a rule does not read cost nothing."""


@final
class Tick(AbstractPhase):
    """The phase that applies each rule, in order, to all cells at once: a rule sees the neighbours
    of a cell as they were before the rule.
    """

    rules: tuple[AbstractTick, ...]

    def __call__(self, step: Step) -> Step:
        tiles, cells = step.layout.tiles, step.world.cells
        # The number of each cell, from which `Spot.key` makes its own key.
        numbers = jnp.asarray(np.arange(tiles.size, dtype=np.int32).reshape(tiles.shape))
        next_tiles = _neighbours(tiles, step.layout.kinds.wall)
        for number, rule in enumerate(self.rules):
            update = _cell_update(rule, number, step)
            # XLA removes the neighbours that the rule does not read.
            beside = tuple(zip(next_tiles, _neighbours_of_cells(cells), strict=True))
            cells = jax.vmap(jax.vmap(update))(tiles, cells, beside, numbers)
        return step.then(dataclasses.replace(step.world, cells=cells))


def _cell_update(rule: AbstractTick, rule_number: int, step: Step) -> Callable[..., Cell]:
    """The rule as a function of the parts of a `Spot` that differ between cells."""

    # Not a `functools.partial`: jax would format all its arguments whenever it traces.
    def update(
        tile: UInt8[Array, ""],
        cell: Cell,
        beside: tuple[tuple[UInt8[Array, ""], Cell], ...],
        number: Int32[Array, ""],
    ) -> Cell:
        return rule(Spot(step.layout.params, tile, cell, beside, step.key, rule_number, number))

    return update


def _neighbours_of_cells(cells: Cell) -> list[Cell]:
    """For each direction, the neighbours of all cells in that direction."""
    objects = _neighbours(cells.object, NOTHING)
    timers = [None] * 4 if cells.timer is None else _neighbours(cells.timer, IDLE)
    leaves, structure = jax.tree.flatten(cells.extra)
    shifted = [_neighbours(leaf, 0) for leaf in leaves]
    extras = [jax.tree.unflatten(structure, [x[i] for x in shifted]) for i in range(4)]
    return [Cell(*parts) for parts in zip(objects, timers, extras, strict=True)]


def _neighbours(
    grid: Shaped[Array, "height width *rest"], outside: int
) -> list[Shaped[Array, "height width *rest"]]:
    """For each direction, the values of the neighbours of all cells, `outside` beyond the edge."""
    if jnp.issubdtype(grid.dtype, jax.dtypes.prng_key):
        # `lax.pad` does not accept typed keys.
        numbers, kind = jax.random.key_data(grid), jax.random.key_impl(grid)
        return [jax.random.wrap_key_data(x, impl=kind) for x in _neighbours(numbers, outside)]
    # The neighbours in each direction are a shifted window of one padded copy.
    edges = [(1, 1, 0), (1, 1, 0), *[(0, 0, 0)] * (grid.ndim - 2)]
    padded = jax.lax.pad(grid, np.asarray(outside, grid.dtype), edges)
    corners = {
        Direction.NORTH: (0, 1),
        Direction.SOUTH: (2, 1),
        Direction.EAST: (1, 2),
        Direction.WEST: (1, 0),
    }
    # `lax.slice` is traced faster than indexing, and most rules do not read neighbours.
    height, width, *rest = grid.shape
    return [
        jax.lax.slice(padded, (row, col, *[0] * len(rest)), (row + height, col + width, *rest))
        for row, col in (corners[direction] for direction in Direction)
    ]
