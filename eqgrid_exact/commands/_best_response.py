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

from agents import write_atomic
from eqgrid import AbstractPartner, NoisyPartner
from eqgrid_lab.base import (
    DIFFERENT,
    Table,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    run_command,
)
from eqgrid_lab.commands import PEOPLE, BestResponses, build_held_out, read_held_out
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.partners import NamedPartner, Partners, Place
from eqgrid_lab.settings import read_flags
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
from ._kitchen import KitchenFlags

COMMAND = "eqgrid best-response"
PEOPLE_NAME = "people"
"""The value of --partners for the human proxies of the kitchen."""


@dataclasses.dataclass(frozen=True)
class Config(KitchenFlags):
    """Finds the exact best possible return with partners in a kitchen by value iteration."""

    partners: Annotated[
        tuple[str, ...], DIFFERENT, tyro.conf.arg(metavar="FILE.toml|people|PARTNER ...")
    ] = ()
    """A file that describes held-out partners, people for the kitchen's proxies, or partners such
    as greedy+noise=0.2 or a policy file."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Names of partners in the file of --partners; by default, all of them."""
    agent: Annotated[str | None, tyro.conf.arg(metavar="RUN|FILE|PARTNER")] = None
    """A partner whose exact return with the others is compared with best responses."""
    levels: Annotated[tuple[Annotated[float, Meta(ge=0, le=1)], ...], DIFFERENT] = (0.0,)
    """With --agent: probabilities of random actions of a partner."""
    seats: Annotated[tuple[Literal[0, 1], ...], DIFFERENT] = (0, 1)
    """Seats of the response, or of the agent."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 1000
    """Number of episodes in which the response plays, to check its return."""
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    """Seed of these episodes."""
    keep: bool = False
    """Keep the returns next to the file of --partners, where eqgrid partners reads them."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """The kitchen, its joint states, and the partners.

    - `place`: the kitchen.
    - `model`: the joint states.
    - `partners`: the partners.
    - `file`: the file of held-out partners; `None` for partners that are named.
    - `agent`: the agent that is compared with best responses, if any.
    """

    place: Place
    model: JointModel
    partners: list[NamedPartner]
    file: Path | None
    agent: AbstractPartner | None


def set_up(config: Config) -> Setup:
    """Builds the kitchen and the partners of the command line, and checks them.

    **Raises:** `UsageError` and `CheckpointError` with a sentence when something is not usable.
    """
    file = _file_of(config)
    if config.keep and (file is None or set(config.seats) != {0, 1} or config.agent is not None):
        raise UsageError(
            "--keep keeps best responses to a file of --partners in both seats: add --partners, "
            "and leave --seats and --agent out."
        )
    if config.agent is None and config.levels != (0.0,):
        raise UsageError("--levels are for an --agent: add --agent.")
    kitchen, world = config.kitchen()
    place, known = Place.of(kitchen, world=world), Partners()
    partners = _build(config, file, place, known)
    agent = None if config.agent is None else known.build(config.agent, place).partner
    with as_usage_error():
        for partner in [x.partner for x in partners] + ([] if agent is None else [agent]):
            # Raises an error if the action probabilities of the partner are unknown.
            Chances(without_stuck_rule(partner), place.env, 0)
        model = JointModel(world, config.cells(world), whole=True)
    if agent is None:  # a response stores an action for each state and step
        config.check_room(model, BestResponse.bytes_of(model), model.num_states * config.horizon)
    else:  # two tables of probabilities, of the agent and of a partner
        config.check_room(model, 2 * BestResponse.bytes_of(model))
    return Setup(place, model, partners, file, agent)


def _file_of(config: Config) -> Path | None:
    """The file of held-out partners; `None` if the partners are named."""
    if config.partners == (PEOPLE_NAME,) and not Path(PEOPLE_NAME).exists():
        return PEOPLE
    named = [Path(x) for x in config.partners]
    return named[0] if len(named) == 1 and named[0].suffix == ".toml" else None


def _build(
    config: Config, file: Path | None, place: Place, partners: Partners
) -> list[NamedPartner]:
    """The partners of the command line.

    **Raises:** `UsageError` when there are none, or a name is unknown.
    """
    if file is None:
        if not config.partners:
            raise UsageError("Name partners: --partners people, greedy, or policy files.")
        return [partners.build(name, place) for name in config.partners]
    held_out, _ = read_held_out(file)
    for name in config.only:
        if name not in [x.name for x in held_out]:
            raise UsageError(f"There is no partner {name!r} in {str(file)!r}.")
    held_out = [x for x in held_out if not config.only or x.name in config.only]
    return build_held_out(held_out, file, place, partners)


def find_responses(config: Config, setup: Setup, folder: Path, console: Console) -> list[Table]:
    """Finds the best responses to all partners, prints their returns, and writes videos.

    **Returns:** the entries for the file of results.
    """
    rows, results = [], []
    keys = jax.random.split(jax.random.key(config.seed), config.episodes)
    for named in setup.partners:
        values: list[float] = []
        for seat in sorted(set(config.seats)):
            console.print(Text(f"{named.name}, response in seat {seat}"))
            found = respond(
                setup.place.env,
                setup.model,
                named.partner,
                seat,
                config.horizon,
                keys,
                folder=folder,
                progress=functools.partial(progress, console),
            )
            values.append(found.value)
            played, unchanged = map(mean_with_interval, (found.played, found.unchanged))
            texts = [with_interval(x["mean"], x["low"], x["high"]) for x in (played, unchanged)]
            cells = [f"{mean} ({interval})" for mean, interval in texts]
            rows.append([Text(named.name), str(seat), f"{found.value:.2f}", *cells])
            results.append(
                {
                    "partner": named.name,
                    "seat": found.seat,
                    "value": found.value,
                    "exact": found.exact,
                    "played": played,
                    "with_unchanged_partner": unchanged,
                    "seconds": found.seconds,
                }
            )
            if config.video:
                name = f"{Path(named.name).stem}-seat-{seat}.gif"
                with drawing(folder / name):
                    video = setup.place.settings.draw(setup.model.env, *found.video)
                    write_atomic(folder / name, video)
        if config.keep and setup.file is not None:
            best = BestResponses(setup.file, setup.place)
            best.keep(named, values, config.counters)
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
        for named in setup.partners:
            for level in sorted(set(config.levels)):
                console.print(Text(f"{named.name}, noise {level:g}, agent in seat {seat}"))
                noisy = NoisyPartner(named.partner, level, setup.place.env.action_space)
                others = _kept(config, setup, noisy, 1 - seat, show)
                with show("evaluating the agent", config.horizon) as report:
                    exact = BestResponse(setup.model, seat).solve(
                        others, config.horizon, report, own=own
                    )
                with show("responding", config.horizon) as report:
                    best = BestResponse(setup.model, seat).solve(others, config.horizon, report)
                found = {"partner": named.name, "level": level, "seat": seat}
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
    chances = Chances(without_stuck_rule(partner), setup.place.env, seat)
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
    keep_compiled_programs()
    with open_results("best-response", config.out) as (folder, console), as_usage_error():
        console.print(f"{setup.model.num_states:,} joint states", highlight=False)
        if setup.agent is None:
            results = find_responses(config, setup, folder, console)
        else:
            results = compare(config, setup, setup.agent, console)
        result = {
            "command": f"{COMMAND} {shlex.join(args)}",
            "layout": setup.place.settings.layout,
            "dynamics": config.dynamics,
            "horizon": config.horizon,
            "counters": config.counters,
            "joint_states": setup.model.num_states,
            "episodes": config.episodes,
            "responses": results,
        }
        write_json(folder / "best_responses.json", result)
        print_paths(console, [folder / "best_responses.json"])
        if setup.agent is not None:
            _draw_curves(folder / "robustness.png", results)
            print_paths(console, [folder / "robustness.png"])
