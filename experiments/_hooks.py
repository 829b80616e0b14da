"""What happens between two blocks of updates: plain Python objects that `train` calls."""

import csv
import dataclasses
import errno
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree
from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from agents import (
    ActorCritic,
    Metrics,
    StopTraining,
    TrainProgress,
    TrainState,
    evaluate,
    save,
)
from eqgrid import AbstractVectorEnv, NormalizeObservation
from experiments._errors import Failures
from experiments._folder import forget_older
from experiments._history import History
from experiments._process import Process


@final
class Evaluator:
    """Plays episodes with the newest policy, with keys of its own and statistics held still."""

    env: AbstractVectorEnv
    key: PRNGKeyArray
    clock: Callable[[], float]
    rows: list[dict[str, float]]

    def __init__(
        self,
        env: AbstractVectorEnv,
        key: PRNGKeyArray,
        clock: Callable[[], float],
        rows: Sequence[dict[str, float]] = (),
    ):
        """**Arguments:**

        - `env`: as many environments as episodes are to be played.
        - `key`: the source of the evaluations' randomness.
        - `clock`: seconds since the run started.
        - `rows`: what came of the evaluations so far.
        """
        self.env, self.key, self.clock, self.rows = env, key, clock, list(rows)

    def __call__(self, progress: TrainProgress) -> None:
        returns = self.play(
            progress.state.policy, progress.state.runner.env_state, progress.updates
        )
        self.rows.append(
            {
                "env_steps": progress.env_steps,
                "wall_seconds": self.clock(),
                "eval_return_mean": float(returns.mean()),
                "eval_return_std": float(returns.std()),
            }
        )

    def play(
        self,
        policy: ActorCritic,
        env_state: PyTree,
        number: int,
        repeats: int = 1,
        hurried: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """The returns of `repeats` times as many episodes as there are environments.

        **Arguments:**

        - `policy`: who plays.
        - `env_state`: the state of the training environments, for the moments in it.
        - `number`: which evaluation this is; equal numbers play equal episodes.
        - `hurried`: says when those that were played so far must do.
        """
        env = frozen(self.env, env_state)
        keys = jax.random.split(jax.random.fold_in(self.key, number), repeats)
        returns = []
        for key in keys:
            returns.append(np.asarray(evaluate(policy, env, key).episode_return))
            if hurried():
                break
        return np.concatenate(returns).mean(axis=-1)


def frozen(env: AbstractVectorEnv, env_state: PyTree) -> AbstractVectorEnv:
    """`env` with the moments that training has arrived at, if it normalises at all."""
    return env.freeze(env_state) if isinstance(env, NormalizeObservation) else env


@final
class CsvLog:
    """One row per block, written as it happens. Where a row cannot be written, as on a full disk,
    nothing of it stays in the file, and it is written together with the next one.
    """

    def __init__(self, path: Path, evaluator: Evaluator, failures: Failures, history: History):
        self.path, self.evaluator, self.failures = path, evaluator, failures
        self.train_seconds = history.train_seconds
        self.written = history.rows  # the whole rows in the file, and its header
        self.rows: list[dict[str, Any]] = []  # that are not in it yet

    def __call__(self, progress: TrainProgress) -> None:
        row = {
            "update": progress.updates,
            **self.evaluator.rows[-1],
            "train_seconds": round(self.train_seconds + progress.train_seconds, 3),
            **block_means(progress.metrics),
        }
        self.rows.append(row)
        with self.failures.writing(self.path):
            self._write()

    def _write(self) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, fieldnames=list(self.rows[0]))
        if not self.written:
            writer.writeheader()
        writer.writerows(self.rows)
        content = text.getvalue().encode()
        with self.path.open("ab", buffering=0) as file:
            there = len(self.written)
            if file.seek(0, os.SEEK_END) < there:  # somebody removed the file, or made it shorter
                content, there = self.written + content, 0
                self.written = b""
            try:
                file.truncate(there)
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(there)
                raise
        self.written += content
        self.rows.clear()


