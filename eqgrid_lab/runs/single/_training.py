"""Training a run, one stage after another."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.markup import escape

from agents import Hook, TrainProgress, is_first, train, transfer

from ...base import Failures
from ...settings import to_table
from ...show import Logger, open_loggers
from ._build import shapes, start
from ._curriculum import EndOfStage, StageEvaluator
from ._display import open_display
from ._evaluator import Evaluator
from ._hooks import SAVE_SECONDS, Checkpoints, EarlyStop, Forget, Log, OutOfTime
from ._run import Run


class Trained(NamedTuple):
    """A run after training, in the last stage that it reached, with its progress and evaluator."""

    run: Run
    progress: TrainProgress
    evaluator: Evaluator


def train_stages(
    run: Run,
    position: Mapping[str, Any],
    console: Console,
    failures: Failures,
    loggers: Sequence[Logger] = (),
    more: Sequence[Hook] = (),
) -> Trained:
    """Trains one stage after another, until the run ends or is stopped.

    **Arguments:**

    - `run`: the run, in its first stage or in the one that it resumes.
    - `position`: the metadata of the checkpoint that it resumes from; empty for a new run.
    - `console`: where progress is shown.
    - `failures`: collects the files that cannot be written.
    - `loggers`: the loggers of the run.
    - `more`: further hooks.

    **Returns:** the run after training.

    **Raises:** the errors of `train`, and `Stopped` when a signal arrives before training starts.
    """
    done, measured = None, position
    display = open_display(console)
    display.start(run.plan.num_updates * run.plan.steps_per_update)
    try:
        while True:
            _announce(run, console)
            evaluator = run_evaluator(run)
            # Of several processes, the first one evaluates and writes.
            hooks = [*_hooks(run, loggers, failures), *more, display] if is_first() else []
            progress = _train(run, evaluator, hooks, measured, done and done.progress)
            if done is not None and progress.updates == done.progress.updates:
                # Stopped before the first block of this stage, the run ends in the previous one.
                stopped = dataclasses.replace(done.progress, stopped=progress.stopped)
                return done._replace(progress=stopped)
            measured = progress.measured or measured
            reason = run.stage.ended(measured)
            if reason is None or progress.stopped not in (None, reason):
                return Trained(run, progress, evaluator)
            console.print(
                f"stage {run.number + 1}: {reason}, after {progress.env_steps:,} steps",
                highlight=False,
            )
            done = Trained(run, dataclasses.replace(progress, stopped=None), evaluator)
            if run.is_last_stage or progress.updates == run.plan.num_updates:
                return done
            run = _next_stage(done)
            measured = {"env_steps": progress.env_steps}
    finally:
        display.stop()


def _announce(run: Run, console: Console) -> None:
    if run.in_curriculum:
        title = escape(f"{run.stage.name!r}: {run.stage.end}")
        console.print(f"stage {run.number + 1} of {len(run.stages)}, {title}", highlight=False)


@contextlib.contextmanager
def run_loggers(run: Run) -> Iterator[list[Logger]]:
    """Context manager that opens the loggers of a run in its folder, and closes them at the end.

    **Returns:** the loggers, inside the context.

    **Raises:** `RunError` when a logger cannot be opened.
    """
    loggers = open_loggers(
        run.folder,
        run.config.log,
        csv_rows=run.history.rows,
        json_rows=run.history.json_rows,
        env_steps=run.history.env_steps,
        settings=to_table(run.settings),
    )
    try:
        yield loggers
    finally:
        for logger in loggers:
            logger.close()


def run_evaluator(run: Run) -> Evaluator:
    """The evaluator of a run in its current stage, with the rows of its history."""
    plan = run.plan
    rows = list(run.history.evaluations)
    return Evaluator(plan.eval_env, run.keys[1], run.seconds, rows, plan.totals)


def recording_hooks(
    run: Run, loggers: Sequence[Logger], failures: Failures, save_seconds: float = SAVE_SECONDS
) -> list[Hook]:
    """The hooks that write into the folder of a run.

    **Arguments:**

    - `run`: the run.
    - `loggers`: the loggers of the run.
    - `failures`: collects the files that cannot be written.
    - `save_seconds`: the minimum time between two checkpoints of the latest state; `inf` for none.
    """
    return [
        Forget(run.folder, failures),
        Log(loggers, failures, run.history.train_seconds, run.plan.totals),
        Checkpoints(
            run.folder / "checkpoints",
            failures,
            run.history,
            run.describe,
            keep_every=run.config.checkpoint_every,
            seconds=save_seconds,
        ),
    ]


def _train(
    run: Run,
    evaluator: Evaluator,
    hooks: Sequence[Hook],
    measured: Mapping[str, Any],
    before: TrainProgress | None,
) -> TrainProgress:
    """Trains one stage; no update is made if the stage has ended already."""
    plan = run.plan
    if not is_first():
        state = shapes(run)  # the first process sends the state
    else:
        state = start(run, run.keys[0]) if run.state is None else run.state
    over = run.stage.ended(measured) is not None
    measure = evaluator
    if run.in_curriculum:
        begin = measured.get("env_steps", 0) - measured.get("stage_steps", 0)
        passes = measured.get("gate_passes", 0)
        measure = StageEvaluator(evaluator, run.stage, run.number + 1, begin, passes)
    if before is None:
        run.process.check()
    progress = train(
        run.config.learner(),
        plan.train_env,
        state,
        num_updates=measured["update"] if over else plan.num_updates,
        updates_per_block=plan.updates_per_block,
        mesh=plan.mesh,
        measure=measure if is_first() else None,
        hooks=hooks,
        should_stop=run.process.stop_reason,
        before=before,
        donate=True,
    )
    run.process.training_ended()
    return progress


def _hooks(run: Run, loggers: Sequence[Logger], failures: Failures) -> list[Hook]:
    """All hooks of a stage, except for the display."""
    config, rows = run.config, run.history.evaluations
    number = run.number + 1 if run.in_curriculum else None
    return [
        *recording_hooks(run, loggers, failures),
        EarlyStop(
            [row["eval_return_mean"] for row in rows if row.get("stage") == number],
            target=config.stop_at_return if run.is_last_stage else None,
            patience=config.patience if run.is_last_stage else None,
            max_kl=config.max_kl,
        ),
        OutOfTime(run.process, config.max_hours),
        EndOfStage(run.stage),
    ]


def _next_stage(done: Trained) -> Run:
    """The run in its next stage, with the kept parts of its training state."""
    run, progress, evaluator = done
    history = dataclasses.replace(
        run.history, evaluations=tuple(evaluator.rows), best_return=-np.inf
    )
    run = dataclasses.replace(run, number=run.number + 1, history=history)
    if not is_first():
        return run
    fresh = start(run, jax.random.fold_in(run.keys[0], run.number))
    state = transfer(progress.state, fresh, run.plan.train_env, keep=run.stage.keep)
    return dataclasses.replace(run, state=state)
