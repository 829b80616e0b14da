"""Heat maps of where agents stand in a kitchen."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from agents.runs.display._figure import new_figure, write_figure
from eqgrid import Trajectories
from eqgrid.envs.overcooked import Overcooked
from eqgrid.grid import Layout

_COLUMNS = 3


def draw_heat_maps(
    path: Path, layout: Layout, groups: Sequence[tuple[str, Trajectories]], title: str
) -> None:
    """Draws the share of time that is spent in each cell, over a picture of the kitchen.

    **Arguments:**

    - `path`: the PNG file.
    - `layout`: the kitchen.
    - `groups`: who played, and their games.
    - `title`: the title of the picture.

    **Raises:** `PictureError` and `OSError`.
    """
    height, width = layout.tiles.shape
    kitchen = Overcooked(layout)
    picture = kitchen.render(layout.start, cell_pixels=48)[: 48 * height, : 48 * width]
    shares = [share_of_time(games, (height, width)) for _, games in groups]
    most = max(float(share.max()) for share in shares)
    columns = min(_COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    figure = new_figure(3.4 * columns, 3.4 * rows * height / width + 0.9)
    place = (-0.5, width - 0.5, height - 0.5, -0.5)
    for number, ((name, _), share) in enumerate(zip(groups, shares, strict=True), 1):
        axes = figure.add_subplot(rows, columns, number)
        axes.imshow(picture, extent=place)
        seen = np.ma.masked_equal(share, 0)
        axes.imshow(seen, extent=place, cmap="inferno", vmin=0, vmax=most, alpha=0.8)
        for (row, col), x in np.ndenumerate(share):
            if x > 0:
                color = "white" if x < 0.6 * most else "black"
                axes.text(col, row, f"{x:.0%}", ha="center", va="center", color=color, fontsize=7)
        axes.set_title(name, fontsize=9)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.suptitle(f"Where cooks stand in {title}: share of the time of both")
    write_figure(path, figure)


def share_of_time(games: Trajectories, shape: tuple[int, int]) -> Float[np.ndarray, "height width"]:
    """The share of the time of all agents that is spent in each cell.

    **Arguments:**

    - `games`: the games, whose states are those of a grid world.
    - `shape`: the height and the width of the grid.
    """
    position = np.asarray(games.state.bodies.position).reshape(-1, 2)
    count = np.zeros(shape)
    np.add.at(count, (position[:, 0], position[:, 1]), 1)
    return count / len(position)
