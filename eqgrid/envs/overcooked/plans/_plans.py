"""Optimal plans from every joint state (`PlanTable`), and the best known plans of whole episodes,
which are stored with the package (`Plan`).
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int32, Shaped

from ....grid import AbstractGridWorld, World
from ....typing import PyTree
from .._overcooked import INTERACT
from ..layouts import REFERENCE_NAMES
from ._best_plan import StepsNeeded, solve, solve_discounted
from ._joint_model import JointModel

_ACTIONS = INTERACT + 1
_TOLERANCE = 1e-4  # scores that differ by less are ties


@final
class PlanTable:
    """Optimal joint actions for every joint state and every number of remaining steps.

    If there is time to spare, several joint actions are optimal. The table then chooses the first
    optimal action with the largest discounted return, so that cooks do not waste time. The choice
    depends only on the state and the steps to go, so two cooks that use the table agree.

    **Arguments:**

    - `model`: the joint states.
    - `horizon`: the largest number of steps to go.
    - `discount`: the discount of a step in the choice among optimal actions.
    - `report`: called after each pass over all states, with the number of passes so far.

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
        self._discounted = solve_discounted(model, discount, lambda n: report(horizon + n))
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
            joint, values[own] = self._choose(int(pair), steps[own] - 1, states[own, 1])
            actions[own] = np.stack(np.divmod(joint, _ACTIONS), axis=1)
        return actions, values * self.model.unit

    def _choose(
        self, pair: int, left: Int[np.ndarray, " states"], objects: Int[np.ndarray, " states"]
    ) -> tuple[Int[np.ndarray, " states"], Float[np.ndarray, " states"]]:
        """The joint actions, as `6 * first + second`, and the values in units, in states with one
        pair of poses.

        **Arguments:**

        - `pair`: the index of the pair of poses.
        - `left`: the number of steps to go after this step.
        - `objects`: the index of the set of objects.
        """
        best = np.full(len(objects), -1.0)
        action, values = np.zeros(len(objects), np.int64), np.zeros(len(objects))
        for outcome in self._outcomes(pair):
            table = outcome.table
            block, rest = np.divmod(objects, table.block)
            after = table.next[block] * table.block + rest
            reward = 0.0 if table.reward is None else table.reward[block].astype(float)
            value = reward + self._needed.values(left, outcome.pair, after)
            discounted = self._discounted[outcome.pair, after].astype(float)
            # The factor makes the discounted return decide only between equal values.
            score = 1e3 * value + (reward + self._discount * discounted)
            better = score > best + _TOLERANCE
            best, action = np.where(better, score, best), np.where(better, outcome.action, action)
            values = np.where(better, value, values)
        return action, values


PLANS_FILE = Path(__file__).parent / "plans.json"
"""The path of the plans that are stored with the package."""


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """The actions of two cooks in one episode, and their return.

    - `layout`, `dynamics`, `horizon`: the environment.
    - `counters`: `(row, col)` of the counters that the search could use.
    - `value`: the return of the plan, which is optimal if no other counters are used.
    - `upper`: a proven upper bound on the return with all counters in use, or `None`. If it equals
        `value`, the plan is optimal.
    - `actions`: the actions of each cook, as a string of digits.
    """

    layout: str
    dynamics: str
    horizon: int
    counters: tuple[tuple[int, int], ...]
    value: float
    upper: float | None
    actions: tuple[str, str]

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "Plan":
        """Builds a plan from the output of `to_dict`."""
        counters = tuple((row, col) for row, col in entries["counters"])
        first, second = entries["actions"]
        return cls(**{**entries, "counters": counters, "actions": (first, second)})

    def to_dict(self) -> dict[str, object]:
        """The plan as plain values, for JSON."""
        return dataclasses.asdict(self)

    @property
    def key(self) -> tuple[str, str, int]:
        """The layout, dynamics and horizon of the plan."""
        return self.layout, self.dynamics, self.horizon

    @property
    def is_best(self) -> bool:
        """Whether the plan is proven to be optimal."""
        return self.upper == self.value

    def joint_actions(self) -> Int32[Array, "steps 2"]:
        """The actions of both cooks in each step, as integers."""
        columns = [[int(digit) for digit in digits] for digits in self.actions]
        return jnp.asarray(np.asarray(columns, np.int32).T)


@functools.cache
def stored_plans() -> dict[tuple[str, str, int], Plan]:
    """The plans that are stored with the package, by layout, dynamics and horizon."""
    entries = json.loads(PLANS_FILE.read_text(encoding="utf-8"))
    plans = [Plan.from_dict(entry) for entry in entries]
    return {plan.key: plan for plan in plans}


def best_known_return(layout: str, dynamics: str, horizon: int) -> float | None:
    """The return of the stored plan for a kitchen, or `None` if there is no such plan.

    **Arguments:**

    - `layout`: the short name of the kitchen, or its name in Overcooked-AI.
    - `dynamics`, `horizon`: as in `Overcooked`.
    """
    plan = stored_plans().get((REFERENCE_NAMES.get(layout, layout), dynamics, horizon))
    return None if plan is None else plan.value


@eqx.filter_jit
def replay(
    env: AbstractGridWorld, actions: Int[Array, "steps agents"]
) -> tuple[PyTree[Shaped[Array, "..."]], Float32[Array, " steps"]]:
    """Plays actions in a kitchen, from the default initial state of the layout.

    **Returns:** the states before each step, and the team reward of each step.
    """

    def step(world: World, action: Int[Array, " agents"]) -> tuple[World, tuple[World, Array]]:
        timestep, after = env.step(jax.random.key(0), world, action)
        return after, (world, timestep.reward[0])

    return jax.lax.scan(step, env.layout.start, actions)[1]
