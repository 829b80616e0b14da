"""The best return of a kitchen of two cooks, and a plan that earns it, by dynamic programming."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import IO, TypeAlias, final

import numpy as np
from jaxtyping import Int, UInt8

from ._joint_model import JointModel

Values: TypeAlias = UInt8[np.ndarray, "pairs objects"]
"""The most that can still be earned from every joint state, in units of the model."""

_LONGEST = 50  # steps between two layers that are kept


@final
class Layers:
    """Some of the layers of a search, on disk: `layers[n]` are the values with `n` steps to go.

    **Arguments:**

    - `file`: an empty file to keep them in, open for writing and reading.
    - `spacing`: every how many steps one is kept.
    """

    def __init__(self, model: JointModel, file: IO[bytes], spacing: int):
        self._file, self.spacing = file, spacing
        self._shape = (model.num_pairs, model.num_objects)
        self._kept: list[int] = []

    def offer(self, steps: int, values: Values) -> None:
        """Keeps a layer if its turn has come. **Raises:** `OSError` when the disk is full."""
        if steps % self.spacing == 0:
            values.tofile(self._file)
            self._file.flush()
            self._kept.append(steps)

    def __getitem__(self, steps: int) -> Values:
        offset = self._kept.index(steps) * math.prod(self._shape)
        return np.memmap(self._file, np.uint8, "r", offset, self._shape)


def choose_spacing(model: JointModel, horizon: int, disk: float | int) -> int:
    """Every how many steps a layer is kept, so that all of them take at most `disk` bytes.

    **Raises:** `ValueError` when they do not fit.
    """
    number = int(disk // model.num_states) - 1
    spacing = max(8, math.ceil(horizon / number)) if number > 0 else horizon
    if spacing > _LONGEST:
        needed = model.num_states * (horizon / _LONGEST + 1) / 2**30
        raise ValueError(
            f"The search needs {needed:.1f} GiB on the disk for what it keeps, and may take "
            f"{disk / 2**30:.1f}: allow it more, or use fewer counters."
        )
    return spacing


def solve(
    model: JointModel,
    horizon: int,
    layers: Layers | None = None,
    report: Callable[[int], None] = lambda steps: None,
) -> float:
    """The best return from the start in `horizon` steps, by Bellman's equation over all states.

    **Arguments:**

    - `layers`: keeps some of the layers, for `trace`.
    - `report`: is called after each layer, with the number of steps to go.

    **Raises:** `ValueError` when returns are more than 255 units.
    """
    after = np.zeros((model.num_pairs, model.num_objects), np.uint8)
    before, stage = np.empty_like(after), np.empty_like(after)
    spare = np.empty((2, model.num_objects), np.uint8)
    for steps in range(1, horizon + 1):
        for pair, moves in enumerate(model.second_moves):
            _best_of(after, moves, stage[pair])
        for pair in range(model.num_pairs):
            _back_up(model, pair, after, stage, before[pair], spare)
        if before.max() > 150:  # a step adds two soups at most, of 50 units each
            raise ValueError("The returns are too large for the search: shorten the horizon.")
        if layers is not None:
            layers.offer(steps, before)
        report(steps)
        before, after = after, before
    return float(after[model.start]) * model.unit


def _best_of(values: Values, pairs: Sequence[int], best: UInt8[np.ndarray, " objects"]) -> None:
    np.copyto(best, values[pairs[0]])
    for pair in pairs[1:]:
        np.maximum(best, values[pair], out=best)


def _back_up(
    model: JointModel,
    pair: int,
    after: Values,
    stage: Values,
    before: UInt8[np.ndarray, " objects"],
    spare: UInt8[np.ndarray, "2 objects"],
) -> None:
    """Fills in the values of all states in one pair of poses: the best over all joint actions.

    Where cooks go does not depend on the objects, and what happens to the objects does not depend
    on where cooks go. So the best over all places comes first, and is looked up once.

    **Arguments:**

    - `after`: the values of the next step.
    - `stage`: the best of them over the moves of the second cook, while the first one stays.
    - `spare`: room for two rows.
    """
    best, found = spare
    before[:] = 0
    for choice in model.choices[pair]:
        _best_of(stage if choice.staged else after, choice.sources, best)
        for table in choice.tables:
            blocks = found.reshape(-1, table.block)
            old = best.reshape(-1, table.block)
            np.take(old, table.next, axis=0, out=blocks, mode="clip")
            if table.reward is not None:
                blocks += table.reward[:, None]
            np.maximum(before, found, out=before)


# The plan


@final
@dataclasses.dataclass(frozen=True)
class _Front:
    """Joint states that can be reached in some number of steps.

    - `key`: the number of each, in ascending order.
    - `earned`: the most that was earned on a way to it.
    - `parent`: the position in the front before of the state that it was reached from.
    - `action`: the joint action, as `6 * first + second`.
    """

    key: Int[np.ndarray, " states"]
    earned: Int[np.ndarray, " states"]
    parent: Int[np.ndarray, " states"]
    action: Int[np.ndarray, " states"]


def trace(
    model: JointModel,
    horizon: int,
    layers: Layers,
    report: Callable[[int], None] = lambda steps: None,
) -> Int[np.ndarray, "steps 2"]:
    """A plan that earns the best return.

    From one layer that was kept to the next one, all states that can be reached are listed, and
    the one is chosen whose value and what was earned on the way to it are the most together.

    **Arguments:**

    - `layers`: what `solve` kept.
    - `report`: is called with the number of steps to go.
    """
    pair, objects = model.start
    key, left, plan = pair * model.num_objects + objects, horizon, []
    while left:
        goal = (left - 1) // layers.spacing * layers.spacing
        top = layers[left] if left % layers.spacing == 0 else None
        key, actions = _segment(model, key, left - goal, top, layers[goal] if goal else None)
        plan += actions
        left = goal
        report(left)
    return np.stack(np.divmod(np.asarray(plan), 6), axis=1)


def _segment(
    model: JointModel, key: int, steps: int, top: Values | None, end: Values | None
) -> tuple[int, list[int]]:
    """**Returns:** the state after so many steps, and the actions on the way to it."""
    none = np.zeros(1, np.int64)
    fronts = [_Front(none + key, none, none, none)]
    most = None if top is None else int(_look_up(top, fronts[0].key)[0])
    for _ in range(steps):
        front = _advance(model, fronts[-1])
        if top is not None and most is not None:
            # With fewer steps to go, a state is worth no more than in the layer above.
            front = _select(front, front.earned + _look_up(top, front.key) >= most)
        fronts.append(front)
    last = fronts[-1]
    total = last.earned + (0 if end is None else _look_up(end, last.key))
    position = int(total.argmax())
    key, actions = int(last.key[position]), []
    for front in reversed(fronts[1:]):
        actions.append(int(front.action[position]))
        position = int(front.parent[position])
    return key, actions[::-1]


def _look_up(values: Values, key: Int[np.ndarray, " states"]) -> Int[np.ndarray, " states"]:
    return values.reshape(-1)[key].astype(np.int64)


def _select(front: _Front, kept: np.ndarray) -> _Front:
    return _Front(front.key[kept], front.earned[kept], front.parent[kept], front.action[kept])


def _advance(model: JointModel, front: _Front) -> _Front:
    """All states a step later. Of several ways to one state, the one that has earned the most."""
    pairs, objects = np.divmod(front.key, model.num_objects)
    found: list[tuple[np.ndarray, ...]] = []
    for pair in np.unique(pairs):
        begin, end = np.searchsorted(pairs, [pair, pair + 1])
        parent = np.arange(begin, end)
        for choice in model.choices[int(pair)]:
            table = choice.tables[0]
            block, rest = np.divmod(objects[begin:end], table.block)
            after = table.next[block] * table.block + rest
            earned = front.earned[begin:end]
            if table.reward is not None:
                earned = earned + table.reward[block]
            for other, (first, second) in zip(choice.pairs, choice.actions, strict=True):
                action = np.full_like(parent, 6 * first + second)
                found.append((other * model.num_objects + after, earned, parent, action))
    key, earned, parent, action = (np.concatenate(x) for x in zip(*found, strict=True))
    order = np.lexsort((-earned, key))
    first = np.concatenate([[True], np.diff(key[order]) > 0])
    kept = order[first]
    return _Front(key[kept], earned[kept], parent[kept], action[kept])
