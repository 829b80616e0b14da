"""The best known plans of episodes, which are stored with the package."""

import dataclasses
import functools
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
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

    def joint_actions(self) -> Int32[Array, "steps 2"]:
        """The actions of both cooks in each step, as integers."""
        columns = [[int(digit) for digit in digits] for digits in self.actions]
        return jnp.asarray(np.asarray(columns, np.int32).T)


@functools.cache
def stored_plans() -> dict[tuple[str, str, int], Plan]:
    """The plans that are stored with the package, by layout, dynamics and horizon."""
    text = Path(__file__).with_name("plans.json").read_bytes()
    plans = msgspec.json.decode(text, type=list[Plan])
    return {(plan.layout, plan.dynamics, plan.horizon): plan for plan in plans}


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
