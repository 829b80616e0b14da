"""Generates layouts, and writes a sheet of pictures and a file with their texts.

python experiments/layouts.py --env.name overcooked --env.generated.two-rooms 1
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from eqgrid_lab import Kitchen
from eqgrid_lab.base import UsageError, as_usage_error, run_command
from eqgrid_lab.folders import open_results
from eqgrid_lab.settings import Seed, at_home, given, read_flags
from eqgrid_lab.worlds import GENERATED, WorldSettings, world_settings
import jax
import tyro
from msgspec import Meta
from PIL import Image
from rich.markup import escape

from eqgrid.grid import Layout, draw_layouts, render


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
    """Draws the pictures of all layouts on one sheet, which is nearly square."""
    pictures = [  # without the line of text below each picture
        render(layout, layout.start, cell_pixels=cell_pixels)[: len(layout.tiles) * cell_pixels]
        for layout in layouts
    ]
    height = max(picture.shape[0] for picture in pictures) + cell_pixels
    width = max(picture.shape[1] for picture in pictures) + cell_pixels
    columns = max(1, round(math.sqrt(len(pictures) * height / width)))
    rows = math.ceil(len(pictures) / columns)
    image = Image.new("RGB", (columns * width, rows * height), "white")
    for number, picture in enumerate(pictures):
        row, col = divmod(number, columns)
        corner = (col * width + cell_pixels // 2, row * height + cell_pixels // 2)
        image.paste(Image.fromarray(picture), corner)
    return image


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    args = at_home(args)
    name = given(args).get("--env.name")
    world = world_settings(name)
    if world.generated is None:
        raise UsageError(f"{world.name} has no generated layouts: name another world.")
    settings: Any = world
    default = Config(env=dataclasses.replace(settings, layout=GENERATED))
    config = read_flags(default, args, "experiments/layouts.py")
    config.env.check()
    with as_usage_error():
        generator = config.env.generator()
        if generator is None:
            raise UsageError("This script needs generated layouts: leave out --env.layout.")
        batch = draw_layouts(generator, jax.random.key(config.seed), config.count)
    layouts = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(config.count)]
    with open_results("layouts", config.out) as (folder, console):
        sheet(layouts, config.cell_pixels).save(folder / "sheet.png")
        texts = "\n\n".join(map(str, layouts)) + "\n"
        (folder / "layouts.txt").write_text(texts, encoding="utf-8")
        for content, file in (("pictures", "sheet.png"), ("texts", "layouts.txt")):
            console.print(f"{content}  {escape(str(folder / file))}", highlight=False)


if __name__ == "__main__":
    run_command(run)
