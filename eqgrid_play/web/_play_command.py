"""The command `eqgrid play`: people play with policies, in the browser."""

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import re
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import jax
import tyro
from msgspec import Meta
from rich.console import Console

from agents import CheckpointError, checksum
from eqgrid_lab.base import (
    RunError,
    StopSignals,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    reason,
    run_command,
)
from eqgrid_lab.commands import first_world, settings_to_play
from eqgrid_lab.folders import locked, open_results, short_name
from eqgrid_lab.runs import SavedPolicy, digest, policies_of, read_policy
from eqgrid_lab.settings import load_script, read_flags, to_table
from eqgrid_lab.show import print_paths
from eqgrid_lab.worlds import Kitchen, WorldSettings

from ..games import (
    EPISODE_SUFFIX,
    SUFFIX,
    GameServer,
    Menu,
    find_recorded,
    offer_of,
    place_of,
    read_journal,
    read_recorded,
    write_recording,
)
from ..study import (
    Plan,
    StudyRunner,
    check_plan,
    export,
    forget,
    open_people,
    open_study,
    people_in,
    plan_policies,
    read_plan,
    report,
    try_plan,
)


@dataclasses.dataclass(frozen=True)
class Config:
    """Lets people play with policies, scripted partners or other people in the browser. Every game
    is written into a folder while it is played.
    """

    policies: tyro.conf.Positional[
        Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN|FILE ...")]
    ] = ()
    """Folders of runs, policy files or shipped:NAME to offer as partners. A folder of runs and
    policy files offers all policies that can act in the world of --env.name."""
    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script that trained them, if any; its code is run."""
    watch: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE|DIR|people ...")] = ()
    """Recorded games to watch: journals, or the human games of a version of
    overcooked-ai."""
    ticks_per_second: Annotated[float, Meta(gt=0, le=60)] = 6.0
    """Steps per second."""
    delay: Annotated[int, Meta(ge=0, le=60)] = 0
    """Reaction delay of partners, in steps."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Probability that an action of a partner is replaced by a random one."""
    host: str = "127.0.0.1"
    """Address to listen at; by default, only this machine can connect."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """Port to listen at; 0 for any free port."""
    hosts: tuple[str, ...] = ()
    """Additional host names of the server, such as the name of a reverse proxy."""
    browser: bool = True
    """Open the page in a browser."""
    most_games: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Maximum number of simultaneous games."""
    most_per_client: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """Maximum number of simultaneous games, or of people in a study, of one network address."""
    study: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Run the study in this plan, instead of letting people choose games. With the --out of an
    existing study, continue it."""
    trial: Annotated[bool, tyro.conf.arg(name="try")] = False
    """Only let bots walk through the plan of --study at full speed, alone and in groups; print
    stages, orders, pairings, waits and duration, and write the export."""
    report: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Only print the returns, answers, drop-outs and latencies of the study in this folder."""
    export: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Only write the data of the study in this folder as CSV, with a dictionary."""
    forget: Annotated[str | None, tyro.conf.arg(metavar="ID")] = None
    """Only delete everything about a person of the study in --out, by id or number."""
    finish: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Only write the missing .npz files of a folder of games, after a server was stopped early."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the games; by default, a new one in runs/."""


