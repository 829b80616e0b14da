"""Runs with several seeds, trained at once: one program, one folder, and a folder in it for each.

`seed-3/` holds what the run with `--seed 3` alone would leave, but for the film.
"""

import csv
import dataclasses
import io
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from agents import NonFiniteLoss, restore, write_whole
from agents.evaluation._statistics import bootstrap_interval, interquartile_mean
from agents.runs._cache import keep_compiled_programs
from agents.runs._metadata import read_metadata
from agents.runs._run_files import FILM_FILE
from agents.runs.display._errors import Failures, RunError, UsageError
from agents.runs.display._loggers import Csv, Labelled
from agents.runs.display._report import print_how_to_go_on, what_is_kept
from agents.runs.folders._folder import (
    cannot_be_written,
    folder_name,
    locked,
    open_folder,
    short_name,
)
from agents.runs.folders._history import read_history
from agents.runs.folders._results import csv_bytes, write_json
from agents.runs.settings._file import dump
from agents.runs.settings._page import command_of
from agents.runs.single._curriculum import stages
from agents.runs.single._display import open_console, open_display, print_preparations
from agents.runs.single._hooks import speed
from agents.runs.single._identity import check_same_run, check_updates
from agents.runs.single._run import STOP_CODES, Run

from ._candidates import Candidates, stopped_early
from ._group import Group, Trained
from ._seeds_report import draw_curves, print_seeds

_STATE = "checkpoints/seeds.safetensors"
_FILES = ("result.json", "curve.png", FILM_FILE, "metrics.csv")


def run_seeds(whole: Run) -> int:
    """Trains with several seeds at once.

    **Arguments:**

    - `whole`: all of them together, as one run without a folder.

    **Returns:** the exit code.

    **Raises:** what `run_command_line` turns into a sentence.
    """
    config = whole.config
    if config.resume is not None:
        with locked(config.resume):
            return _go_on(dataclasses.replace(whole, folder=config.resume))
    name = folder_name(whole.algorithm, config.env.title, config.seed)
    text = dump(config)
    with open_folder(name, config.out, config.overwrite, text) as folder:
        whole = dataclasses.replace(whole, folder=folder)
        group = _group(whole)
        for run in group.runs:
            _write_settings(run)
        return _begin(whole, group)


def _group(whole: Run) -> Group:
    return Group(_runs(whole), whole.folder, whole.folder / _STATE, whole.identity)


def _runs(whole: Run) -> tuple[Run, ...]:
    """The run of each seed, as it would be alone."""
    first = whole.config.seed
    seeds = range(first, first + whole.config.num_seeds)
    configs = {
        seed: dataclasses.replace(whole.config, seed=seed, num_seeds=1, out=None) for seed in seeds
    }
    return tuple(
        dataclasses.replace(
            whole, settings=own, stages=stages(own), folder=whole.folder / f"seed-{seed}"
        )
        for seed, own in configs.items()
    )


def _write_settings(run: Run) -> None:
    try:
        run.folder.mkdir(exist_ok=True)
        write_whole(run.folder / "config.toml", dump(run.config).encode())
    except OSError as error:
        raise cannot_be_written(run.folder, error) from error


def _go_on(whole: Run) -> int:
    """Reads all that is needed before anything in the folder is touched."""
    group = _group(whole)
    candidates = Candidates(group.runs, whole.folder, whole.identity)
    if candidates.path.exists() and not group.checkpoint.exists():
        candidates.check()
        write_whole(whole.folder / "config.toml", dump(whole.config).encode())
        for run in group.runs:
            _write_settings(run)
        return _begin(whole, group)
    position = read_metadata(group.checkpoint)
    check_same_run(whole.folder, position, whole.identity)
    state = restore(group.checkpoint, group.like())
    updates, plan = int(state.updates[0]), whole.plan
    check_updates(whole.folder, position, updates)
    if updates > plan.num_updates or (updates == plan.num_updates and _is_complete(group)):
        raise UsageError(
            f"The run {str(whole.folder)!r} is complete, with {updates * plan.steps_per_update:,} "
            "steps of each seed: add a larger --total-steps to go on."
        )
    runs = tuple(
        dataclasses.replace(run, history=read_history(run.folder, position, run.identity))
        for run in group.runs
    )
    write_whole(whole.folder / "config.toml", dump(whole.config).encode())
    for run in runs:
        _write_settings(run)
        run.history.write_into(run.folder)
    write_whole(whole.folder / "metrics.csv", _rows_of_all(runs))
    return _begin(
        dataclasses.replace(whole, history=runs[0].history),
        dataclasses.replace(group, runs=runs, state=state),
    )


def _is_complete(group: Group) -> bool:
    film = group.runs[0].config.env.has_film
    files = [group.folder / name for name in _FILES if film or name != FILM_FILE]
    files += [run.folder / "policy.safetensors" for run in group.runs]
    return all(path.exists() for path in files)


def _rows_of_all(runs: tuple[Run, ...]) -> bytes:
    """The log of all runs, put together from theirs."""
    rows = [
        {"seed": str(run.config.seed), **row}
        for run in runs
        for row in csv.DictReader(io.StringIO(run.history.rows.decode(), newline=""))
    ]
    rows.sort(key=lambda row: int(row["update"]))  # which keeps the order of the seeds
    return csv_bytes(rows)


