"""Runs with several seeds that one compiled program trains together.

The folder of such a run has a subfolder for each seed: `seed-3/` has the same files as a run with
`--seed 3` alone, except for the film.
"""

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from agents import NonFiniteLoss, write_whole

from ...base import (
    FILM_FILE,
    NOTHING_LEARNED,
    Failures,
    RunError,
    UsageError,
    keep_compiled_programs,
    print_error,
    read_metadata,
)
from ...folders import csv_bytes, short_name, write_json
from ...settings import dump
from ...show import Csv, bootstrap_interval, interquartile_mean, median_seed, what_is_kept
from ..single import (
    STOP_CODES,
    Run,
    check_same_run,
    finish,
    open_console,
    print_preparations,
    speed,
    stages,
)
from ._group import Group, Trained
from ._report import draw_curves, print_seeds

_FILES = ("result.json", "curve.png", FILM_FILE, "metrics.csv")


def run_seeds(whole: Run) -> int:
    """Trains several seeds together.

    **Arguments:**

    - `whole`: the run with all seeds.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    return _begin(_group(whole))


def resume_seeds(whole: Run) -> int:
    """Resumes several seeds. Everything that is needed is read before any file changes.

    **Arguments:**

    - `whole`: the run with all seeds.

    **Returns:** the exit code.

    **Raises:** the errors that `run_command_line` prints.
    """
    group, plan = _group(whole), whole.plan
    position = read_metadata(group.checkpoint)
    check_same_run(whole.folder, position, whole.identity)
    group = group.resumed(position)
    updates = position["update"]
    if updates > plan.num_updates or (updates == plan.num_updates and _is_complete(group)):
        raise UsageError(
            f"The run {str(whole.folder)!r} is complete, with "
            f"{updates * plan.steps_per_update:,} steps of each seed: add a larger "
            "--total-steps to go on."
        )
    history = dataclasses.replace(
        group.runs[0].history, rows=_rows_of_all(group.runs), json_rows=b"", abandoned=()
    )
    group = dataclasses.replace(group, whole=dataclasses.replace(whole, history=history))
    history.write_into(whole.folder)
    write_whole(whole.folder / "config.toml", dump(whole.config).encode())
    return _begin(group)


def _group(whole: Run) -> Group:
    """The group with a run for each seed."""
    runs = []
    for seed in range(whole.config.seed, whole.config.seed + whole.config.num_seeds):
        own = dataclasses.replace(whole.config, seed=seed, num_seeds=1, out=None)
        folder = whole.folder / f"seed-{seed}"
        runs.append(dataclasses.replace(whole, settings=own, stages=stages(own), folder=folder))
    return Group(whole, tuple(runs), whole.folder / "checkpoints" / "seeds.safetensors")


def _rows_of_all(runs: Sequence[Run]) -> bytes:
    """The rows of `metrics.csv` of all seeds together, from the files of each seed."""
    rows = [
        {"seed": str(run.config.seed), **row}
        for run in runs
        for row in csv.DictReader(io.StringIO(run.history.rows.decode(), newline=""))
    ]
    rows.sort(key=lambda row: int(row["update"]))  # a stable sort keeps the order of the seeds
    return csv_bytes(rows)


def _is_complete(group: Group) -> bool:
    film = group.whole.config.env.has_film
    files = [group.whole.folder / name for name in _FILES if film or name != FILM_FILE]
    files += [run.folder / "policy.safetensors" for run in group.runs]
    return all(path.exists() for path in files)


def _begin(group: Group) -> int:
    """Trains, evaluates, writes the results, and prints where they are."""
    whole, console, failures = group.whole, _greet(group), Failures()
    log = Csv(whole.folder / "metrics.csv", whole.history.rows)
    try:
        trained = group.train(console, failures, log)
    except NonFiniteLoss as error:
        seed = group.runs[error.run or 0].config.seed
        raise RunError(
            f"The loss of update {error.update} of seed {seed} is not a finite number (first "
            f"{error.where}), so all runs stop. Try a smaller learning rate. "
            f"{what_is_kept(whole.folder)}"
        ) from error
    progress, stopped = trained.progress, trained.progress.stopped
    if stopped and progress.metrics is None:
        return print_error(NOTHING_LEARNED, STOP_CODES.get(stopped, 0))
    if stopped:
        console.print(f"{stopped} after {progress.env_steps:,} steps of each seed", highlight=False)
    console.print("playing the final evaluations, drawing the pictures")
    print_seeds(console, _conclude(trained), whole.folder)
    return finish(whole, stopped, console, failures)


def _greet(group: Group) -> Console:
    console, whole, config = open_console(), group.whole, group.whole.config
    rules = f" ({config.env.rules})" if config.env.rules else ""
    console.print(
        f"[bold]{whole.algorithm}[/] in [bold]{escape(short_name(config.env.title))}[/]{rules}, "
        f"seeds {config.seed} to {group.runs[-1].config.seed} at once, {config.num_envs} "
        f"environments each: writing to {escape(str(whole.folder))}",
        highlight=False,
    )
    group.open_folders(console, "each seed")
    lengths = [(config.total_steps, whole.plan)]
    print_preparations(console, config, keep_compiled_programs(), lengths, " of each seed")
    return console


def _conclude(trained: Trained) -> dict[str, Any]:
    """Writes the results of each seed, and those of all seeds together.

    **Returns:** the content of the `result.json` of all seeds.
    """
    whole, failures = trained.group.whole, trained.failures
    folder, env = whole.folder, whole.config.env
    results = [trained.conclusion(i).conclude() for i in range(len(trained.group.runs))]
    middle = median_seed(results)
    film = results[middle]["seeds"][0] if env.has_film else None
    result = _result(trained, results) | {"film": film}
    with failures.writing(folder / "result.json"):
        write_json(folder / "result.json", result)
    if not whole.process.interrupted_again:
        with failures.writing(folder / "curve.png"):
            rows = [evaluator.rows for evaluator in trained.evaluators]
            title = f"{whole.algorithm.upper()} in {short_name(env.title)}"
            draw_curves(folder / "curve.png", rows, title, env.optimum)
    if env.has_film and not whole.process.interrupted_again:
        trained.conclusion(middle).draw_film(folder / FILM_FILE)
    return result


_OF_ALL = ("algorithm", "world", "layout", "dynamics", "env_steps")
_OF_ALL += ("compile_seconds", "train_seconds", "eval_episodes", "optimum")
_OF_EACH = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
_OF_EACH += ("best_env_steps", "policy", "reached", "zero_shot")


def _result(trained: Trained, results: list[dict[str, Any]]) -> dict[str, Any]:
    group, optimum = trained.group, results[0]["optimum"]
    last = np.asarray([x["eval_return_mean"] for x in results])
    low, high = bootstrap_interval(last)
    iqm = float(interquartile_mean(last))
    runs = []
    for run, own in zip(group.runs, results, strict=True):
        name = {"seed": run.config.seed, "folder": run.folder.name}
        runs.append(name | {key: own[key] for key in _OF_EACH})
    return {
        **{key: results[0][key] for key in _OF_ALL},
        "seeds": [run.config.seed for run in group.runs],
        "wall_seconds": round(group.whole.seconds(), 2),
        "steps_per_second": round(len(results) * speed(trained.progress), 1),
        "eval_return_mean": float(last.mean()),
        "eval_return_std": float(last.std()),
        "eval_return_iqm": iqm,
        "eval_return_interval": [float(low), float(high)],
        "eval_fraction_of_optimum": iqm / optimum if optimum else None,
        "runs": runs,
    }
