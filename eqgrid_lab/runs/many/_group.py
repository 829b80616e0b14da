"""Groups of runs that one compiled program trains together.

The runs of a group differ only in their seeds, the real-valued settings of `PPO` and the shaped
reward. Each has a folder of its own, with the same files as a run that is trained alone, except for
the film.
"""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from agents import (
    AbstractTrainState,
    Hook,
    StopTraining,
    TrainProgress,
    pick_run,
    restore,
    save,
    train,
    write_whole,
)

from ...base import IDENTITY, Failures
from ...folders import read_history, writing_into
from ...settings import dump
from ...show import Labelled, Logger
from ..single import (
    SAVE_SECONDS,
    Conclusion,
    Evaluator,
    EvaluatorOfMany,
    Forget,
    OutOfTime,
    Run,
    Summed,
    check_updates,
    open_display,
    profiled,
    recording_hooks,
    run_evaluator,
    run_loggers,
    shapes_together,
    stack_envs,
    stack_learners,
    start_together,
)

ALL_HAVE_ENDED = "all runs have reached their return, or are no longer better"
ALL_PRUNED = "all points are pruned"


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
class Prune:
    """Reports returns to the trials of a study, and stops a group when all of them are pruned.

    Runs of a group do not affect one another, so that trials which go on because of others are
    complete, and as if they had been trained alone.
    """

    def __init__(self, trials: Sequence[Any], evaluators: Sequence[Evaluator]):
        """**Arguments:**

        - `trials`: the trials.
        - `evaluators`: the evaluators of the runs, as many in turn for each trial.
        """
        self.trials, self.seeds = trials, len(evaluators) // len(trials)
        self.evaluators = evaluators

    def __call__(self, progress: TrainProgress) -> None:
        for i, trial in enumerate(self.trials):
            own = self.evaluators[i * self.seeds : (i + 1) * self.seeds]
            mean = np.mean([x.rows[-1]["eval_return_mean"] for x in own])
            trial.report(float(mean), progress.env_steps)
        if all(trial.should_prune() for trial in self.trials):
            raise StopTraining(ALL_PRUNED)


@final
@dataclasses.dataclass(frozen=True)
class Group:
    """Runs that are trained together.

    **Arguments:**

    - `whole`: what the runs share: the plan, the process, and the folder for common files.
    - `runs`: the runs, each with its settings, its folder and its history.
    - `checkpoint`: the path of the checkpoint of all runs.
    - `state`: the state to start from, with a leading axis of runs; `None` for a new one.
    """

    whole: Run
    runs: tuple[Run, ...]
    checkpoint: Path
    state: AbstractTrainState[Any] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the runs' folders, in the folder of the whole."""
        return [run.folder.relative_to(self.whole.folder).as_posix() for run in self.runs]

    def resumed(self, position: Mapping[str, Any]) -> "Group":
        """The group with the state of its checkpoint, and with the history of each run.

        **Arguments:**

        - `position`: the metadata of the checkpoint.

        **Raises:** `CheckpointError` when the checkpoint is damaged or does not fit, and the errors
        of `read_history`.
        """
        state = restore(self.checkpoint, shapes_together(self.runs, len(self.runs)))
        check_updates(self.whole.folder, position, int(state.updates[0]))
        runs = tuple(
            dataclasses.replace(run, history=read_history(run.folder, position, run.identity))
            for run in self.runs
        )
        return dataclasses.replace(self, state=state, runs=runs)

    def open_folders(self, console: Console, whose: str) -> None:
        """Makes the folder of each run, with its settings and its logs so far.

        For resumed runs, it also prints the number of steps so far.

        **Arguments:**

        - `console`: where it prints.
        - `whose`: the unit of the runs for that message, such as `each seed`.

        **Raises:** `RunError` when a folder cannot be written.
        """
        if self.state is not None:
            steps = int(self.state.updates[0]) * self.whole.plan.steps_per_update
            console.print(f"going on after {steps:,} steps of {whose}", highlight=False)
        for run in self.runs:
            with writing_into(run.folder):
                run.folder.mkdir(exist_ok=True)
                write_whole(run.folder / "config.toml", dump(run.config).encode())
                if self.state is not None:
                    run.history.write_into(run.folder)
            run.history.print_abandoned(console)

    def train(
        self,
        console: Console,
        failures: Failures,
        log: Logger | None = None,
        prune: Sequence[Any] | None = None,
    ) -> "Trained":
        """Trains all runs in one compiled program, to their end or until they are stopped.

        **Arguments:**

        - `console`: where the summed progress of all runs is shown.
        - `failures`: collects the files that cannot be written.
        - `log`: a logger for the rows of all runs, besides those in the folders of the runs.
        - `prune`: the trials of a study to which the runs belong, in turn, if it prunes any.

        **Returns:** the runs after training.

        **Raises:** `NonFiniteLoss`, `OutOfMemory`, `Stopped` when a signal arrives before training
        starts, and `RunError` when a log cannot be opened.
        """
        config, plan, process = self.whole.config, self.whole.plan, self.whole.process
        configs, display = [run.config for run in self.runs], open_display(console)
        evaluators = [run_evaluator(run) for run in self.runs]
        about = {"runs": self.names, IDENTITY: self.whole.identity}
        keep = KeepState(self.checkpoint, about, failures)
        with contextlib.ExitStack() as stack:
            hooks: list[Hook] = [Forget(self.whole.folder, failures)]
            for i, run in enumerate(self.runs):
                loggers = stack.enter_context(run_loggers(run))
                if log is not None:
                    loggers = [*loggers, Labelled(log, {"seed": run.config.seed})]
                # `KeepState` saves the latest state of all runs in one checkpoint.
                own = recording_hooks(run, loggers, failures, save_seconds=np.inf)
                hooks.append(OfOneRun(i, evaluators[i], own))
            target, patience = config.stop_at_return, config.patience
            hooks.append(EndTogether(evaluators, target=target, patience=patience))
            if prune is not None:
                hooks.append(Prune(prune, evaluators))
            hooks += stack.enter_context(profiled(self.whole.folder, config.profile))
            hooks += [keep, Summed(display, len(configs), plan.num_updates)]
            hooks.append(OutOfTime(process, config.max_hours))
            display.start(plan.num_updates * plan.steps_per_update * len(configs))
            stack.callback(display.stop)
            state = self.state
            if state is None:
                state = start_together(self.runs, jnp.stack([run.keys[0] for run in self.runs]))
            process.check()
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
        if progress.metrics is not None:
            keep.save(progress)
        return Trained(self, progress, evaluators, failures)


@final
class Trained(NamedTuple):
    """The runs of a group after training.

    - `group`: the group.
    - `progress`: the progress of all runs.
    - `evaluators`: the evaluator of each run, with the results of its evaluations.
    - `failures`: collects the files that cannot be written.
    """

    group: Group
    progress: TrainProgress
    evaluators: Sequence[Evaluator]
    failures: Failures

    @property
    def is_over(self) -> bool:
        """Whether the runs have ended, rather than being stopped by a signal or a time limit."""
        return self.progress.stopped in (None, ALL_HAVE_ENDED, ALL_PRUNED)

    def conclusion(self, run: int) -> Conclusion:
        """The `Conclusion` of the run at an index."""
        evaluator = self.evaluators[run]
        progress = progress_of(self.progress, run, evaluator)
        return Conclusion(self.group.runs[run], progress, evaluator, self.failures, film=False)
