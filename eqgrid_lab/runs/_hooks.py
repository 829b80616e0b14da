"""Hooks: callables that `train` calls with the progress after every block of updates.

The order of hooks matters only if a run is killed between two of them. A resumed run continues from
its latest checkpoint, and rows of the log that were not written before that checkpoint are lost.
Therefore `Log` comes before `Checkpoints`, and `Checkpoints` writes the latest state last.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import jax
import numpy as np
import psutil

from agents import AbstractTrainState, Metrics, TrainProgress, save

from ..base import VIDEO_FILE, Failures, Table
from ..folders import History
from ..show import Logger, is_constant_sum

SAVE_SECONDS = 5.0
"""The minimum time between two checkpoints of the latest state, in seconds."""


@final
class Log:
    """Writes a row of metrics for every block to the loggers.

    If a logger fails, the run and the other loggers continue.
    """

    def __init__(
        self,
        loggers: Sequence[Logger],
        failures: Failures,
        train_seconds: float,
        totals: Mapping[str, Sequence[str]] | None = None,
    ):
        """**Arguments:**

        - `loggers`: the loggers.
        - `failures`: collects the files that cannot be written.
        - `train_seconds`: the training time of the run before this process, in seconds.
        - `totals`: the columns for the totals of training episodes, as in
            `WorldSettings.totals`.
        """
        self.loggers, self.failures, self.train_seconds = loggers, failures, train_seconds
        self.totals = totals or {}

    def __call__(self, progress: TrainProgress) -> None:
        device = jax.local_devices()[0].memory_stats()  # `None` on a CPU: use the process
        memory = device["bytes_in_use"] if device else psutil.Process().memory_info().rss
        row = {
            "update": progress.updates,
            **progress.measured,
            "train_seconds": round(self.train_seconds + progress.train_seconds, 3),
            "steps_per_second": round(speed(progress), 1),
            "memory_bytes": memory,
            **block_means(progress.metrics),
            **_mean_totals(progress.metrics, self.totals),
        }
        for logger in self.loggers:
            with self.failures.writing(logger.path):
                logger.write(row)


def block_means(metrics: Metrics | None) -> Table:
    """The metrics of a block: means over its updates, and means over the episodes that ended in it.

    The learning rate is that of the last update, and `episodes` is the number of episodes.
    """
    if metrics is None:
        return {}
    means = {name: float(np.mean(values)) for name, values in metrics.scalars.items()}
    if "learning_rate" in means:
        means["learning_rate"] = float(metrics.scalars["learning_rate"][-1])
    episodes = np.asarray(metrics.episodes)
    ended = episodes > 0
    for name in ("episode_return", "episode_length"):
        values = np.asarray(getattr(metrics, name))[ended]
        means[name] = float(np.average(values, weights=episodes[ended])) if ended.any() else np.nan
    return {**means, "episodes": int(episodes.sum())}


def _mean_totals(metrics: Metrics | None, totals: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The mean totals of the training episodes that ended in a block, summed over the agents."""
    means = {}
    if metrics is None:
        return means
    episodes = np.asarray(metrics.episodes)
    weights = episodes / max(1, episodes.sum())
    for name, values in metrics.totals.items():
        if columns := totals.get(name, ()):
            mean = np.tensordot(weights, values, 1).reshape(-1, len(columns)).sum(axis=0)
            mean = mean if episodes.any() else np.full(len(columns), np.nan)
            means |= {f"episode_{x}": float(own) for x, own in zip(columns, mean, strict=True)}
    return means


def remove_results(folder: Path, failures: Failures, _: TrainProgress) -> None:
    """A hook that removes the results of a resumed run after its first block: the result, the
    policy and the pictures. The run is complete only when its conclusion has written them again,
    so `--resume` repeats a conclusion that a signal has cut short.
    """
    with failures.writing(folder):
        for name in ("result.json", "policy.safetensors", "curve.png", VIDEO_FILE):
            (folder / name).unlink(missing_ok=True)


@final
class Checkpoints:
    """Saves checkpoints of the latest state and of the best state."""

    def __init__(
        self,
        folder: Path,
        failures: Failures,
        history: History,
        describe: Callable[[AbstractTrainState], Table],
        *,
        seconds: float = SAVE_SECONDS,
        evaluations: Sequence[Mapping[str, float]] = (),
    ):
        """**Arguments:**

        - `folder`: the folder for `last.safetensors` and `best.safetensors`.
        - `failures`: collects the files that cannot be written.
        - `history`: the history of the run, with its best return.
        - `describe`: returns metadata about the run and its policy, which are the same for all
            states.
        - `seconds`: the minimum time between two checkpoints of the latest state; `inf` for none.
        - `evaluations`: the rows of all evaluations. While they are `is_constant_sum`, the best
            state is the latest one.
        """
        self.folder, self.failures, self.describe = folder, failures, describe
        self.seconds, self.due = seconds, 0.0 if np.isfinite(seconds) else np.inf
        self.best_return, self.evaluations = history.best_return, evaluations
        self.description: Table | None = None

    def __call__(self, progress: TrainProgress) -> None:
        mean = progress.measured["eval_return_mean"]
        is_best = mean > self.best_return or is_constant_sum(self.evaluations)
        if is_best and self._save("best", progress):
            self.best_return = mean
        # If the run is killed before this line, it resumes from the previous checkpoint of the
        # latest state, and writes the best one again.
        if time.perf_counter() >= self.due and self._save("last", progress):
            self.due = time.perf_counter() + self.seconds

    def _save(self, name: str, progress: TrainProgress) -> bool:
        """Writes a checkpoint. **Returns:** whether it was written."""
        path = self.folder / f"{name}.safetensors"
        with self.failures.writing(path):
            if self.description is None:
                self.description = self.describe(progress.state)
            metadata = {"update": progress.updates, **progress.measured}
            save(path, progress.state, metadata | self.description)
            return True
        return False


def speed(progress: TrainProgress) -> float:
    """The environment steps per second of training time in this process."""
    steps = progress.env_steps - progress.env_steps_before
    return steps / max(progress.train_seconds, 1e-9)
