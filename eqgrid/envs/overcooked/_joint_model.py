"""A kitchen of two cooks as a decision problem over joint states, small enough to be solved.

A joint state is a pair of poses and a set of objects: what both cooks hold, and what is in the pots
and on some counters. All of it is found by asking the environment; no rule is written here twice.

What a cook can do depends on where it looks only through the cell in front of it, and a move sets
the direction whatever it was before. So directions that face nothing of use (the floor, a wall, a
counter that is not in use) are one pose. Cooks are not exchanged for one another: in a step, the
first acts before the second.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias, final

import jax
import numpy as np
from jaxtyping import Int, UInt8

from ...grid import GridWorld, World, reach
from ._contents import Item, Tile
from ._joint_tables import INTERACT, STAY, Case, Code, Place, Pose, Rules, ahead, ask

Face: TypeAlias = int
"""What a cook faces: 0 for nothing of use, else a position in a list, from 1."""

_MOVES = 5  # the four directions, and to stay
_CHECKED = 4096


@final
@dataclasses.dataclass(frozen=True)
class Table:
    """Where an action leads each set of objects, in blocks of equal consecutive differences.

    - `next`: the block that follows each block.
    - `block`: how many sets of objects are in one.
    - `reward`: soups that are paid for, in units; `None` for none at all.
    """

    next: Int[np.ndarray, " blocks"]
    block: int
    reward: UInt8[np.ndarray, " blocks"] | None


@final
@dataclasses.dataclass(frozen=True)
class Choice:
    """A kind of joint action from a pair of poses: who interacts, and where the others go.

    - `interacts`: whether each cook does.
    - `pairs`: the pairs of poses that it can lead to.
    - `actions`: a joint action for each of them.
    - `tables`: what happens to the objects; several where a cook has a choice.
    """

    interacts: tuple[bool, bool]
    pairs: tuple[int, ...]
    actions: tuple[tuple[int, int], ...]
    tables: tuple[Table, ...]


@final
class JointModel:
    """All joint states of a kitchen of two cooks, and what every joint action makes of them.

    **Arguments:**

    - `env`: the kitchen.
    - `counters`: `(row, col)` of the counters that cooks use.
    - `relaxed`: for an upper bound. Any other counter then takes whatever a cook puts on it, pays
        at once for a soup, and gives back an onion, a tomato or a dish at any time. Every plan in
        the kitchen can be followed in this model and earns at least as much: who picks a soup up
        from such a counter has been paid for it already and goes on with empty hands, and who
        takes anything else finds it.

    **Raises:** `ValueError` with one sentence when there are not two cooks, a counter is none or
    out of reach, or the soups do not pay multiples of one value.
    """

    def __init__(
        self, env: GridWorld, counters: Sequence[Place] = (), *, relaxed: bool = False
    ) -> None:
        if env.num_agents != 2:
            raise ValueError(
                f"Plans are searched for two cooks, and this kitchen has {env.num_agents}."
            )
        self.env, self._tiles = env, np.asarray(env.layout.tiles)
        walks = [self._walk(cook) for cook in range(2)]
        floor = sorted({*walks[0], *walks[1]})
        touched = {ahead((*place, direction)) for place in floor for direction in range(4)}
        self._check_counters(counters, touched)
        pots = sorted(place for place in touched if self._tiles[place] == Tile.POT)
        self.cells: tuple[Place, ...] = (*pots, *sorted(set(counters)))
        self.relaxed = relaxed and any(
            self._tiles[place] == Tile.COUNTER for place in touched.difference(counters)
        )
        self.rules = Rules(env, floor, self.cells)
        self.unit = self._find_unit()
        sizes = [len(contents) for contents in self.rules.contents]
        self.dims = (len(self.rules.hands), len(self.rules.hands), *sizes)
        self.num_objects = math.prod(self.dims)
        self._list_poses(walks)
        self._tables: dict[tuple[Face, Face], tuple[Table, ...]] = {}
        self.choices = self._list_choices()
        self.start = self._locate_start()
        if not relaxed:
            self.check()

    @property
    def num_pairs(self) -> int:
        return len(self.pairs)

    @property
    def num_states(self) -> int:
        return self.num_pairs * self.num_objects

    def _walk(self, cook: int) -> list[Place]:
        start = self.env.layout.start.bodies.position[cook]
        found = np.asarray(reach(self.env.layout.tiles == Tile.FLOOR, start))
        return [(int(row), int(col)) for row, col in np.argwhere(found)]

    def _check_counters(self, counters: Sequence[Place], touched: set[Place]) -> None:
        height, width = self._tiles.shape
        for row, col in counters:
            inside = 0 <= row < height and 0 <= col < width
            if not inside or self._tiles[row, col] != Tile.COUNTER:
                raise ValueError(f"There is no counter in row {row}, column {col}.")
            if (row, col) not in touched:
                raise ValueError(f"No cook can reach the counter in row {row}, column {col}.")

    def _find_unit(self) -> float:
        """What every pay for a soup is a multiple of."""
        serving = self.rules.once.get(Tile.SERVING)
        paid = [] if serving is None else [float(x) for x in serving.reward.ravel() if x]
        if any(x < 0 or x % 1 for x in paid):
            raise ValueError("Plans are searched where soups pay whole numbers above 0.")
        unit = math.gcd(*(int(x) for x in paid)) or 1
        if max(paid, default=0) / unit > 50:
            raise ValueError(
                "Soups pay too differently for the search: the largest pay may be at most 50 "
                f"times {unit}, the greatest common divisor of all."
            )
        return float(unit)

    def face(self, place: Place) -> object:
        """What a cell is for a cook in front of it: one that matters, a kind of tile, a counter
        that is relaxed (`Tile.COUNTER`), or nothing of use.
        """
        tile = int(self._tiles[place])
        if place in self.cells:
            return place
        if tile in self.rules.once:
            return Tile(tile) if tile not in (Tile.POT, Tile.COUNTER) else self._other(tile)
        return self._other(tile)

    def _other(self, tile: int) -> Tile | None:
        return Tile.COUNTER if self.relaxed and tile == Tile.COUNTER else None

    def _list_poses(self, walks: list[list[Place]]) -> None:
        """Finds all poses of both cooks, and all pairs of them."""
        self.faces: list[object] = [None]
        self.poses: list[list[Pose]] = [[], []]
        self.pose_faces: list[list[Face]] = [[], []]
        self._number: list[dict[Pose, int]] = [{}, {}]
        for cook, place in ((cook, place) for cook in range(2) for place in walks[cook]):
            seen: dict[object, int] = {}
            for direction in range(4):
                pose = (*place, direction)
                face = self.face(ahead(pose))
                if face not in self.faces:
                    self.faces.append(face)
                if face not in seen:
                    seen[face] = len(self.poses[cook])
                    self.poses[cook].append(pose)
                    self.pose_faces[cook].append(self.faces.index(face))
                self._number[cook][pose] = seen[face]
        both = itertools.product(*(range(len(poses)) for poses in self.poses))
        self.pairs = [
            (i, j) for i, j in both if self.poses[0][i][:2] != self.poses[1][j][:2]
        ]
        self._pair = {pair: number for number, pair in enumerate(self.pairs)}

    def _list_choices(self) -> list[list[Choice]]:
        """All joint actions from each pair of poses, by who interacts."""
        actions = list(itertools.product(range(_MOVES), repeat=2))
        nothing = (int(Item.NOTHING),) * 2
        stand = [(self.poses[0][i], self.poses[1][j]) for i, j in self.pairs]
        told = ask(self.env, [Case(x, nothing, {}, a) for x in stand for a in actions])
        after = [self.pair_of(x) for x in told.poses.tolist()]
        choices = []
        for pair, (i, j) in enumerate(self.pairs):
            led = after[pair * len(actions) : (pair + 1) * len(actions)]
            faces = (self.pose_faces[0][i], self.pose_faces[1][j])
            choices.append(
                [
                    self._choose(interacts, faces, actions, led)
                    for interacts in itertools.product((False, True), repeat=2)
                    if all(face or not x for face, x in zip(faces, interacts, strict=True))
                ]
            )
        return choices

    def _choose(
        self,
        interacts: tuple[bool, bool],
        faces: tuple[Face, Face],
        actions: Sequence[tuple[int, int]],
        led: Sequence[int],
    ) -> Choice:
        """Who interacts does not move, just as if it stayed."""
        pairs: dict[int, tuple[int, int]] = {}
        for action, pair in zip(actions, led, strict=True):
            if all(a == STAY or not x for a, x in zip(action, interacts, strict=True)):
                told = [INTERACT if x else a for a, x in zip(action, interacts, strict=True)]
                pairs.setdefault(pair, (told[0], told[1]))
        used = tuple(face if x else 0 for face, x in zip(faces, interacts, strict=True))
        return Choice(interacts, tuple(pairs), tuple(pairs.values()), self._table(used))

    def pair_of(self, poses: Sequence[Sequence[int]]) -> int:
        """The number of a pair of poses, each of which is `(row, col, direction)`."""
        first, second = (self._number[cook][tuple(poses[cook])] for cook in range(2))
        return self._pair[first, second]

    def _table(self, faces: tuple[Face, ...]) -> tuple[Table, ...]:
        """What happens when cooks interact with these; 0 for who does not."""
        key = (faces[0], faces[1])
        if key not in self._tables:
            given = range(len(self._gifts)) if self._is_relaxed(key) else (0,)
            ways = itertools.product(
                *(given if self.faces[face] == Tile.COUNTER else (0,) for face in key)
            )
            self._tables[key] = tuple(self._build(key, way) for way in ways)
        return self._tables[key]

    def _is_relaxed(self, faces: tuple[Face, Face]) -> bool:
        return any(self.faces[face] == Tile.COUNTER for face in faces)

    @property
    def _gifts(self) -> list[int]:
        """The numbers of what dispensers give: what a relaxed counter gives, too."""
        items = (Item.ONION, Item.TOMATO, Item.DISH)
        return [self.rules.hands.index(x) for x in items if x in self.rules.hands]

    def _build(self, faces: tuple[Face, Face], ways: tuple[int, ...]) -> Table:
        waits = [self.rules.waits[int(self._tiles[place])] for place in self.cells]
        changed = [i for i, x in enumerate(waits) if (x != np.arange(len(x))).any()]
        changed += [
            self.cells.index(self.faces[face]) for face in faces if self.faces[face] in self.cells
        ]
        lead = self.dims[: max(changed, default=-1) + 3]
        before = np.unravel_index(np.arange(math.prod(lead)), lead)
        after = list(before)
        for i in range(len(lead) - 2):
            after[2 + i] = waits[i][before[2 + i]]
        reward = self._interact(faces, ways, before, after)
        units = np.rint(reward / self.unit).astype(np.uint8)
        return Table(
            np.ravel_multi_index(after, lead),
            self.num_objects // math.prod(lead),
            units if units.any() else None,
        )

    def _interact(
        self,
        faces: tuple[Face, Face],
        ways: tuple[int, ...],
        before: Sequence[np.ndarray],
        after: list[np.ndarray],
    ) -> np.ndarray:
        """Puts into `after` what cooks do to what they face.

        **Returns:** what is paid.
        """
        reward = np.zeros(before[0].shape)
        if faces[0] == faces[1] and self.faces[faces[0]] in self.cells:
            at = self.cells.index(self.faces[faces[0]]) + 2
            both = self.rules.both[int(self._tiles[self.cells[at - 2]])]
            now = (before[0], before[1], before[at])
            after[0], after[1] = both.hands[0][now], both.hands[1][now]
            after[at] = both.content[now]
            return reward + both.reward[now]
        for cook, face in enumerate(faces):
            kind = self.faces[face]
            if kind in self.cells:
                at = self.cells.index(kind) + 2
                once, now = self.rules.once[int(self._tiles[kind])], (before[cook], before[at])
                after[at] = once.content[now]
            elif kind == Tile.COUNTER:
                empty = self.rules.hands.index(int(Item.NOTHING))
                is_empty = before[cook] == empty
                after[cook] = np.where(is_empty, self._gifts[ways[cook]], empty)
                reward += self.rules.once[Tile.SERVING].reward[before[cook], 0]
                continue
            elif kind is not None:
                once, now = self.rules.once[int(kind)], (before[cook], np.zeros_like(before[cook]))
            else:
                continue
            after[cook] = once.hand[now]
            reward += once.reward[now]
        return reward

    # States

    def _locate_start(self) -> tuple[int, int]:
        return self.locate(self.env.layout.start)

    def locate(self, world: World) -> tuple[int, int]:
        """The number of the pair of poses, and that of the objects, in a state of the kitchen."""
        bodies, cells = jax.device_get((world.bodies, world.cells))
        poses = np.concatenate([bodies.position, bodies.direction[:, None]], axis=1)
        return self.pair_of(poses.tolist()), self._objects(bodies.held, cells.object, cells.clock)

    def _objects(self, held: np.ndarray, objects: np.ndarray, timers: np.ndarray) -> int:
        hands = [self.rules.hands.index(self.rules.merge_held(int(x))) for x in held]
        inside = [
            contents.index(self.rules.merge(place, (int(objects[place]), int(timers[place]))))
            for place, contents in zip(self.cells, self.rules.contents, strict=True)
        ]
        return int(np.ravel_multi_index((*hands, *inside), self.dims))

    def case(self, pair: int, objects: int, actions: tuple[int, int]) -> Case:
        """A joint state and a joint action as the environment knows them."""
        first, second, *inside = (int(x) for x in np.unravel_index(objects, self.dims))
        i, j = self.pairs[pair]
        places = zip(self.cells, self.rules.contents, inside, strict=True)
        cells: dict[Place, Code] = {place: contents[x] for place, contents, x in places}
        hands = (self.rules.hands[first], self.rules.hands[second])
        return Case((self.poses[0][i], self.poses[1][j]), hands, cells, actions)

    def check(self, number: int = _CHECKED, seed: int = 0) -> None:
        """Compares transitions that are drawn at random with those of the environment.

        **Raises:** `RuntimeError` when one of them differs.
        """
        rng = np.random.default_rng(seed)
        drawn, cases = [], []
        for _ in range(number):
            pair, objects = int(rng.integers(self.num_pairs)), int(rng.integers(self.num_objects))
            choice = self.choices[pair][rng.integers(len(self.choices[pair]))]
            way = rng.integers(len(choice.pairs))
            table = choice.tables[0]
            block, rest = divmod(objects, table.block)
            paid = 0 if table.reward is None else int(table.reward[block])
            after = int(table.next[block]) * table.block + rest
            drawn.append((choice.pairs[way], after, paid * self.unit))
            cases.append(self.case(pair, objects, choice.actions[way]))
        told = ask(self.env, cases)
        rows = zip(told.poses.tolist(), told.hands, told.objects, told.timers, strict=True)
        found = [
            (self.pair_of(poses), self._objects(hands, objects, timers), paid)
            for (poses, hands, objects, timers), paid in zip(rows, told.reward, strict=True)
        ]
        if found != drawn:
            raise RuntimeError("The tables of the search differ from the environment.")
