"""Candidates: several agents learn at first, and the best one goes on as the run.

What a seed earns at its end is often decided early, by habits that agents fall into.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from rich.console import Console

from agents import (
    Hook,
    NonFiniteLoss,
    StopTraining,
    TrainProgress,
    TrainState,
    restore,
    save,
    train,
)
from agents.runs._command import NOTHING_LEARNED
from agents.runs._metadata import IDENTITY, read_metadata
from agents.runs._run_files import CANDIDATES_FILE
from agents.runs.display._errors import Failures, RunError, UsageError, print_error
from agents.runs.display._report import print_how_to_go_on
from agents.runs.settings._page import command_of
from agents.runs.single._build import (
    shapes_together,
    stack_envs,
    stack_learners,
    start_together,
)
from agents.runs.single._display import Summed, open_display
from agents.runs.single._evaluator import EvaluatorOfMany
from agents.runs.single._hooks import SAVE_SECONDS, OutOfTime
from agents.runs.single._identity import check_same_run
from agents.runs.single._run import STOP_CODES, Run
from agents.runs.single._training import run_evaluator

_ALL_HAVE_LEARNED = "all candidates have learned"


@final
class Choice(NamedTuple):
    """What came of the candidates.

    - `state`: the best one of every run, in one state. Where they were stopped, nothing.
    - `stopped`: which signal stopped them, if any did. They go on with `--resume`.
    """

    state: TrainState | None
    stopped: str | None


@final
@dataclasses.dataclass(frozen=True)
class Candidates:
    """The candidates of one run, or of several that are trained together.

    All of them are trained in one program. Each has the schedules of the whole run, so that the one
    that goes on does so as if it had been alone.

    **Arguments:**

    - `runs`: share a plan.
    - `folder`: that of all runs together.
    - `identity`: what their file says of all runs together.
    """

    runs: Sequence[Run]
    folder: Path
    identity: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """Where they are kept while they learn."""
        return self.folder / CANDIDATES_FILE

    @property
    def _number(self) -> int:
        return self.runs[0].config.candidates

    def choose(self, console: Console, failures: Failures) -> Choice:
        """Trains the candidates, new ones or those that are kept in the folder, and judges them.

        **Raises:** `RunError` when a loss is no longer a number, and `OutOfMemory`.
        """
        updates, plan = self.runs[0].candidate_updates, self.runs[0].plan
        state = self._begin()
        evaluator = EvaluatorOfMany(
            [run_evaluator(run) for run in self.runs for _ in range(self._number)]
        )
        console.print(
            f"{self._number} candidates learn for {updates * plan.steps_per_update:,} steps each, "
            "and the best one goes on",
            highlight=False,
        )
        if int(state.updates[0]) < updates:
            progress = self._train(state, evaluator, console, failures)
            if progress.metrics is not None:
                self.keep(progress, failures)
            if progress.stopped != _ALL_HAVE_LEARNED:
                return Choice(None, progress.stopped)
            state = progress.state
        returns = evaluator.play(state, updates).episode_return.mean(axis=(1, 2))
        returns = np.asarray(returns).reshape(len(self.runs), self._number)
        for run, own in zip(self.runs, returns, strict=True):
            said = ", ".join(f"{x:.1f}" for x in -np.sort(-own))
            console.print(f"seed {run.config.seed}: {said}", highlight=False)
        best = returns.argmax(axis=1) + self._number * np.arange(len(self.runs))
        return Choice(_pick(state, jnp.asarray(best)), None)

    def check(self) -> None:
        """**Raises:** `UsageError` when the run has other settings or another length than when they
        began, and `CheckpointError` when their file is damaged.
        """
        metadata = read_metadata(self.path)
        check_same_run(self.folder, metadata, self.identity)
        if metadata.get("num_updates") != self.runs[0].plan.num_updates:
            raise UsageError(
                f"The candidates of the run {str(self.folder)!r} still learn: go on with --resume "
                "alone, and change --total-steps when the best one is chosen."
            )

    def forget(self, checkpoint: Path, failures: Failures) -> None:
        """Removes their file at the end of the run.

        **Arguments:**

        - `checkpoint`: without this file of what came of them, they are not removed.
        - `failures`: is told what cannot be removed.
        """
        if checkpoint.exists():
            with failures.writing(self.path):
                self.path.unlink(missing_ok=True)

    def keep(self, progress: TrainProgress, failures: Failures) -> None:
        """Writes the newest state of all of them, so that they can go on."""
        about = {"update": progress.updates, "num_updates": progress.num_updates}
        about |= {IDENTITY: self.identity}
        with failures.writing(self.path):
            save(self.path, progress.state, about)

    def _begin(self) -> TrainState:
        if self.path.exists():
            return restore(self.path, shapes_together(self.runs, len(self.runs) * self._number))
        keys = [jax.random.split(run.keys[0], self._number) for run in self.runs]
        return start_together(self.runs, jnp.concatenate(keys))

    def _train(
        self, state: TrainState, evaluator: EvaluatorOfMany, console: Console, failures: Failures
    ) -> TrainProgress:
        plan, process = self.runs[0].plan, self.runs[0].process
        updates = self.runs[0].candidate_updates
        configs = [run.config for run in self.runs for _ in range(self._number)]
        display = open_display(console)
        hooks: list[Hook] = [
            _EndAfter(updates),
            _Keep(self, failures),
            Summed(display, len(configs), updates),
        ]
        if self.runs[0].config.max_hours is not None:
            hooks.append(OutOfTime(process, self.runs[0].config.max_hours))
        display.start(updates * plan.steps_per_update * len(configs))
        env, env_axes = stack_envs(plan.train_env, configs)
        process.check()
        try:
            progress = train(
                stack_learners(configs),
                env,
                state,
                env_axes=env_axes,
                num_updates=plan.num_updates,
                updates_per_block=self.runs[0].candidate_block,
                measure=evaluator,
                hooks=hooks,
                should_stop=process.stop_reason,
                donate=True,
            )
            process.training_ended()
            return progress
        except NonFiniteLoss as error:
            raise RunError(
                f"The loss of update {error.update} of a candidate is not a finite number (first "
                f"{error.where}), so the run stops. Try a smaller learning rate."
            ) from error
        finally:
            display.stop()


def stopped_early(
    console: Console, candidates: Candidates, stopped: str | None, failures: Failures
) -> int:
    """Says how to go on with candidates that were stopped, if they have learned anything.

    **Returns:** the exit code.
    """
    code = STOP_CODES.get(stopped or "", 0)
    if not candidates.path.exists():
        return print_error(NOTHING_LEARNED, code)
    console.print(f"{stopped} after the candidates began to learn", highlight=False)
    command = command_of(type(candidates.runs[0].settings))
    print_how_to_go_on(console, command, candidates.folder)
    return 1 if failures.report() else code


@eqx.filter_jit
def _pick(state: TrainState, chosen: Int[Array, " runs"]) -> TrainState:
    return jax.tree.map(lambda x: x[chosen] if eqx.is_array(x) else x, state)


@final
class _EndAfter:
    """A hook that ends training after so many updates."""

    def __init__(self, updates: int):
        self.updates = updates

    def __call__(self, progress: TrainProgress) -> None:
        if progress.updates >= self.updates:
            raise StopTraining(_ALL_HAVE_LEARNED)


@final
class _Keep:
    """A hook that keeps the newest state of all candidates, every few seconds."""

    def __init__(self, candidates: Candidates, failures: Failures):
        self.candidates, self.failures, self.due = candidates, failures, 0.0

    def __call__(self, progress: TrainProgress) -> None:
        if time.perf_counter() >= self.due:
            self.candidates.keep(progress, self.failures)
            self.due = time.perf_counter() + SAVE_SECONDS
