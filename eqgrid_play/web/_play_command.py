"""The command `eqgrid play`: people play with policies, in the browser."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jax
import tyro
from msgspec import Meta

from eqgrid_lab.base import run_command
from eqgrid_lab.folders import open_results, short_name
from eqgrid_lab.partners import expanded

from ..games import (
    SUFFIX,
    GameServer,
    PartnerFlags,
    read_partner_flags,
)
from ._server import ServerFlags, open_server


@dataclasses.dataclass(frozen=True)
class Config(ServerFlags, PartnerFlags):
    """Lets people play with policies, scripted partners or other people in the browser. Every game
    is written into a folder while it is played.
    """

    most_games: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Maximum number of simultaneous games."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the games; by default, a new one in runs/."""


def play_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was started", "--most-games")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments, until a Ctrl-C ends the server.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    # Before anything uses the CPU: a step takes 0.1 ms, and handing it to another thread would cost
    # as much again.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    config, partners = read_partner_flags(Config(), args, "eqgrid play")
    with open_server(config) as (address, serve):
        names = expanded(config.partners, config.env.title)
        menu = config.menu({name: name for name in names}, partners)
        with open_results(f"play-{short_name(config.env.title)}", config.out) as (folder, _):
            games = GameServer(
                menu,
                folder,
                ticks_per_second=config.ticks_per_second,
                most_games=config.most_games,
                most_per_client=config.most_per_client,
            )
            print(
                f"Play at {address}",
                f"games are written into {folder}",
                "Ctrl-C ends the server.",
                sep="\n",
                flush=True,
            )
            partners.record(folder)
            serve(games)
            print(f"games: {len([*folder.glob(f'*{SUFFIX}')])} in {folder}")
            partners.finish()
