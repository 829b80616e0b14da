"""Searches for settings of IPPO with Optuna. Many points train in one compiled program.

python experiments/sweep.py --env.layout ring --num-seeds 2 --points 32

`suggest` names the settings and their ranges: edit it here. Settings of PPO that are floating-point
numbers may differ in one program. The same command continues a search. Several processes share the
points of one search, also on several hosts if --storage is the address of a database server.
"""

import dataclasses
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from eqgrid_lab.base import keep_compiled_programs, run_command, use_cores_as_devices
from eqgrid_lab.folders import write_csv
from eqgrid_lab.runs import default_mesh
from eqgrid_lab.settings import parse
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optuna
from jaxtyping import Array, Float, PRNGKeyArray, Shaped
from msgspec import Meta
from optuna.trial import FrozenTrial, Trial, TrialState

from agents import (
    AbstractTrainState,
    NonFiniteLoss,
    TrainProgress,
    TrainState,
    evaluate,
    train,
    trained_policy,
)
from eqgrid import AbstractVectorEnv, AutoReset, LogEpisodes, Vectorize
from ippo import IPPO

_LOST = 600.0
"""A point without progress for this many seconds has lost its process, and is trained again."""


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
    """Address of the study, as in Optuna; by default, an SQLite file in --out."""


def suggest(trial: Trial) -> dict[str, float]:
    """The settings of PPO at one point."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        "entropy_coefficient": trial.suggest_float("entropy_coefficient", 1e-3, 0.1, log=True),
    }


def mark_alive(trials: Sequence[Trial]) -> None:
    """Records that a process still trains these points."""
    for trial in trials:
        trial.set_user_attr("seen", time.time())


def returns_of(config: Sweep, trials: Sequence[Trial]) -> Float[np.ndarray, " points"]:
    """Trains all seeds of the points together, and evaluates their last policies.

    **Returns:** the mean return of each point, over its seeds and episodes.

    **Raises:** `NonFiniteLoss` when the loss of one of the runs is not a finite number.
    """
    ppo, envs = config.learner(), config.train_env()
    found = [suggest(trial) for trial in trials]
    values: Any = {
        name: jnp.repeat(jnp.asarray([own[name] for own in found]), config.num_seeds)
        for name in found[0]
    }
    seeds = np.tile(config.seed + np.arange(config.num_seeds), len(trials))
    keys = jax.vmap(jax.random.split)(jnp.stack([jax.random.key(seed) for seed in seeds]))
    steps = ppo.steps_per_update(envs)
    num_updates = math.ceil(config.total_steps / steps)

    def show(progress: TrainProgress) -> None:
        speed = len(seeds) * progress.env_steps / progress.train_seconds
        print(f"{progress.env_steps:>12,} steps of each seed, {speed:,.0f} steps/s", flush=True)
        mark_alive(trials)

    state = _init(config, envs, keys[:, 0])
    assert isinstance(state, TrainState)
    progress = train(
        dataclasses.replace(ppo, **values),
        envs,
        state,
        num_updates=num_updates,
        updates_per_block=max(1, num_updates // 20),
        mesh=default_mesh(len(seeds)),
        hooks=[show],
        donate=True,
    )
    world = config.observe(config.env.build(train=False))
    judging = Vectorize(AutoReset(LogEpisodes(world)), config.final_episodes)
    returns = _evaluate(progress.state, envs, judging, keys[:, 1])
    return np.asarray(returns).reshape(len(trials), config.num_seeds).mean(axis=1)


@eqx.filter_jit
def _init(
    config: Sweep, envs: AbstractVectorEnv, keys: Shaped[PRNGKeyArray, " runs"]
) -> AbstractTrainState:
    return eqx.filter_vmap(config.init_state, in_axes=(None, 0))(envs, keys)


@eqx.filter_jit
def _evaluate(
    state: TrainState,
    envs: AbstractVectorEnv,
    judging: AbstractVectorEnv,
    keys: Shaped[PRNGKeyArray, " runs"],
) -> Float[Array, " runs"]:
    @eqx.filter_vmap
    def of_run(policy: Any, env_state: Any, key: PRNGKeyArray) -> Float[Array, ""]:
        policy = trained_policy(policy, envs, env_state)
        return evaluate(policy, judging, key).episode_return.mean()

    return of_run(state.policy, state.runner.env_state, keys)


def retry(study: optuna.Study, trials: Sequence[Trial | FrozenTrial]) -> None:
    """Marks points as failed, and enqueues their settings, so that they are trained again."""
    for trial in trials:
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def lost(study: optuna.Study) -> list[FrozenTrial]:
    """The points of processes that have died."""
    running = study.get_trials(states=[TrialState.RUNNING])
    return [x for x in running if time.time() - x.user_attrs.get("seen", 0) > _LOST]


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
    best = ", ".join(f"{name} {value:.3g}" for name, value in done[0].params.items())
    value = done[0].value
    print(f"best of {len(done)} points in {folder}: return {value:.1f} with {best}", flush=True)


def main(args: Sequence[str]) -> None:
    config = parse(Sweep, args)
    use_cores_as_devices()  # which share the points
    print(keep_compiled_programs(), flush=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of its plots
    folder = config.out
    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=config.storage or f"sqlite:///{folder / 'study.db'}",
        sampler=optuna.samplers.TPESampler(constant_liar=True),  # for points that train together
        study_name=folder.name,
        direction="maximize",
        load_if_exists=True,
    )
    while True:
        retry(study, lost(study))
        # `PRUNED` points had a loss that is not finite; `FAIL` points are lost, and do not count.
        counted = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
        left = config.points - len(study.get_trials(states=counted))
        if left <= 0:
            break
        trials = [study.ask() for _ in range(min(left, config.at_once))]
        mark_alive(trials)
        try:
            values = train_all(config, study, trials)
        except BaseException:
            retry(study, trials)
            raise
        for trial, value in zip(trials, values, strict=True):
            study.tell(trial, float(value))
        if trials:  # none if no loss of this batch was finite
            report(folder, study)


def train_all(
    config: Sweep, study: optuna.Study, trials: list[Trial]
) -> Float[np.ndarray, " points"]:
    """Calls `returns_of`. If a loss is not finite, its point is removed from the list, and the
    other points train again.
    """
    while trials:
        try:
            return returns_of(config, trials)
        except NonFiniteLoss as error:
            print(error, flush=True)
            bad = trials.pop((error.run or 0) // config.num_seeds)
            study.tell(bad, state=TrialState.PRUNED)
    return np.zeros(0)


if __name__ == "__main__":
    run_command(main, "completed points are kept; the same command continues")
