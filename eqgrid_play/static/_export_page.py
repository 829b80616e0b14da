"""The command `eqgrid export-page`: exports a world and a policy as a web page without a server."""

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import tyro
from msgspec import Meta
from rich.console import Console

from agents import write_atomic
from eqgrid import unwrap
from eqgrid.grid import RandomLayouts
from eqgrid_lab.base import UsageError, as_usage_error, run_command
from eqgrid_lab.commands import first_world, settings_to_play
from eqgrid_lab.runs import read_policy
from eqgrid_lab.settings import load_script, read_flags
from eqgrid_lab.worlds import Kitchen, WorldSettings

from ..games import Menu


@dataclasses.dataclass(frozen=True)
class Config:
    """Exports a world and a policy as a web page in which people play without a server."""

    policy: tyro.conf.Positional[Annotated[Path | None, tyro.conf.arg(metavar="RUN|FILE")]] = None
    """Policy of the partner: the folder of a run with one seed, or a policy file."""
    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script that trained it, if any; its code is run."""
    ticks_per_second: Annotated[float, Meta(gt=0, le=60)] = 6.0
    """Steps per second."""
    delay: Annotated[int, Meta(ge=0, le=60)] = 0
    """Reaction delay of the partner, in steps."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Probability that an action of the partner is replaced by a random one."""
    runtime: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path(
        "node_modules/onnxruntime-web/dist"
    )
    """Folder dist of the npm package onnxruntime-web, which runs the models in the page."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("page.html")
    """File of the page; it must not exist."""


def export_page_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a flag is wrong, a library is missing, or the world cannot be
    exported; `CheckpointError` when the policy is damaged; `OSError` when the runtime cannot be
    read or the page cannot be written.
    """
    config = read_flags(Config(env=first_world(args)), args, "eqgrid export-page")
    if config.policy is None:
        raise UsageError("Name a policy, which is the partner in the page; see --help.")
    if config.out.exists():
        raise UsageError(f"{str(config.out)!r} exists: choose another --out, or delete it.")
    if not config.out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder for {str(config.out)!r}: make it first.")
    export = _export()
    script = None if config.script is None else load_script(config.script)
    saved = read_policy(config.policy, own_script=script, own_world=config.env.name)
    with as_usage_error():
        config.env.check()
    menu = Menu(settings_to_play(config.env), [saved], delay=config.delay, noise=config.noise)
    layout = menu.layouts[0]
    place, offer = menu.place(layout), next(iter(menu.offers(layout).values()))
    if isinstance(unwrap(place.world), RandomLayouts):
        raise UsageError("A page without a server has one layout: choose one with --env.layout.")
    content = export.page(place, offer, menu, config.runtime, config.ticks_per_second)
    write_atomic(config.out, content)
    size = f"{len(content) / 1e6:.1f} MB"
    Console().print(f"{size}  {config.out}", highlight=False, markup=False, soft_wrap=True)


def _export() -> ModuleType:
    """Imports the module `_export`. **Raises:** `UsageError` when its extra is not installed."""
    try:
        return importlib.import_module("eqgrid_play.static._export")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"eqgrid export-page needs {error.name!r}, which is not installed: "
            "pip install 'eqgrid[onnx]'."
        ) from error
