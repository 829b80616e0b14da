"""Candidates: several agents learn at first, and the best one goes on as the run.

What a seed earns at its end is often decided early, by habits that agents fall into.

All candidates, of one run or of several that are trained together, are one group. Each has the
schedules of the whole run, so that the one that goes on does so as if it had been alone.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from rich.console import Console

from agents import NonFiniteLoss, TrainState
from agents.runs._command import NOTHING_LEARNED
from agents.runs._metadata import read_metadata
from agents.runs._run_files import CANDIDATES_FILE
from agents.runs.display._errors import Failures, RunError, UsageError, print_error
from agents.runs.single._build import start_together
from agents.runs.single._conclusion import finish
from agents.runs.single._evaluator import EvaluatorOfMany
from agents.runs.single._identity import check_same_run
from agents.runs.single._run import STOP_CODES, Run
from agents.runs.single._training import run_evaluator

from ._group import Group
from ._hooks import ALL_HAVE_LEARNED, EndAfter


def candidates_of(whole: Run, runs: Sequence[Run]) -> Group:
    """The candidates of some runs, those of the first run first.

    **Arguments:**

    - `whole`: what the runs share; the candidates' file is in its folder.
    - `runs`: the runs, which share a plan.
    """
    learners = tuple(run for run in runs for _ in range(whole.config.candidates))
    about = {"num_updates": whole.plan.num_updates}
    return Group(whole, learners, whole.folder / CANDIDATES_FILE, about=about)


def choose(
    candidates: Group, console: Console, failures: Failures
) -> tuple[TrainState | None, str | None]:
    """Trains the candidates, new ones or those that are kept in the folder, and chooses.

    **Returns:** the best one of every run, in one state; where they were stopped, nothing and the
    reason. They go on with `--resume`.

    **Raises:** `RunError` when a loss is no longer a number, and `OutOfMemory`.
    """
    whole, number = candidates.whole, candidates.whole.config.candidates
    updates, block = whole.candidate_updates, whole.candidate_block
    if candidates.checkpoint.exists():
        candidates = candidates.resumed(read_metadata(candidates.checkpoint))
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
        words = ", ".join(f"{x:.1f}" for x in -np.sort(-own))
        console.print(f"seed {run.config.seed}: {words}", highlight=False)
    best = returns.argmax(axis=1) + number * np.arange(len(returns))
    return _pick(state, jnp.asarray(best)), None


def still_learn(candidates: Group, checkpoint: Path) -> bool:
    """Whether a run that is resumed goes on with its candidates.

    **Arguments:**

    - `candidates`: those of the run.
    - `checkpoint`: the file of the run's own newest state.

    **Raises:** `UsageError` when the run has other settings or another length than when they
    began, and `CheckpointError` when their file is damaged.
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
    """Removes the file of the candidates at the end of the run.

    **Arguments:**

    - `candidates`: those of the run.
    - `checkpoint`: the file of the run's own newest state, without which theirs stays.
    - `failures`: collects what cannot be removed.
    """
    if checkpoint.exists():
        with failures.writing(candidates.checkpoint):
            candidates.checkpoint.unlink(missing_ok=True)


def stopped_early(
    candidates: Group, stopped: str | None, console: Console, failures: Failures
) -> int:
    """Prints how to go on with candidates that were stopped, if they have learned anything.

    **Returns:** the exit code.
    """
    if not candidates.checkpoint.exists():
        return print_error(NOTHING_LEARNED, STOP_CODES.get(stopped or "", 0))
    console.print(f"{stopped} after the candidates began to learn", highlight=False)
    return finish(candidates.whole, stopped, console, failures)


@eqx.filter_jit
def _pick(state: TrainState, chosen: Int[Array, " runs"]) -> TrainState:
    return jax.tree.map(lambda x: x[chosen] if eqx.is_array(x) else x, state)
