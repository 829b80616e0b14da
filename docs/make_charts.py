"""Draws the charts of results and speed from `numbers/`, and the picture of an observation.

Run it as `python docs/make_charts.py`.
"""

import tomllib
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np

from eqgrid import make
from eqgrid.envs.commons import ORCHARD_PLANES
from eqgrid.grid import Direction, direction_delta

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

DOCS = Path(__file__).parent
COLORS = ("#aa3377", "#4477aa", "#ccbb44")
"""Colours that colour-blind readers can tell apart, for eqgrid and its peers."""
MARKERS = ("o", "s", "^")


def table(topic: str, name: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table of a file of numbers."""
    file = DOCS / "numbers" / f"{topic}.toml"
    found = tomllib.loads(file.read_text(encoding="utf-8"))["tables"][name]
    return found["header"], found["rows"]


def number(cell: str) -> float:
    """A number such as `574k`, `1.51M (3.2)` or `2,048`; not a number for other cells."""
    first = cell.split()[0].replace(",", "")
    unit = {"k": 1e3, "M": 1e6}.get(first[-1], 1.0)
    try:
        return float(first.rstrip("kM")) * unit
    except ValueError:
        return float("nan")


def draw_results(file: Path) -> None:
    """Bars of the returns of eqgrid and JaxMARL, with a line for each best known return."""
    header, (own, peer, best) = table("kitchens", "plain")
    kitchens = [name.strip("`") for name in header[1:]]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, row in enumerate((own, peer)):
        heights = [number(cell) for cell in row[1:]]
        lefts = [x + (place - 0.5) * 0.36 for x in range(len(kitchens))]
        label = ("eqgrid", "JaxMARL")[place]
        bars = axes.bar(lefts, heights, 0.34, color=COLORS[place], label=label)
        axes.bar_label(bars, padding=-18, fontsize=12, color="white")
    for x, cell in enumerate(best[1:]):
        label = "best known" if x == 0 else ""
        axes.hlines(number(cell), x - 0.42, x + 0.42, "#222222", linewidth=2, label=label)
    axes.set_xticks(range(len(kitchens)), kitchens, fontsize=12)
    axes.set_ylabel("return", fontsize=12)
    axes.set_ylim(0, 600)
    axes.tick_params(axis="y", labelsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, frameon=False, fontsize=12, loc="upper right")
    figure.savefig(file, dpi=160)
    plt.close(figure)


def draw_throughput(file: Path) -> None:
    """Lines of the steps per second of eqgrid and its peers against environments."""
    header, rows = table("speed", "stored")
    sizes = [number(row[0]) for row in rows]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, name in enumerate(header[1:]):
        speeds = [number(row[place + 1]) for row in rows]
        style = {"color": COLORS[place], "marker": MARKERS[place], "linewidth": 2.5}
        axes.loglog(sizes, speeds, label=name, **style)
    axes.set_xticks(sizes, [row[0] for row in rows], fontsize=11)
    axes.minorticks_off()
    axes.set_xlabel("environments", fontsize=12)
    axes.set_ylabel("steps per second", fontsize=12)
    axes.set_yticks([1e5, 1e6, 1e7], ["100k", "1M", "10M"], fontsize=11)
    axes.set_ylim(6e4, 1.2e7)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, frameon=False, fontsize=12, loc="lower right")
    figure.savefig(file, dpi=160)
    plt.close(figure)


WINDOW_KEY, CELL = 291, 40
"""The seed of the harvest in the picture of an observation, and the side of a cell in pixels."""
AHEAD, BEHIND, ASIDE = 9, 1, 5
"""How many cells an agent of Harvest sees ahead, behind and to each side."""


def harvest() -> tuple[Any, Any]:
    """Harvest after some random steps."""
    env = make("harvest", layout="small")
    _, state = env.reset(jax.random.key(WINDOW_KEY))
    for number in range(12):
        key = jax.random.fold_in(jax.random.key(WINDOW_KEY), number)
        actions = jax.random.randint(key, (env.num_agents,), 0, 8)
        _, state = env.step(key, state, actions)
    return env, state


def draw_world(axes: Any, env: Any, state: Any) -> None:
    """Draws the world, and the window of the first agent in it."""
    picture = np.asarray(env.render(state, cell_pixels=CELL))[: env.shape[0] * CELL]
    axes.imshow(picture, extent=(0, env.shape[1], env.shape[0], 0))
    row, col = (int(x) for x in state.bodies.position[0])
    down, right = (int(x) for x in direction_delta(state.bodies.direction[0]))
    rows = [
        row + ahead * down + side * right for ahead in (-BEHIND, AHEAD) for side in (-ASIDE, ASIDE)
    ]
    cols = [
        col + ahead * right + side * down for ahead in (-BEHIND, AHEAD) for side in (-ASIDE, ASIDE)
    ]
    corner, size = (min(cols), min(rows)), (max(cols) - min(cols) + 1, max(rows) - min(rows) + 1)
    for color, width in (("white", 4.5), ("#aa3377", 2.5)):
        axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=color, linewidth=width))
    axes.set_xlim(min(0, corner[0]) - 0.2, max(env.shape[1], corner[0] + size[0]) + 0.2)
    axes.set_ylim(max(env.shape[0], corner[1] + size[1]) + 0.2, min(0, corner[1]) - 0.2)
    facing = Direction(int(state.bodies.direction[0])).name.lower()
    axes.set_title(f"agent 1 faces {facing}, and sees the window", fontsize=13)
    axes.axis("off")


def draw_window(file: Path) -> None:
    """The world, and each plane of the observation of the first agent, which faces up in it."""
    env, state = harvest()
    planes = np.asarray(env.observe(state)[0])
    figure = plt.figure(figsize=(11, 5.4), layout="constrained")
    panels: Any = figure.subfigures(1, 2, width_ratios=(1.15, 1))
    world, grid = panels
    draw_world(world.subplots(), env, state)
    for place, axes in enumerate(grid.subplots(3, 3).flat):
        plane = planes[..., place]
        axes.imshow(plane, cmap=ListedColormap(("#eeeeee", "#225588")), vmin=0, vmax=1)
        axes.plot(ASIDE, len(plane) - 1 - BEHIND, marker="^", color="#aa3377", markersize=6)
        axes.set_title(f"{place} {ORCHARD_PLANES[place]}", fontsize=11)
        axes.set_xticks(np.arange(-0.5, len(plane)), [])
        axes.set_yticks(np.arange(-0.5, len(plane)), [])
        axes.tick_params(length=0)
        axes.grid(color="white", linewidth=0.6)
        axes.spines[:].set_visible(False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    draw_results(DOCS / "images/results.png")
    draw_throughput(DOCS / "images/throughput.png")
    draw_window(DOCS / "images/window.png")
