"""Finds the best possible return of a kitchen with two cooks, and writes a plan and a video of it.

eqgrid optimum forced --counters 1,2 2,2
"""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from agents import write_atomic
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import RunError, as_usage_error, keep_compiled_programs, run_command
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import drawing, progress, running_return

from .._best_plan import Layers, solve, trace
from .._joint_model import JointModel, reachable_counters
from .._plans import Plan, replay
from ._kitchen import KitchenFlags

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Config(KitchenFlags):
    """Finds the best possible return of a kitchen with two cooks by dynamic programming."""

    upper: bool = False
    """Also find an upper bound on the return with all counters."""


def search(
    config: Config,
    env: AbstractGridWorld,
    counters: tuple[tuple[int, int], ...],
    folder: Path,
    console: Console,
) -> tuple[Plan, dict[str, object]]:
    """Searches for the best plan, and checks its return in the environment.

    **Returns:** the plan, and a dict with the number of joint states, the seconds and the memory of
    the search.

    **Raises:** `UsageError` when the search needs too much memory or disk space, and `RunError`
    when the plan has another return in the environment.
    """
    begin = time.perf_counter()
    uses_all = set(counters) == set(reachable_counters(env.layout))
    relaxed = None
    with as_usage_error():
        model = JointModel(env, counters)
        config.check_room(model, model.num_bytes, Layers.bytes_of(model, config.horizon))
        if config.upper and not uses_all:
            relaxed = JointModel(env, counters, relaxed=True)
            config.check_room(relaxed, relaxed.num_bytes)
    console.print(
        f"{model.num_states:,} joint states, {len(counters)} counters in use, "
        f"{model.num_bytes / _GIB:.1f} GiB of memory",
        highlight=False,
    )
    with tempfile.TemporaryFile(dir=folder) as file:
        layers = Layers(model, file)
        with progress(console, "searching", config.horizon) as report, as_usage_error():
            value = solve(model, config.horizon, layers, report)
        with progress(console, "tracing the plan", config.horizon) as report:
            actions = trace(model, config.horizon, layers, lambda n: report(config.horizon - n))
    digits = ("".join(map(str, actions[:, 0])), "".join(map(str, actions[:, 1])))
    upper = value if uses_all else None
    plan = Plan(config.layout, config.dynamics, config.horizon, counters, value, upper, digits)
    replayed = float(np.asarray(replay(env, plan.joint_actions())[1]).sum())
    if replayed != value:
        raise RunError(f"The plan returns {replayed:g} in the environment, not {value:g}.")
    seconds = round(time.perf_counter() - begin, 1)
    if relaxed is not None:
        console.print(f"{relaxed.num_states:,} joint states for the bound", highlight=False)
        with progress(console, "bounding", config.horizon) as report, as_usage_error():
            bound = solve(relaxed, config.horizon, report=report)
        plan = dataclasses.replace(plan, upper=bound)
    memory = round(model.num_bytes / _GIB, 2)
    return plan, {"joint_states": model.num_states, "seconds": seconds, "memory_gib": memory}


def describe(plan: Plan) -> str:
    """Describes the return of a plan in one sentence: whether it is the best possible return with
    all counters, or only with some of them.
    """
    task = f"{plan.layout}, {plan.dynamics} rules, {plan.horizon} steps"
    if plan.upper == plan.value:
        return f"{task}: {plan.value:g} is the best possible return"
    cells = " ".join(f"{row},{col}" for row, col in plan.counters)
    used = f"with the counters {cells} in use" if cells else "without counters in use"
    bound = "" if plan.upper is None else f"; it is at most {plan.upper:g} with all counters"
    return f"{task}: {plan.value:g} is the best possible return {used}{bound}"


def optimum_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "eqgrid optimum")
    kitchen, env = config.kitchen()
    config = dataclasses.replace(config, layout=kitchen.layout)
    counters = config.cells(env)
    keep_compiled_programs()
    with open_results("optimum", config.out) as (folder, console):
        plan, costs = search(config, env, counters, folder, console)
        console.print(describe(plan), highlight=False, soft_wrap=True)
        write_json(folder / "plan.json", {**dataclasses.asdict(plan), **costs})
        console.print(f"plan  {folder / 'plan.json'}", highlight=False, soft_wrap=True)
        if config.video:
            actions = plan.joint_actions()
            # `replay` returns the state before each step. The last state needs one more step.
            states, rewards = replay(env, jnp.concatenate([actions, actions[-1:]]))
            scores = running_return(np.asarray(rewards[:-1]))
            with drawing(folder / "episode.gif"):
                write_atomic(folder / "episode.gif", kitchen.draw(env, states, scores))
                console.print(f"video  {folder / 'episode.gif'}", highlight=False, soft_wrap=True)
