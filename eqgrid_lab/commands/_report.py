"""The command `eqgrid report`: the state of each run, and a table, learning curves and videos of
complete runs.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, final

import msgspec
import numpy as np
import tyro
from jaxtyping import Float

from agents import write_atomic
from agents.files import POLICY_FILE, file_of_seed
from eqgrid import read_regular_file, read_regular_text

from ..base import SETTINGS_FILE, VIDEO_FILE, RunError, Table, UsageError, run_command
from ..folders import (
    MAX_RESULT_BYTES,
    locked,
    open_results,
    read_csv,
    short_name,
    write_csv,
)
from ..settings import read_flags
from ..show import (
    add_legend,
    agents_text,
    align_curves,
    bootstrap_interval,
    draws_figure,
    files_in,
    interquartile_mean,
    label_thousands,
    new_figure,
    return_text,
    return_texts,
    returns_of_agents,
    shortened,
    write_figure,
)
from ._heldout import PEOPLE
from ._submit import log_file

_DAMAGED = (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
_DAMAGED += (RunError, msgspec.ValidationError, AttributeError)
"""The exceptions that reading a damaged file can raise."""
_MAY_DIFFER = ("seed", "num_seeds", "devices", "log")
"""The settings in which runs of one row may differ."""
_OF_ALL_SEEDS = ("algorithm", "layout", "optimum", "env_steps", "wall_seconds")
"""The entries of `result.json` that are the same for all seeds."""
_NAMES = ("layout", "algorithm", "network", "settings")
"""The columns that identify a row of the table."""
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_DASHES = ("-", "--", ":", "-.")
_COLUMNS = 5


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
        write_csv(folder / "report.csv", [row.numbers() for row in rows])
        write_csv(folder / "seeds.csv", [seed for row in rows for seed in row.seeds()])
        draw_all(folder / "curves.png", rows)
        files = {
            "report.md": "table",
            "report.csv": "numbers",
            "seeds.csv": "each seed",
            "curves.png": "curves",
            **dict.fromkeys(copy_videos(folder, rows), "video"),
        }
        for what, path in files_in(folder, files):
            console.print(f"{what}  {path}", highlight=False, markup=False, soft_wrap=True)


@final
class FinishedRun(msgspec.Struct, frozen=True):
    """A seed of a complete run.

    **Arguments:**

    - `folder`: the folder of the run, which may contain further seeds.
    - `file`: the policy file of the seed.
    - `settings`: the settings of training.
    - `network`: the kind of the network; empty if the script has no such setting.
    - `curve`: the mean return of every evaluation, by the number of training steps before the
        evaluation.
    - `agents`: the mean return of each agent, with the run's policy file; empty if the agents'
        returns are equal.
    - All other fields are entries of the run's `result.json`.
    """

    folder: Path
    file: Path
    settings: Table
    network: str
    curve: dict[int, float]
    agents: tuple[float, ...]
    algorithm: str
    layout: str
    seed: int
    policy: str
    eval_return_mean: float
    best_return_mean: float | None
    optimum: float | None
    env_steps: int
    wall_seconds: float

    @property
    def score(self) -> float:
        """The mean return of the run's policy file, which has the best or the last policy."""
        best = self.best_return_mean if self.policy == "best" else None
        return self.eval_return_mean if best is None else best

    @property
    def row(self) -> tuple[str, str, str]:
        """The row of the table to which the run belongs: its layout, algorithm and network."""
        return short_name(self.layout), self.algorithm, self.network


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

    **Raises:** `UsageError` when a file of complete runs is missing or damaged.
    """
    try:
        result = json.loads(read_regular_text(folder / "result.json", MAX_RESULT_BYTES))
        settings = tomllib.loads(read_regular_text(folder / SETTINGS_FILE, MAX_RESULT_BYTES))
        if result["stopped"] or result["total_steps"] != settings["total_steps"]:
            return []
    except (OSError, ValueError, LookupError, TypeError):
        return []
    try:
        rows = read_csv(folder / "metrics.csv", "seed", "env_steps", "eval_return_mean")
        several, runs = "runs" in result, []
        for own in result["runs"] if several else [{**result, "seed": result["seeds"][0]}]:
            curve = {
                int(row["env_steps"]): float(row["eval_return_mean"])
                for row in rows
                if int(row["seed"]) == own["seed"]
            }
            found = {
                "folder": folder,
                "file": file_of_seed(folder / POLICY_FILE, own["seed"] if several else None),
                "settings": settings,
                "network": settings.get("network", ""),
                "curve": curve,
                "agents": returns_of_agents(
                    own, "best_return" if own["policy"] == "best" else "eval_return"
                ),
                **{name: result[name] for name in _OF_ALL_SEEDS},
            }
            runs.append(msgspec.convert({**own, **found}, FinishedRun))
        return runs
    except _DAMAGED as error:
        raise UsageError(
            f"The run {str(folder)!r} cannot be reported, since result.json, config.toml or "
            "metrics.csv is missing or damaged: leave it out."
        ) from error


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
@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: runs that differ only in their seeds.

    **Arguments:**

    - `names`: the layout, the algorithm, the network, and the other settings that differ.
    - `runs`: the runs, in the order of their seeds.
    - `games`: the entries of `crossplay.json` and `partners.json` about exactly these runs, if
        these files exist. Also `people`, the mean return with human proxies, and `regret`, the mean
        regret with human proxies if the best responses to all of them are known.
    """

    names: Mapping[str, str]
    runs: tuple[FinishedRun, ...]
    games: Table

    @property
    def optimum(self) -> float | None:
        """The best known return in this layout; `None` if unknown."""
        return self.runs[0].optimum

    @property
    def agents(self) -> Float[np.ndarray, " agents"]:
        """The mean return of each agent; empty if the agents' returns are equal."""
        number = max(len(run.agents) for run in self.runs)
        each = [run.agents or (run.score,) * number for run in self.runs]
        return np.asarray(each, float).mean(axis=0)

    def numbers(self) -> Table:
        """The row of the table, by column. Steps and times are means over the runs. If runs were
        trained together, the time of each of them is the total time.
        """
        scores = np.asarray([run.score for run in self.runs])
        low, high = bootstrap_interval(scores)
        return {
            **self.names,
            "seeds": len(scores),
            "mean": float(scores.mean()),
            **{f"mean_agent_{i}": float(x) for i, x in enumerate(self.agents)},
            "iqm": float(interquartile_mean(scores)),
            "low": float(low),
            "high": float(high),
            "worst": float(scores.min()),
            "optimum": self.optimum,
            "env_steps": float(np.mean([x.env_steps for x in self.runs])),
            "minutes": float(np.mean([x.wall_seconds for x in self.runs])) / 60,
            "crossplay": self.games.get("cross_play"),
            "held_out": self.games.get("return_iqm"),
            "proximity": self.games.get("proximity_iqm"),
            "people": self.games.get("people"),
            "regret": self.games.get("regret"),
        }

    def seeds(self) -> list[dict[str, object]]:
        """A row for every run, by column, with the returns of its best and last policies."""
        return [
            {
                **self.names,
                "seed": run.seed,
                "best": run.best_return_mean,
                "last": run.eval_return_mean,
                **{f"agent_{i}": x for i, x in enumerate(run.agents)},
                "env_steps": run.env_steps,
                "minutes": run.wall_seconds / 60,
            }
            for run in self.runs
        ]

    @property
    def folder(self) -> Path:
        """The innermost folder with all runs."""
        return Path(os.path.commonpath([run.folder.resolve() for run in self.runs]))


