"""Heat maps of where agents stand in a kitchen, seat by seat."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float, UInt8

from eqgrid import Trajectories
from eqgrid.grid import Layout, render

from ..show import new_figure, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

_CELL_INCHES, _CELL_PIXELS, _LETTER_INCHES = 0.5, 96, 0.08


def draw_heat_maps(
    path: Path, layout: Layout, groups: Sequence[tuple[str, Trajectories]], title: str
) -> None:
    """Draws the share of time that is spent in each cell over a picture of the kitchen: a row for
    each group, a panel for each seat, and the same colours for all.

    **Arguments:**

    - `path`: the PNG file.
    - `layout`: the kitchen.
    - `groups`: who played, and their games.
    - `title`: the title of the picture.

    **Raises:** `PictureError` and `OSError`.
    """
    (height, width), seats = layout.tiles.shape, layout.num_agents
    shares = [[share_of_time(x, (height, width), i) for i in range(seats)] for _, x in groups]
    most = max(float(share.max()) for row in shares for share in row)
    figure = new_figure(
        seats * (_CELL_INCHES * width + 0.2) + 0.9,
        len(groups) * (_CELL_INCHES * height + 0.55) + 0.4,
    )
    kitchen, room = empty_kitchen(layout), int(_CELL_INCHES * width / _LETTER_INCHES)
    shown = []
    for row, ((name, games), own) in enumerate(zip(groups, shares, strict=True)):
        for seat, share in enumerate(own):
            axes = figure.add_subplot(len(groups), seats, row * seats + seat + 1)
            shown.append(_draw(axes, layout, kitchen, share, most))
            start = np.asarray(games.state.bodies.position[0, seat])
            axes.plot(start[1], start[0], "o", ms=26, mfc="none", mec="#D1495B", mew=1.6)
            who = name if len(name) <= room else "..." + name[3 - room :]
            axes.set_title(f"{who}\nseat {seat}", fontsize=9, loc="left")
    bar = figure.colorbar(shown[0], ax=figure.axes, shrink=0.8, format=lambda x, _: f"{x:.0%}")
    bar.set_label("share of the time; a ring marks the start", fontsize=8)
    figure.suptitle(f"Where cooks stand in {title}", fontsize=10)
    write_figure(path, figure, dpi=130)


def _draw(
    axes: "Axes",
    layout: Layout,
    kitchen: UInt8[np.ndarray, "rows cols 3"],
    share: Float[np.ndarray, "height width"],
    most: float,
) -> "AxesImage":
    """Draws one panel: the kitchen, and over its floor a colour and a number for each cell.

    **Returns:** what has the colours, for a bar.
    """
    height, width = share.shape
    floor = np.isin(np.asarray(layout.tiles), layout.kinds.walkable)
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(kitchen, extent=extent)
    cells = np.ma.masked_array(share, ~floor)
    shown = axes.imshow(cells, cmap="PuBu", vmin=0, vmax=most, extent=extent)
    for row, col in np.argwhere(floor & (share > 0)).tolist():
        own = share[row, col]
        text = f"{own:.0%}" if own >= 0.005 else "<1%"
        colour = "white" if own > 0.55 * most else "#333333"
        axes.text(col, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:])
    axes.spines[:].set_visible(False)
    return shown


def empty_kitchen(layout: Layout) -> UInt8[np.ndarray, "rows cols 3"]:
    """The picture of a kitchen without cooks, and without the bar below it."""
    bodies = jax.tree.map(lambda x: x[:0], layout.start.bodies)
    world = dataclasses.replace(layout.start, bodies=bodies)
    return render(layout, world, cell_pixels=_CELL_PIXELS)[: len(layout.tiles) * _CELL_PIXELS]


def share_of_time(
    games: Trajectories, shape: tuple[int, int], seat: int
) -> Float[np.ndarray, "height width"]:
    """The share of the time of one agent that is spent in each cell.

    **Arguments:**

    - `games`: the games, whose states are those of a grid world.
    - `shape`: the height and the width of the grid.
    - `seat`: the agent.
    """
    position = np.asarray(games.state.bodies.position)[:, seat]
    count = np.zeros(shape)
    np.add.at(count, (position[:, 0], position[:, 1]), 1)
    return count / len(position)
