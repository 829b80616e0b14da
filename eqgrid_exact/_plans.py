"""The best known plans of episodes, which are stored with the package."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Int32, Shaped

from eqgrid.grid import AbstractGridWorld, World
from eqgrid.typing import PyTree


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
    entries = json.loads(Path(__file__).with_name("plans.json").read_text(encoding="utf-8"))
    plans = [Plan.from_dict(entry) for entry in entries]
    return {plan.key: plan for plan in plans}


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
