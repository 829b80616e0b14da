"""Tables of the interactions of one or two cooks with cells, filled by stepping the environment."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from eqgrid.envs.overcooked import INTERACT, MAX_INGREDIENTS, STAY, Item, Tile
from eqgrid.grid import IDLE, AbstractGridWorld, World

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


@eqx.filter_jit
def _step_batch(
    env: AbstractGridWorld, worlds: World, actions: Int[Array, "worlds 2"]
) -> tuple[World, Float[Array, " worlds"]]:
    def step(world: World, action: Int[Array, " agents"]) -> tuple[World, Float[Array, ""]]:
        timestep, world = env.step(jax.random.key(0), world, action)
        return world, timestep.reward[0]

    return jax.vmap(step)(worlds, actions)


def step_all(
    env: AbstractGridWorld, worlds: World, actions: Int[np.ndarray, "worlds 2"]
) -> tuple[Any, Float[np.ndarray, " worlds"]]:
    """Steps the environment once from each of many states, and returns the states and the rewards
    after the step.
    """
    number, parts = len(actions), []
    for begin in range(0, number, _BATCH):
        # The last state is repeated, so that only one size is compiled.
        own = np.minimum(np.arange(begin, begin + _BATCH), number - 1)
        batch = jax.tree.map(lambda x, own=own: jnp.asarray(x[own]), (worlds, actions))
        parts.append(jax.tree.map(np.asarray, _step_batch(env, *batch)))
    return jax.tree.map(lambda *x: np.concatenate(x)[:number], *parts)


def copy_start(env: AbstractGridWorld, number: int) -> Any:
    """Copies of the initial state, in NumPy arrays."""
    return jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], number, 0), env.layout.start)


def ahead(pose: Pose) -> Place:
    """The cell that a cook with this pose faces."""
    row, col = _STEPS[pose[2]]
    return pose[0] + row, pose[1] + col


@final
@dataclasses.dataclass(frozen=True)
class StepResults:
    """The results of a step of two cooks at one cell, for each item that each of them holds before
    the step and each contents of the cell.

    - `hands`: for each cook, the index of its item after the step.
    - `content`: the index of the contents of the cell after the step.
    - `reward`: the reward for the step.
    """

    hands: tuple[Int[np.ndarray, "first second contents"], Int[np.ndarray, "first second contents"]]
    content: Int[np.ndarray, "first second contents"]
    reward: Float[np.ndarray, "first second contents"]


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
    - `single`, `joint`: by kind of tile, the results when the first cook interacts and the second
        is elsewhere with empty hands, and when both interact, the first before the second.
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
            self.single: dict[int, StepResults] = {}
            self.joint: dict[int, StepResults] = {}
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
        """Fills the tables of one kind of tile with the known items and contents. `poses` face one
        cell of this kind.
        """
        contents = list(self._contents_of.get(tile, [_NO_CONTENTS]))
        hands, empty = list(self.hands), [int(Item.NOTHING)]
        elsewhere = next(cell for cell in self._floor if cell != poses[0][:2])
        pair = (poses[0], (*elsewhere, 0))
        self.single[tile] = self._step(tile, pair, (hands, empty, contents), (INTERACT, STAY))
        waiting = self._step(tile, pair, (empty, empty, contents), (STAY, STAY))
        self.waiting[tile] = waiting.content.ravel()
        if len(poses) > 1 and tile in self._contents_of:
            grid = (hands, hands, contents)
            self.joint[tile] = self._step(tile, poses[:2], grid, (INTERACT, INTERACT))

    def _step(
        self,
        tile: int,
        poses: Sequence[Pose],
        grid: tuple[list[int], list[int], list[Code]],
        actions: tuple[int, int],
    ) -> StepResults:
        """Steps the environment, and adds the items and contents that result to the known ones.

        **Arguments:**

        - `tile`: the kind of the cell that the first cook faces.
        - `poses`: the pose of each cook.
        - `grid`: the items of each cook, and the contents of the cell, in all combinations.
        - `actions`: the action of each cook.
        """
        first, second, codes = zip(*itertools.product(*grid), strict=True)
        worlds, place = copy_start(self._env, len(codes)), ahead(poses[0])
        bodies, cells, at = worlds.bodies, worlds.cells, (slice(None), *place)
        bodies.position[:], bodies.direction[:] = np.asarray(poses)[:, :2], np.asarray(poses)[:, 2]
        bodies.held[:] = np.stack([first, second], axis=1)
        cells.object[at], cells.timer[at] = np.asarray(codes).T
        after, reward = step_all(self._env, worlds, np.tile(actions, (len(codes), 1)))
        held = [self.merge_held(x) for x in after.bodies.held.ravel().tolist()]
        contents = zip(after.cells.object[at].tolist(), after.cells.timer[at].tolist(), strict=True)
        codes = [self.merge(place, code) for code in contents]
        known = self._contents_of.get(tile, codes[:1])
        _add_new(self.hands, held)
        _add_new(known, codes)
        shape = tuple(map(len, grid))
        hands = np.asarray([self.hands.index(x) for x in held]).reshape(*shape, 2)
        index = {code: number for number, code in enumerate(known)}
        content = np.asarray([index[x] for x in codes]).reshape(shape)
        return StepResults((hands[..., 0], hands[..., 1]), content, reward.reshape(shape))


def _add_new(known: list, found: Iterable) -> None:
    """Appends each element of `found` that is not yet in `known`."""
    known += dict.fromkeys(x for x in found if x not in known)
