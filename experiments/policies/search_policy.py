"""Searches for a better game than a trained policy plays, and teaches a network to play it.

python experiments/policies/search_policy.py runs/ippo-ring-0-20260101-120000

The search uses only the policy and the rules of the kitchen. The initial value of a state is the
return of the policy from this state. The search tries all joint actions in the most promising
states. The result is a policy file that all commands accept.
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from msgspec import Meta
from rich.console import Console

from eqgrid_lab import Kitchen
from agents import MLP, AbstractNetwork, PolicyPartner, StuckRule
from eqgrid.grid import AbstractGridWorld, World
from eqgrid_lab.base import PARTNERS, Table, UsageError, keep_compiled_programs, run_command
from eqgrid_lab.folders import open_results
from eqgrid_lab.plans import (
    Distillation,
    Played,
    Search,
    Teacher,
    play_from,
    play_teacher,
    repeat,
    sharpened,
    write_taught,
)
from eqgrid_lab.runs import SavedPolicy, read_policy
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import mean_with_interval, print_paths, print_table, progress
from eqgrid_lab.worlds import build_one_kitchen

SCRIPT = "experiments/policies/search_policy.py"
_GAMES = 256  # in which the network plays with sampled actions
_NOISE = 0.1  # the probability of a random action in some of these games
_TIMELESS = ("features", "features96")  # observations without the time


@dataclasses.dataclass(frozen=True)
class Config:
    """Searches for a better game than a policy plays, and teaches it to a network."""

    policy: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RUN|FILE")]] = Path()
    """Folder of a run, or policy file: agents without memory, in one kitchen."""
    beam: Annotated[int, Meta(ge=1, le=2**14)] = 512
    """Number of states in which each step of the search tries all joint actions."""
    depth: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Number of steps of each search from the initial state."""
    width: Annotated[int, Meta(ge=1, le=2**12)] = 256
    """Units per hidden layer of the network."""
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = 40
    """Rounds of playing games and learning from all of them."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    """Seed of the network and of the games."""
    sharpness: Annotated[float, Meta(gt=0)] = 100.0
    """Factor of the outputs in the file, so that sampled actions are the most probable ones."""
    video: bool = True
    """Write a video."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def read(config: Config) -> tuple[SavedPolicy, Kitchen, AbstractGridWorld]:
    """Reads and checks the policy, and builds its kitchen.

    **Raises:** `UsageError` and `CheckpointError` with a sentence when the policy is not usable.
    """
    if config.policy == Path():
        raise UsageError("Name the folder of a run, or a policy file; see --help.")
    saved = read_policy(config.policy, None)
    kitchen = saved.trained_in
    if not isinstance(kitchen, Kitchen):
        raise UsageError("A search is for kitchens: name a policy that was trained in one.")
    played = saved.config.as_played(PolicyPartner(saved.policy))
    if isinstance(played, StuckRule) or saved.policy.initial_carry() is not None:
        raise UsageError(
            "The policy has a memory, or a rule that remembers where it is stuck, so its actions "
            "depend on more than the state: name a policy without memory."
        )
    if kitchen.observation not in _TIMELESS:
        raise UsageError(
            f"The policy observes the time in its {kitchen.observation}, but the search ignores "
            f"the time: name a policy that observes {' or '.join(_TIMELESS)}."
        )
    kitchen = dataclasses.replace(kitchen, normalize_observation=False)
    world = build_one_kitchen(kitchen, "The search runs")
    seen = world.observe(world.reset(jax.random.key(0))[1])
    if jax.tree.map(np.shape, seen) != jax.tree.map(np.shape, saved.policy.observation):
        raise UsageError(
            "The policy observes more than the kitchen shows, such as the index of each cook or "
            "the time: name a policy without such wrappers."
        )
    return saved, kitchen, world


def search(
    config: Config, saved: SavedPolicy, world: AbstractGridWorld, start: World, console: Console
) -> Search:
    """Searches from the initial state, and prints the number of states."""
    found = Search(world, saved.policy)
    with progress(console, "searching", Search.PARTS) as report:
        found.explore(start, config.beam, config.depth, config.seed, report)
    console.print(
        f"{found.num_states:,} states, all actions tried in {found.num_expanded:,}", highlight=False
    )
    return found


