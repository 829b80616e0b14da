"""The command `eqgrid study`: runs, tries and reports studies with people."""

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, final

import jax
import msgspec
import tyro
from rich.console import Console

from eqgrid_lab.base import keep_compiled_programs, run_command
from eqgrid_lab.folders import open_results
from eqgrid_lab.partners import Partners, load_parts
from eqgrid_lab.settings import at_home, check_limits, given
from eqgrid_lab.show import print_paths
from eqgrid_lab.worlds import world_settings

from ..games import SUFFIX, GameFlags, GameServer, Menu
from ..study import (
    Plan,
    StudyRunner,
    check_plan,
    export,
    forget,
    open_people,
    open_study,
    people_in,
    plan_partners,
    read_plan,
    report,
    try_plan,
)
from ._server import ServerFlags, open_server

Folder: TypeAlias = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanFlags(GameFlags):
    """The flags of a study that begins."""

    plan: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="PLAN.toml")]]
    """Plan of the study."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the data; by default, a new one in runs/. `run` continues the study in it."""

    def prepare(self) -> tuple[Plan, Menu, dict[str, str]]:
        """The plan, the worlds and partners, and the checksums of the policies in the plan.

        **Raises:** as `read_plan`, `GameFlags.menu` and `check_plan`.
        """
        plan = read_plan(self.plan)
        names = plan_partners(plan, self.plan.parent)
        partners = Partners(load_parts(self.script), self.env.name, imports=False)
        menu = self.menu(names, partners)
        check_plan(plan, menu)
        offers = (x for game in plan.games() for x in menu.offers(game.layout).values())
        used = {x.name: x.sha256 for x in offers if x.name in names and x.sha256}
        return plan, menu, used


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunStudy(ServerFlags, PlanFlags):
    """Runs a study, in which people take part in the browser."""

    def start(self) -> None:
        """Runs the study until a Ctrl-C ends the server."""
        plan, menu, policies = self.prepare()
        settings = {
            "world": msgspec.to_builtins(menu.place(menu.layouts[0]).policy_world),
            "policies": policies,
            "ticks_per_second": self.ticks_per_second,
        }
        with (
            open_server(self) as (address, serve),
            open_study(self.plan, settings, self.out) as (folder, _),
            people_in(folder) as people,
        ):
            games = GameServer(
                menu,
                folder,
                ticks_per_second=self.ticks_per_second,
                most_games=2 * plan.most_people,  # a game goes on when its people have left
                most_per_client=self.most_per_client,
            )
            token = people.fact("overview") or ""
            overview = f"admin#{token}"
            print(
                f"Take part at {address}?{plan.id_parameter}=ID",
                f"games are written into {folder}",
                "Ctrl-C ends the server.",
                f"overview of the study: {address}{overview}",
                sep="\n",
                flush=True,
            )
            serve(games, StudyRunner(plan, people, games), token, overview)
            print(f"games: {len([*folder.glob(f'*{SUFFIX}')])} in {folder}")


@final
@dataclasses.dataclass(frozen=True, kw_only=True)
class TryStudy(PlanFlags):
    """Lets bots walk through a plan at full speed, and prints stages, pairings and durations."""

    def start(self) -> None:
        """Runs the trial."""
        plan, menu, _ = self.prepare()
        keep_compiled_programs()
        with open_results("try", self.out) as (folder, console), people_in(folder) as people:
            games = GameServer(
                menu,
                folder,
                ticks_per_second=self.ticks_per_second,
                most_games=2 * plan.most_people,
                sleep=lambda _: asyncio.sleep(0),
            )
            try_plan(plan, people, games, console)
            print_paths(console, export(people, folder))


@final
@dataclasses.dataclass(frozen=True)
class ReportStudy:
    """Prints the returns, answers, drop-outs and latencies of a study."""

    study: Folder
    """Folder of the study."""

    def start(self) -> None:
        """Prints the tables."""
        with open_people(self.study) as people:
            report(people, Console())


@final
@dataclasses.dataclass(frozen=True)
class ExportStudy:
    """Writes the data of a study into its folder as CSV, with a dictionary."""

    study: Folder
    """Folder of the study."""

    def start(self) -> None:
        """Writes the files, and prints their paths."""
        with open_people(self.study) as people:
            print_paths(Console(), export(people, self.study))


@final
@dataclasses.dataclass(frozen=True)
class ForgetPerson:
    """Deletes all data about a person of a study, except exported tables."""

    study: Folder
    """Folder of the study."""
    person: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ID")]]
    """Id or number of the person."""

    def start(self) -> None:
        """Deletes the data."""
        with open_people(self.study) as people:
            deleted = forget(people, self.study, self.person)
        print(f"deleted, with {deleted} game files; exported tables still contain the data")


def study_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was started", "most_people in the plan")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # as in `eqgrid play`
    args, missing = at_home(args), tyro.MISSING
    env = world_settings(given(args).get("--env.name"))
    commands = {
        "run": RunStudy(plan=missing, env=env),
        "try": TryStudy(plan=missing, env=env),
        "report": ReportStudy(missing),
        "export": ExportStudy(missing),
        "forget": ForgetPerson(missing, missing),
    }
    purposes = {name: command.__doc__ or "" for name, command in commands.items()}
    command = tyro.cli(
        tyro.extras.subcommand_type_from_defaults(commands, purposes, prefix_names=False),
        prog="eqgrid study",
        description="Runs, tries and reports studies with people.",
        args=args,
        config=(tyro.conf.SuppressFixed,),
    )
    check_limits(command)
    command.start()
