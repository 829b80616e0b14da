"""What happens between two blocks of updates: plain Python objects that `train` calls.

All that they share is the progress that they are given, so their order does not matter, unless a
run is killed between two of them. It goes on from its newest state, and what was not written before
that state stays unwritten: so `Log` comes before `Checkpoints`, which writes that state last.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import jax
import numpy as np
import psutil

from agents import Metrics, StopTraining, TrainProgress, TrainState, save
from agents.runs._command import Process
from agents.runs.display._errors import Failures
from agents.runs.display._loggers import Logger
from agents.runs.folders._history import History
from agents.runs.folders._older_run import forget_older

SAVE_SECONDS = 5.0
"""Between two checkpoints of the newest state."""


@final
class Log:
    """Hands a row about every block to the loggers. One that fails stops neither the run nor the
    others.
    """

    def __init__(self, loggers: Sequence[Logger], failures: Failures, train_seconds: float):
        """**Arguments:**

        - `loggers`: where rows go.
        - `failures`: collects what cannot be written.
        - `train_seconds`: how long the run had trained before this process.
        """
        self.loggers, self.failures, self.train_seconds = loggers, failures, train_seconds

    def __call__(self, progress: TrainProgress) -> None:
        row = {
            "update": progress.updates,
            **progress.measured,
            "train_seconds": round(self.train_seconds + progress.train_seconds, 3),
            "steps_per_second": round(speed(progress), 1),
            "memory_bytes": _memory_in_use(),
            **block_means(progress.metrics),
        }
        for logger in self.loggers:
            with self.failures.writing(logger.path):
                logger.write(row)


def block_means(metrics: Metrics | None) -> dict[str, Any]:
    """The means of a block's metrics over its updates; of the episodes, the number that ended."""
    if metrics is None:
        return {}
    rows = {f.name: np.asarray(getattr(metrics, f.name)) for f in dataclasses.fields(metrics)}
    del rows["bad_leaf"]  # a run with one ends
    episodes = rows["episodes"]
    means = {name: float(values.mean()) for name, values in rows.items()}
    for name in ("episode_return", "episode_length"):
        ended = episodes > 0
        weights = episodes[ended]
        means[name] = (
            float(np.average(rows[name][ended], weights=weights)) if ended.any() else np.nan
        )
    return {
        **means,
        "learning_rate": float(rows["learning_rate"][-1]),
        "episodes": int(episodes.sum()),
    }


@final
class Forget:
    """Removes what a run replaces, as soon as it has learned something: the older run in its
    folder, and the result and the policy of its own first part.
    """

    def __init__(self, folder: Path, failures: Failures):
        self.folder, self.failures = folder, failures

    def __call__(self, _: TrainProgress) -> None:
        with self.failures.writing(self.folder):
            (self.folder / "result.json").unlink(missing_ok=True)
            (self.folder / "policy.safetensors").unlink(missing_ok=True)
            forget_older(self.folder)


@final
@dataclasses.dataclass
class EarlyStop:
    """Ends a run that has reached its target, no longer gets better, or moves too far.

    **Arguments:**

    - `returns`: the mean returns of the evaluations before this process; new ones are appended.
    - `target`: the mean return of an evaluation that is enough.
    - `patience`: how many evaluations in a row may bring no new best one.
    - `max_kl`: the largest mean of `approx_kl` in a block, in nats.
    """

    returns: list[float]
    target: float | None
    patience: int | None
    max_kl: float | None

    def __call__(self, progress: TrainProgress) -> None:
        self.returns.append(progress.measured["eval_return_mean"])
        if self.target is not None and self.returns[-1] >= self.target:
            raise StopTraining(f"reached a return of {self.target:g}")
        since_best = len(self.returns) - 1 - int(np.argmax(self.returns))
        if self.patience is not None and since_best >= self.patience:
            raise StopTraining(f"no better for {since_best} evaluations")
        kl = block_means(progress.metrics)["approx_kl"]
        if self.max_kl is not None and kl > self.max_kl:
            raise StopTraining(f"moved too far (a KL divergence of {kl:.3g} nats)")


