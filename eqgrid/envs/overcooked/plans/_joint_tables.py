"""Tables of the interactions of one or two cooks with cells, filled by the environment."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Int16, Int32, UInt8

from ....grid import IDLE, AbstractGridWorld, Cell, World
from .._contents import RADIX, Item, Tile
from .._overcooked import INTERACT, STAY
from .._ways import STEPS

Place: TypeAlias = tuple[int, int]
"""The row and the column of a cell."""

Code: TypeAlias = tuple[int, int]
"""The contents of a cell: the object code, and the timer."""

Pose: TypeAlias = tuple[int, int, int]
"""The pose of a cook: row, column and direction."""

_BATCH = 512


@final
@dataclasses.dataclass(frozen=True)
class Case:
    """A joint state of two cooks, and their actions."""

    poses: tuple[Pose, Pose]
    hands: tuple[int, int]
    cells: Mapping[Place, Code]
    actions: tuple[int, int]


@final
@dataclasses.dataclass(frozen=True)
class Answers:
    """The results of stepping the environment from cases, as arrays that lead with `cases`."""

    poses: Int[np.ndarray, "cases 2 3"]
    hands: UInt8[np.ndarray, "cases 2"]
    objects: UInt8[np.ndarray, "cases height width"]
    timers: Int16[np.ndarray, "cases height width"]
    reward: Float[np.ndarray, " cases"]


@eqx.filter_jit
def _step_all(
    env: AbstractGridWorld,
    position: Int8[Array, "cases 2 2"],
    direction: Int8[Array, "cases 2"],
    held: UInt8[Array, "cases 2"],
    cells: Cell,
    actions: Int32[Array, "cases 2"],
) -> tuple[World, Array]:
    start = env.layout.start

    def step(position, direction, held, cells, action):
        bodies = dataclasses.replace(
            start.bodies, position=position, direction=direction, held=held
        )
        world = dataclasses.replace(start, cells=cells, bodies=bodies)
        timestep, world = env.step(jax.random.key(0), world, action)
        return world, timestep.reward[0]

    return jax.vmap(step)(position, direction, held, cells, actions)


def ask(env: AbstractGridWorld, cases: Sequence[Case]) -> Answers:
    """Steps the environment once from each case. Other cells have their initial contents."""
    start, batches = env.layout.start, []
    for begin in range(0, len(cases), _BATCH):
        batch = cases[begin : begin + _BATCH]
        padded = [*batch, *[batch[-1]] * (_BATCH - len(batch))]  # so that only one size is compiled
        poses = np.asarray([case.poses for case in padded], np.int8)
        objects = np.repeat(np.asarray(start.cells.object)[None], _BATCH, axis=0)
        timers = np.repeat(np.asarray(start.cells.clock)[None], _BATCH, axis=0)
        for i, case in enumerate(batch):
            for place, (code, timer) in case.cells.items():
                objects[(i, *place)], timers[(i, *place)] = code, timer
        world, reward = _step_all(
            env,
            jnp.asarray(poses[:, :, :2]),
            jnp.asarray(poses[:, :, 2]),
            jnp.asarray([case.hands for case in padded], jnp.uint8),
            Cell(jnp.asarray(objects), jnp.asarray(timers)),
            jnp.asarray([case.actions for case in padded], jnp.int32),
        )
        bodies = world.bodies
        turned = np.concatenate([bodies.position, np.asarray(bodies.direction)[..., None]], axis=-1)
        answers = (turned, bodies.held, world.cells.object, world.cells.clock, reward)
        batches.append([np.asarray(x)[: len(batch)] for x in answers])
    return Answers(*map(np.concatenate, zip(*batches, strict=True)))


def ahead(pose: Pose) -> Place:
    """The cell that a cook with this pose faces."""
    row, col = STEPS[pose[2]].tolist()
    return pose[0] + row, pose[1] + col


@final
@dataclasses.dataclass(frozen=True)
class Once:
    """The result of one cook's interaction, one step later, for each held item and each contents of
    the faced cell. Cells without contents have one column.
    """

    hand: Int[np.ndarray, "hands contents"]
    content: Int[np.ndarray, "hands contents"]
    reward: Float[np.ndarray, "hands contents"]


@final
@dataclasses.dataclass(frozen=True)
class Both:
    """The result when two cooks interact with the same cell; the first acts before the second."""

    hands: tuple[Int[np.ndarray, "hands hands contents"], Int[np.ndarray, "hands hands contents"]]
    content: Int[np.ndarray, "hands hands contents"]
    reward: Float[np.ndarray, "hands hands contents"]


@final
class Rules:
    """All items that can be held, all contents of cells, and the results of interactions.

    They are found by stepping the environment: starting from the initial state, everything that an
    interaction or a step of time leads to is added until nothing new appears.

    Soups with the same value are merged as soon as no ingredient can be added to them (when they
    are held, on a counter, or in a pot that has been started). From then on they can be used in the
    same places for the same time, so merging does not change any value.

    **Arguments:**

    - `env`: the kitchen.
    - `floor`: the cells that cooks can stand in.
    - `cells`: the pots and counters whose contents are part of the state.
    - `merged`: whether to merge such soups.

    **Attributes:**

    - `hands`: the codes of all items that can be held; tables are indexed by the position in it.
    - `contents`: the possible contents of each of `cells`.
    - `waits`: by kind of tile, the contents one step later if no cook interacts.
    - `once`, `both`: by kind of tile, the results of one cook's interaction, and of two cooks'.
    """

    def __init__(
        self,
        env: AbstractGridWorld,
        floor: Sequence[Place],
        cells: Sequence[Place],
        *,
        merged: bool = True,
    ):
        self._merged = merged
        self._env, self._floor, self._tiles = env, list(floor), np.asarray(env.layout.tiles)
        codes = jnp.arange(Item.SOUP + RADIX**2).astype(jnp.uint8)
        self._payoff = np.asarray(jax.vmap(env.layout.params.payoff)(codes))
        start = env.layout.start
        self.hands = sorted({self.merge_held(int(x)) for x in np.asarray(start.bodies.held)})
        self.hands = sorted({*self.hands, int(Item.NOTHING)})
        self._of_tile = {tile: [(int(Item.NOTHING), IDLE)] for tile in self._tiles_of(cells)}
        for place in cells:
            code = int(start.cells.object[place]), int(start.cells.clock[place])
            self._add(self._of_tile[int(self._tiles[place])], [self.merge(place, code)])
        self._close(self._faced_tiles(cells))
        self.contents = [self._of_tile[int(self._tiles[place])] for place in cells]

    def merge(self, place: Place, code: Code) -> Code:
        """The representative of all contents of this cell that have the same value."""
        thing, timer = code
        is_idle_in_pot = self._tiles[place] == Tile.POT and timer == IDLE
        return (thing if is_idle_in_pot else self.merge_held(thing)), timer

    def merge_held(self, thing: int) -> int:
        """The representative of all held items that have the same value as this one."""
        soups = range(Item.SOUP + 1, Item.SOUP + RADIX**2)
        if thing not in soups or not self._merged:
            return thing
        return next(soup for soup in soups if self._payoff[soup] == self._payoff[thing])

    def _tiles_of(self, places: Iterable[Place]) -> set[int]:
        return {int(self._tiles[place]) for place in places}

    def _faced_tiles(self, cells: Sequence[Place]) -> dict[int, list[Pose]]:
        """For each kind of tile, all poses that face one chosen cell of that kind."""
        useful = {Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER, Tile.DISH_DISPENSER, Tile.SERVING}
        found: dict[Place, list[Pose]] = {}
        for place in self._floor:
            for direction in range(4):
                pose = (*place, direction)
                if self._tiles[ahead(pose)] in useful or ahead(pose) in cells:
                    found.setdefault(ahead(pose), []).append(pose)
        by_tile: dict[int, list[Pose]] = {}
        for place, poses in found.items():
            known = by_tile.get(int(self._tiles[place]), [])
            by_tile[int(self._tiles[place])] = max(known, poses, key=len)
        return by_tile

    def _close(self, poses: dict[int, list[Pose]]) -> None:
        """Fills the tables repeatedly until they contain all items and contents that can result."""
        size = -1
        while size != (size := self._size()):
            self.waits: dict[int, Int[np.ndarray, " contents"]] = {}
            self.once: dict[int, Once] = {}
            self.both: dict[int, Both] = {}
            for tile, faced in poses.items():
                self._fill(tile, faced)

    def _size(self) -> int:
        return len(self.hands) + sum(map(len, self._of_tile.values()))

    def _fill(self, tile: int, poses: list[Pose]) -> None:
        place = ahead(poses[0])
        contents = list(self._of_tile.get(tile, [(int(Item.NOTHING), IDLE)]))
        hands, shape = list(self.hands), (len(self.hands), len(contents))
        other = next(p for p in self._floor if p != poses[0][:2])
        alone = (poses[0], (*other, 0))
        grid = [(hand, code) for hand in hands for code in contents]
        nothing = int(Item.NOTHING)
        cases = [Case(alone, (h, nothing), {place: c}, (INTERACT, STAY)) for h, c in grid]
        told = self._tell(cases, place, tile)
        self.once[tile] = Once(*(x.reshape(shape) for x in (told[0], told[2], told[3])))
        cases = [Case(alone, (nothing, nothing), {place: c}, (STAY, STAY)) for c in contents]
        self.waits[tile] = self._tell(cases, place, tile)[2]
        if len(poses) > 1 and tile in self._of_tile:
            pair = (poses[0], poses[1])
            cases = [
                Case(pair, (h, g), {place: c}, (INTERACT, INTERACT)) for h in hands for g, c in grid
            ]
            first, second, content, reward = (
                x.reshape(len(hands), *shape) for x in self._tell(cases, place, tile)
            )
            self.both[tile] = Both((first, second), content, reward)

    def _tell(self, cases: list[Case], place: Place, tile: int) -> tuple[np.ndarray, ...]:
        """The indices of the items that both cooks hold and of the contents of a cell after each
        case, and the rewards.
        """
        told = ask(self._env, cases)
        held = [[self.merge_held(int(x)) for x in hands] for hands in told.hands]
        after = zip(told.objects[(..., *place)], told.timers[(..., *place)], strict=True)
        codes = [self.merge(place, (int(thing), int(timer))) for thing, timer in after]
        known = self._of_tile.get(tile, codes[:1])
        self._add(self.hands, [x for hands in held for x in hands])
        self._add(known, codes)
        hands = np.asarray([[self.hands.index(x) for x in pair] for pair in held])
        numbers = {code: number for number, code in enumerate(known)}
        return hands[:, 0], hands[:, 1], np.asarray([numbers[x] for x in codes]), told.reward

    @staticmethod
    def _add(known: list, found: Iterable) -> None:
        known += dict.fromkeys(x for x in found if x not in known)
