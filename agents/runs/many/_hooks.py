"""Hooks of runs that are trained together."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import jax
import numpy as np

from agents import Hook, StopTraining, TrainProgress, pick_run, save
from agents.runs.display._errors import Failures
from agents.runs.single._evaluator import Evaluator
from agents.runs.single._hooks import SAVE_SECONDS

ALL_HAVE_ENDED = "all runs have reached their return, or are no longer better"
ALL_HAVE_LEARNED = "all candidates have learned"


def progress_of(progress: TrainProgress, run: int, evaluator: Evaluator) -> TrainProgress:
    """The progress of one of the runs."""
    return dataclasses.replace(
        progress,
        state=pick_run(progress.state, run),
        metrics=jax.tree.map(lambda x: x[:, run], progress.metrics),
        measured=evaluator.rows[-1],
    )


@final
class OfOneRun:
    """Calls the hooks of one run with its own progress."""

    def __init__(self, run: int, evaluator: Evaluator, hooks: Sequence[Hook]):
        self.run, self.evaluator, self.hooks = run, evaluator, hooks

    def __call__(self, progress: TrainProgress) -> None:
        own = progress_of(progress, self.run, self.evaluator)
        for hook in self.hooks:
            hook(own)


@final
class KeepState:
    """Writes the newest state of all runs every few seconds, so that they can go on together."""

    def __init__(self, path: Path, about: Mapping[str, Any], failures: Failures):
        """**Arguments:**

        - `path`: the checkpoint.
        - `about`: its metadata, beside how many updates and steps there were.
        - `failures`: collects what cannot be written.
        """
        self.path, self.about, self.failures, self.due = path, about, failures, 0.0

    def __call__(self, progress: TrainProgress) -> None:
        if time.perf_counter() >= self.due:
            self.save(progress)
            self.due = time.perf_counter() + SAVE_SECONDS

    def save(self, progress: TrainProgress) -> None:
        """Writes it now."""
        position = {"update": progress.updates, "env_steps": progress.env_steps}
        with self.failures.writing(self.path):
            save(self.path, progress.state, {**position, **self.about})


@final
class EndTogether:
    """Ends runs when each of them has reached its target, or no longer gets better."""

    def __init__(
        self, evaluators: Sequence[Evaluator], *, target: float | None, patience: int | None
    ):
        """**Arguments:**

        - `evaluators`: those of the runs.
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
    """Ends runs after so many updates."""

    def __init__(self, updates: int):
        self.updates = updates

    def __call__(self, progress: TrainProgress) -> None:
        if progress.updates >= self.updates:
            raise StopTraining(ALL_HAVE_LEARNED)
