"""Searches for settings of IPPO with Optuna. Many points train in one compiled program.

python experiments/sweep.py --env.layout ring --num-seeds 2 --points 32

`suggest` names the settings and their ranges: edit it here. Settings of PPO that are floating-point
numbers may differ in one program. The same command continues a search. Several processes share the
points of one search, also on several hosts if --storage is a database or a file that all can reach.
"""

import contextlib
import dataclasses
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from eqgrid_lab import Evaluation, parse
from eqgrid_lab.base import expected_errors, keep_compiled_programs, use_cores_as_devices
from eqgrid_lab.folders import write_csv
from eqgrid_lab.runs import choose_mesh
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optuna
from jaxtyping import Float, PRNGKeyArray
from msgspec import Meta
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import Trial, TrialState
from tyro.conf import Fixed

from agents import Block, NonFiniteLoss, TrainState
from eqgrid import AbstractVectorEnv
from ippo import IPPO

_LOST = 600.0
"""A point without progress for this many seconds has lost its process."""


@dataclasses.dataclass(frozen=True)
class Sweep(IPPO):
    """Searches for settings of IPPO, and writes a table and plots of all points into a folder."""

    out: Path = Path("runs/sweep")
    """Folder of the results and, by default, of the study."""
    points: Annotated[int, Meta(ge=1, le=10**6)] = 32
    """Points of the whole search, each of which trains --num-seeds seeds."""
    at_once: Annotated[int, Meta(ge=1, le=1024)] = 8
    """Points that train together. Optuna learns after each batch."""
    storage: str = ""
    """Address of a database, as in Optuna, or a journal file; by default, SQLite in --out."""
    # Flags of a single run, which have no effect here, are removed.
    eval_every: Fixed[None] = None
    log: Fixed[tuple[()]] = ()
    log_info: Fixed[tuple[()]] = ()
    resume: Fixed[bool] = False
    resume_changed: Fixed[bool] = False


