"""The best possible return with a partner whose action probabilities are known, by value iteration.

With a partner that has no memory, the game of the other cook is a Markov decision process over the
joint states of a `JointModel`. The value of a state with `n` steps to go is the largest, over the
cook's own actions, of the expected reward of the step and the expected value after it, over the
actions of the partner: `V(n, s) = max_a sum_b p(b | n, s) (r(s, a, b) + V(n - 1, s'))`.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, UInt8

from ....grid import World
from .._overcooked import INTERACT
from ._joint_model import JointModel, Outcome, Table

_ACTIONS = INTERACT + 1
_BATCH = 4096

ChanceTable: TypeAlias = Float32[np.ndarray, "pairs actions objects"]
"""The probability of each action of a partner in each joint state."""


def tabulate(
    model: JointModel,
    chances: Callable[[World], Float[Array, " actions"]],
    time: int = 0,
    report: Callable[[int], None] = lambda pairs: None,
) -> ChanceTable:
    """The action probabilities of a partner in all joint states.

    **Arguments:**

    - `model`: the joint states, all of which are kept apart (`whole`).
    - `chances`: the probability of each action of the partner in a state of `model.env`.
    - `time`: the number of steps before the states.
    - `report`: a callback that is called with the number of pairs of poses that are done.

    **Returns:** the probabilities.

    **Raises:** `ValueError` if `model` is not whole.
    """
    if not model.whole:
        raise ValueError(
            "The partner may act differently in states that this model merges: use whole=True."
        )
    found = np.empty((model.num_pairs, _ACTIONS, model.num_objects), np.float32)
    for pair in range(model.num_pairs):
        for begin in range(0, model.num_objects, _BATCH):
            own = np.arange(begin, min(begin + _BATCH, model.num_objects))
            padded = np.resize(own, _BATCH)  # so that only one size is compiled
            worlds = model.worlds(pair, padded)
            worlds.time[:] = time
            found[pair, :, own] = np.asarray(_ask(chances, worlds))[: len(own)]
        report(pair + 1)
    return found


@eqx.filter_jit
def _ask(
    chances: Callable[[World], Float[Array, " actions"]], worlds: World
) -> Float[Array, "worlds actions"]:
    return jax.vmap(chances)(jax.tree.map(jnp.asarray, worlds))


@final
class BestResponse:
    """The best possible return with a partner, and the actions with this return.

    **Arguments:**

    - `model`: the joint states, all of which are kept apart (`whole`). The response does not use
        the counters that are not among its `cells`, and the partner's interactions with them count
        as staying.
    - `seat`: the seat of the response; the partner has the other one.
    - `file`: an empty file in which the actions are kept, open for reading and writing: one byte
        for each state and step. Without it, only the value is found.
    """

    def __init__(self, model: JointModel, seat: int, file: IO[bytes] | None = None):
        self.model, self.seat = model, seat
        self._file, self._steps = file, 0
        plans = [model.outcomes(pair) for pair in range(model.num_pairs)]
        # The outcome of each own action with each action of the partner.
        self._plans = [(rows, which if seat == 0 else which.T) for rows, which in plans]
        stay = model.step(0, (0, 0))[1]  # the effect of time on the objects, equal for all poses
        self._time = stay
        self._shape = (model.num_pairs, model.num_objects)
        self.values = np.zeros(self._shape, np.float32)
        self._after, self._ticked = self.values, np.empty_like(self.values)

    @staticmethod
    def bytes_of(model: JointModel) -> int:
        """The memory of a search with a partner that does not observe the time."""
        return model.num_states * (4 * (3 + _ACTIONS) + 1)

    def solve(
        self,
        chances: Callable[[int], ChanceTable | Float[np.ndarray, " actions"]],
        horizon: int,
        report: Callable[[int], None] = lambda steps: None,
        threads: int = 2,
        own: Callable[[int], ChanceTable] | None = None,
    ) -> float:
        """Finds the best responses for all numbers of steps up to `horizon`; or, with `own`, the
        expected return of two partners.

        **Arguments:**

        - `chances`: the action probabilities of the partner by the number of steps to go, in each
            state, or for all states.
        - `horizon`: the number of steps of an episode.
        - `report`: a callback that is called after each step with the number of steps to go.
        - `threads`: the number of rows of states that are computed at the same time.
        - `own`: the action probabilities of a cook that acts instead of the response.

        **Returns:** the largest expected return of the team from the initial state.

        **Raises:** `OSError` when the disk is full.
        """
        with ThreadPoolExecutor(threads) as pool:
            after, before = self.values, np.empty_like(self.values)
            best = np.empty(self._shape, np.uint8)
            for steps in range(1, horizon + 1):
                now, drawn = chances(steps), None if own is None else own(steps)
                self._after = after
                _look_up(after, self._time, 1.0, self._ticked)

                def one(
                    pair: int,
                    now: np.ndarray = now,
                    drawn: np.ndarray | None = drawn,
                    before: np.ndarray = before,
                ) -> None:
                    partner = now[pair] if now.ndim > 1 else now
                    if drawn is None:
                        self._back_up(pair, partner, before[pair], best[pair])
                    else:
                        self._expect(pair, partner, drawn[pair], before[pair])

                list(pool.map(one, range(self.model.num_pairs), chunksize=16))
                if self._file is not None:
                    best.tofile(self._file)
                after, before = before, after
                report(steps)
        if self._file is not None:
            self._file.flush()
        self.values, self._steps = after, horizon
        return float(after[self.model.start])

    def act(self, steps: int, states: Int[np.ndarray, "worlds 2"]) -> UInt8[np.ndarray, " worlds"]:
        """The actions of the response.

        **Arguments:**

        - `steps`: the number of steps to go.
        - `states`: the joint states, as `JointModel.locate_all` returns them.

        **Raises:** `ValueError` when no file was given, or it has fewer steps.
        """
        if self._file is None or not 1 <= steps <= self._steps:
            raise ValueError("The actions were not kept: give a file, and solve for more steps.")
        offset = (steps - 1) * math.prod(self._shape)
        kept = np.memmap(self._file, np.uint8, "r", offset, self._shape)
        return kept[states[:, 0], states[:, 1]]

    def _back_up(
        self,
        pair: int,
        chances: Float[np.ndarray, "actions *objects"],
        before: Float32[np.ndarray, " objects"],
        best: UInt8[np.ndarray, " objects"],
    ) -> None:
        """Computes the values and actions of all states with one pair of poses, in place."""
        may_use = self.model.may_use(pair, self.seat)
        for own, total in self._totals(pair, chances):
            if own == 0:
                before[:], best[:] = total, 0
            elif own != INTERACT or may_use:
                best[total > before] = own
                np.maximum(before, total, out=before)

    def _expect(
        self,
        pair: int,
        chances: Float[np.ndarray, "actions *objects"],
        drawn: Float[np.ndarray, "actions objects"],
        before: Float32[np.ndarray, " objects"],
    ) -> None:
        """Computes the expected values of all states with one pair of poses, in place."""
        before[:] = 0
        for own, total in self._totals(pair, chances):
            before += drawn[own] * total

    def _totals(
        self, pair: int, chances: Float[np.ndarray, "actions *objects"]
    ) -> Iterator[tuple[int, Float32[np.ndarray, " objects"]]]:
        """Each own action with its expected value, in an array that the next one overwrites."""
        rows, which = self._plans[pair]
        values = [self._values_after(row) for row in rows]
        total, part = np.empty((2, self.model.num_objects), np.float32)
        for own in range(_ACTIONS):
            np.multiply(values[which[own, 0]], chances[0], out=total)
            for other in range(1, _ACTIONS):
                np.multiply(values[which[own, other]], chances[other], out=part)
                np.add(total, part, out=total)
            yield own, total

    def _values_after(self, row: Outcome) -> Float32[np.ndarray, " objects"]:
        if row.table is self._time:
            return self._ticked[row.pair]
        out = np.empty_like(self._after[row.pair])
        _look_up(self._after[row.pair][None], row.table, self.model.unit, out[None])
        return out


def _look_up(
    after: Float32[np.ndarray, "pairs objects"],
    table: Table,
    unit: float,
    out: Float32[np.ndarray, "pairs objects"],
) -> None:
    """The values after a step, plus its reward, for rows of states."""
    for own, into in zip(after, out, strict=True):
        blocks = into.reshape(-1, table.block)
        np.take(own.reshape(-1, table.block), table.next, axis=0, out=blocks, mode="clip")
        if table.reward is not None:
            blocks += np.float32(unit) * table.reward.astype(np.float32)[:, None]
