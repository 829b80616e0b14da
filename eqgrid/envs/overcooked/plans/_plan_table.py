"""The actions of optimal plans in all joint states, with any number of steps to go."""

import functools
from collections.abc import Callable
from typing import final

import numpy as np
from jaxtyping import Float, Int

from .._overcooked import INTERACT
from ._best_plan import StepsNeeded, solve, solve_discounted
from ._joint_model import JointModel

_ACTIONS = INTERACT + 1
_EVEN = 1e-4  # values that differ by less are equal


@final
class PlanTable:
    """The joint action of an optimal plan in every joint state, with any number of steps to go.

    Many joint actions are optimal where there is time to spare. One of them is chosen in every
    state: the first one with the largest discounted return, so that cooks do not dawdle. It depends
    on nothing else, so two cooks who both choose by it agree.

    **Arguments:**

    - `model`: the joint states.
    - `horizon`: the largest number of steps to go.
    - `discount`: the discount of a step in the choice among optimal actions.
    - `report`: a callback that is called after each pass over all states with their number.

    **Raises:** `ValueError` as `solve`.
    """

    def __init__(
        self,
        model: JointModel,
        horizon: int,
        *,
        discount: float = 0.98,
        report: Callable[[int], None] = lambda passes: None,
    ):
        self.model, self.horizon, self._discount = model, horizon, discount
        self._needed = StepsNeeded(model)
        self.value = solve(model, horizon, self._needed, report)
        self._soon = solve_discounted(model, discount, lambda n: report(horizon + n))
        self._outcomes = functools.cache(lambda pair: model.outcomes(pair)[0])

    def choose(
        self, steps: Int[np.ndarray, " states"], states: Int[np.ndarray, "states 2"]
    ) -> tuple[Int[np.ndarray, "states 2"], Float[np.ndarray, " states"]]:
        """The actions in joint states, and the best possible returns from them.

        **Arguments:**

        - `steps`: the number of steps to go, at least 1.
        - `states`: the joint states, as `JointModel.locate_all` returns them.
        """
        actions, values = np.empty((len(states), 2), np.int64), np.empty(len(states))
        order = np.argsort(states[:, 0], kind="stable")
        pairs, begins = np.unique(states[order, 0], return_index=True)
        for pair, own in zip(pairs, np.split(order, begins[1:]), strict=True):
            number, values[own] = self._choose(int(pair), steps[own] - 1, states[own, 1])
            actions[own] = np.stack(np.divmod(number, _ACTIONS), axis=1)
        return actions, values * self.model.unit

    def _choose(
        self, pair: int, left: Int[np.ndarray, " states"], objects: Int[np.ndarray, " states"]
    ) -> tuple[Int[np.ndarray, " states"], Float[np.ndarray, " states"]]:
        """The joint action, as `6 * first + second`, and the value, from one pair of poses."""
        best = np.full(len(objects), -1.0)
        number, values = np.zeros(len(objects), np.int64), np.zeros(len(objects))
        for outcome in self._outcomes(pair):
            after, table = outcome.pair, outcome.table
            block, rest = np.divmod(objects, table.block)
            then = table.next[block] * table.block + rest
            paid = 0.0 if table.reward is None else table.reward[block].astype(float)
            later = self._needed.values(left, after, then)
            soon = paid + self._discount * self._soon[after, then].astype(float)
            ranked = 1e3 * (paid + later) + soon
            better = ranked > best + _EVEN
            best, number = np.where(better, ranked, best), np.where(better, outcome.action, number)
            values = np.where(better, paid + later, values)
        return number, values
