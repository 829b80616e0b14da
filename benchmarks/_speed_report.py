"""The tables and the plot of `throughput.py`."""

import itertools
from pathlib import Path
from typing import Any, TypeAlias

from _tasks import NAMES
from rich.console import Console

from eqgrid_lab.show import (
    add_legend,
    draws_figure,
    label_thousands,
    new_figure,
    plain_axes,
    print_table,
    write_figure,
    write_title,
)

Rows: TypeAlias = list[dict[str, Any]]
_COLORS = ("#aa3377", "#4477aa", "#66ccee", "#ccbb44", "#228833", "#ee6677", "#999999", "#332288")


def print_tables(console: Console, rows: Rows) -> None:
    """Prints a table for each mode, with the steps per second and the seconds to compile of every
    library, and the speed of eqgrid relative to it. Each error is printed below the tables, with
    the smallest number of environments at which it occurred.
    """
    libraries = list(dict.fromkeys(row["library"] for row in rows))
    modes: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    errors: dict[tuple[str, ...], int] = {}
    for row in rows:
        cases = modes.setdefault(row["mode"], {})
        cases.setdefault((row["world"], row["num_envs"]), {})[row["library"]] = row
        if "error" in row:
            where = (NAMES[row["library"]], row["world"], row["mode"], row["error"])
            errors.setdefault(where, row["num_envs"])
    for mode, cases in modes.items():
        print_table(
            console,
            ["world", "environments", *(NAMES[library] for library in libraries)],
            [
                (world, f"{num_envs:,}", *(_cell(case, library) for library in libraries))
                for (world, num_envs), case in cases.items()
            ],
            title=f"{mode}: environment steps per second, seconds to compile",
        )
    for (library, world, mode, error), num_envs in errors.items():
        where = f"{library}, {world}, {mode}, from {num_envs:,} environments"
        console.print(f"{where}: {error}", style="dim", markup=False, highlight=False)


def _cell(case: dict[str, Any], library: str) -> str:
    if library not in case:
        return ""
    row = case[library]
    if "error" in row:
        return "[dim]not measured[/]"
    speed, ours = row["steps_per_second"], case["eqgrid"].get("steps_per_second")
    seconds = row["trace_seconds"] + row["compile_seconds"]
    ratio = f"  [bold]{ours / speed:.1f}x[/]" if ours and library != "eqgrid" else ""
    return f"{_short(speed)}  [dim]{seconds:.2f} s[/]{ratio}"


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@draws_figure
def draw(path: Path, rows: Rows, title: str) -> None:
    """Plots steps per second against the number of environments, on logarithmic axes, with a panel
    for each world and mode.
    """
    worlds, modes = (list(dict.fromkeys(row[key] for row in rows)) for key in ("world", "mode"))
    figure = new_figure(4.2 * len(modes), 1 + 3 * len(worlds))
    panels = figure.subplots(len(worlds), len(modes), sharex=True, sharey=True, squeeze=False)
    for panel, case in zip(panels.flat, itertools.product(worlds, modes), strict=True):
        for (library, name), color in zip(NAMES.items(), _COLORS, strict=True):
            points = [
                (row["num_envs"], row["steps_per_second"])
                for row in rows
                if (row["world"], row["mode"], row["library"]) == (*case, library)
                and "error" not in row
            ]
            if points:
                width = 2.5 if library == "eqgrid" else 1.5
                style = {"lw": width, "color": color, "ms": 4, "label": name}
                panel.loglog(*zip(*points, strict=True), "o-", **style)
        panel.set_title(case[1] if len(worlds) == 1 else ", ".join(case), loc="left")
        plain_axes(panel)
        label_thousands(panel.xaxis)
        label_thousands(panel.yaxis)
    for panel in panels[-1]:
        panel.set_xlabel("environments")
    figure.supylabel("environment steps per second", fontsize="medium")
    write_title(figure, title)
    add_legend(figure)
    write_figure(path, figure)
