"""The best plans that are known, as they are kept with the package, and what they earn."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int32, PyTree, Shaped

from ...grid import GridWorld, World
from ._layouts import REFERENCE_NAMES

PLANS_FILE = Path(__file__).parent / "plans.json"
"""Where the plans that are kept with the package are."""


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What two cooks do from the start of an episode to its end, and what that earns.

    - `layout`, `dynamics`, `horizon`: where it is played.
    - `counters`: `(row, col)` of the counters that the search could use.
    - `value`: what it earns: the best possible return with no other counters in use.
    - `upper`: a proven upper bound of the return with all counters in use; `None` where there is
        none. Where it is the value, the plan is the best of all.
    - `actions`: the actions of each cook, as digits.
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
        """Reads what `to_dict` wrote."""
        counters = tuple((row, col) for row, col in entries["counters"])
        first, second = entries["actions"]
        return cls(**{**entries, "counters": counters, "actions": (first, second)})

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return dataclasses.asdict(self)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.layout, self.dynamics, self.horizon

    @property
    def is_best(self) -> bool:
        """Whether it is proven that nothing earns more."""
        return self.upper == self.value

    def joint_actions(self) -> Int32[Array, "steps 2"]:
        """The actions for the environment."""
        columns = [[int(digit) for digit in digits] for digits in self.actions]
        return jnp.asarray(np.asarray(columns, np.int32).T)


@functools.cache
def stored_plans() -> dict[tuple[str, str, int], Plan]:
    """The plans that are kept with the package, by layout, dynamics and horizon."""
    entries = json.loads(PLANS_FILE.read_text(encoding="utf-8"))
    plans = [Plan.from_dict(entry) for entry in entries]
    return {plan.key: plan for plan in plans}


def best_known_return(layout: str, dynamics: str, horizon: int) -> float | None:
    """What the stored plan of a kitchen, by either of its names, earns, if there is one."""
    plan = stored_plans().get((REFERENCE_NAMES.get(layout, layout), dynamics, horizon))
    return None if plan is None else plan.value


@eqx.filter_jit
def replay(
    env: GridWorld, actions: Int[Array, "steps agents"]
) -> tuple[PyTree[Shaped[Array, "..."]], Float32[Array, " steps"]]:
    """Plays actions in a kitchen, from the layout's own start.

    **Returns:** the states before each step, and what the team earned in it.
    """

    def step(world: World, action: Int[Array, " agents"]) -> tuple[World, tuple[World, Array]]:
        timestep, after = env.step(jax.random.key(0), world, action)
        return after, (world, timestep.reward[0])

    return jax.lax.scan(step, env.layout.start, actions)[1]