@final
class OutOfTime:
    """Ends a run in time for a job's limit, if it has one."""

    def __init__(self, process: Process, max_hours: float | None):
        self.process, self.max_hours = process, max_hours

    def __call__(self, _: TrainProgress | None = None) -> None:
        if self.max_hours is not None and self.process.seconds() >= 3600 * self.max_hours:
            raise StopTraining(f"stopped after {self.max_hours:g} hours")


@final
class Profile:
    """Records what the second block does, for Perfetto: the first one still warms up."""

    def __init__(self, folder: Path):
        self.folder, self.blocks = folder, 0

    def __call__(self, _: TrainProgress) -> None:
        self.blocks += 1
        if self.blocks == 1:
            jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True)
        if self.blocks == 2:
            jax.profiler.stop_trace()

    def close(self) -> None:
        """Writes what was recorded, where a run ends in its second block or before it."""
        if self.blocks == 1:
            jax.profiler.stop_trace()


@contextlib.contextmanager
def profiled(folder: Path, wanted: bool) -> Iterator[list[Profile]]:
    """Gives the hook that records a block of a run into its folder, where that is wanted."""
    hooks = [Profile(folder / "trace")] if wanted else []
    try:
        yield hooks
    finally:
        for hook in hooks:
            hook.close()


@final
class Checkpoints:
    """Keeps the newest state, the one whose evaluation was best, and every so many on request."""

    def __init__(
        self,
        folder: Path,
        failures: Failures,
        history: History,
        describe: Callable[[TrainState], dict[str, Any]],
        *,
        keep_every: int | None = None,
        seconds: float = SAVE_SECONDS,
    ):
        """**Arguments:**

        - `folder`: where `last.safetensors`, `best.safetensors` and `step-....safetensors` go.
        - `failures`: collects what cannot be written.
        - `history`: with the return of the best state so far, and the steps that were made.
        - `describe`: the entries about its policy, which are the same for all states.
        - `keep_every`: environment steps between two checkpoints that stay.
        - `seconds`: between two checkpoints of the newest state; infinity for none of it.
        """
        self.folder, self.failures, self.describe = folder, failures, describe
        self.keep_every, self.env_steps = keep_every, history.env_steps
        self.seconds, self.due = seconds, 0.0 if np.isfinite(seconds) else np.inf
        self.best_return = history.best_return
        self.description: dict[str, Any] | None = None

    def __call__(self, progress: TrainProgress) -> None:
        mean = progress.measured["eval_return_mean"]
        if mean > self.best_return and self._save("best", progress):
            self.best_return = mean
        if self.keep_every and progress.env_steps // self.keep_every > (
            self.env_steps // self.keep_every
        ):
            self._save(f"step-{progress.env_steps:012}", progress)
        self.env_steps = progress.env_steps
        # A run that is killed before this goes on from an older state and writes the others again.
        if time.perf_counter() >= self.due and self._save("last", progress):
            self.due = time.perf_counter() + self.seconds

    def _save(self, name: str, progress: TrainProgress) -> bool:
        """**Returns:** whether it was written."""
        path = self.folder / f"{name}.safetensors"
        with self.failures.writing(path):
            if self.description is None:
                self.description = self.describe(progress.state)
            metadata = {"update": progress.updates, **progress.measured}
            save(path, progress.state, metadata | self.description)
            return True
        return False


def speed(progress: TrainProgress) -> float:
    """Environment steps of training per second, in this process."""
    steps = progress.env_steps - progress.env_steps_before
    return steps / max(progress.train_seconds, 1e-9)


def _memory_in_use() -> int:
    """The bytes that the first device uses, or, on a CPU, the process."""
    statistics = jax.local_devices()[0].memory_stats()
    return statistics["bytes_in_use"] if statistics else psutil.Process().memory_info().rss
