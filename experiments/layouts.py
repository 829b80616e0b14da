"""Generates layouts, and writes a sheet of pictures and a file with their texts.

python experiments/layouts.py --env.name overcooked --env.generated.two-rooms 1
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import tyro
from msgspec import Meta
from PIL import Image
from rich.markup import escape

from eqgrid_lab import Kitchen
from eqgrid.grid import Layout, draw_layouts, render
from eqgrid_lab.base import Named, UsageError, as_usage_error, run_command
from eqgrid_lab.folders import open_results
from eqgrid_lab.settings import Seed, read_flags, value_after
from eqgrid_lab.worlds import GENERATED, WorldSettings, world_settings


@dataclasses.dataclass(frozen=True)
class Config:
    """Generates layouts for a world, and writes a sheet of pictures and a file with their texts."""

    env: WorldSettings = dataclasses.field(default_factory=Kitchen)
    count: Annotated[int, Meta(ge=1, le=10_000)] = 24
    """Number of layouts."""
    seed: Seed = 0
    """Random seed of the layouts."""
    cell_pixels: Annotated[int, Meta(ge=16, le=128)] = 16
    """Side length of a cell, in pixels."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def sheet(layouts: Sequence[Layout], cell_pixels: int) -> Image.Image:
    """The pictures of layouts, in as many rows and columns as make the sheet about square."""
    pictures = [
        render(layout, layout.start, cell_pixels=cell_pixels)[: len(layout.tiles) * cell_pixels]
        for layout in layouts  # without the line of text below a picture
    ]
    height = max(picture.shape[0] for picture in pictures) + cell_pixels
    width = max(picture.shape[1] for picture in pictures) + cell_pixels
    columns = max(1, round(math.sqrt(len(pictures) * height / width)))
    rows = math.ceil(len(pictures) / columns)
    whole = Image.new("RGB", (columns * width, rows * height), "white")
    for number, picture in enumerate(pictures):
        row, col = divmod(number, columns)
        corner = (col * width + cell_pixels // 2, row * height + cell_pixels // 2)
        whole.paste(Image.fromarray(picture), corner)
    return whole


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    name = value_after("--env.name", args)
    world = world_settings(name, Named(worlds=(name or "",)))
    if world.generated is None:
        raise UsageError(f"No layouts are drawn for {world.name}; see --env.generated in --help.")
    own: Any = world
    default = Config(env=dataclasses.replace(own, layout=GENERATED))
    config = read_flags(default, args, "experiments/layouts.py")
    config.env.check()
    with as_usage_error():
        layouts = config.env.generator()
        if layouts is None:
            raise UsageError("Only generated layouts are drawn: leave out --env.layout.")
        pool = draw_layouts(layouts, jax.random.key(config.seed), config.count)
    drawn = [jax.tree.map(lambda x, i=i: x[i], pool) for i in range(config.count)]
    with open_results("layouts", config.out) as (folder, console):
        sheet(drawn, config.cell_pixels).save(folder / "sheet.png")
        (folder / "layouts.txt").write_text("\n\n".join(map(str, drawn)) + "\n", encoding="utf-8")
        for what, name in (("pictures", "sheet.png"), ("texts", "layouts.txt")):
            console.print(f"{what}  {escape(str(folder / name))}", highlight=False)


if __name__ == "__main__":
    run_command(run)