def play_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was started", "--most-games")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments, until a Ctrl-C ends the server.

    **Arguments:**

    - `args`: the command line.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    # Before anything uses the CPU: a step takes 0.1 ms, and handing it to another thread would cost
    # as much again.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    config = read_flags(Config(env=first_world(args)), args, "eqgrid play")
    if _process_data(config):
        return
    _check_hosts(config.hosts)
    serve = _server()
    plan = None if config.study is None else read_plan(config.study)
    script = None if config.script is None else load_script(config.script)
    read = functools.partial(read_policy, own_script=script, own_world=config.env.name)
    with as_usage_error():
        config.env.check()
    settings = settings_to_play(config.env)
    bundled = Menu(settings)
    found = (_read_policies(path, bundled, read) for path in config.policies)
    policies = _with_short_names(saved for several in found for saved in several)
    if plan is not None and config.study is not None:
        policies += plan_policies(plan, config.study.parent)
    menu = Menu(settings, policies, delay=config.delay, noise=config.noise)
    menu.offers(menu.layouts[0])  # raises an error for unusable policies before the server starts
    if plan is not None:
        check_plan(plan, menu, config.most_games)
    if config.trial:
        _run_trial(config, menu, plan)
        return
    recorded = read_recorded(config.watch, menu, config.env.name)
    with (
        contextlib.closing(_listen(config.host, config.port)) as listening,
        _open_folder(config, policies) as (folder, console),
        contextlib.ExitStack() as data,
    ):
        keep_compiled_programs()
        server = GameServer(
            menu,
            folder,
            ticks_per_second=config.ticks_per_second,
            most_games=config.most_games,
            most_per_client=config.most_per_client,
            recorded=recorded,
        )
        people = None if plan is None else data.enter_context(people_in(folder))
        runner = None if plan is None or people is None else StudyRunner(plan, people, server)
        admin = "" if people is None else people.fact("overview") or ""
        names = {config.host.strip("[]"), "127.0.0.1", "localhost", *config.hosts}
        address = _address(config.host, listening.getsockname()[1])
        overview = f"{address}admin#{admin}"
        _print_header(console, plan, policies, address, folder)
        if runner is not None:
            console.print(f"overview of the study: {overview}", highlight=False, soft_wrap=True)
        if config.browser:
            opened = address if runner is None else overview
            threading.Timer(0.5, webbrowser.open, [opened]).start()
        with StopSignals():  # the server ends its games after a signal, and then repeats it
            serve(server, listening, sorted(names), runner, admin)
        console.print(f"games: {len(list(folder.glob(f'*{SUFFIX}')))} in {folder}", markup=False)


def _address(host: str, port: int) -> str:
    """The address of the server in a browser of this machine."""
    # 0.0.0.0 and :: stand for all addresses of this machine.
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/"


def _read_policies(
    path: Path, menu: Menu, read: Callable[[Path], SavedPolicy]
) -> list[SavedPolicy]:
    """Reads the policies of a run or file. For a folder of runs and files, reads all policies that
    can act in the world of a menu.

    **Raises:** as `read_policy`, and `UsageError` if no policy of a folder can act in the world.
    """
    try:
        return [read(file) for file in policies_of(path)]
    except CheckpointError:
        inside: list[SavedPolicy] = []
        for file in sorted(path.iterdir()) if path.is_dir() else ():
            with contextlib.suppress(CheckpointError, UsageError):
                inside += [read(policy) for policy in policies_of(file)]
        if not inside:
            raise
    place, found = menu.place(menu.layouts[0]), []
    for saved in inside:
        with contextlib.suppress(UsageError, ValueError):
            offer_of(saved, place)
            found.append(saved)
    if not found:
        raise UsageError(
            f"No policy in the folder {str(path)!r} can act in {place.title}: name another folder."
        )
    return found


def _process_data(config: Config) -> bool:
    """Handles --finish, --report, --export and --forget, which start no server.

    **Returns:** whether one of these flags was set.

    **Raises:** `UsageError` when the data do not exist.
    """
    if config.finish is not None:
        _write_missing_episodes(config.finish, config.env.name)
    elif config.report is not None:
        with open_people(config.report) as people:
            report(people, Console())
    elif config.export is not None:
        with open_people(config.export) as people:
            print_paths(Console(), export(people, config.export))
    elif config.forget is not None:
        if config.out is None:
            raise UsageError("--forget needs the folder of the study: add --out DIR.")
        with open_people(config.out) as people:
            deleted = forget(people, config.out, config.forget)
        Console().print(
            f"deleted, with {deleted} game files; exported tables still contain the data"
        )
    else:
        return False
    return True


def _open_folder(
    config: Config, policies: Sequence[SavedPolicy]
) -> contextlib.AbstractContextManager[tuple[Path, Console]]:
    """The folder of the games: a new folder, or the folder of an existing study.

    **Raises:** `UsageError` as `open_results` and `open_study`.
    """
    if config.study is None:
        return open_results(f"play-{short_name(config.env.title)}", config.out)
    settings = {
        "world": to_table(settings_to_play(config.env))["env"],
        "layout files": {path: digest(Path(path)) for path in config.env.layout_files},
        "policies": {saved.name: checksum(saved.path) for saved in policies},
        "ticks_per_second": config.ticks_per_second,
        "delay": config.delay,
        "noise": config.noise,
    }
    return open_study(config.study, settings, config.out)


