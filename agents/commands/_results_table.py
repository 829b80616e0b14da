"""Runs of many seeds as rows of one table, and their learning curves as one picture."""

import csv
import dataclasses
import io
import itertools
import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from agents import write_whole
from agents.evaluation._statistics import align_curves, bootstrap_interval, interquartile_mean
from agents.runs._run_files import seed_folders
from agents.runs.display._errors import UsageError
from agents.runs.display._figure import label_thousands, new_figure, write_figure
from agents.runs.folders._folder import short_name
from agents.runs.folders._results import MAX_RESULT_BYTES, write_csv
from eqgrid import read_regular_file, read_regular_text

_DAMAGED = (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""What reading a file raises in which anything may stand."""
_OF_THE_PROCESS = ("seed", "num_seeds", "devices", "log", "checkpoint_every")
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_NAME = ("layout", "algorithm", "network")
"""What decides in which row of a table a run is."""


@final
@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """What the folder of a run of one seed says.

    **Arguments:**

    - `folder`: where it is.
    - `settings`: those that it was trained with.
    - `result`: what is in its `result.json`.
    - `curve`: the return of every evaluation, by the steps before it.
    """

    folder: Path
    settings: dict[str, Any]
    result: dict[str, Any]
    curve: dict[int, float]

    @property
    def score(self) -> float:
        """The return of the policy that it left: of the better of its best and its last one."""
        which = "best" if self.result["policy"] == "best" else "eval"
        return float(self.result[f"{which}_return_mean"])

    @property
    def row(self) -> tuple[str, str, str]:
        """In which row of a table it is: the layout, the algorithm and the network."""
        layout = short_name(self.result["layout"])
        return layout, self.result["algorithm"], self.settings["network"]


@final
@dataclasses.dataclass(frozen=True)
class Row:
    """Runs that differ in nothing but their seeds.

    **Arguments:**

    - `name`: the layout, the algorithm and the network.
    - `runs`: the runs, by their seeds.
    - `crossplay`: what is in the `crossplay.json` of these runs, if they have played one another.
    - `partners`: what is in their `partners.json`, if they have played with held-out partners.
    """

    name: tuple[str, str, str]
    runs: tuple[FinishedRun, ...]
    crossplay: dict[str, Any]
    partners: dict[str, Any]

    @property
    def optimum(self) -> float | None:
        """The best return that is known."""
        return self.runs[0].result["optimum"]

    def numbers(self) -> dict[str, Any]:
        """What the table says of it, by column. Steps and times are means over the runs; those of
        candidates that did not go on are counted, and the time of runs that were trained at once is
        that of all of them.
        """
        results = [run.result for run in self.runs]
        steps = [x["env_steps"] + x["env_steps_of_others"] for x in results]
        scores = np.asarray([run.score for run in self.runs])
        low, high = bootstrap_interval(scores)
        return dict(zip(_NAME, self.name, strict=True)) | {
            "seeds": len(scores),
            "mean": float(scores.mean()),
            "iqm": float(interquartile_mean(scores)),
            "low": float(low),
            "high": float(high),
            "worst": float(scores.min()),
            "optimum": self.optimum,
            "env_steps": float(np.mean(steps)),
            "minutes": float(np.mean([result["wall_seconds"] for result in results])) / 60,
            "crossplay": self.crossplay.get("cross_play"),
            "held_out": self.partners.get("return_iqm"),
            "proximity": self.partners.get("proximity_iqm"),
        }


def find_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """Finds complete runs.

    **Arguments:**

    - `paths`: folders of runs, of runs of many seeds, or of several of these.

    **Raises:** `UsageError` when there is none in a folder, or a file of it cannot be read.
    """
    runs = []
    for path in paths:
        found = sorted(file.parent for file in path.glob("**/result.json"))
        single = [_read(folder) for folder in found if not seed_folders(folder)]
        if not single:
            raise UsageError(f"There is no complete run in {str(path)!r}: result.json is missing.")
        runs += single
    return runs


def _read(folder: Path) -> FinishedRun:
    try:
        result = json.loads(read_regular_text(folder / "result.json", MAX_RESULT_BYTES))
        settings = tomllib.loads(read_regular_text(folder / "config.toml", MAX_RESULT_BYTES))
        metrics = read_regular_text(folder / "metrics.csv", MAX_RESULT_BYTES)
        rows = list(csv.DictReader(io.StringIO(metrics, newline="")))
        curve = {int(row["env_steps"]): float(row["eval_return_mean"]) for row in rows}
        run = FinishedRun(folder, settings, result, curve)
        _ = run.score, run.row, result["seeds"], result["optimum"], result["wall_seconds"]
        _ = result["env_steps"] + result["env_steps_of_others"]
    except _DAMAGED as error:
        raise UsageError(
            f"The run {str(folder)!r} cannot be reported, since result.json, config.toml or "
            "metrics.csv is missing or damaged: leave it out."
        ) from error
    return run


def rows_of(runs: Sequence[FinishedRun]) -> list[Row]:
    """Puts runs into rows.

    **Raises:** `UsageError` when two runs of one row have other settings, or equal seeds.
    """
    rows = []
    for name in sorted({run.row for run in runs}):
        own = sorted((run for run in runs if run.row == name), key=lambda run: run.result["seeds"])
        for before, run in itertools.pairwise(own):
            differ = _difference(before.settings, run.settings)
            if differ is not None or before.result["seeds"] == run.result["seeds"]:
                what = "have the same seed" if differ is None else f"differ in {differ}"
                raise UsageError(
                    f"The runs {str(before.folder)!r} and {str(run.folder)!r} {what}: name runs "
                    "that differ in nothing but their seeds."
                )
        games = [_played(own, f"{what}.json") for what in ("crossplay", "partners")]
        rows.append(Row(name, tuple(own), *games))
    return rows


def _around(runs: Sequence[FinishedRun]) -> Path:
    """The folder of a run of many seeds, where these are its seeds."""
    return Path(os.path.commonpath([run.folder.resolve() for run in runs]))


def _played(own: Sequence[FinishedRun], name: str) -> dict[str, Any]:
    """What the policies of these runs have earned in other teams: the newest file of that name
    in the folder around all of them that speaks of these runs and no others.
    """
    runs = {run.folder.resolve() for run in own}
    found = {}
    for path in sorted(_around(own).glob(f"**/{name}"), key=lambda path: path.stat().st_mtime):
        try:
            result = json.loads(read_regular_text(path, MAX_RESULT_BYTES))
            if {Path(policy).parent.resolve() for policy in result["policies"]} == runs:
                found = result
        except _DAMAGED as error:
            raise UsageError(f"{str(path)!r} is damaged: play these games again.") from error
    return found


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """The first setting that differs."""
    for key in sorted({*one, *other} - set(_OF_THE_PROCESS)):
        mine, theirs = one.get(key), other.get(key)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            inner = _difference(mine, theirs)
            if inner is not None:
                return f"{key}.{inner}"
        elif mine != theirs:
            return key
    return None


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Writes the table for other programs."""
    write_csv(path, [row.numbers() for row in rows])


def write_seeds(path: Path, rows: Sequence[Row]) -> None:
    """Writes a row for every run: the return of its best policy and of its last one."""
    numbers = [
        dict(zip(_NAME, row.name, strict=True))
        | {
            "seed": run.result["seeds"][0],
            "best": run.result["best_return_mean"],
            "last": run.result["eval_return_mean"],
            "env_steps": run.result["env_steps"],
            "minutes": run.result["wall_seconds"] / 60,
        }
        for row in rows
        for run in row.runs
    ]
    write_csv(path, numbers)


def copy_films(folder: Path, rows: Sequence[Row]) -> list[str]:
    """Copies a film of every row that has one: that of seeds that were trained together, which is
    of the one in the middle, or else that of the best run.

    **Returns:** the names of the copies.
    """
    names = []
    for row in rows:
        best = max(row.runs, key=lambda run: run.score)
        films = [around / "episode.gif" for around in (_around(row.runs), best.folder)]
        film = next((film for film in films if film.is_file()), None)
        if film is not None:
            names.append("-".join(x for x in row.name if x != "mlp") + ".gif")
            write_whole(folder / names[-1], read_regular_file(film))
    return names


def as_markdown(rows: Sequence[Row]) -> str:
    """The table for people."""
    titles = ("kitchen", "", "seeds", "mean", "interquartile mean (95 % interval)", "worst")
    titles += ("of the best known", "cross-play", "held-out partners", "steps", "minutes")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        x = row.numbers()
        share = "" if not x["optimum"] else f"{x['mean'] / x['optimum']:.0%} of {x['optimum']:g}"
        what = x["algorithm"].upper() + ("" if x["network"] == "mlp" else f", {x['network']}")
        lines.append(
            f"| `{x['layout']}` | {what} | {x['seeds']} | {x['mean']:.1f} | {x['iqm']:.1f} "
            f"({x['low']:.1f} to {x['high']:.1f}) | {x['worst']:.1f} | {share} "
            f"| {_told(x['crossplay'])} | {_told(x['held_out'])} "
            f"| {x['env_steps'] / 1e6:.1f} million | {x['minutes']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _told(mean: float | None) -> str:
    return "" if mean is None else f"{mean:.1f}"


def draw_all(path: Path, rows: Sequence[Row]) -> None:
    """Draws the curves of every layout side by side, as a PNG: for each row the interquartile mean
    over its seeds, and the interval around it as a band.
    """
    layouts = list(dict.fromkeys(row.name[0] for row in rows))
    kinds = list(dict.fromkeys(row.name[1:] for row in rows))
    figure = new_figure(3.4 * len(layouts) + 0.6, 3.2)
    for number, layout in enumerate(layouts, 1):
        axes = figure.add_subplot(1, len(layouts), number)
        for row in (row for row in rows if row.name[0] == layout):
            steps, scores = align_curves([run.curve for run in row.runs])
            low, high = bootstrap_interval(scores)
            colour = _COLOURS[kinds.index(row.name[1:]) % len(_COLOURS)]
            label = " ".join(x for x in row.name[1:] if x != "mlp")
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, interquartile_mean(scores), color=colour, label=label)
            if row.optimum is not None:
                axes.axhline(row.optimum, color="#888888", linestyle="--", linewidth=1)
        axes.set_title(layout, loc="left")
        axes.set_ylabel("return of an episode" if number == 1 else "")
        axes.set_xlabel("environment steps")
        label_thousands(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), high + 0.05 * (high - low))
        axes.grid(alpha=0.25)
        axes.legend(loc="lower right", frameon=False)
    write_figure(path, figure, dpi=120)
