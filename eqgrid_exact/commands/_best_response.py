"""Finds the best response to each partner without memory, and writes its return and a video.

eqgrid best-response forced --partners people --counters 1,2 2,2
eqgrid best-response ring --partners people --agent RUN --levels 0 0.2 0.5 1

With --agent, the command compares the exact return of this agent with that of the best response.
"""

import dataclasses
import functools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import jax
import numpy as np
import tyro
from msgspec import Meta
from rich.console import Console
from rich.text import Text

from eqgrid_lab import Kitchen
from agents import write_atomic
from eqgrid import AbstractEnv, AbstractPartner, NoisyPartner
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import (
    DIFFERENT,
    RunError,
    Table,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    run_command,
)
from eqgrid_lab.commands import (
    HELD_OUT,
    PEOPLE,
    BestResponses,
    HeldOut,
    PolicyFlags,
    build_partners,
    read_held_out,
)
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import PolicySettings, default_settings, read_flags, shipped_script
from eqgrid_lab.show import (
    drawing,
    draws_figure,
    mean_with_interval,
    new_figure,
    plain_axes,
    print_paths,
    print_table,
    progress,
    return_texts,
    with_interval,
    write_figure,
)

from .._best_response import BestResponse
from .._joint_model import JointModel
from .._responses import Chances, ChanceTables, Progress, respond, without_stuck_rule
from ._kitchen import build_kitchen, read_counters