def _with_short_names(found: Iterable[SavedPolicy]) -> list[SavedPolicy]:
    """The policies with short names, since people see the names and should not see paths of the
    server. A short name has the last parts of the path, as many as make it unique.
    """
    policies = list(found)
    parts = [Path(saved.name).resolve().parts for saved in policies]
    shortened: list[SavedPolicy] = []
    for saved, own in zip(policies, parts, strict=True):
        tails = (own[-k:] for k in range(1, len(own) + 1))
        unique = (x for x in tails if sum(other[-len(x) :] == x for other in parts) == 1)
        name = "/".join(next(unique, own[-1:]))
        shortened.append(dataclasses.replace(saved, name=name))
    return shortened


def _run_trial(config: Config, menu: Menu, plan: Plan | None) -> None:
    """Lets bots walk through a plan. **Raises:** `UsageError` when there is no plan."""
    if plan is None:
        raise UsageError("--try needs the plan of a study: add --study FILE.toml.")
    keep_compiled_programs()
    with open_results("try", config.out) as (folder, console), people_in(folder) as people:
        server = GameServer(
            menu,
            folder,
            ticks_per_second=config.ticks_per_second,
            most_games=config.most_games,
            sleep=lambda _: asyncio.sleep(0),
        )
        try_plan(plan, people, server, console)
        print_paths(console, export(people, folder))


def _write_missing_episodes(folder: Path, own_world: str) -> None:
    """Writes the missing episodes of a folder of games.

    **Raises:** `UsageError` when the folder has no game. `RunError`, after all other episodes are
    written, when some games cannot be replayed.
    """
    console = Console()
    journals = [Path(path) for path in find_recorded([str(folder)])]
    problems: list[str] = []
    written: list[Path] = []
    with locked(folder):
        for journal in journals:
            if journal.with_suffix(EPISODE_SUFFIX).exists():
                continue
            try:
                recording = read_journal(journal)
                if len(recording.action):
                    place = place_of(recording, own_world)
                    written.append(write_recording(place, recording, journal.stem, folder))
            except UsageError as error:
                problems.append(f"{journal.name}: {error}")
    print_paths(console, written)
    console.print(f"missing episodes that were written: {len(written)}")
    if problems:
        raise RunError(f"{len(problems)} games cannot be read: {'; '.join(problems)}")


def _server() -> Callable[..., None]:
    """Imports the function `serve`. **Raises:** `UsageError` when its extra is not installed."""
    try:
        return importlib.import_module("eqgrid_play.web._app").serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"eqgrid play needs {error.name!r}, which is not installed: pip install 'eqgrid[play]'."
        ) from error


def _check_hosts(hosts: Sequence[str]) -> None:
    """**Raises:** `UsageError` unless all are host names."""
    for host in hosts:
        # A single colon is before a port, and several colons are in an IPv6 address.
        if not re.fullmatch(r"[A-Za-z0-9.:-]+", host) or host.count(":") == 1:
            raise UsageError(
                f"--hosts {host!r:.100} is not a host name without a port, such as "
                "play.example.org."
            )


def _listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket. **Raises:** `UsageError` when the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # so that a browser can connect as soon as the address is shown
    except OSError as error:
        listening.close()
        raise UsageError(
            f"The server cannot listen at {host}:{port} ({reason(error)}): choose another "
            "--port, or --port 0 for any free port."
        ) from error
    return listening


def _print_header(
    console: Console,
    plan: Plan | None,
    policies: Sequence[SavedPolicy],
    address: str,
    folder: Path,
) -> None:
    offered = ", ".join(saved.name for saved in policies) or "bundled policies"
    begin = f"Play at {address}"
    if plan is not None:
        begin = f"Take part at {address}?{plan.id_parameter}=ID"
    console.print(begin, highlight=False, markup=False, soft_wrap=True)
    console.print(f"partners: {offered}", highlight=False, markup=False)
    console.print(f"games are written into {folder}", highlight=False, markup=False)
    console.print("Ctrl-C ends the server.")
