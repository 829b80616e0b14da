"""The best possible return with a partner whose action probabilities are known, by value iteration.

If the partner has no memory, the game of the other cook is a Markov decision process over the joint
states of a `JointModel`. The value of a state `s` with `n` steps to go is
`V(n, s) = max_a sum_b p(b | n, s) (r(s, a, b) + V(n - 1, s'))`, with the cook's own action `a`, the
partner's action `b` and the next state `s'`.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, UInt8

from eqgrid.envs.overcooked import INTERACT
from eqgrid.grid import World

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
    """Computes the action probabilities of a partner in all joint states.

    **Arguments:**

    - `model`: the joint states; it must be built with `whole=True`.
    - `chances`: the probability of each action of the partner in a state of `model.env`.
    - `time`: the number of steps of the episode before each state.
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
            # NumPy puts the axis of `own` first, since a slice separates the two indices.
            found[pair, :, own] = np.asarray(_call_on_all(chances, worlds))[: len(own)]
        report(pair + 1)
    return found


@eqx.filter_jit
def _call_on_all(
    chances: Callable[[World], Float[Array, " actions"]], worlds: World
) -> Float[Array, "worlds actions"]:
    return jax.vmap(chances)(jax.tree.map(jnp.asarray, worlds))


@final
class BestResponse:
    """The best possible return with a partner, and the actions with this return.

    **Arguments:**

    - `model`: the joint states; it must be built with `whole=True`. Counters that are not among its
        `cells` are not used: the response does not interact with them, and the partner's
        interactions with them count as staying.
    - `seat`: the seat of the response; the partner has the other seat.
    - `file`: an empty file for the actions, open for reading and writing, with one byte for each
        state and step. Without a file, only the values are computed.

    **Raises:** `RuntimeError` as `JointModel.check`.
    """

    def __init__(self, model: JointModel, seat: int, file: IO[bytes] | None = None):
        model.check()
        self.model, self.seat = model, seat
        self._file, self._steps = file, 0
        outcomes = [model.outcomes(pair) for pair in range(model.num_pairs)]
        # For each pair of poses: the outcomes, and their indices as `[own action, partner's]`.
        self._outcomes = [(found, index if seat == 0 else index.T) for found, index in outcomes]
        # The table of a step in which no cook interacts is the same for all poses.
        self._waiting = outcomes[0][0][0].table
        self._shape = (model.num_pairs, model.num_objects)
        self.values = np.zeros(self._shape, np.float32)
        # `_after` has the values after the current step of `solve`. `_after_waiting` has the same
        # values by the objects before a step in which no cook interacts.
        self._after, self._after_waiting = self.values, np.empty_like(self.values)

    @staticmethod
    def bytes_of(model: JointModel) -> int:
        """The memory of a search, in bytes, if the partner has the same table in every step."""
        return model.num_states * (4 * (3 + _ACTIONS) + 1)

    def solve(
        self,
        chances: Callable[[int], ChanceTable],
        horizon: int,
        report: Callable[[int], None] = lambda steps: None,
        own: Callable[[int], ChanceTable] | None = None,
    ) -> float:
        """Finds the best response for each number of steps to go up to `horizon`. With `own`, both
        cooks are given, and nothing is maximised. It may be called once.

        **Arguments:**

        - `chances`: a function of the number of steps to go that returns the action probabilities
            of the partner.
        - `horizon`: the number of steps of an episode.
        - `report`: a callback that is called after each step with the number of steps to go.
        - `own`: the same for a cook in the seat of the response; `None` for the best response.
            There must be no `file` then.

        **Returns:** the largest expected return of the team from the initial state; with `own`, the
        expected return.

        **Raises:** `OSError` when the disk is full.
        """
        with ThreadPoolExecutor(2) as pool:
            after, before = self.values, np.empty_like(self.values)
            best = np.empty(self._shape, np.uint8)
            for steps in range(1, horizon + 1):
                self._after = after
                _look_up(after, self._waiting, 1.0, self._after_waiting)
                own_chances = itertools.repeat(None) if own is None else own(steps)
                rows = (chances(steps), own_chances, before, best)
                list(pool.map(self._back_up, range(self.model.num_pairs), *rows))
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
        - `states`: the joint states, as `JointModel.locate` returns them.

        **Raises:** `ValueError` when no file was given, or `solve` was called with fewer steps.
        """
        if self._file is None or not 1 <= steps <= self._steps:
            raise ValueError("The actions were not kept: give a file, and solve for more steps.")
        offset = (steps - 1) * math.prod(self._shape)
        stored = np.memmap(self._file, np.uint8, "r", offset, self._shape)
        return stored[states[:, 0], states[:, 1]]

    def _back_up(
        self,
        pair: int,
        chances: Float32[np.ndarray, "actions objects"],
        own_chances: Float32[np.ndarray, "actions objects"] | None,
        before: Float32[np.ndarray, " objects"],
        best: UInt8[np.ndarray, " objects"],
    ) -> None:
        """Computes the values and the best actions of all states with one pair of poses, and writes
        them into `before` and `best`. With `own_chances`, the values are means over own actions.
        """
        before[:], best[:] = 0, 0
        for action, expected in self._expected_values(pair, chances):
            if own_chances is not None:
                before += own_chances[action] * expected
            else:
                best[expected > before] = action
                np.maximum(before, expected, out=before)

    def _expected_values(
        self, pair: int, chances: Float32[np.ndarray, "actions objects"]
    ) -> Iterator[tuple[int, Float32[np.ndarray, " objects"]]]:
        """Each own action with its expected values. The array is reused, so its values are valid
        only until the next action.
        """
        outcomes, index = self._outcomes[pair]
        values = [self._values_after(outcome) for outcome in outcomes]
        total, part = np.empty((2, self.model.num_objects), np.float32)
        for own in range(_ACTIONS):
            np.multiply(values[index[own, 0]], chances[0], out=total)
            for other in range(1, _ACTIONS):
                np.multiply(values[index[own, other]], chances[other], out=part)
                np.add(total, part, out=total)
            yield own, total

    def _values_after(self, outcome: Outcome) -> Float32[np.ndarray, " objects"]:
        """The rewards and later values of an outcome, by the objects before the step."""
        if outcome.table is self._waiting:  # `JointModel` builds each table once
            return self._after_waiting[outcome.pair]
        out = np.empty_like(self._after[outcome.pair])
        _look_up(self._after[outcome.pair][None], outcome.table, self.model.unit, out[None])
        return out


def _look_up(
    after: Float32[np.ndarray, "pairs objects"],
    table: Table,
    unit: float,
    out: Float32[np.ndarray, "pairs objects"],
) -> None:
    """Writes the reward of a step plus the values `after` it into `out`, by the objects before the
    step. A row has the states with one pair of poses after the step.
    """
    for source, target in zip(after, out, strict=True):
        blocks = target.reshape(-1, table.block)  # a view, so writing to it fills `target`
        np.take(source.reshape(-1, table.block), table.next, axis=0, out=blocks, mode="clip")
        if table.reward is not None:
            blocks += np.float32(unit) * table.reward.astype(np.float32)[:, None]