def teach(
    config: Config, world: AbstractGridWorld, teacher: Teacher, console: Console
) -> tuple[AbstractNetwork, Played, Table]:
    """Teaches a network the actions of a teacher.

    **Returns:** the network, its game with the most probable actions, and its returns.
    """
    key = jax.random.key(config.seed)
    observation, start = world.reset(key)
    size = observation.shape[-1]
    network = MLP((size,), 6, width=config.width, activation="relu", key=key)
    with progress(console, "teaching", config.rounds) as report:
        network = Distillation(config.rounds, examples=2**18).teach(
            world, teacher, network, key, lambda number, *_: report(number)
        )
    network, steps = sharpened(network, config.sharpness), int(world.horizon)
    played = play_from(world, network, repeat(start, 1), jnp.zeros(1), key, steps, greedy=True)
    starts, levels = repeat(start, _GAMES), jnp.zeros(_GAMES)
    sampled = play_from(world, network, starts, levels, key, steps).rewards.sum(axis=1)
    noisy = play_from(world, network, starts, levels + _NOISE, key, steps).rewards.sum(axis=1)
    numbers = {
        "greedy": float(played.rewards.sum()),
        "sampled": mean_with_interval(np.asarray(sampled)),
        "with_random_actions": mean_with_interval(np.asarray(noisy)),
    }
    return network, played, numbers


def returns(world: AbstractGridWorld, teacher: Teacher, start: World) -> float:
    """The return of a team that follows a teacher."""
    steps = play_teacher(world, teacher, repeat(start, 1))
    return float(sum(reward.item() for *_, reward in steps))


def show(console: Console, numbers: Table) -> None:
    """Prints the returns of the policy, the search and the network."""
    rows = [
        ("policy, most probable actions", f"{numbers['policy']:g}"),
        ("search, actions with the largest discounted return", f"{numbers['search']:g}"),
        ("search, best path through known states", f"{numbers['best_of_known_ways']:g}"),
        ("network, most probable actions", f"{numbers['greedy']:g}"),
        ("network, sampled actions", f"{numbers['sampled']['mean']:.1f}"),
        (f"network, {_NOISE:.0%} random actions", f"{numbers['with_random_actions']['mean']:.1f}"),
    ]
    print_table(console, ("", "return"), rows)
    if numbers["greedy"] < numbers["policy"]:
        console.print("The network scores less than the policy: try more --rounds or --width.")


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `CheckpointError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, SCRIPT)
    saved, kitchen, world = read(config)
    keep_compiled_programs()
    start = world.reset(jax.random.key(config.seed))[1]
    with open_results("search-policy", config.out) as (folder, console):
        # A search that has not explored returns the actions of the policy.
        before = returns(world, Search(world, saved.policy).best_actions, start)
        begin = time.perf_counter()
        found = search(config, saved, world, start, console)
        seconds = time.perf_counter() - begin
        network, played, network_returns = teach(config, world, found.best_actions, console)
        numbers = {
            "policy": before,
            "search": returns(world, found.best_actions, start),
            "best_of_known_ways": found.best_return(start, int(world.horizon)),
            **network_returns,
            "states": found.num_states,
            "states_with_all_actions": found.num_expanded,
            "search_seconds": round(seconds, 1),
            "seconds": round(time.perf_counter() - begin, 1),
        }
        show(console, numbers)
        partners = {PARTNERS: saved.metadata[PARTNERS]} if PARTNERS in saved.metadata else {}
        paths = write_taught(
            folder,
            (SCRIPT, *args),
            kitchen,
            network,
            config.width,
            {"layout": kitchen.layout, **numbers},
            {"search": numbers, **partners},
            (world, played) if config.video else None,
        )
        print_paths(console, paths)


if __name__ == "__main__":
    run_command(run, memory="--rounds")