def _begin(whole: Run, group: Group) -> int:
    """Trains, concludes, and says where everything is."""
    console, failures = _greet(whole, group), Failures()
    candidates = Candidates(group.runs, whole.folder, whole.identity)
    if group.state is None and whole.candidate_updates > 0:
        state, stopped = candidates.choose(console, failures)
        if state is None:
            return stopped_early(console, candidates, stopped, failures)
        group = dataclasses.replace(group, state=state)
    log = Csv(whole.folder / "metrics.csv", _rows_of_all(group.runs))
    more = {i: [Labelled(log, {"seed": run.config.seed})] for i, run in enumerate(group.runs)}
    try:
        trained = group.train(open_display(console), failures, more)
    except NonFiniteLoss as error:
        seed = group.runs[error.run or 0].config.seed
        raise RunError(
            f"The loss of update {error.update} of seed {seed} is not a finite number (first "
            f"{error.where}), so all runs stop. Try a smaller learning rate. "
            f"{what_is_kept(whole.folder)}"
        ) from error
    stopped = trained.progress.stopped
    code = STOP_CODES.get(stopped or "", 0)
    if stopped and trained.nothing_learned:
        return stopped_early(console, candidates, stopped, failures)
    if stopped:
        steps = trained.progress.env_steps
        console.print(f"{stopped} after {steps:,} steps of each seed", highlight=False)
    console.print("playing the final evaluations, drawing the pictures")
    print_seeds(console, _conclude(whole, trained), whole.folder)
    candidates.forget(group.checkpoint, failures)
    if stopped:
        print_how_to_go_on(console, command_of(type(whole.settings)), whole.folder)
    if failures.report():
        return 1
    return code or (whole.process.exit_code if whole.process.first else 0)


def _greet(whole: Run, group: Group) -> Console:
    console, config = open_console(), whole.config
    rules = f" ({config.env.rules})" if config.env.rules else ""
    console.print(
        f"[bold]{whole.algorithm}[/] in [bold]{escape(short_name(config.env.title))}[/]{rules}, "
        f"seeds {config.seed} to {group.runs[-1].config.seed} at once, {config.num_envs} "
        f"environments each: writing to {escape(str(whole.folder))}",
        highlight=False,
    )
    if group.state is not None:
        steps = int(group.state.updates[0]) * whole.plan.steps_per_update
        console.print(f"going on after {steps:,} steps of each seed", highlight=False)
    for run in group.runs:
        run.history.print_abandoned(console)
    print_preparations(console, config, keep_compiled_programs())
    return console


def _conclude(whole: Run, trained: Trained) -> dict[str, Any]:
    """Writes what each run and all of them together leave behind.

    **Returns:** what is in the `result.json` of all.
    """
    results, failures = trained.conclude(), trained.failures
    middle = int(np.argsort([x["eval_return_mean"] for x in results])[(len(results) - 1) // 2])
    film = results[middle]["seeds"][0] if whole.config.env.has_film else None
    result = _result(whole, trained, results) | {"film": film}
    with failures.writing(whole.folder / "result.json"):
        write_json(whole.folder / "result.json", result)
    if not whole.process.interrupted_again:
        with failures.writing(whole.folder / "curve.png"):
            rows = [evaluator.rows for evaluator in trained.evaluators]
            title = f"{whole.algorithm.upper()} in {short_name(whole.config.env.title)}"
            draw_curves(whole.folder / "curve.png", rows, title, whole.config.env.optimum)
    if whole.config.env.has_film and not whole.process.interrupted_again:
        trained.conclusion(middle).draw_film(whole.folder / FILM_FILE)
    return result


def _result(whole: Run, trained: Trained, results: list[dict[str, Any]]) -> dict[str, Any]:
    first, number = results[0], len(results)
    same = ("algorithm", "world", "layout", "dynamics")
    last = np.asarray([x["eval_return_mean"] for x in results])
    low, high = bootstrap_interval(last)
    optimum, iqm = first["optimum"], float(interquartile_mean(last))
    own = ("eval_return_mean", "eval_return_std", "best_return_mean", "best_return_std")
    own += ("best_env_steps", "policy", "reached", "zero_shot")
    return {
        **{name: first[name] for name in same},
        "seeds": [x["seeds"][0] for x in results],
        "env_steps": first["env_steps"],
        "env_steps_of_others": first["env_steps_of_others"],
        "wall_seconds": round(whole.seconds(), 2),
        "compile_seconds": first["compile_seconds"],
        "train_seconds": first["train_seconds"],
        "steps_per_second": round(number * speed(trained.progress), 1),
        "eval_return_mean": float(last.mean()),
        "eval_return_std": float(last.std()),
        "eval_return_iqm": iqm,
        "eval_return_interval": [float(low), float(high)],
        "eval_episodes": first["eval_episodes"],
        "optimum": optimum,
        "eval_fraction_of_optimum": iqm / optimum if optimum else None,
        "runs": [
            {"seed": x["seeds"][0], "folder": run.folder.name} | {name: x[name] for name in own}
            for run, x in zip(trained.group.runs, results, strict=True)
        ],
    }
