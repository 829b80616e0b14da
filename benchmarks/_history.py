"""The history of `throughput.py --record`: a line for each case of each run, and its drawing."""

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import TypeAlias

from _speed_report import Rows
from _tasks import NAMES, PEERS

from eqgrid_lab.folders import read_csv, write_csv
from eqgrid_lab.show import draws_figure, new_figure, plain_axes, write_figure

Line: TypeAlias = dict[str, str]
_COLORS = ("#4477aa", "#66ccee", "#ccbb44", "#228833", "#ee6677", "#999999")


def lines_of(rows: Rows) -> list[Line]:
    """The lines of a run: when, which commit, which machine, and for each case the steps per second
    of eqgrid, and how many times as fast it is as each peer; empty where there is no such number.

    **Arguments:**

    - `rows`: those of `measure`.
    """
    about = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "commit": _commit(),
        "machine": _machine(),
    }
    cases: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in rows:
        if "error" not in row:
            case = cases.setdefault((row["world"], row["mode"], row["num_envs"]), {})
            case[row["library"]] = row["steps_per_second"]
    lines: list[Line] = []
    for (world, mode, num_envs), speeds in cases.items():
        if own := speeds.get("eqgrid"):
            ratios = {x: f"{own / speeds[x]:.2f}" if x in speeds else "" for x in PEERS}
            case = {"world": world, "mode": mode, "num_envs": str(num_envs)}
            lines.append(about | case | {"steps_per_second": f"{own:.0f}"} | ratios)
    return lines


def record(file: Path, rows: Rows) -> Path:
    """Appends a run to a file, and draws the file.

    **Arguments:**

    - `file`: a CSV file, which is made if it does not exist.
    - `rows`: those of `measure`.

    **Returns:** the picture, beside the file.
    """
    lines = [*(read_csv(file, "date", "commit") if file.exists() else []), *lines_of(rows)]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_csv(file, lines)
    picture = file.with_suffix(".png")
    _draw(picture, lines)
    return picture


@draws_figure
def _draw(path: Path, lines: list[Line]) -> None:
    """Draws the mean ratio of each run to each peer, over the cases of the run, run by run."""
    runs = list(dict.fromkeys((x["date"], x["commit"]) for x in lines))
    figure = new_figure(6.5, 3)
    axes = figure.subplots()
    for peer, color in zip(PEERS, _COLORS, strict=False):
        points: list[tuple[int, float]] = []
        for number, run in enumerate(runs):
            own = [x for x in lines if (x["date"], x["commit"]) == run]
            ratios = [float(x[peer]) for x in own if x.get(peer)]
            if ratios:
                points.append((number, sum(ratios) / len(ratios)))
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=color, label=NAMES[peer])
    axes.set_xticks(range(len(runs)), [f"{date[:10]}\n{commit}" for date, commit in runs])
    axes.set_ylabel("times as fast")
    axes.set_ylim(bottom=0)
    plain_axes(axes)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    write_figure(path, figure)


def _commit() -> str:
    """The commit of this checkout; empty outside of one."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def _machine() -> str:
    """The processor, and the number of its cores that can be used."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [x.partition(":")[2].strip() for x in text.splitlines() if x.startswith("model name")]
    return f"{names[0]}, {os.cpu_count()} cores" if names else platform.machine()
