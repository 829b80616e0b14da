"""Finds the best possible return of a kitchen with two cooks, and writes a plan and a video of it.

python experiments/optimum.py forced --counters 1,2 2,2
"""

import dataclasses
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from eqgrid_lab import Kitchen
from eqgrid_lab.base import (
    RunError,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    run_command,
)
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import drawing, progress, running_return
from eqgrid_lab.worlds import build_one_kitchen, read_counters
import jax.numpy as jnp
import numpy as np
import tyro
from msgspec import Meta
from rich.console import Console

from agents import write_atomic
from eqgrid.envs.overcooked import KITCHENS, REFERENCE_NAMES, reference_layouts
from eqgrid.envs.overcooked.plans import (
    PLANS_FILE,
    JointModel,
    Layers,
    Plan,
    choose_spacing,
    reachable_counters,
    replay,
    solve,
    stored_plans,
    trace,
)
from eqgrid.grid import AbstractGridWorld

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Config:
    """Finds the best possible return of a kitchen with two cooks by dynamic programming."""

    layout: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="LAYOUT")]] = "cramped"
    """cramped, asymmetric, ring, forced, circuit, the name of another layout, or a file."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Annotated[int, Meta(ge=1, le=10_000)] = 400
    """Length of the episode, in steps."""
    counters: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COL ...")] = ()
    """Counters that cooks may use, each as row,column from 0; or all."""
    upper: bool = False
    """Also find an upper bound on the return with all counters."""
    memory_gib: Annotated[float, Meta(gt=0)] = 4.0
    """Maximum memory for the values of joint states, in GiB."""
    disk_gib: Annotated[float, Meta(gt=0)] = 16.0
    """Maximum disk space for values during the search, in GiB."""
    video: bool = True
    """Write a video."""
    store: bool = False
    """Store the plan in the package, if it improves on the stored one."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


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
    build = functools.partial(JointModel, env, counters, max_bytes=config.memory_gib * _GIB)
    uses_all = set(counters) == set(reachable_counters(env.layout))
    disk_bytes = min(config.disk_gib * _GIB, 0.9 * shutil.disk_usage(folder).free)
    with as_usage_error():
        model = build()
        relaxed = build(relaxed=True) if config.upper and not uses_all else None
        spacing = choose_spacing(model, config.horizon, disk_bytes)
    console.print(
        f"{model.num_states:,} joint states, {len(counters)} counters in use, "
        f"{model.num_bytes / _GIB:.1f} GiB of memory",
        highlight=False,
    )
    with tempfile.TemporaryFile(dir=folder) as file:
        layers = Layers(model, file, spacing)
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
    if plan.is_best:
        return f"{task}: {plan.value:g} is the best possible return"
    cells = " ".join(f"{row},{col}" for row, col in plan.counters)
    used = f"with the counters {cells} in use" if cells else "without counters in use"
    bound = "" if plan.upper is None else f"; it is at most {plan.upper:g} with all counters"
    return f"{task}: {plan.value:g} is the best possible return {used}{bound}"


def store(plan: Plan) -> bool:
    """Stores a plan in the package, unless the stored plan for the same task has at least the same
    return, and an upper bound that is at least as low.

    **Returns:** whether it was stored.
    """
    stored_plans.cache_clear()  # another process may have stored a plan in the meantime
    plans = dict(stored_plans())
    if (old := plans.get(plan.key)) is not None:
        uppers = [x for x in (old.upper, plan.upper) if x is not None]
        better = plan if plan.value > old.value else old
        plan = dataclasses.replace(better, upper=min(uppers, default=None))
        if plan == old:
            return False
    plans[plan.key] = plan
    entries = [plans[key].to_dict() for key in sorted(plans)]
    write_atomic(PLANS_FILE, (json.dumps(entries, indent=1) + "\n").encode())
    stored_plans.cache_clear()
    return True


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "experiments/optimum.py")
    layout = REFERENCE_NAMES.get(config.layout, config.layout)
    config = dataclasses.replace(config, layout=layout)
    if config.store and layout not in (*KITCHENS, *reference_layouts()):
        raise UsageError("--store keeps plans of layouts with a name: leave it out.")
    kitchen = Kitchen(layout=layout, dynamics=config.dynamics, horizon=config.horizon)
    env = build_one_kitchen(kitchen, "A plan is searched")
    counters = read_counters(config.counters, env)
    keep_compiled_programs()
    with open_results("optimum", config.out) as (folder, console):
        plan, costs = search(config, env, counters, folder, console)
        console.print(describe(plan), highlight=False, soft_wrap=True)
        write_json(folder / "plan.json", {**plan.to_dict(), **costs})
        console.print(f"plan  {folder / 'plan.json'}", highlight=False, soft_wrap=True)
        if config.video:
            actions = plan.joint_actions()
            # `replay` returns the state before each step. The last state needs one more step.
            states, rewards = replay(env, jnp.concatenate([actions, actions[-1:]]))
            scores = running_return(np.asarray(rewards[:-1]))
            with drawing(folder / "episode.gif"):
                write_atomic(folder / "episode.gif", kitchen.draw(env, states, scores))
                console.print(f"video  {folder / 'episode.gif'}", highlight=False, soft_wrap=True)
        if config.store:
            stored = store(plan)
            console.print("stored in the package" if stored else "not better than the stored plan")


if __name__ == "__main__":
    run_command(run)