def rows_of(runs: Sequence[FinishedRun]) -> list[Row]:
    """Groups runs into rows, by layout, algorithm, network, and other settings that differ.

    **Arguments:**

    - `runs`: complete runs.

    **Returns:** the rows, sorted by these names.

    **Raises:** `UsageError` when two runs of a row have equal seeds.
    """
    rows = []
    # Cached, since many rows may be in the same folder.
    find = functools.cache(
        lambda folder, name: sorted(folder.glob(f"**/{name}"), key=lambda x: x.stat().st_mtime)
    )
    named = sorted(zip(_names(runs), runs, strict=True), key=lambda x: (x[0], x[1].seed))
    for name, group in itertools.groupby(named, key=lambda x: x[0]):
        own = tuple(run for _, run in group)
        for before, run in itertools.pairwise(own):
            if before.seed == run.seed:
                raise UsageError(
                    f"The runs {str(before.folder)!r} and {str(run.folder)!r} have the same "
                    "settings and the same seed: leave out one."
                )
        row = Row(dict(zip(_NAMES, name, strict=True)), own, {})
        crossplay, partners = (find(row.folder, f"{x}.json") for x in ("crossplay", "partners"))
        games = _find_games(row, crossplay) | _find_games(row, partners)
        people = _find_games(row, partners, with_people=True)
        games |= {"people": people.get("people"), "regret": people.get("regret")}
        rows.append(dataclasses.replace(row, games=games))
    return rows


def _find_games(row: Row, paths: Sequence[Path], *, with_people: bool = False) -> Table:
    """The contents of the newest result file about exactly the runs of the row; empty if no file
    fits. Files about greedy actions, or about partners from a policy's training, are left out.

    **Arguments:**

    - `row`: the row.
    - `paths`: the files, from old to new.
    - `with_people`: find games with human proxies instead of games with other partners.
    """
    files = {run.file.resolve() for run in row.runs}
    found = {}
    for path in paths:
        try:
            result = json.loads(read_regular_text(path, MAX_RESULT_BYTES))
            played = {Path(policy).resolve() for policy in result["policies"]}
            of_people = Path(result.get("partners_file", "")).name == PEOPLE.name
            fair = result.get("actions", "drawn") == "drawn" and not result.get("trained_with")
            if played == files and of_people == with_people and fair:
                found = result
                if of_people:
                    found["people"] = float(np.mean(list(result["returns"].values())))
                    regrets = list(result.get("regrets", {}).values())
                    known = bool(regrets) and None not in regrets
                    found["regret"] = float(np.mean(regrets)) if known else None
        except _DAMAGED as error:
            raise UsageError(f"{str(path)!r} is damaged: play these games again.") from error
    return found