COMMAND = "eqgrid best-response"
_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Config:
    """Finds the exact best possible return with partners in a kitchen by value iteration."""

    layout: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="LAYOUT")]] = "cramped"
    """cramped, asymmetric, ring, forced, circuit, the name of another layout, or a file."""
    policies: Annotated[tuple[Path, ...], DIFFERENT, tyro.conf.arg(metavar="RUN|FILE ...")] = ()
    """Partners: folders of runs, or policy files."""
    partners: Annotated[Path | None, tyro.conf.arg(metavar="FILE|people")] = None
    """Partners: a file that describes held-out partners, or people for the kitchen's proxies."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Names of partners in the file of --partners; by default, all of them."""
    agent: Annotated[Path | None, tyro.conf.arg(metavar="RUN|FILE")] = None
    """A policy whose exact return with the partners is compared with best responses."""
    levels: Annotated[tuple[Annotated[float, Meta(ge=0, le=1)], ...], DIFFERENT] = (0.0,)
    """With --agent: probabilities of random actions of a partner."""
    seats: Annotated[tuple[Literal[0, 1], ...], DIFFERENT] = (0, 1)
    """Seats of the response, or of the agent."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Annotated[int, Meta(ge=1, le=10_000)] = 400
    """Length of the episode, in steps."""
    counters: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COL ...")] = ()
    """Counters that cooks may use, each as row,column from 0; or all."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 1000
    """Number of episodes in which the response plays, to check its return."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    """Seed of these episodes."""
    memory_gib: Annotated[float, Meta(gt=0)] = 8.0
    """Maximum memory for values and probabilities, in GiB."""
    disk_gib: Annotated[float, Meta(gt=0)] = 16.0
    """Maximum disk space for the actions of one response, in GiB."""
    video: bool = True
    """Write videos."""
    keep: bool = False
    """Keep the returns next to the file of --partners, where eqgrid partners reads them."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """The kitchen, its joint states, and the partners.

    - `kitchen`: the settings of the kitchen.
    - `settings`: the settings of policies, with which partners observe the kitchen.
    - `world`: the kitchen.
    - `env`: the kitchen with the observations of the settings.
    - `model`: the joint states.
    - `described`: the description of each partner.
    - `partners`: the partners.
    - `file`: the file of held-out partners.
    """

    kitchen: Kitchen
    settings: PolicySettings
    world: AbstractGridWorld
    env: AbstractEnv
    model: JointModel
    described: list[HeldOut]
    partners: list[AbstractPartner]
    file: Path


def set_up(config: Config) -> Setup:
    """Builds the kitchen and the partners of the command line, and checks them.

    **Raises:** `UsageError` and `CheckpointError` with a sentence when something is not usable.
    """
    if config.keep and (
        config.partners is None or set(config.seats) != {0, 1} or config.agent is not None
    ):
        raise UsageError(
            "--keep keeps best responses to --partners in both seats: add --partners, and leave "
            "--seats and --agent out."
        )
    if config.agent is None and config.levels != (0.0,):
        raise UsageError("--levels are for an --agent: add --agent.")
    kitchen, world = build_kitchen(config.layout, config.dynamics, config.horizon)
    settings = default_settings(shipped_script("ippo"), kitchen)
    env = settings.observe(world)
    described, file = _describe(config)
    partners = build_partners(described, file, settings, env, PolicyFlags())
    counters = read_counters(config.counters, world)
    with as_usage_error():
        for partner in partners:
            # Raises an error if the action probabilities of the partner are unknown.
            Chances(without_stuck_rule(partner), env, 0)
        model = JointModel(world, counters, whole=True)
    _check_room(model, config)
    return Setup(kitchen, settings, world, env, model, described, partners, file)


def _describe(config: Config) -> tuple[list[HeldOut], Path]:
    """The descriptions of the partners, and the file of held-out partners."""
    file = HELD_OUT if config.partners is None else config.partners
    if str(file) == "people" and not file.exists():
        file = PEOPLE
    partners: list[HeldOut] = []
    if config.partners is not None:
        partners, _ = read_held_out(file)
        names = [partner.name for partner in partners]
        for name in config.only:
            if name not in names:
                raise UsageError(f"There is no partner {name!r} in {str(file)!r}.")
        partners = [x for x in partners if not config.only or x.name in config.only]
    partners += [_policy(path) for path in config.policies]
    if not partners:
        raise UsageError("Name partners: --partners people, or --policies and their files.")
    return partners, file


def _policy(path: Path) -> HeldOut:
    return HeldOut(str(path), "policy", file=str(path.resolve()))


def _check_room(model: JointModel, config: Config) -> None:
    """**Raises:** `UsageError` when the search needs too much memory or disk space."""
    if config.agent is None:  # a response stores an action for each state and step
        needs = {
            "memory": (BestResponse.bytes_of(model), config.memory_gib),
            "disk": (model.num_states * config.horizon, config.disk_gib),
        }
    else:  # two tables of probabilities, of the agent and of a partner
        needs = {"memory": (2 * BestResponse.bytes_of(model), config.memory_gib)}
    for name, (needed, allowed) in needs.items():
        if needed / _GIB > allowed:
            raise UsageError(
                f"The search has {model.num_states:,} joint states and needs {needed / _GIB:.1f} "
                f"GiB of {name}, more than --{name}-gib {allowed:g}: raise this limit, or use "
                "fewer counters."
            )


def find_responses(config: Config, setup: Setup, folder: Path, console: Console) -> list[Table]:
    """Finds the best responses to all partners, prints their returns, and writes videos.

    **Returns:** the entries for the file of results.
    """
    rows, results = [], []
    keys = jax.random.split(jax.random.key(config.seed), config.episodes)
    for held_out, partner in zip(setup.described, setup.partners, strict=True):
        values: list[float] = []
        for seat in sorted(set(config.seats)):
            console.print(Text(f"{held_out.name}, response in seat {seat}"))
            found = respond(
                setup.env,
                setup.model,
                partner,
                seat,
                config.horizon,
                keys,
                folder=folder,
                progress=functools.partial(progress, console),
            )
            try:
                found.check()
            except RuntimeError as error:
                raise RunError(str(error)) from error
            values.append(found.value)
            played, unchanged = map(mean_with_interval, (found.played, found.unchanged))
            texts = [with_interval(x["mean"], x["low"], x["high"]) for x in (played, unchanged)]
            cells = [f"{mean} ({interval})" for mean, interval in texts]
            rows.append([Text(held_out.name), str(seat), f"{found.value:.2f}", *cells])
            results.append(
                {
                    "partner": held_out.name,
                    "seat": found.seat,
                    "value": found.value,
                    "exact": found.exact,
                    "played": played,
                    "with_unchanged_partner": unchanged,
                    "seconds": found.seconds,
                }
            )
            if config.video:
                name = f"{Path(held_out.name).stem}-seat-{seat}.gif"
                with drawing(folder / name):
                    write_atomic(folder / name, setup.kitchen.draw(setup.world, *found.video))
        if config.keep:
            best = BestResponses(setup.file, setup.settings)
            best.keep(held_out, values, config.counters)
    titles = ("partner", "seat", "best response", "played", "with the unchanged partner")
    print_table(console, titles, rows)
    return results


def compare(config: Config, setup: Setup, agent: AbstractPartner, console: Console) -> list[Table]:
    """Compares the exact return of an agent with the return of the best response, for each partner
    and each level of noise.

    **Returns:** the entries for the file of results. The agent's smallest share of the return of
    the best response comes first.
    """
    show = functools.partial(progress, console)
    results: list[Table] = []
    for seat in sorted(set(config.seats)):
        own = _kept(config, setup, agent, seat, show)
        for held_out, partner in zip(setup.described, setup.partners, strict=True):
            for level in sorted(set(config.levels)):
                console.print(Text(f"{held_out.name}, noise {level:g}, agent in seat {seat}"))
                noisy = NoisyPartner(partner, level, setup.env.action_space)
                others = _kept(config, setup, noisy, 1 - seat, show)
                with show("evaluating the agent", config.horizon) as report:
                    exact = BestResponse(setup.model, seat).solve(
                        others, config.horizon, report, own=own
                    )
                with show("responding", config.horizon) as report:
                    best = BestResponse(setup.model, seat).solve(others, config.horizon, report)
                found = {"partner": held_out.name, "level": level, "seat": seat}
                results.append({**found, "return": exact, "best_response": best})
    results.sort(key=lambda x: x["return"] / x["best_response"] if x["best_response"] else 1.0)
    rows = []
    for x in results:
        exact, best = x["return"], x["best_response"]
        share = f"{exact / best:.2f}" if best else ""
        return_text, best_text, regret = return_texts((exact, best, best - exact))
        numbers = (return_text, best_text, share, regret)
        rows.append([Text(x["partner"]), f"{x['level']:g}", str(x["seat"]), *numbers])
    titles = ("partner", "noise", "seat", "return", "best response", "share", "regret")
    print_table(console, titles, rows)
    return results


def _kept(
    config: Config, setup: Setup, partner: AbstractPartner, seat: int, show: Progress
) -> ChanceTables:
    """The probabilities of a partner in a seat, without its stuck rule."""
    chances = Chances(without_stuck_rule(partner), setup.env, seat)
    return ChanceTables(setup.model, chances, config.horizon, show)


@draws_figure
def _draw_curves(path: Path, results: Sequence[Table]) -> None:
    """Plots the mean returns over partners and seats for each level of noise."""
    figure = new_figure(6, 4)
    axes = figure.subplots()
    levels = sorted({x["level"] for x in results})
    for name, title in (("best_response", "best responses"), ("return", "the agent")):
        means = [np.mean([x[name] for x in results if x["level"] == y]) for y in levels]
        axes.plot(levels, means, marker="o", label=title)
    axes.set_xlabel("probability of a random action of the partner")
    axes.set_ylabel("exact return")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    plain_axes(axes)
    write_figure(path, figure)


def best_response_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, COMMAND)
    setup = set_up(config)
    agent = None
    if config.agent is not None:
        described = [_policy(config.agent)]
        [agent] = build_partners(described, setup.file, setup.settings, setup.env, PolicyFlags())
        with as_usage_error():
            Chances(without_stuck_rule(agent), setup.env, 0)
    keep_compiled_programs()
    with open_results("best-response", config.out) as (folder, console), as_usage_error():
        console.print(f"{setup.model.num_states:,} joint states", highlight=False)
        if agent is None:
            results = find_responses(config, setup, folder, console)
        else:
            results = compare(config, setup, agent, console)
        result = {
            "command": f"{COMMAND} {shlex.join(args)}",
            "layout": setup.kitchen.layout,
            "dynamics": config.dynamics,
            "horizon": config.horizon,
            "counters": config.counters,
            "joint_states": setup.model.num_states,
            "episodes": config.episodes,
            "responses": results,
        }
        write_json(folder / "best_responses.json", result)
        print_paths(console, [folder / "best_responses.json"])
        if agent is not None:
            _draw_curves(folder / "robustness.png", results)
            print_paths(console, [folder / "robustness.png"])
