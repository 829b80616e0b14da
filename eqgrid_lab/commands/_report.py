"""The command `eqgrid report`: the state of each run, and a table and learning curves of complete
runs.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, final

import numpy as np
import tyro

from agents import write_atomic

from ..base import SETTINGS_FILE, Table, UsageError, run_command
from ..folders import locked, open_results, read_csv, reading, short_name, write_csv
from ..settings import read_flags
from ..show import (
    add_legend,
    agents_text,
    align_curves,
    bootstrap_interval,
    draws_figure,
    interquartile_mean,
    label_thousands,
    new_figure,
    print_paths,
    return_texts,
    returns_of_agents,
    shortened,
    write_figure,
)
from ._submit import log_file

_MAY_DIFFER = ("seed", "num_seeds", "devices", "log")
"""The settings in which runs of one row may differ."""
_OF_ALL_SEEDS = ("algorithm", "layout", "optimum", "env_steps", "wall_seconds")
"""The entries of `result.json` that are the same for all seeds."""
_COLUMNS = 5
"""The largest number of panels next to each other."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Lists runs, and writes a table of complete runs, with a row for each layout, algorithm,
    network, and other settings that differ.
    """

    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR ...")]] = ()
    """Folders of runs, or folders that contain runs."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def report_command() -> None:
    """Runs the command line, and ends the process."""
    run_command(run)


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when a folder has no run, two runs have the same settings and seed, or
    a flag is wrong; `OSError` when the results cannot be written.
    """
    config = read_flags(Config(), args, "eqgrid report")
    if not config.runs:
        raise UsageError("Name the folders of runs; see --help.")
    counts, complete = Counter[str](), list[FinishedRun]()
    for folder in find_runs(config.runs):
        if runs := _read_if_complete(folder):
            complete += runs
            counts["complete"] += 1
            continue
        state = _state_if_incomplete(folder)
        print(f"{folder}: {state}")
        counts[state.partition(":")[0]] += 1
    print(", ".join(f"{number} {state}" for state, number in counts.items()))
    if not complete:
        return
    rows = rows_of(complete)
    with open_results("report", config.out) as (folder, console):
        table = as_markdown(rows)
        console.print(table, highlight=False, markup=False, soft_wrap=True)
        write_atomic(folder / "report.md", table.encode())
        write_csv(folder / "seeds.csv", [seed for row in rows for seed in row.seeds()])
        draw_all(folder / "curves.png", rows)
        print_paths(console, [folder / x for x in ("report.md", "seeds.csv", "curves.png")])


@final
class FinishedRun(NamedTuple):
    """A seed of a complete run.

    - `folder`: the folder of the run, which may contain further seeds.
    - `settings`: the settings of training, by names such as `ppo.gamma`.
    - `result`: the entries of `result.json` about the seed, and those that all seeds share.
    - `curve`: the mean return of every evaluation, by the number of training steps before the
        evaluation.
    """

    folder: Path
    settings: Table
    result: Table
    curve: dict[int, float]

    @property
    def score(self) -> float:
        """The mean return of the run's policy file, which has the best or the last policy."""
        return self.result[f"{self._kind}_return_mean"]

    @property
    def agents(self) -> list[float]:
        """The mean return of each agent; empty if the agents' returns are equal."""
        return returns_of_agents(self.result, f"{self._kind}_return")

    @property
    def row(self) -> tuple[str, str, str]:
        """The row of the table to which the run belongs: its layout, algorithm and network."""
        network = self.settings.get("network", "")  # some scripts have no such setting
        return short_name(self.result["layout"]), self.result["algorithm"], network

    @property
    def _kind(self) -> str:
        return "best" if self.result["policy"] == "best" else "eval"


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Finds runs.

    **Arguments:**

    - `paths`: folders of runs, or folders that contain runs.

    **Returns:** the folders of runs, and of jobs that did not start a run.

    **Raises:** `UsageError` when a path has no run.
    """
    runs = []
    for path in paths:
        found = {file.parent for file in path.glob(f"**/{SETTINGS_FILE}")}
        found |= {file.parents[1] / file.stem for file in path.glob("**/jobs/*.log")}
        if not found:
            raise UsageError(f"There are no runs in {str(path)!r}.")
        runs += sorted(found)
    return runs


def _read_if_complete(folder: Path) -> list[FinishedRun]:
    """The runs in a folder, one for each seed; none if they were not trained to the end.

    **Raises:** `RunError` when a file is damaged.
    """
    try:
        with reading(folder / "result.json") as path:
            result = json.loads(path.read_text())
        with reading(folder / SETTINGS_FILE) as path:
            settings = _flat(tomllib.loads(path.read_text()))
        if result["stopped"] or result["total_steps"] != settings["total_steps"]:
            return []
    except (FileNotFoundError, KeyError):  # the last one for other scripts, such as `bc.py`
        return []
    with reading(folder / "metrics.csv") as path:
        rows = read_csv(path, "seed", "env_steps", "eval_return_mean")
    shared, found = {name: result[name] for name in _OF_ALL_SEEDS}, []
    for own in result.get("runs", [{**result, "seed": result["seeds"][0]}]):
        curve = {
            int(row["env_steps"]): float(row["eval_return_mean"])
            for row in rows
            if int(row["seed"]) == own["seed"]
        }
        found.append(FinishedRun(folder, settings, {**shared, **own}, curve))
    return found


def _state_if_incomplete(folder: Path) -> str:
    """The state of a run that is not complete: `running` if a process has locked the folder, and
    otherwise `stopped`, with the last line of its job's log.
    """
    try:
        with locked(folder) if folder.exists() else contextlib.nullcontext():
            pass
    except UsageError:
        return "running"
    with contextlib.suppress(OSError, IndexError):
        return f"stopped: {log_file(folder).read_text(errors='replace').strip().splitlines()[-1]}"
    return "stopped"


@final
class Row(NamedTuple):
    """A row of the table: runs that differ only in their seeds.

    - `names`: the layout, the algorithm, the network, and the other settings that differ.
    - `runs`: the runs, in the order of their seeds.
    """

    names: tuple[str, str, str, str]
    runs: tuple[FinishedRun, ...]

    @property
    def label(self) -> str:
        """The algorithm, the network unless it is an MLP, and the settings that differ."""
        return " ".join(name for name in self.names[1:] if name not in ("", "mlp"))

    @property
    def optimum(self) -> float | None:
        """The best known return in this layout; `None` if unknown."""
        return self.runs[0].result["optimum"]

    def agents(self) -> dict[str, float]:
        """The mean return of each agent, by `mean_agent_0`, ...; empty if the agents' returns are
        equal.
        """
        number = max(len(run.agents) for run in self.runs)
        each = np.asarray([run.agents or [run.score] * number for run in self.runs])
        return {f"mean_agent_{i}": float(x) for i, x in enumerate(each.mean(axis=0))}

    def seeds(self) -> list[Table]:
        """A row of `seeds.csv` for every run, with the returns of its best and last policies."""
        names = zip(("layout", "algorithm", "network", "settings"), self.names, strict=True)
        about = dict(names)
        return [
            {
                **about,
                "seed": run.result["seed"],
                "best": run.result["best_return_mean"],
                "last": run.result["eval_return_mean"],
                **{f"agent_{i}": x for i, x in enumerate(run.agents)},
                "env_steps": run.result["env_steps"],
                "minutes": run.result["wall_seconds"] / 60,
            }
            for run in self.runs
        ]


def rows_of(runs: Sequence[FinishedRun]) -> list[Row]:
    """Groups runs into rows, by layout, algorithm, network, and other settings in which runs of
    this layout, algorithm and network differ.

    **Arguments:**

    - `runs`: complete runs.

    **Returns:** the rows, sorted by these names.

    **Raises:** `UsageError` when two runs of a row have equal seeds.
    """
    rows = []
    for names, group in itertools.groupby(sorted(runs, key=lambda x: x.row), lambda x: x.row):
        own = list(group)
        settings = {key for run in own for key in run.settings} - {*_MAY_DIFFER}
        differ = sorted(x for x in settings if len({repr(run.settings.get(x)) for run in own}) > 1)

        def others(run: FinishedRun, differ: Sequence[str] = differ) -> str:
            return ", ".join(f"{key}={run.settings.get(key)}" for key in differ)

        own.sort(key=lambda run: (others(run), run.result["seed"]))
        rows += [Row((*names, x), tuple(same)) for x, same in itertools.groupby(own, others)]
    for before, run in (pair for row in rows for pair in itertools.pairwise(row.runs)):
        if before.result["seed"] == run.result["seed"]:
            raise UsageError(
                f"The runs {str(before.folder)!r} and {str(run.folder)!r} have the same settings "
                "and the same seed: leave out one."
            )
    return rows


def _flat(table: Table, before: str = "") -> Table:
    """The settings in a table and in the tables in it, by names such as `ppo.gamma`."""
    flat = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{before}{key}.") if inner else {before + key: value}
    return flat


def as_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown. Steps and times are means over the runs. If runs were trained
    together, the time of each of them is the total time.
    """
    titles = ("layout", "", "seeds", "mean", "interquartile mean (95 % interval)", "worst")
    titles += ("of the best known", "steps", "minutes")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        scores = np.asarray([run.score for run in row.runs])
        low, high = bootstrap_interval(scores)
        numbers = (scores.mean(), interquartile_mean(scores), low, high, scores.min())
        mean, iqm, low, high, worst = return_texts(map(float, numbers))
        share = f"{scores.mean() / row.optimum:.0%} of {row.optimum:g}" if row.optimum else ""
        steps = np.mean([run.result["env_steps"] for run in row.runs]) / 1e6
        minutes = np.mean([run.result["wall_seconds"] for run in row.runs]) / 60
        lines.append(
            f"| `{row.names[0]}` | {row.label} | {len(scores)} "
            f"| {mean}{agents_text(row.agents(), 'mean')} | {iqm} ({low} to {high}) | {worst} "
            f"| {share} | {steps:.1f} million | {minutes:.1f} |"
        )
    return "\n".join(lines) + "\n"