def block_means(metrics: Metrics | None) -> dict[str, Any]:
    """The means of a block's metrics over its updates; of the episodes, the number that ended."""
    if metrics is None:
        return {}
    rows = {f.name: np.asarray(getattr(metrics, f.name)) for f in dataclasses.fields(metrics)}
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
class StopWhenAsked:
    """Ends a run that was asked to end before it began to listen."""

    def __init__(self, process: Process):
        self.process = process

    def __call__(self, _: TrainProgress) -> None:
        if self.process.first is not None:
            raise StopTraining("interrupted")


@final
class Checkpoints:
    """Keeps the newest state, and the one whose evaluation was best."""

    def __init__(
        self,
        folder: Path,
        evaluator: Evaluator,
        failures: Failures,
        history: History,
        describe: Callable[[TrainState], dict[str, Any]],
        every: float | int = 5,
    ):
        """**Arguments:**

        - `folder`: where `last.safetensors` and `best.safetensors` go.
        - `evaluator`: tells how good the newest state is.
        - `failures`: is told what cannot be written.
        - `history`: tells how good the best state was so far.
        - `describe`: what a checkpoint says of the policy in it.
        - `every`: seconds between two checkpoints of the newest state.
        """
        self.last, self.best = folder / "last.safetensors", folder / "best.safetensors"
        self.evaluator, self.failures, self.every = evaluator, failures, every
        self.best_return, self.saved, self.describe = history.best_return, -np.inf, describe

    def __call__(self, progress: TrainProgress) -> None:
        row = self.evaluator.rows[-1]
        metadata = {"update": progress.updates, **row, **self.describe(progress.state)}
        if progress.wall_seconds >= self.saved + self.every:
            with self.failures.writing(self.last):
                save(self.last, progress.state, metadata)
                self.saved = progress.wall_seconds
        if row["eval_return_mean"] > self.best_return:
            with self.failures.writing(self.best):
                save(self.best, progress.state, metadata)
                self.best_return = row["eval_return_mean"]


class Display(Protocol):
    """Tells a person how far the run is."""

    def start(self, total_steps: int) -> None: ...
    def __call__(self, progress: TrainProgress) -> None: ...
    def stop(self) -> None: ...


@final
class LiveBar(Display):
    """A progress bar, for a terminal."""

    def __init__(self, console: Console, evaluator: Evaluator):
        self.evaluator = evaluator
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            console=console,
            redirect_stderr=False,  # where that goes is up to whoever started the program
        )

    def start(self, total_steps: int) -> None:
        self.task = self.bar.add_task("compiling", total=total_steps, numbers="the training loop")
        self.bar.start()

    def __call__(self, progress: TrainProgress) -> None:
        numbers = (
            f"{speed(progress):,.0f} steps/s  return "
            f"[bold]{self.evaluator.rows[-1]['eval_return_mean']:.0f}[/]"
        )
        self.bar.update(
            self.task, completed=progress.env_steps, description="training ", numbers=numbers
        )

    def stop(self) -> None:
        self.bar.stop()


@final
class LogDisplay(Display):
    """A line every so often, for a file or a pipe."""

    def __init__(self, console: Console, evaluator: Evaluator, every: float = 0.05):
        self.console, self.evaluator, self.every = console, evaluator, every
        self.next = 0.0

    def start(self, total_steps: int) -> None:
        self.console.print("compiling the training loop")

    def __call__(self, progress: TrainProgress) -> None:
        done = progress.env_steps / progress.num_env_steps
        if done < self.next and progress.updates < progress.num_updates:
            return
        self.next = done + self.every
        left = (progress.num_env_steps - progress.env_steps) / speed(progress)
        self.console.print(
            f"{done:4.0%}  {progress.env_steps:>10,} steps  {speed(progress):>8,.0f} steps/s  "
            f"return {self.evaluator.rows[-1]['eval_return_mean']:6.1f}  {left:5.0f} s left",
            highlight=False,
        )

    def stop(self) -> None:
        pass


def speed(progress: TrainProgress) -> float:
    """Environment steps of training per second, in this process."""
    steps = progress.env_steps - progress.env_steps_before
    return steps / max(progress.train_seconds, 1e-9)
