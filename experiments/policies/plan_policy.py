"""Teaches a network the actions of an optimal plan of a kitchen, and writes it as a policy file.

python experiments/policies/plan_policy.py ring
python experiments/policies/plan_policy.py asymmetric --counters 1,2
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import jax
import tyro
from msgspec import Meta
from rich.console import Console

from eqgrid_lab import Kitchen
from agents import MLP, AbstractNetwork
from eqgrid.envs.overcooked import REFERENCE_NAMES
from eqgrid.envs.overcooked.plans import JointModel, PlanTable
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import (
    RunError,
    Table,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    run_command,
)
from eqgrid_lab.folders import open_results
from eqgrid_lab.plans import (
    Comparison,
    Distillation,
    Played,
    compare_with_plan,
    plan_teacher,
    sharpened,
    write_taught,
)
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import mean_with_interval, print_paths, print_table, progress
from eqgrid_lab.worlds import build_one_kitchen, read_counters

SCRIPT = "experiments/policies/plan_policy.py"
_GIB = 2**30
# `PlanTable` chooses among optimal actions by discounted returns.
_MAX_PASSES = 1000  # over all states, to compute the discounted returns
_BYTES_PER_STATE = 12  # of three arrays of discounted returns
_STEPS_PER_SOUP = 15  # at least; each additional soup needs 2 bytes per joint state


@dataclasses.dataclass(frozen=True)
class Config:
    """Teaches a network the actions of an optimal plan, and compares its returns with the plan."""

    layout: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="LAYOUT")]] = "cramped"
    """cramped, asymmetric, ring, forced, circuit, the name of another layout, or a file."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Annotated[int, Meta(ge=2, le=10_000)] = 400
    """Length of the episode, in steps."""
    counters: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COL ...")] = ()
    """Counters that cooks may use, each as row,column from 0; or all."""
    observation: Literal["timed_features", "features"] = "timed_features"
    """Observation of the network."""
    width: Annotated[int, Meta(ge=1, le=2**12)] = 256
    """Units per hidden layer."""
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 60
    """Rounds of playing games and learning from all of them."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    """Seed of the network and of the games."""
    sharpness: Annotated[float, Meta(gt=0)] = 10.0
    """Factor of the outputs in the file, so that sampled actions are the most probable ones."""
    memory_gib: Annotated[float, Meta(gt=0)] = 8.0
    """Maximum memory for the values of joint states, in GiB."""
    video: bool = True
    """Write a video."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def teach(
    config: Config, world: AbstractGridWorld, console: Console
) -> tuple[AbstractNetwork, Comparison, Played, Table]:
    """Finds the optimal plan of the kitchen, and teaches it to a network.

    **Returns:** the network, its comparison with the plan, its game, and the numbers of the search.

    **Raises:** `UsageError` when the search needs too much memory.
    """
    begin, counters = time.perf_counter(), read_counters(config.counters, world)
    with as_usage_error():
        model = JointModel(world, counters)
    most_soups = config.horizon / _STEPS_PER_SOUP
    needed = model.num_bytes + model.num_states * (_BYTES_PER_STATE + 2 * most_soups)
    if needed > config.memory_gib * _GIB:
        raise UsageError(
            f"The values of {model.num_states:,} joint states need {needed / _GIB:.3g} GiB of "
            "memory: raise --memory-gib, or use fewer counters."
        )
    console.print(f"{model.num_states:,} joint states", highlight=False)
    key = jax.random.key(config.seed)
    size = world.reset(key)[0].shape[-1]
    network = MLP((size,), 6, width=config.width, activation="relu", key=key)
    with progress(console, "searching", config.horizon + _MAX_PASSES) as report:
        table = PlanTable(model, config.horizon, report=report)
    console.print(f"the best possible return is {table.value:g}", highlight=False)
    seconds = time.perf_counter() - begin
    with progress(console, "teaching", config.rounds) as report:
        network = Distillation(config.rounds).teach(
            world, plan_teacher(table), network, key, lambda number, *_: report(number)
        )
    network = sharpened(network, config.sharpness)
    comparison, played = compare_with_plan(world, table, network, key)
    search = {
        "counters": counters,
        "value": table.value,
        "joint_states": model.num_states,
        "search_seconds": round(seconds, 1),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    return network, comparison, played, search


def describe(comparison: Comparison, value: float) -> Table:
    """The returns of a network for the output files.

    - `comparison`: the comparison of the network with the plan.
    - `value`: the best possible return.
    """
    optimal = comparison.returns >= comparison.possible - 1e-3
    return {
        "greedy": comparison.greedy,
        "sampled": mean_with_interval(comparison.sampled),
        "with_random_actions": mean_with_interval(comparison.noisy),
        "plan_with_random_actions": mean_with_interval(comparison.plan_noisy),
        "share_of_the_best": comparison.greedy / value if value else None,
        "share_off_the_plan": comparison.share,
        "as_good_as_possible_off_the_plan": float(optimal.mean()),
    }


def show(console: Console, numbers: Table) -> None:
    """Prints the returns of a network."""
    rows = [
        ("best possible return", f"{numbers['value']:g}"),
        ("network, most probable actions", f"{numbers['greedy']:g}"),
        ("network, sampled actions", f"{numbers['sampled']['mean']:.1f}"),
        ("network, 10% random actions", f"{numbers['with_random_actions']['mean']:.1f}"),
        ("plan, 10% random actions", f"{numbers['plan_with_random_actions']['mean']:.1f}"),
        ("network off the plan, share of the best", f"{numbers['share_off_the_plan']:.1%}"),
    ]
    print_table(console, ("", ""), rows)


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, SCRIPT)
    layout = REFERENCE_NAMES.get(config.layout, config.layout)
    kitchen = Kitchen(
        layout=layout,
        dynamics=config.dynamics,
        horizon=config.horizon,
        observation=config.observation,
    )
    world = build_one_kitchen(kitchen, "A plan is found")
    keep_compiled_programs()
    with open_results("plan-policy", config.out) as (folder, console):
        try:
            network, comparison, played, search = teach(config, world, console)
        except ValueError as error:
            raise RunError(str(error)) from error
        numbers = {"layout": layout, **search, **describe(comparison, search["value"])}
        show(console, numbers)
        paths = write_taught(
            folder,
            (SCRIPT, *args),
            kitchen,
            network,
            config.width,
            numbers,
            {"plan": numbers},
            (world, played) if config.video else None,
        )
        print_paths(console, paths)


if __name__ == "__main__":
    run_command(run, memory="--rounds")
