"""Tables of the interactions of one or two cooks with cells, filled by stepping the environment."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Int16, Int32, UInt8

from eqgrid.envs.overcooked import INTERACT, MAX_INGREDIENTS, STAY, Item, Tile
from eqgrid.grid import IDLE, AbstractGridWorld, Cell, World

Place: TypeAlias = tuple[int, int]
"""The row and the column of a cell."""

Code: TypeAlias = tuple[int, int]
"""The contents of a cell: the object code, and the timer."""

Pose: TypeAlias = tuple[int, int, int]
"""The pose of a cook: row, column and direction."""

_BATCH = 512
_SOUPS = range(Item.SOUP, Item.SOUP + (MAX_INGREDIENTS + 1) ** 2)
_STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # the offset of one step in each `Direction`
_NO_CONTENTS: Code = (int(Item.NOTHING), IDLE)


@final
@dataclasses.dataclass(frozen=True)
class Case:
    """A joint state of two cooks, and their actions.

    - `poses`: the pose of each cook.
    - `hands`: the code of the item that each cook holds.
    - `cells`: the contents of some cells; all other cells have their initial contents.
    - `actions`: the action of each cook.
    """

    poses: tuple[Pose, Pose]
    hands: tuple[int, int]
    cells: Mapping[Place, Code]
    actions: tuple[int, int]


@final
@dataclasses.dataclass(frozen=True)
class StepResults:
    """The states and rewards after one step from each of several cases."""

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


def step_cases(env: AbstractGridWorld, cases: Sequence[Case]) -> StepResults:
    """Steps the environment once from each case."""
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
        poses = np.concatenate([bodies.position, np.asarray(bodies.direction)[..., None]], axis=-1)
        results = (poses, bodies.held, world.cells.object, world.cells.clock, reward)
        batches.append([np.asarray(x)[: len(batch)] for x in results])
    return StepResults(*map(np.concatenate, zip(*batches, strict=True)))


def ahead(pose: Pose) -> Place:
    """The cell that a cook with this pose faces."""
    row, col = _STEPS[pose[2]]
    return pose[0] + row, pose[1] + col


@final
@dataclasses.dataclass(frozen=True)
class SingleInteraction:
    """The result of a step in which one cook interacts with a cell, for each item that the cook
    holds and each contents of the cell. If the contents of the cell are not part of the state, the
    tables have one column.

    - `hand`: the index of the item that the cook holds after the step.
    - `content`: the index of the contents of the cell after the step.
    - `reward`: the reward for the step.
    """

    hand: Int[np.ndarray, "hands contents"]
    content: Int[np.ndarray, "hands contents"]
    reward: Float[np.ndarray, "hands contents"]


@final
@dataclasses.dataclass(frozen=True)
class JointInteraction:
    """The result of a step in which both cooks interact with the same cell, the first cook before
    the second. The fields are as in `SingleInteraction`, with an index for each cook's item.
    """

    hands: tuple[Int[np.ndarray, "hands hands contents"], Int[np.ndarray, "hands hands contents"]]
    content: Int[np.ndarray, "hands hands contents"]
    reward: Float[np.ndarray, "hands hands contents"]


@final
class Rules:
    """All items that can be held, all contents of cells, and the results of interactions.

    The search for them starts with the items and contents of the initial state. It steps the
    environment with all known items and contents, adds the items and contents that result, and ends
    when nothing new appears.

    Soups with the same value are merged as soon as no ingredient can be added to them (when they
    are held, on a counter, or in a pot that has been started). From then on they can be used in the
    same places for the same time, so merging does not change any value.

    **Arguments:**

    - `env`: the kitchen.
    - `floor`: the cells that cooks can stand in.
    - `cells`: the pots and counters whose contents are part of the state.
    - `merged`: whether to merge such soups.

    **Attributes:**

    - `hands`: the codes of all items that can be held; tables contain indices into this list.
    - `contents`: the possible contents of each of `cells`; tables contain indices into these lists.
    - `waiting`: by kind of tile, the contents after a step in which no cook interacts.
    - `single`, `joint`: by kind of tile, the results when one cook or both cooks interact.
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
        codes = jnp.arange(_SOUPS.stop).astype(jnp.uint8)
        self._payoff = np.asarray(jax.vmap(env.layout.params.payoff)(codes))
        start = env.layout.start
        self.hands = sorted({self.merge_held(int(x)) for x in np.asarray(start.bodies.held)})
        self.hands = sorted({*self.hands, int(Item.NOTHING)})
        # Cells of the same kind have the same possible contents.
        self._contents_of = {int(self._tiles[place]): [_NO_CONTENTS] for place in cells}
        for place in cells:
            code = int(start.cells.object[place]), int(start.cells.clock[place])
            _add_new(self._contents_of[int(self._tiles[place])], [self.merge(place, code)])
        poses = self._find_poses(cells)
        size = -1
        # The tables are complete when filling them has added no item and no contents.
        while size != (size := len(self.hands) + sum(map(len, self._contents_of.values()))):
            self.waiting: dict[int, Int[np.ndarray, " contents"]] = {}
            self.single: dict[int, SingleInteraction] = {}
            self.joint: dict[int, JointInteraction] = {}
            for tile, facing in poses.items():
                self._fill_tables(tile, facing)
        self.contents = [self._contents_of[int(self._tiles[place])] for place in cells]

    def merge(self, place: Place, code: Code) -> Code:
        """The representative of all contents of this cell that have the same value."""
        item, timer = code
        is_idle_in_pot = self._tiles[place] == Tile.POT and timer == IDLE
        return (item if is_idle_in_pot else self.merge_held(item)), timer

    def merge_held(self, item: int) -> int:
        """The representative of all held items that have the same value as this item."""
        soups = _SOUPS[1:]
        if item not in soups or not self._merged:
            return item
        return next(soup for soup in soups if self._payoff[soup] == self._payoff[item])

    def _find_poses(self, cells: Sequence[Place]) -> dict[int, list[Pose]]:
        """For each useful kind of tile, the poses that face one cell of that kind. The chosen cell
        has the largest number of such poses, since `joint` needs two.
        """
        useful = {Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER, Tile.DISH_DISPENSER, Tile.SERVING}
        by_place: dict[Place, list[Pose]] = {}
        for place in self._floor:
            for direction in range(4):
                pose = (*place, direction)
                if self._tiles[ahead(pose)] in useful or ahead(pose) in cells:
                    by_place.setdefault(ahead(pose), []).append(pose)
        by_tile: dict[int, list[Pose]] = {}
        for place, poses in by_place.items():
            known = by_tile.get(int(self._tiles[place]), [])
            by_tile[int(self._tiles[place])] = max(known, poses, key=len)
        return by_tile

    def _fill_tables(self, tile: int, poses: list[Pose]) -> None:
        """Fills the tables of one kind of tile with the known items and contents.

        **Arguments:**

        - `tile`: the kind of tile.
        - `poses`: the poses that face one cell of this kind.
        """
        place = ahead(poses[0])
        contents = list(self._contents_of.get(tile, [_NO_CONTENTS]))
        hands, shape = list(self.hands), (len(self.hands), len(contents))
        elsewhere = next(cell for cell in self._floor if cell != poses[0][:2])
        alone = (poses[0], (*elsewhere, 0))
        grid = [(hand, code) for hand in hands for code in contents]
        nothing = int(Item.NOTHING)
        cases = [Case(alone, (h, nothing), {place: c}, (INTERACT, STAY)) for h, c in grid]
        hand, _, content, reward = (x.reshape(shape) for x in self._step(cases, place, tile))
        self.single[tile] = SingleInteraction(hand, content, reward)
        cases = [Case(alone, (nothing, nothing), {place: c}, (STAY, STAY)) for c in contents]
        self.waiting[tile] = self._step(cases, place, tile)[2]
        if len(poses) > 1 and tile in self._contents_of:
            pair = (poses[0], poses[1])
            cases = [
                Case(pair, (h, g), {place: c}, (INTERACT, INTERACT)) for h in hands for g, c in grid
            ]
            first, second, content, reward = (
                x.reshape(len(hands), *shape) for x in self._step(cases, place, tile)
            )
            self.joint[tile] = JointInteraction((first, second), content, reward)

    def _step(self, cases: list[Case], place: Place, tile: int) -> tuple[np.ndarray, ...]:
        """Steps the environment from each case, and adds the items and contents that result to the
        known ones.

        **Returns:** after each case, the indices of the first cook's item, of the second cook's
        item and of the contents of the cell, and the reward.
        """
        results = step_cases(self._env, cases)
        held = [[self.merge_held(int(x)) for x in hands] for hands in results.hands]
        after = zip(results.objects[(..., *place)], results.timers[(..., *place)], strict=True)
        codes = [self.merge(place, (int(item), int(timer))) for item, timer in after]
        known = self._contents_of.get(tile, codes[:1])
        _add_new(self.hands, [x for hands in held for x in hands])
        _add_new(known, codes)
        hands = np.asarray([[self.hands.index(x) for x in pair] for pair in held])
        index = {code: number for number, code in enumerate(known)}
        return hands[:, 0], hands[:, 1], np.asarray([index[x] for x in codes]), results.reward


def _add_new(known: list, found: Iterable) -> None:
    """Appends each element of `found` that is not yet in `known`."""
    known += dict.fromkeys(x for x in found if x not in known)
