"""A kitchen with two cooks as a finite decision process over joint states.

A joint state is a pair of poses and a set of objects: the items that both cooks hold, and the
contents of the pots and of some counters. The transitions are computed by stepping the environment,
so no rule is implemented twice.

A direction matters only because of the cell that the cook faces, since every move sets a new
direction. So all directions in which a cook faces nothing useful (floor, a wall, a counter that is
not in use) are one pose. The two cooks are not interchangeable: in a step, the first cook acts
before the second.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import final

import jax
import numpy as np
from jaxtyping import Int, UInt8

from eqgrid.envs.overcooked import INTERACT, STAY, Item, Tile
from eqgrid.grid import AbstractGridWorld, Bodies, Direction, Layout, World, reach

from ._joint_tables import Place, Pose, Rules, ahead, copy_start, step_all

_MOVES = range(5)  # the four directions and stay, without interact
_NUM_CHECKS = 4096
_INTERACTS = ((False, False), (False, True), (True, False), (True, True))


@final
@dataclasses.dataclass(frozen=True)
class Faced:
    """The relevant part of the cell that a cook faces.

    - `tile`: the kind of tile; `Tile.FLOOR` stands for everything that is not useful.
    - `cell`: the index of the cell among those whose contents are part of the state; -1 for other
        cells. A counter with -1 is relaxed; see `JointModel`.
    """

    tile: int
    cell: int = -1

    @property
    def is_relaxed(self) -> bool:
        """Whether it is a counter whose rules are relaxed; see `JointModel`."""
        return self.tile == Tile.COUNTER and self.cell < 0


_USELESS = Faced(int(Tile.FLOOR))


@final
@dataclasses.dataclass(frozen=True)
class Table:
    """The transitions of a joint action for all sets of objects.

    The sets are divided into blocks. The sets of a block differ only in trailing cells, which do
    not change in the step, so their indices are consecutive, and the table needs one entry for the
    whole block.

    - `next`: for each block, the index of the block after the step.
    - `block`: the number of sets of objects in a block.
    - `reward`: the reward of each block in units; `None` if it is always 0.
    """

    next: Int[np.ndarray, " blocks"]
    block: int
    reward: UInt8[np.ndarray, " blocks"] | None


@final
@dataclasses.dataclass(frozen=True)
class Choice:
    """All joint actions from a pair of poses in which the same cooks interact, and the other cooks
    move or stay.

    - `pairs`: the possible next pairs of poses.
    - `actions`: for each next pair, a joint action that leads to it.
    - `tables`: the transitions of the objects; more than one if a cook chooses an item at a relaxed
        counter.
    - `sources`: the pairs of poses over which a search takes the maximum. They equal `pairs`,
        unless `staged`.
    - `staged`: whether the search takes the maximum in two stages, so that it reads fewer pairs:
        first over the moves of the second cook, for all pairs of poses at once, and then over
        `sources`, the pairs after the move of the first cook.
    """

    pairs: tuple[int, ...]
    actions: tuple[tuple[int, int], ...]
    tables: tuple[Table, ...]
    sources: tuple[int, ...]
    staged: bool


@final
@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of one or more joint actions from a pair of poses.

    - `pair`: the next pair of poses.
    - `table`: the transitions of the objects.
    """

    pair: int
    table: Table


def _reachable_floor(layout: Layout) -> list[list[Place]]:
    """The cells that each cook can reach if no other cook blocks it."""
    floor, positions = layout.tiles == Tile.FLOOR, layout.start.bodies.position
    found = [np.argwhere(np.asarray(reach(floor, start))) for start in positions]
    return [[(int(row), int(col)) for row, col in cells] for cells in found]


def _faced_cells(floor: Sequence[Sequence[Place]]) -> set[Place]:
    """The cells that at least one cook can face, from the floor that each cook can reach."""
    return {ahead((*place, x)) for own in floor for place in own for x in range(len(Direction))}


def reachable_counters(layout: Layout) -> tuple[Place, ...]:
    """`(row, col)` of all counters that at least one cook can face."""
    tiles, faced = np.asarray(layout.tiles), _faced_cells(_reachable_floor(layout))
    return tuple(sorted(place for place in faced if tiles[place] == Tile.COUNTER))


