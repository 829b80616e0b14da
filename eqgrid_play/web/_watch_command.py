"""The command `eqgrid watch`: recorded games in the browser."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from eqgrid_lab.base import UsageError, run_command
from eqgrid_lab.partners import Partners, load_parts
from eqgrid_lab.settings import read_flags
from eqgrid_lab.worlds import Kitchen

from ..games import (
    GameServer,
    Menu,
    read_recorded,
)
from ._server import ServerFlags, open_server


@dataclasses.dataclass(frozen=True)
class Config(ServerFlags):
    """Shows recorded games in the browser, and what policies would do in them. Also writes the
    .npz files that a killed server could not write into the folder of its games.
    """

    games: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="FILE|DIR|people ...")]
    ] = ()
    """Journals, folders of journals, or the human games of a version of overcooked-ai."""
    policies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN|FILE ...")] = ()
    """Policies whose action probabilities and values the page shows: folders of runs, policy files
    or shipped:NAME."""
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script that trained the policies, if any; its code is run."""
    env_name: Annotated[str | None, tyro.conf.arg(name="env.name", metavar="MODULE:NAME")] = None
    """Your own world of the games, if any; its module is imported."""
    layout: str = Kitchen.layout
    """Kitchen of the human games."""


def watch_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was started", "the number of games")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments, until a Ctrl-C ends the server.

    **Raises:** the errors that `run_command` prints as one sentence.
    """
    config = read_flags(Config(), args, "eqgrid watch")
    if not config.games:
        raise UsageError("Name recorded games: files, folders, or the word people; see --help.")
    with open_server(config) as (address, serve):
        partners = Partners(load_parts(config.script), config.env_name)
        names = {name: name for name in config.policies}
        menu = Menu(Kitchen(layout=config.layout), names, partners)
        games = GameServer(
            menu,
            Path(),
            ticks_per_second=1,
            most_games=0,
            most_per_client=config.most_per_client,
            recorded=read_recorded(config.games, menu, config.env_name),
        )
        print(f"Watch at {address}", "Ctrl-C ends the server.", sep="\n", flush=True)
        serve(games)
