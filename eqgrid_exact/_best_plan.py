"""The optimal return of a kitchen with two cooks, and a plan that achieves it, by dynamic
programming.
"""

import math
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Int, Shaped, UInt8

from ._joint_model import JointModel

Values: TypeAlias = UInt8[np.ndarray, "pairs objects"]
"""The largest return that is still possible from each joint state, in units of the model."""

_Row: TypeAlias = Shaped[np.ndarray, " objects"]  # the values of all states with one pair of poses
_Rows: TypeAlias = Shaped[np.ndarray, "_ objects"]
_SPACING = 8  # the number of steps between two stored layers


@final
class Layers:
    """Stores every eighth layer of a search in a file. The layer `layers[n]` has the values of all
    joint states with `n` steps to go.

    **Arguments:**

    - `model`: the joint model of the kitchen.
    - `file`: an empty file in which they are stored, open for reading and writing.
    """

    def __init__(self, model: JointModel, file: IO[bytes]):
        self._file, self._shape = file, (model.num_pairs, model.num_objects)

    @staticmethod
    def bytes_of(model: JointModel, horizon: int) -> int:
        """The disk space of the layers, in bytes."""
        return model.num_states * (horizon // _SPACING)

    def offer(self, steps: int, values: Values) -> None:
        """Stores a layer if `steps` is a multiple of 8.

        **Raises:** `OSError` when the disk is full.
        """
        if steps % _SPACING == 0:
            values.tofile(self._file)
            self._file.flush()

    def __getitem__(self, steps: int) -> Values:
        offset = (steps // _SPACING - 1) * math.prod(self._shape)
        return np.memmap(self._file, np.uint8, "r", offset, self._shape)


def solve(
    model: JointModel,
    horizon: int,
    layers: Layers | None = None,
    report: Callable[[int], None] = lambda steps: None,
) -> float:
    """The optimal return from the initial state in `horizon` steps, by Bellman's equation.

    **Arguments:**

    - `model`: the joint model of the kitchen.
    - `horizon`: the number of steps.
    - `layers`: stores some layers for `trace`.
    - `report`: a callback that is called after each layer with the number of steps to go.

    **Returns:** the optimal return of the team.

    **Raises:** `ValueError` when a return exceeds 150 units, since larger returns might overflow a
    byte; `RuntimeError` as `JointModel.check`.
    """
    if not model.relaxed:
        model.check()
    after = np.zeros((model.num_pairs, model.num_objects), np.uint8)
    before, stage = np.empty_like(after), np.empty_like(after)
    spare = np.empty((2, model.num_objects), np.uint8)
    for steps in range(1, horizon + 1):
        for pair, moves in enumerate(model.second_moves):
            _best_of(after, moves, stage[pair])
        for pair in range(model.num_pairs):
            _back_up(model, pair, after, stage, before[pair], spare)
        if before.max() > 150:  # a step adds at most two soups of 50 units each
            raise ValueError("The returns are too large for the search: shorten the horizon.")
        if layers is not None:
            layers.offer(steps, before)
        report(steps)
        before, after = after, before
    return float(after[model.start]) * model.unit


def _best_of(values: _Rows, pairs: Sequence[int], best: _Row) -> None:
    """Writes the maximum of the values over some pairs of poses into `best`."""
    np.copyto(best, values[pairs[0]])
    for pair in pairs[1:]:
        np.maximum(best, values[pair], out=best)


def _back_up(
    model: JointModel,
    pair: int,
    after: _Rows,
    stage: _Rows,
    before: _Row,
    spare: _Rows,
) -> None:
    """Computes the values of all states with one pair of poses: the maximum over all joint actions.

    Within a `Choice`, the next poses do not depend on the objects, and the next objects do not
    depend on the next poses. So the maximum over next poses is taken first, and the objects are
    looked up once.

    **Arguments:**

    - `model`: the joint model.
    - `pair`: the index of the pair of poses.
    - `after`: the values with one step less to go.
    - `stage`: for each pair of poses, the maximum of `after` over the moves of the second cook
        while the first cook stays.
    - `before`: the values to compute, which are written in place.
    - `spare`: memory for two rows.
    """
    best, found = spare
    before[:] = 0
    for choice in model.choices[pair]:
        _best_of(stage if choice.staged else after, choice.sources, best)
        for table in choice.tables:
            blocks = found.reshape(-1, table.block)  # a view, so writing to it fills `found`
            next_blocks = best.reshape(-1, table.block)
            # The default mode would fill a buffer first, and then copy it to `out`.
            np.take(next_blocks, table.next, axis=0, out=blocks, mode="clip")
            if table.reward is not None:
                blocks += table.reward[:, None]
            np.maximum(before, found, out=before)


# The plan.


class _Front(NamedTuple):
    """The joint states that can be reached in some number of steps.

    - `key`: the index of each state, in ascending order.
    - `reward`: the largest total reward on a path to the state, in units.
    - `parent`: the position of the state before it on this path, in the previous front.
    - `action`: the joint action that leads from there to the state, as `6 * first + second`.
    """

    key: Int[np.ndarray, " states"]
    reward: Int[np.ndarray, " states"]
    parent: Int[np.ndarray, " states"]
    action: Int[np.ndarray, " states"]


def trace(
    model: JointModel,
    horizon: int,
    layers: Layers,
    report: Callable[[int], None] = lambda steps: None,
) -> Int[np.ndarray, "steps 2"]:
    """Finds a plan with the optimal return.

    The plan is built in segments, each from one stored layer to the next. For a segment, the
    function lists all states that can be reached at its end, and chooses the state with the largest
    sum of its value and the reward on the path to it.

    **Arguments:**

    - `model`: the joint model of the kitchen, which must not be relaxed.
    - `horizon`: the number of steps.
    - `layers`: the layers that `solve` stored.
    - `report`: a callback that is called with the number of steps to go.

    **Returns:** the actions of both cooks in each step.
    """
    pair, objects = model.start
    key, left, plan = pair * model.num_objects + objects, horizon, []
    while left:
        goal = (left - 1) // _SPACING * _SPACING
        start_values = layers[left] if left % _SPACING == 0 else None
        end_values = layers[goal] if goal else None
        key, actions = _trace_segment(model, key, left - goal, start_values, end_values)
        plan += actions
        left = goal
        report(left)
    return np.stack(np.divmod(np.asarray(plan), 6), axis=1)


def _trace_segment(
    model: JointModel,
    key: int,
    steps: int,
    start_values: Values | None,
    end_values: Values | None,
) -> tuple[int, list[int]]:
    """Finds one segment of an optimal plan.

    **Arguments:**

    - `model`: the joint model.
    - `key`: the index of the state at the start of the segment.
    - `steps`: the number of steps in the segment.
    - `start_values`, `end_values`: the layers at the start and the end, if they are stored.

    **Returns:** the index of the state at the end, and the actions.
    """
    zero = np.zeros(1, np.int64)
    fronts = [_Front(zero + key, zero, zero, zero)]
    for _ in range(steps):
        front = _advance(model, fronts[-1])
        if start_values is not None:
            # A value does not increase with fewer steps to go, so `start_values` are upper bounds
            # for later states: keep only the states from which the optimum can still be reached.
            optimum = int(start_values.reshape(-1)[key])
            kept = front.reward + _look_up(start_values, front.key) >= optimum
            front = _Front(*(x[kept] for x in front))
        fronts.append(front)
    last = fronts[-1]
    total = last.reward + (0 if end_values is None else _look_up(end_values, last.key))
    position = int(total.argmax())
    key, actions = int(last.key[position]), []
    for front in reversed(fronts[1:]):
        actions.append(int(front.action[position]))
        position = int(front.parent[position])
    return key, actions[::-1]


def _look_up(values: Values, key: Int[np.ndarray, " states"]) -> Int[np.ndarray, " states"]:
    return values.reshape(-1)[key].astype(np.int64)


def _advance(model: JointModel, front: _Front) -> _Front:
    """All states that can be reached one step later, each by the path with the largest reward."""
    pairs, objects = np.divmod(front.key, model.num_objects)
    found: list[tuple[np.ndarray, ...]] = []
    for pair in np.unique(pairs):
        begin, end = np.searchsorted(pairs, [pair, pair + 1])
        parent = np.arange(begin, end)
        for choice in model.choices[int(pair)]:
            table = choice.tables[0]  # the only one, since the model is not relaxed
            block, rest = np.divmod(objects[begin:end], table.block)
            after = table.next[block] * table.block + rest
            reward = front.reward[begin:end]
            if table.reward is not None:
                reward = reward + table.reward[block]
            for next_pair, (first, second) in zip(choice.pairs, choice.actions, strict=True):
                action = np.full_like(parent, 6 * first + second)
                found.append((next_pair * model.num_objects + after, reward, parent, action))
    key, reward, parent, action = (np.concatenate(x) for x in zip(*found, strict=True))
    # Sort by state, then by descending reward, and keep the first path to each state.
    order = np.lexsort((-reward, key))
    kept = order[np.concatenate([[True], np.diff(key[order]) > 0])]
    return _Front(key[kept], reward[kept], parent[kept], action[kept])