def _names(runs: Sequence[FinishedRun]) -> list[tuple[str, ...]]:
    """The row of each run: its layout, algorithm and network, and those other settings in which
    runs of this layout, algorithm and network differ.
    """
    tables_of: dict[tuple[str, ...], list[Table]] = {}
    for run in runs:
        tables_of.setdefault(run.row, []).append(_flat(run.settings))
    differ = {
        row: [
            key
            for key in sorted({key for table in tables for key in table} - {*_MAY_DIFFER})
            if len({repr(table.get(key)) for table in tables}) > 1
        ]
        for row, tables in tables_of.items()
    }
    return [
        (*run.row, ", ".join(f"{key}={own.get(key)}" for key in differ[run.row]))
        for run, own in ((run, _flat(run.settings)) for run in runs)
    ]


def _flat(table: Table, before: str = "") -> Table:
    """The settings in a table and in the tables in it, by names such as `ppo.gamma`."""
    flat = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{before}{key}.") if inner else {before + key: value}
    return flat


def as_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    titles = ("layout", "", "seeds", "mean", "interquartile mean (95 % interval)", "worst")
    titles += ("of the best known", "cross-play", "held-out partners", "people", "regret")
    titles += ("steps", "minutes")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        x = row.numbers()
        share = "" if not x["optimum"] else f"{x['mean'] / x['optimum']:.0%} of {x['optimum']:g}"
        kind = "" if x["network"] == "mlp" else x["network"]
        label = ", ".join(filter(None, (x["algorithm"].upper(), kind, x["settings"])))
        crossplay, held_out, people, regret = (
            "" if x[name] is None else return_text(x[name])
            for name in ("crossplay", "held_out", "people", "regret")
        )
        names = ("mean", "iqm", "low", "high", "worst")
        mean, iqm, low, high, worst = return_texts(x[name] for name in names)
        lines.append(
            f"| `{x['layout']}` | {label} | {x['seeds']} | {mean}{agents_text(x, 'mean')} "
            f"| {iqm} ({low} to {high}) | {worst} | {share} "
            f"| {crossplay} | {held_out} | {people} | {regret} "
            f"| {x['env_steps'] / 1e6:.1f} million | {x['minutes']:.1f} |"
        )
    return "\n".join(lines) + "\n"


@draws_figure
def draw_all(path: Path, rows: Sequence[Row]) -> None:
    """Draws learning curves as a PNG file, with a panel for each layout. Each row of the table has
    a curve of the interquartile mean over its seeds, and a band of the 95 % bootstrap interval.
    """
    layouts = list(dict.fromkeys(row.names["layout"] for row in rows))
    labels = list(dict.fromkeys(_row_label(row) for row in rows))
    columns = min(_COLUMNS, len(layouts))
    lines = math.ceil(len(layouts) / columns)
    figure = new_figure(3.4 * columns + 0.6, 3.2 * lines)
    for number, layout in enumerate(layouts):
        axes = figure.add_subplot(lines, columns, number + 1)
        for row in (row for row in rows if row.names["layout"] == layout):
            steps, scores = align_curves([run.curve for run in row.runs])
            low, high = bootstrap_interval(scores)
            label = _row_label(row)
            # All colours are used with one style of line before the next style.
            style, place = divmod(labels.index(label), len(_COLOURS))
            colour, dashes = _COLOURS[place], _DASHES[style % len(_DASHES)]
            axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(steps, interquartile_mean(scores), dashes, color=colour, label=label)
            if row.optimum is not None:
                style = {"color": "#888888", "linestyle": "--", "zorder": 1}
                axes.axhline(row.optimum, label="best known", **style)
        axes.set_title(shortened(layout, 26), loc="left")
        of_agents = ", mean of the agents" if any(x.agents.size for x in rows) else ""
        axes.set_ylabel(f"return of an episode{of_agents}" if number % columns == 0 else "")
        axes.set_xlabel("environment steps")
        label_thousands(axes.xaxis)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), high + 0.05 * (high - low))
        axes.grid(alpha=0.25)
    add_legend(figure, "interquartile mean over seeds, and its 95 % interval")
    write_figure(path, figure, dpi=120)


def _row_label(row: Row) -> str:
    """The label of a row within its layout: the algorithm, the network unless it is an MLP, and the
    settings that differ.
    """
    return " ".join(row.names[x] for x in _NAMES[1:] if row.names[x] not in ("", "mlp"))


def copy_videos(folder: Path, rows: Sequence[Row]) -> list[str]:
    """Copies the video of the folder with the best seed, for every row that has one. The video of
    a folder with several seeds shows the median seed.

    **Arguments:**

    - `folder`: the folder for the copies.
    - `rows`: the rows of the table.

    **Returns:** the names of the copies.
    """
    names = []
    for row in rows:
        best = max(row.runs, key=lambda run: run.score)
        video = best.folder / VIDEO_FILE
        if video.is_file():
            name = "-".join(x for x in row.names.values() if x not in ("", "mlp"))
            names.append(re.sub(r"[^\w.-]", "-", name) + ".gif")
            write_atomic(folder / names[-1], read_regular_file(video))
    return names