@final
class JointModel:
    """All joint states of a kitchen with two cooks, and the transitions between them.

    **Arguments:**

    - `env`: the kitchen.
    - `counters`: `(row, col)` of the counters that cooks may use.
    - `relaxed`: whether to relax the rules, for an upper bound on the return. All counters that are
        not in `counters` then accept any item, pay for a soup at once, and give an onion, a tomato
        or a dish at any time. Every plan in the kitchen is possible in this model with at least the
        same return: where the plan picks up a soup from such a counter, the model has already paid
        for it, and the cook continues with empty hands; any other item can be taken there.
    - `whole`: whether to distinguish all states in which a partner may act differently, including
        directions without a useful cell and soups of the same value.

    **Attributes:**

    - `cells`: `(row, col)` of the pots and counters whose contents are part of the state.
    - `unit`: the greatest common divisor of the values of soups; searches count rewards in units.
    - `poses`: the poses of each cook.
    - `pairs`: all pairs of poses in different cells, as indices into `poses`.
    - `start`: the indices of the pair of poses and of the set of objects in the initial state.

    **Raises:** `ValueError` when there are not two cooks, when a position in `counters` is not a
    counter or is out of reach, or when the values of soups have no suitable common unit.
    """

    def __init__(
        self,
        env: AbstractGridWorld,
        counters: Sequence[Place] = (),
        *,
        relaxed: bool = False,
        whole: bool = False,
    ) -> None:
        if env.num_agents != 2:
            raise ValueError(
                f"Plans are searched for two cooks, and this kitchen has {env.num_agents}."
            )
        self.env, self._tiles = env, np.asarray(env.layout.tiles)
        floor = _reachable_floor(env.layout)
        self._check_counters(counters, relaxed)
        pots = sorted(x for x in _faced_cells(floor) if self._tiles[x] == Tile.POT)
        self.cells: tuple[Place, ...] = (*pots, *sorted(set(counters)))
        self.relaxed, self.whole = relaxed, whole
        self.rules = Rules(env, sorted({*floor[0], *floor[1]}), self.cells, merged=not whole)
        self.unit = self._find_unit()
        sizes = [len(contents) for contents in self.rules.contents]
        # The axes of a set of objects: the item of each cook, and the contents of each cell.
        self.dims = (len(self.rules.hands), len(self.rules.hands), *sizes)
        self.num_objects = math.prod(self.dims)
        self._list_poses(floor)
        self._tables: dict[tuple[Faced, Faced], tuple[Table, ...]] = {}
        pair, objects = self.locate(copy_start(env, 1))[0].tolist()
        self.start = (pair, objects)

    @property
    def num_pairs(self) -> int:
        """The number of pairs of poses."""
        return len(self.pairs)

    @property
    def num_states(self) -> int:
        """The number of joint states."""
        return self.num_pairs * self.num_objects

    @property
    def num_bytes(self) -> int:
        """The approximate memory of `solve`: three arrays of values, and the tables."""
        return 3 * self.num_states + 8 * self.num_objects * (4 * len(self.dims) + 40)

    def _check_counters(self, counters: Sequence[Place], relaxed: bool) -> None:
        known = reachable_counters(self.env.layout)
        objects = np.asarray(self.env.layout.start.cells.object)
        if relaxed and any(objects[place] != Item.NOTHING for place in {*known} - {*counters}):
            raise ValueError(
                "There is no upper bound if something lies on a counter at the start: add that "
                "counter to the counters in use."
            )
        for row, col in counters:
            if (row, col) not in known:
                cells = " ".join(f"{row},{col}" for row, col in known)
                raise ValueError(
                    f"There is no counter in row {row}, column {col} that a cook can reach: "
                    f"the counters within reach are {cells or 'none'}."
                )

    def _find_unit(self) -> float:
        """The greatest common divisor of the values of all soups."""
        serving = self.rules.single.get(Tile.SERVING)
        paid = [] if serving is None else [float(x) for x in serving.reward.ravel() if x]
        if any(x < 0 or x % 1 for x in paid):
            raise ValueError("Plans are searched where soups pay whole numbers above 0.")
        unit = math.gcd(*(int(x) for x in paid)) or 1
        if max(paid, default=0) / unit > 50:
            raise ValueError(
                "The values of soups differ too much for the search: the largest may be at most 50 "
                f"times {unit}, the greatest common divisor of all."
            )
        return float(unit)

    def face(self, place: Place) -> Faced:
        """The relevant part of a cell for a cook that faces it."""
        tile = int(self._tiles[place])
        if place in self.cells:
            return Faced(tile, self.cells.index(place))
        if tile == Tile.COUNTER and self.relaxed:
            return Faced(tile)
        useful = tile not in (Tile.COUNTER, Tile.POT) and tile in self.rules.single
        return Faced(tile) if useful else _USELESS

    def _list_poses(self, floor: list[list[Place]]) -> None:
        """Finds all poses of both cooks, and all pairs of poses in different cells.

        **Arguments:**

        - `floor`: the cells that each cook can reach.
        """
        self.poses: list[list[Pose]] = [[], []]
        self._faced: list[list[Faced]] = [[], []]
        self._index_of: list[dict[Pose, int]] = [{}, {}]
        for cook, place in [(cook, place) for cook, own in enumerate(floor) for place in own]:
            # The indices of the poses in this cell, by direction (`whole`) or by what they face.
            known: dict[Faced | int, int] = {}
            for direction in range(len(Direction)):
                pose = (*place, direction)
                faced = self.face(ahead(pose))
                kind = direction if self.whole else faced
                if kind not in known:
                    known[kind] = len(self.poses[cook])
                    self.poses[cook].append(pose)
                    self._faced[cook].append(faced)
                self._index_of[cook][pose] = known[kind]
        indices = itertools.product(*(range(len(poses)) for poses in self.poses))
        self.pairs = [(i, j) for i, j in indices if self.poses[0][i][:2] != self.poses[1][j][:2]]
        self._pair_index = {pair: index for index, pair in enumerate(self.pairs)}
        self._poses_of = np.asarray([(self.poses[0][i], self.poses[1][j]) for i, j in self.pairs])

    @functools.cached_property
    def _after(self) -> list[list[list[int]]]:
        """The next pair of poses, as `[pair][move of the first cook][move of the second cook]`."""
        # The next poses do not depend on the objects, so those of the initial state are enough.
        pairs = np.repeat(np.arange(self.num_pairs), len(_MOVES) ** 2)
        moves = np.tile(list(itertools.product(_MOVES, _MOVES)), (self.num_pairs, 1))
        start = np.full(len(pairs), self.start[1])
        after, _ = step_all(self.env, self.worlds(pairs, start), moves)
        return self._pairs_of(after.bodies).reshape(-1, len(_MOVES), len(_MOVES)).tolist()

    @functools.cached_property
    def second_moves(self) -> list[tuple[int, ...]]:
        """For each pair of poses, the pairs after each move of the second cook while the first cook
        stays.
        """
        return [tuple(dict.fromkeys(own[STAY])) for own in self._after]

    @functools.cached_property
    def choices(self) -> list[list[Choice]]:
        """The choices from each pair of poses, one for each set of cooks that interact."""
        choices = []
        for pair, (i, j) in enumerate(self.pairs):
            faces = (self._faced[0][i], self._faced[1][j])
            choices.append(
                [
                    self._choice(pair, interacts, faces)
                    for interacts in _INTERACTS
                    if not any(x and f == _USELESS for f, x in zip(faces, interacts, strict=True))
                ]
            )
        return choices

    def _choice(
        self, pair: int, interacts: tuple[bool, bool], faces: tuple[Faced, Faced]
    ) -> Choice:
        after = self._after[pair]
        # A cook that interacts keeps its pose, as if it stayed.
        firsts, seconds = ((STAY,) if x else _MOVES for x in interacts)
        pairs: dict[int, tuple[int, int]] = {}
        for first, second in itertools.product(firsts, seconds):
            action = INTERACT if interacts[0] else first, INTERACT if interacts[1] else second
            pairs.setdefault(after[first][second], action)
        used = [face if x else _USELESS for face, x in zip(faces, interacts, strict=True)]
        tables = self._find_tables((used[0], used[1]))
        sources, staged = tuple(pairs), False
        if not interacts[1]:
            stage = tuple(dict.fromkeys(after[first][STAY] for first in firsts))
            # If cooks block each other, moving one after the other may differ from moving at once.
            if {x for source in stage for x in self.second_moves[source]} == set(pairs):
                sources, staged = stage, True
        return Choice(tuple(pairs), tuple(pairs.values()), tables, sources, staged)

    def outcomes(self, pair: int) -> tuple[list[Outcome], Int[np.ndarray, "first second"]]:
        """The distinct outcomes of all joint actions from a pair of poses, and the index of the
        outcome of each joint action. If a cook faces nothing useful, interacting equals staying.
        """
        known: dict[tuple[int, int], int] = {}
        found: list[Outcome] = []
        index = np.empty((INTERACT + 1, INTERACT + 1), np.int64)
        for first, second in np.ndindex(index.shape):
            acts = zip(self._faced, self.pairs[pair], (first, second), strict=True)
            faces = [own[pose] if action == INTERACT else _USELESS for own, pose, action in acts]
            moves = [STAY if action == INTERACT else action for action in (first, second)]
            after = self._after[pair][moves[0]][moves[1]]
            table = self._find_tables((faces[0], faces[1]))[0]
            # Joint actions with the same interactions share one table, so its id identifies them.
            index[first, second] = known.setdefault((after, id(table)), len(found))
            if index[first, second] == len(found):
                found.append(Outcome(after, table))
        return found, index

    def _pairs_of(self, bodies: Bodies) -> Int[np.ndarray, " worlds"]:
        """The indices of the pairs of poses in many states."""
        poses = np.concatenate([bodies.position, bodies.direction[..., None]], axis=-1).tolist()
        first, second = self._index_of
        pairs = [(first[tuple(a)], second[tuple(b)]) for a, b in poses]
        return np.asarray([self._pair_index[pair] for pair in pairs])

    def _find_tables(self, faces: tuple[Faced, Faced]) -> tuple[Table, ...]:
        """The transitions of the objects when cooks interact with the cells that they face;
        `_USELESS` for a cook that does not interact. There is one table for each choice of items at
        relaxed counters.
        """
        if faces not in self._tables:
            # Relaxed counters give the items of dispensers, as indices in `rules.hands`.
            items = [x for x in (Item.ONION, Item.TOMATO, Item.DISH) if x in self.rules.hands]
            given = [self.rules.hands.index(x) for x in items]
            choices = itertools.product(*(given if face.is_relaxed else [0] for face in faces))
            self._tables[faces] = tuple(self._build(faces, gifts) for gifts in choices)
        return self._tables[faces]

    def _build(self, faces: tuple[Faced, Faced], gifts: tuple[int, ...]) -> Table:
        """Builds the table for two interactions.

        **Arguments:**

        - `faces`: the faced cell of each cook that interacts; otherwise `_USELESS`.
        - `gifts`: the item that each cook takes if its counter is relaxed and its hands are empty.
        """
        waiting = [self.rules.waiting[int(self._tiles[place])] for place in self.cells]
        changed = [i for i, x in enumerate(waiting) if (x != np.arange(len(x))).any()]
        # The cells after the last one that may change are not part of the index of a block.
        last = max([*changed, *(face.cell for face in faces)], default=-1)
        dims = self.dims[: last + 3]
        before = np.unravel_index(np.arange(math.prod(dims)), dims)
        after = [*before[:2], *(waiting[i][x] for i, x in enumerate(before[2:]))]
        reward = np.zeros(len(before[0]))
        if faces[0] == faces[1] and faces[0].cell >= 0:
            axis = faces[0].cell + 2
            joint, now = self.rules.joint[faces[0].tile], (before[0], before[1], before[axis])
            after[0], after[1], after[axis] = (x[now] for x in (*joint.hands, joint.content))
            reward += joint.reward[now]
        else:
            for cook in range(2):
                reward += self._interact(cook, faces[cook], gifts[cook], before, after)
        units = np.rint(reward / self.unit).astype(np.uint8)
        blocks = np.asarray(np.ravel_multi_index(tuple(after), dims))
        size = self.num_objects // math.prod(dims)
        return Table(blocks, size, units if units.any() else None)

    def _interact(
        self,
        cook: int,
        face: Faced,
        gift: int,
        before: Sequence[np.ndarray],
        after: list[np.ndarray],
    ) -> np.ndarray | float:
        """Applies the interaction of one cook, and writes the result into `after`.

        **Returns:** the reward of each block.
        """
        if face == _USELESS:
            return 0.0
        hand = before[cook]
        if face.is_relaxed:
            empty = self.rules.hands.index(int(Item.NOTHING))
            after[cook] = np.where(hand == empty, gift, empty)
            serving = self.rules.single.get(int(Tile.SERVING))
            return 0.0 if serving is None else serving.reward[hand, 0, 0]
        single = self.rules.single[face.tile]
        now = (hand, 0, before[face.cell + 2] if face.cell >= 0 else 0)
        if face.cell >= 0:
            after[face.cell + 2] = single.content[now]
        after[cook] = single.hands[0][now]
        return single.reward[now]

    # States.

    def locate(self, worlds: World) -> Int[np.ndarray, "worlds 2"]:
        """The indices of the pair of poses and of the set of objects in each state of `env`."""
        bodies, cells = jax.tree.map(np.asarray, (worlds.bodies, worlds.cells))
        # Each distinct item and each distinct contents of a cell is looked up once.
        held, which = np.unique(bodies.held, return_inverse=True)
        known = [self.rules.hands.index(self.rules.merge_held(int(x))) for x in held]
        hands = np.asarray(known)[which.reshape(bodies.held.shape)]
        inside = []
        for place, contents in zip(self.cells, self.rules.contents, strict=True):
            at = (slice(None), *place)
            codes = np.stack([cells.object[at], cells.timer[at]], axis=1).astype(np.int64)
            found, which = np.unique(codes, axis=0, return_inverse=True)
            merged = [self.rules.merge(place, (item, timer)) for item, timer in found.tolist()]
            inside.append(np.asarray([contents.index(x) for x in merged])[which.reshape(-1)])
        objects = np.ravel_multi_index((*hands.T, *inside), self.dims)
        return np.stack([self._pairs_of(bodies), objects], axis=1)

    def worlds(
        self, pair: int | Int[np.ndarray, " worlds"], objects: Int[np.ndarray, " worlds"]
    ) -> World:
        """States of `env` with one pair of poses or one for each state, in NumPy arrays, at the
        start of an episode.
        """
        worlds, poses = copy_start(self.env, len(objects)), self._poses_of[pair]
        first, second, *inside = np.unravel_index(objects, self.dims)
        bodies, cells, hands = worlds.bodies, worlds.cells, np.asarray(self.rules.hands)
        bodies.position[:], bodies.direction[:] = poses[..., :2], poses[..., 2]
        bodies.held[:] = np.stack([hands[first], hands[second]], axis=1)
        for place, contents, own in zip(self.cells, self.rules.contents, inside, strict=True):
            at = (slice(None), *place)
            cells.object[at], cells.timer[at] = np.asarray(contents)[own].T
        return worlds

    def check(self, number: int = _NUM_CHECKS, seed: int = 0) -> None:
        """Compares randomly sampled transitions with the environment.

        **Raises:** `RuntimeError` when any of them differs.
        """
        rng, expected, actions = np.random.default_rng(seed), [], []
        pairs = rng.integers(self.num_pairs, size=number)
        objects = rng.integers(self.num_objects, size=number)
        for pair, own in zip(pairs.tolist(), objects.tolist(), strict=True):
            choice = self.choices[pair][rng.integers(len(self.choices[pair]))]
            way, table = rng.integers(len(choice.pairs)), choice.tables[0]
            block, rest = divmod(own, table.block)
            paid = 0 if table.reward is None else int(table.reward[block])
            after = int(table.next[block]) * table.block + rest
            expected.append((choice.pairs[way], after, paid * self.unit))
            actions.append(choice.actions[way])
        states, reward = step_all(self.env, self.worlds(pairs, objects), np.asarray(actions))
        if (np.column_stack([self.locate(states), reward]) != expected).any():
            raise RuntimeError("The tables of the search differ from the environment.")
