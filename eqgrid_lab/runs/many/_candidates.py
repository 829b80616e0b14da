"""Candidates: several policies are trained for a while, and the best one continues as the run.

The final return of a seed is often decided early, by the conventions that its agents settle on.

The candidates of one run, or of several runs that are trained together, form one group. Each has
the schedules of the whole run, so that the best one continues as if it had been trained alone.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from rich.console import Console

from agents import AbstractTrainState, NonFiniteLoss

from ...base import (
    CANDIDATES_FILE,
    NOTHING_LEARNED,
    Failures,
    RunError,
    UsageError,
    print_error,
    read_metadata,
)
from ...show import return_texts
from ..single import (
    STOP_CODES,
    EvaluatorOfMany,
    Run,
    check_same_run,
    finish,
    run_evaluator,
    start_together,
)
from ._group import ALL_HAVE_LEARNED, EndAfter, Group


def candidates_of(whole: Run, runs: Sequence[Run]) -> Group:
    """The group of all candidates of some runs, in the order of the runs.

    **Arguments:**

    - `whole`: what the runs share; its folder has the checkpoint of the candidates.
    - `runs`: the runs, which share a plan.
    """
    learners = tuple(run for run in runs for _ in range(whole.config.candidates))
    about = {"num_updates": whole.plan.num_updates}
    return Group(whole, learners, whole.folder / CANDIDATES_FILE, about=about)


def choose(
    candidates: Group, console: Console, failures: Failures
) -> tuple[AbstractTrainState[Any] | None, str | None]:
    """Trains the candidates, and chooses the best one of each run by its mean evaluation return.

    Candidates that were stopped before are resumed from their checkpoint.

    **Arguments:**

    - `candidates`: the candidates of all runs.
    - `console`: where progress is shown.
    - `failures`: collects the files that cannot be written.

    **Returns:** the best states, stacked with a leading axis of runs, and `None`; if training was
    stopped, `None` and the reason.

    **Raises:** `RunError` when a loss is not finite, `OutOfMemory`, and `Stopped` when a signal
    arrives before training starts.
    """
    whole, number = candidates.whole, candidates.whole.config.candidates
    updates, block = whole.candidate_updates, whole.candidate_block
    if candidates.checkpoint.exists():
        candidates = candidates.restored(read_metadata(candidates.checkpoint))
    else:
        keys = [jax.random.split(run.keys[0], number) for run in candidates.runs[::number]]
        state = start_together(candidates.runs, jnp.concatenate(keys))
        candidates = dataclasses.replace(candidates, state=state)
    console.print(
        f"{number} candidates learn for {updates * whole.plan.steps_per_update:,} steps each, "
        "and the best one goes on",
        highlight=False,
    )
    evaluator = EvaluatorOfMany([run_evaluator(run) for run in candidates.runs])
    state = candidates.state
    assert state is not None
    if int(state.updates[0]) < updates:
        try:
            hooks = [EndAfter(updates)]
            progress = candidates.train_blocks(console, failures, evaluator, hooks, updates, block)
        except NonFiniteLoss as error:
            raise RunError(
                f"The loss of update {error.update} of a candidate is not a finite number (first "
                f"{error.where}), so the run stops. Try a smaller learning rate."
            ) from error
        if progress.stopped != ALL_HAVE_LEARNED:
            return None, progress.stopped
        state = progress.state
    returns = evaluator.play(state, updates).episode_return.mean(axis=(1, 2))
    returns = np.asarray(returns).reshape(-1, number)
    for run, own in zip(candidates.runs[::number], returns, strict=True):
        words = ", ".join(return_texts(-np.sort(-own)))
        console.print(f"seed {run.config.seed}: {words}", highlight=False)
    best = returns.argmax(axis=1) + number * np.arange(len(returns))
    return _pick(state, jnp.asarray(best)), None


def still_learn(candidates: Group, checkpoint: Path) -> bool:
    """Whether a resumed run was stopped while its candidates were trained.

    **Arguments:**

    - `candidates`: the candidates of the run.
    - `checkpoint`: the path of the run's own latest checkpoint.

    **Raises:** `UsageError` when the settings or the length of the run have changed, and
    `CheckpointError` when the candidates' checkpoint is damaged.
    """
    whole = candidates.whole
    if not candidates.checkpoint.exists() or checkpoint.exists():
        return False
    metadata = read_metadata(candidates.checkpoint)
    check_same_run(whole.folder, metadata, whole.identity)
    if metadata.get("num_updates") != whole.plan.num_updates:
        raise UsageError(
            f"The candidates of the run {str(whole.folder)!r} still learn: go on with --resume "
            "alone, and change --total-steps when the best one is chosen."
        )
    return True


def forget(candidates: Group, checkpoint: Path, failures: Failures) -> None:
    """Removes the checkpoint of the candidates at the end of the run.

    **Arguments:**

    - `candidates`: the candidates of the run.
    - `checkpoint`: the path of the run's own latest checkpoint. If it does not exist, the
        candidates' checkpoint is kept.
    - `failures`: collects the files that cannot be removed.
    """
    if checkpoint.exists():
        with failures.writing(candidates.checkpoint):
            candidates.checkpoint.unlink(missing_ok=True)


def stopped_early(
    candidates: Group, stopped: str | None, console: Console, failures: Failures
) -> int:
    """Prints how to resume candidates that were stopped, if they have learned anything.

    **Arguments:**

    - `candidates`: the candidates of the run.
    - `stopped`: the reason for which they were stopped.
    - `console`: where the command is printed.
    - `failures`: the files that could not be written.

    **Returns:** the exit code.
    """
    if not candidates.checkpoint.exists():
        return print_error(NOTHING_LEARNED, STOP_CODES.get(stopped or "", 0))
    console.print(f"{stopped} after the candidates began to learn", highlight=False)
    return finish(candidates.whole, stopped, console, failures)


@eqx.filter_jit
def _pick(state: AbstractTrainState[Any], chosen: Int[Array, " runs"]) -> AbstractTrainState[Any]:
    return jax.tree.map(lambda x: x[chosen] if eqx.is_array(x) else x, state)
