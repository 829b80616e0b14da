"""Hooks for runs that are trained together."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from agents import Hook, StopTraining, TrainProgress, pick_run, save

from ...base import Failures
from ..single import SAVE_SECONDS, Evaluator

ALL_HAVE_ENDED = "all runs have reached their return, or are no longer better"
ALL_HAVE_LEARNED = "all candidates have learned"


def progress_of(progress: TrainProgress, run: int, evaluator: Evaluator) -> TrainProgress:
    """The progress of one run of a group.

    **Arguments:**

    - `progress`: the progress of all runs, whose state and metrics have an axis of runs.
    - `run`: the index of the run.
    - `evaluator`: the evaluator of the run, with at least one evaluation.
    """
    return dataclasses.replace(
        progress,
        state=pick_run(progress.state, run),
        metrics=jax.tree.map(lambda x: x[:, run], progress.metrics),
        measured=evaluator.rows[-1],
    )


@final
class OfOneRun:
    """Calls the hooks of one run of a group with its own progress."""

    def __init__(self, run: int, evaluator: Evaluator, hooks: Sequence[Hook]):
        """**Arguments:**

        - `run`, `evaluator`: as in `progress_of`.
        - `hooks`: the hooks of the run.
        """
        self.run, self.evaluator, self.hooks = run, evaluator, hooks

    def __call__(self, progress: TrainProgress) -> None:
        own = progress_of(progress, self.run, self.evaluator)
        for hook in self.hooks:
            hook(own)


@final
class KeepState:
    """Saves the latest state of all runs in one checkpoint every few seconds."""

    def __init__(self, path: Path, about: Mapping[str, Any], failures: Failures):
        """**Arguments:**

        - `path`: the checkpoint.
        - `about`: its metadata, in addition to the numbers of updates and steps.
        - `failures`: collects the files that cannot be written.
        """
        self.path, self.about, self.failures, self.due = path, about, failures, 0.0

    def __call__(self, progress: TrainProgress) -> None:
        if time.perf_counter() >= self.due:
            self.save(progress)
            self.due = time.perf_counter() + SAVE_SECONDS

    def save(self, progress: TrainProgress) -> None:
        """Writes the checkpoint now."""
        position = {"update": progress.updates, "env_steps": progress.env_steps}
        with self.failures.writing(self.path):
            save(self.path, progress.state, {**position, **self.about})


@final
class EndTogether:
    """Stops a group when each run has reached the target or has stopped improving."""

    def __init__(
        self, evaluators: Sequence[Evaluator], *, target: float | None, patience: int | None
    ):
        """**Arguments:**

        - `evaluators`: the evaluators of the runs.
        - `target`, `patience`: as in `EarlyStop`.
        """
        self.evaluators, self.target, self.patience = evaluators, target, patience

    def __call__(self, _: TrainProgress) -> None:
        for evaluator in self.evaluators:
            returns = [row["eval_return_mean"] for row in evaluator.rows]
            reached = self.target is not None and max(returns) >= self.target
            since_best = len(returns) - 1 - int(np.argmax(returns))
            if not reached and (self.patience is None or since_best < self.patience):
                return
        raise StopTraining(ALL_HAVE_ENDED)


@final
class EndAfter:
    """Stops a group after a number of updates."""

    def __init__(self, updates: int):
        self.updates = updates

    def __call__(self, progress: TrainProgress) -> None:
        if progress.updates >= self.updates:
            raise StopTraining(ALL_HAVE_LEARNED)
