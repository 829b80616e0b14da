"""Draws the charts of the results and of the speed from `numbers/`: python docs/make_charts.py"""

import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

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


if __name__ == "__main__":
    draw_results(DOCS / "images/results.png")
    draw_throughput(DOCS / "images/throughput.png")
