"""The command `eqgrid export-page`: exports a world and a policy as a web page without a server."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agents import write_atomic
from eqgrid import unwrap
from eqgrid.errors import import_optional
from eqgrid.grid import RandomLayouts
from eqgrid_lab.base import UsageError, as_usage_error, run_command

from ..games import PartnerFlags, read_partner_flags


@dataclasses.dataclass(frozen=True)
class Config(PartnerFlags):
    """Exports a world and a policy as a web page in which people play without a server."""

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
    config, partners = read_partner_flags(Config(), args, "eqgrid export-page")
    if len(config.partners) != 1:
        raise UsageError("Name one partner, which plays in the page; see --help.")
    if config.out.exists():
        raise UsageError(f"{str(config.out)!r} exists: choose another --out, or delete it.")
    if not config.out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder for {str(config.out)!r}: make it first.")
    with as_usage_error(of=ImportError):
        needs = "A page without a server needs jax2onnx"
        export = import_optional("eqgrid_play.static._export", needs, "onnx")
    menu = config.menu({name: name for name in config.partners}, partners)
    layout = menu.layouts[0]
    place, offer = menu.place(layout), next(iter(menu.offers(layout).values()))
    if isinstance(unwrap(place.world), RandomLayouts):
        raise UsageError("A page without a server has one layout: choose one with --env.layout.")
    content = export.page(place, offer, config.runtime, config.ticks_per_second)
    write_atomic(config.out, content)
    size = f"{len(content) / 1e6:.1f} MB"
    Console().print(f"{size}  {config.out}", highlight=False, markup=False, soft_wrap=True)
