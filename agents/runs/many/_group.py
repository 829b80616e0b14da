"""Runs that one compiled program trains together.

They are equal but for their seeds, the real numbers of `PPO` and the shaped reward. Each of them
has a folder of its own, in which it leaves what it would leave if it were alone, but for the film.
"""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, Shaped

from agents import (
    Hook,
    StopTraining,
    TrainProgress,
    TrainState,
    pick_run,
    save,
    train,
)
from agents.runs._metadata import IDENTITY
from agents.runs.display._errors import Failures
from agents.runs.display._loggers import Logger
from agents.runs.single._build import (
    shapes_together,
    stack_envs,
    stack_learners,
    start_together,
)
from agents.runs.single._conclusion import Conclusion
from agents.runs.single._display import Display, Summed
from agents.runs.single._evaluator import Evaluator, EvaluatorOfMany
from agents.runs.single._hooks import SAVE_SECONDS, Forget, OutOfTime, profiled
from agents.runs.single._run import Run
from agents.runs.single._training import recording_hooks, run_evaluator, run_loggers


@final
@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that are trained together.

    **Arguments:**

    - `runs`: each with its settings, its folder and its history; all of them share a plan.
    - `folder`: where the files of all of them together are.
    - `checkpoint`: the file of their newest state.
    - `identity`: what it says of all runs together.
    - `state`: where to go on from: the states of all runs in one.
    """

    runs: tuple[Run, ...]
    folder: Path
    checkpoint: Path
    identity: Mapping[str, Any]
    state: TrainState | None = None

    @property
    def names(self) -> list[str]:
        """What the folders of the runs are called."""
        return [run.folder.name for run in self.runs]

    def train(
        self, display: Display, failures: Failures, more: Mapping[int, Sequence[Logger]]
    ) -> "Trained":
        """Trains all runs to their end, or until they are stopped.

        **Arguments:**

        - `display`: is told of all runs together.
        - `failures`: is told what cannot be written.
        - `more`: where else the rows of a run go, by its place in `runs`.

        **Raises:** `NonFiniteLoss`, `OutOfMemory`, `RunError`.
        """
        evaluators = [run_evaluator(run) for run in self.runs]
        first, process = self.runs[0], self.runs[0].process
        with contextlib.ExitStack() as stack:
            hooks: list[Hook] = [Forget(self.folder, failures)]
            for i, run in enumerate(self.runs):
                loggers = [*stack.enter_context(run_loggers(run)), *more.get(i, ())]
                # The newest state is kept elsewhere, for all runs together.
                own = recording_hooks(run, loggers, failures, save_seconds=np.inf)
                hooks.append(_OfOneRun(i, evaluators[i], own))
            hooks += [_KeepState(self, failures), _end_together(first, evaluators)]
            hooks.append(Summed(display, len(self.runs)))
            if first.config.max_hours is not None:
                hooks.append(OutOfTime(process, first.config.max_hours))
            hooks += stack.enter_context(profiled(self.folder, first.config.profile))
            progress = self._train(evaluators, hooks, display)
        return Trained(self, progress, evaluators, failures)

    def _train(
        self, evaluators: Sequence[Evaluator], hooks: Sequence[Hook], display: Display
    ) -> TrainProgress:
        plan, process = self.runs[0].plan, self.runs[0].process
        display.start(plan.num_updates * plan.steps_per_update * len(self.runs))
        try:
            state = self.state
            if state is None:
                state = start_together(self.runs, self._keys)
            process.check()
            configs = [run.config for run in self.runs]
            env, env_axes = stack_envs(plan.train_env, configs)
            progress = train(
                stack_learners(configs),
                env,
                state,
                env_axes=env_axes,
                num_updates=plan.num_updates,
                updates_per_block=plan.updates_per_block,
                measure=EvaluatorOfMany(evaluators),
                hooks=hooks,
                should_stop=process.stop_reason,
                donate=True,
            )
            process.training_ended()
            return progress
        finally:
            display.stop()

    def like(self) -> TrainState:
        """The shapes of the states of all runs in one, for `restore`."""
        return shapes_together(self.runs, len(self.runs))

    @property
    def _keys(self) -> Shaped[PRNGKeyArray, " runs"]:
        return jnp.stack([run.keys[0] for run in self.runs])


@final
@dataclasses.dataclass(frozen=True)
class Trained:
    """Runs after their last block.

    **Arguments:**

    - `group`: the runs.
    - `progress`: how far all of them are.
    - `evaluators`: with the evaluations of each run.
    - `failures`: is told what cannot be written.
    """

    group: Group
    progress: TrainProgress
    evaluators: Sequence[Evaluator]
    failures: Failures

    @property
    def nothing_learned(self) -> bool:
        """Whether they were stopped before their first block was over."""
        return self.progress.metrics is None

    @property
    def is_over(self) -> bool:
        """Whether they have come to their end, and were not stopped before it."""
        return self.progress.stopped in (None, _ENDED)

    def keep(self) -> None:
        """Writes the newest state of all runs, so that they can go on together."""
        _save_state(self.group, self.progress, self.failures)

    def conclude(self) -> list[dict[str, Any]]:
        """Writes into each run's folder what it leaves at its end, but for the film.

        **Returns:** what is in the `result.json` of each.
        """
        self.keep()
        return [self.conclusion(i).conclude() for i in range(len(self.group.runs))]

    def conclusion(self, run: int) -> Conclusion:
        """The end of one of the runs."""
        progress = _progress_of(self.progress, run, self.evaluators[run])
        return Conclusion(
            self.group.runs[run],
            progress,
            self.evaluators[run],
            self.failures,
            film=False,
        )


_ENDED = "all runs have reached their return, or are no longer better"


def _progress_of(progress: TrainProgress, run: int, evaluator: Evaluator) -> TrainProgress:
    """How far one of the runs is."""
    return dataclasses.replace(
        progress,
        state=pick_run(progress.state, run),
        metrics=jax.tree.map(lambda x: x[:, run], progress.metrics),
        measured=evaluator.rows[-1],
    )


@final
class _OfOneRun:
    """Calls the hooks of one run with its own progress."""

    def __init__(self, run: int, evaluator: Evaluator, hooks: Sequence[Hook]):
        self.run, self.evaluator, self.hooks = run, evaluator, hooks

    def __call__(self, progress: TrainProgress) -> None:
        own = _progress_of(progress, self.run, self.evaluator)
        for hook in self.hooks:
            hook(own)


@final
class _KeepState:
    """Keeps the newest state of all runs, so that they can go on together."""

    def __init__(self, group: Group, failures: Failures, seconds: float = SAVE_SECONDS):
        self.group, self.failures = group, failures
        self.seconds, self.due = seconds, 0.0

    def __call__(self, progress: TrainProgress) -> None:
        if time.perf_counter() >= self.due:
            _save_state(self.group, progress, self.failures)
            self.due = time.perf_counter() + self.seconds


def _save_state(group: Group, progress: TrainProgress, failures: Failures) -> None:
    about = {"update": progress.updates, "env_steps": progress.env_steps, "runs": group.names}
    about |= {IDENTITY: group.identity}
    with failures.writing(group.checkpoint):
        save(group.checkpoint, progress.state, about)


@final
class _EndTogether:
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
        returns = [[row["eval_return_mean"] for row in x.rows] for x in self.evaluators]
        if all(self._has_ended(x) for x in returns):
            raise StopTraining(_ENDED)

    def _has_ended(self, returns: Sequence[float]) -> bool:
        since_best = len(returns) - 1 - int(np.argmax(returns))
        reached = self.target is not None and max(returns) >= self.target
        return reached or (self.patience is not None and since_best >= self.patience)


def _end_together(run: Run, evaluators: Sequence[Evaluator]) -> _EndTogether:
    config = run.config
    return _EndTogether(evaluators, target=config.stop_at_return, patience=config.patience)