def suggest(trial: Trial) -> dict[str, float]:
    """The settings of PPO at one point."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        "entropy_coefficient": trial.suggest_float("entropy_coefficient", 1e-3, 0.1, log=True),
    }


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(None, None, 0))
def init(config: Sweep, envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
    """The state of one run."""
    policy_key, run_key = jax.random.split(key)
    ppo = config.learner()
    return ppo.init(config.policy(envs, policy_key), envs, run_key)


def train(config: Sweep, trials: Sequence[Trial]) -> Float[np.ndarray, " points"]:
    """Trains all seeds of the points together, and evaluates their last policies.

    **Returns:** the mean return of each point, over its seeds and episodes.

    **Raises:** `NonFiniteLoss` when the loss of one of the runs is not a finite number.
    """
    ppo, envs, points = config.learner(), config.train_env(), [suggest(x) for x in trials]
    # A setting is a vector with an entry for each run; the seeds of a point have equal entries.
    values: Any = jax.tree.map(lambda *x: jnp.repeat(jnp.asarray(x), config.num_seeds), *points)
    seeds = np.tile(config.seed + np.arange(config.num_seeds), len(trials))
    keys = jax.vmap(jax.random.split)(jnp.stack([jax.random.key(seed) for seed in seeds]))
    mesh = choose_mesh(config.devices, len(seeds))
    steps = ppo.steps_per_update(envs)
    num_updates = math.ceil(config.total_steps / steps)
    length = max(1, min(10, num_updates // 20))  # short, so that `mark` is called often
    ppo = dataclasses.replace(ppo, **values)
    block = Block(ppo, envs, num_updates=num_updates, length=length, mesh=mesh)
    judging = config.eval_env(config.env.build(train=False), 4 * config.eval_episodes)
    evaluation = Evaluation(judging, envs, keys[:, 1], mesh)

    state = init(config, envs, keys[:, 0])
    for done in range(0, num_updates, length):
        count = min(length, num_updates - done)
        state, _ = block(state, count)
        print(f"{(done + count) * steps:>12,} steps of each seed", flush=True)
        mark(trials, time.time())
    return evaluation(state)["eval_return_mean"].reshape(len(trials), -1).mean(axis=1)


def train_finite(
    config: Sweep, study: optuna.Study, trials: list[Trial]
) -> Float[np.ndarray, " points"]:
    """Calls `train`, again without the point of a loss that is not finite, which is pruned."""
    while trials:
        try:
            return train(config, trials)
        except NonFiniteLoss as error:
            print(error, flush=True)
            bad = trials.pop((error.run or 0) // config.num_seeds)
            study.tell(bad, state=TrialState.PRUNED)
    return np.zeros(0)


def mark(trials: Sequence[Trial], seen: float) -> None:
    """Records when a process was last seen that trains these points."""
    for trial in trials:
        trial.set_user_attr("seen", seen)


def retry_lost(study: optuna.Study) -> None:
    """Enqueues the points of processes that have died, so that they are trained again."""
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        begun = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
        if time.time() - trial.user_attrs.get("seen", begun) > _LOST:
            with contextlib.suppress(ValueError, UpdateFinishedTrialError):  # another process did
                study.tell(trial.number, state=TrialState.FAIL)
                study.enqueue_trial(trial.params)


def open_study(config: Sweep) -> optuna.Study:
    """The study, in a database or in a journal file, which works on more network drives."""
    storage = config.storage or f"sqlite:///{config.out / 'study.db'}"
    if "://" not in storage:
        lock, backend = JournalFileSymlinkLock(storage), JournalFileBackend(storage)
        lock.acquire()  # so that nobody is writing
        with Path(storage).open("rb+") as file:  # half a record of a process that died is removed
            file.truncate(file.read().rfind(b"\n") + 1)
        lock.release()
        storage = JournalStorage(backend)
    sampler = optuna.samplers.TPESampler(constant_liar=True)  # for points that train together
    about: Any = {"study_name": config.out.name, "direction": "maximize", "load_if_exists": True}
    return optuna.create_study(storage=storage, sampler=sampler, **about)


def report(folder: Path, study: optuna.Study) -> None:
    """Writes the table of all points, best first, and Optuna's plots; prints the best point."""
    done = study.get_trials(states=[TrialState.COMPLETE])
    done.sort(key=lambda trial: trial.value or 0.0, reverse=True)
    rows = [{"point": x.number, "eval_return_mean": x.value, **x.params} for x in done]
    write_csv(folder / "points.csv", rows)
    for name in ("optimization_history", "slice"):
        draw = getattr(optuna.visualization.matplotlib, f"plot_{name}")
        figure = np.ravel(draw(study))[0].figure
        figure.savefig(folder / f"{name}.png", dpi=120, bbox_inches="tight")
    best = f"return {done[0].value:.1f} with {done[0].params}"
    print(f"best of {len(done)} points in {folder}: {best}", flush=True)


def main(config: Sweep) -> int:
    with expected_errors("completed points are kept; the same command continues"):
        use_cores_as_devices()  # which share the points
        keep_compiled_programs()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of its plots
        config.out.mkdir(parents=True, exist_ok=True)
        study = open_study(config)
        while True:
            retry_lost(study)
            # `PRUNED` points had a loss that is not finite; `FAIL` points are lost.
            counted = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
            left = config.points - len(study.get_trials(states=counted))
            if left <= 0:
                return 0
            trials = [study.ask() for _ in range(min(left, config.at_once))]
            try:
                values = train_finite(config, study, trials)
            except BaseException:
                mark(trials, seen=0.0)  # any process may train them now
                raise
            for trial, value in zip(trials, values, strict=True):
                study.tell(trial, float(value))
            if trials:  # none if no loss of this batch was finite
                report(config.out, study)


if __name__ == "__main__":
    sys.exit(main(parse(Sweep)))