@draws_figure
def draw_all(path: Path, rows: Sequence[Row]) -> None:
    """Draws learning curves as a PNG file, with a panel for each layout. Each row of the table has
    a curve of the interquartile mean over its seeds, and a band of the 95 % bootstrap interval.
    """
    layouts = list(dict.fromkeys(row.names[0] for row in rows))
    labels = list(dict.fromkeys(row.label for row in rows))
    columns = min(_COLUMNS, len(layouts))
    lines = math.ceil(len(layouts) / columns)
    figure = new_figure(3.4 * columns + 0.6, 3.2 * lines)
    for number, layout in enumerate(layouts):
        axes = figure.add_subplot(lines, columns, number + 1)
        for row in (row for row in rows if row.names[0] == layout):
            steps, scores = align_curves([run.curve for run in row.runs])
            low, high = bootstrap_interval(scores)
            style, color = divmod(labels.index(row.label), 10)  # matplotlib has ten colours
            dashes, color = ("-", "--", ":", "-.")[style % 4], f"C{color}"
            axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
            axes.plot(steps, interquartile_mean(scores), dashes, color=color, label=row.label)
            if row.optimum is not None:
                style = {"color": "#888888", "linestyle": "--", "zorder": 1}
                axes.axhline(row.optimum, label="best known", **style)
        axes.set_title(shortened(layout, 26), loc="left")
        of_agents = ", mean of the agents" if any(row.agents() for row in rows) else ""
        axes.set_ylabel(f"return of an episode{of_agents}" if number % columns == 0 else "")
        axes.set_xlabel("environment steps")
        label_thousands(axes.xaxis)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), high + 0.05 * (high - low))
        axes.grid(alpha=0.25)
    add_legend(figure, "interquartile mean over seeds, and its 95 % interval")
    write_figure(path, figure)
