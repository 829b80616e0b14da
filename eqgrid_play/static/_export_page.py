"""The command `eqgrid export-page`: exports a world and a policy as a web page without a server."""

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import tyro
from msgspec import Meta
from rich.console import Console

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
    """Exports a world and a policy as a web page in which people play without a server, and the
    policy alone as policy.onnx.
    """

    policy: tyro.conf.Positional[Annotated[Path | None, tyro.conf.arg(metavar="RUN|FILE")]] = None
    """Policy of the partner: the folder of a run, a policy file or a checkpoint."""
    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    which: Literal["policy", "best", "last"] = "policy"
    """File to read from a folder: policy.safetensors, or a checkpoint."""
    script: Annotated[Path | None, tyro.conf.arg(metavar="FILE.py")] = None
    """Your own script that trained it, if any; its code is run."""
    seat: Annotated[int, Meta(ge=0)] = 0
    """First seat of the person, counted from 0. The person can change it in the page."""
    ticks_per_second: Annotated[float, Meta(gt=0, le=60)] = 6.0
    """Steps per second."""
    delay: Annotated[int, Meta(ge=0, le=60)] = 0
    """Reaction delay of the partner, in steps."""
    noise: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Probability that an action of the partner is replaced by a random one."""
    runtime: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder dist of the npm package onnxruntime-web, which runs the models in the page."""
    single_file: bool = False
    """Write one HTML file that can be opened without a server."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR|FILE")] = Path("page")
    """Folder of the page, or its file with --single-file; it must not exist."""


def export_page_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run, "nothing was written")


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a flag is wrong, a library is missing, or the world or the policy
    cannot be exported; `CheckpointError` when the policy is damaged; `RunError` when the exported
    models and the Python models differ; `OSError` when the page cannot be written.
    """
    config = read_flags(Config(env=first_world(args)), args, "eqgrid export-page")
    if config.policy is None:
        raise UsageError("Name a policy, which is the partner in the page; see --help.")
    if config.out.exists():
        raise UsageError(f"{str(config.out)!r} exists: choose another --out, or delete it.")
    if not config.out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder for {str(config.out)!r}: make it first.")
    tools = _tools()
    tools.check_runtime(config.runtime)
    checkpoint = None if config.which == "policy" else config.which
    script = None if config.script is None else load_script(config.script)
    saved = read_policy(config.policy, checkpoint, own_script=script, own_world=config.env.name)
    with as_usage_error():
        config.env.check()
    settings = settings_to_play(config.env)
    menu = Menu(settings, [saved], delay=config.delay, noise=config.noise)
    place = menu.place(menu.layouts[0])
    if isinstance(unwrap(place.world), RandomLayouts):
        raise UsageError("A page without a server has one layout: choose one with --env.layout.")
    if config.seat >= place.env.num_agents:
        raise UsageError(f"--seat must be below {place.env.num_agents}, the number of seats.")
    offer = next(iter(menu.offers(menu.layouts[0]).values()))
    files = tools.page_files(
        place, offer, saved.policy, menu, ticks_per_second=config.ticks_per_second, seat=config.seat
    )
    console = Console()
    for path, size in tools.write_page(files, config.runtime, config.out, config.single_file):
        console.print(
            f"{size / 1000:9.1f} kB  {path}", highlight=False, markup=False, soft_wrap=True
        )


def _tools() -> ModuleType:
    """Imports the module `_export`. **Raises:** `UsageError` when its extra is not installed."""
    try:
        return importlib.import_module("eqgrid_play.static._export")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"eqgrid export-page needs {error.name!r}, which is not installed: "
            "pip install 'eqgrid[onnx]'."
        ) from error
