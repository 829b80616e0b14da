"""The program behind every experiment: settings in, a folder with results out."""

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from _build import build_evaluation_env, build_kitchen, build_network, build_training_env
from _cache import keep_compiled_programs
from _config import Config, dump, parse
from _errors import RunError, UsageError, complain
from _film import record
from _hooks import Checkpoints, CsvLog, Evaluator, LiveBar, PlainLines, frozen, speed
from _report import draw_curve, print_result, reached, write_json
from jaxtyping import PRNGKeyArray
from rich.console import Console

from agents import (
    AbstractView,
    CheckpointError,
    NonFiniteLoss,
    Progress,
    save,
    start_run,
    train,
)
from eqgrid import AbstractVectorEnv
from eqgrid.envs import best_known_return

Clock = Callable[[], float]


def main(algorithm: str, view: AbstractView, started: float) -> None:
    """Runs a command line, and exits with what became of it.

    **Arguments:**

    - `algorithm`: its name, for people and for files.
    - `view`: what the critic is shown.
    - `started`: when the process started, by `time.perf_counter`.
    """
    try:
        code = run(algorithm, view, sys.argv[1:], lambda: time.perf_counter() - started)
    except UsageError as error:
        sys.exit(complain(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(complain("interrupted; what was written before is kept.", 130))
    except (RunError, NonFiniteLoss, CheckpointError, OSError) as error:
        sys.exit(complain(str(error), 1))
    sys.exit(code)


def run(algorithm: str, view: AbstractView, args: Sequence[str], clock: Clock) -> int:
    """Trains, and leaves a folder behind.

    **Returns:** the exit code: 0, or 130 after a Ctrl-C.

    **Raises:** `UsageError`, `RunError`, `NonFiniteLoss`, `CheckpointError`, `OSError`.
    """
    config = parse(algorithm, args)
    plan = _plan(config)
    folder = _make_folder(algorithm, config)
    (folder / "config.toml").write_text(dump(algorithm, config), encoding="utf-8")
    # Where nobody looks at a terminal, no line is broken in two.
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(
        f"[bold]{algorithm}[/] in [bold]{config.env.layout}[/] ({config.env.dynamics}), "
        f"seed {config.seed}, {config.num_envs} environments: writing to {folder}",
        highlight=False,
    )
    console.print(keep_compiled_programs(), style="dim", highlight=False)
    run_key, eval_key, film_key = jax.random.split(jax.random.key(config.seed), 3)
    evaluator = Evaluator(plan.eval_env, eval_key, clock)
    progress = _train(plan, config, view, run_key, evaluator, folder, console)
    if progress.stopped:
        console.print(f"{progress.stopped} after {progress.env_steps:,} steps", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    result = _conclude(algorithm, config, folder, progress, evaluator, film_key, clock)
    print_result(console, result, folder)
    return 130 if progress.stopped else 0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What follows from the settings: environments, and how many updates fit the steps."""

    train_env: AbstractVectorEnv
    eval_env: AbstractVectorEnv
    num_updates: int
    updates_per_block: int


def _plan(config: Config) -> Plan:
    """**Raises:** `UsageError` when the settings cannot be built."""
    try:
        train_env = build_training_env(config)
        eval_env = build_evaluation_env(config, config.eval_episodes)
        config.ppo.check(train_env, recurrent=False)
    except ValueError as error:
        raise UsageError(str(error)) from error
    steps_per_update = config.num_envs * config.ppo.rollout_length
    wanted = math.ceil(config.total_steps / steps_per_update)
    per_block = min(wanted, max(1, config.eval_every // steps_per_update))
    return Plan(train_env, eval_env, math.ceil(wanted / per_block) * per_block, per_block)


def _make_folder(algorithm: str, config: Config) -> Path:
    """**Raises:** `UsageError` when the folder is in use, `RunError` when it cannot be written."""
    layout = Path(config.env.layout).stem
    name = f"{algorithm}-{layout}-{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder = config.out or Path("runs") / name
    try:
        if folder.exists() and not (
            folder.is_dir() and (config.overwrite or not any(folder.iterdir()))
        ):
            raise UsageError(
                f"The folder {str(folder)!r} exists and is not empty: choose another --out, or add "
                "--overwrite to write into it."
            )
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"The folder {str(folder)!r} cannot be written: {error.strerror}."
        ) from error
    return folder


def _train(
    plan: Plan,
    config: Config,
    view: AbstractView,
    key: PRNGKeyArray,
    evaluator: Evaluator,
    folder: Path,
    console: Console,
) -> Progress:
    display = (LiveBar if console.is_terminal else PlainLines)(console, evaluator)
    display.start(plan.num_updates * config.ppo.rollout_length * config.num_envs)
    # It runs once, so what counts is that it compiles fast.
    start = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        start_run, compiler_options={"xla_backend_optimization_level": "0"}
    )
    try:
        state = start(
            config.ppo,
            plan.train_env,
            key,
            num_updates=plan.num_updates,
            network=build_network(config),
            view=view,
        )
        return train(
            config.ppo,
            plan.train_env,
            state,
            num_updates=plan.num_updates,
            updates_per_block=plan.updates_per_block,
            hooks=(
                evaluator,
                CsvLog(folder / "metrics.csv", evaluator),
                Checkpoints(folder / "checkpoints", evaluator),
                display,
            ),
        )
    finally:
        display.stop()


def _conclude(
    algorithm: str,
    config: Config,
    folder: Path,
    progress: Progress,
    evaluator: Evaluator,
    film_key: PRNGKeyArray,
    clock: Clock,
) -> dict[str, Any]:
    """Evaluates the last policy, draws the pictures and writes the result."""
    last = {"update": progress.updates, "env_steps": progress.env_steps}
    save(folder / "checkpoints" / "last", progress.state, last)  # safe from a second Ctrl-C
    policy, env_state = progress.state.policy, progress.state.scene.env_state
    repeats = math.ceil(config.final_episodes / config.eval_episodes)
    returns = evaluator.play(policy, env_state, progress.num_updates + 1, repeats)
    mean, std = float(returns.mean()), float(returns.std())
    last = {**last, "eval_return_mean": mean, "eval_return_std": std}
    save(folder / "checkpoints" / "last", progress.state, last)
    optimum = best_known_return(config.env.layout, config.env.dynamics, config.env.horizon)
    rows = evaluator.rows or [{**last, "wall_seconds": clock()}]
    title = f"{algorithm.upper()} in {config.env.layout}, seed {config.seed}"
    draw_curve(folder / "curve.png", rows, title, optimum)
    film_env = frozen(build_evaluation_env(config, 1), env_state)
    states, rewards = record(policy, film_env, film_key, config.env.horizon)
    kitchen = build_kitchen(config.env, train=False)
    score = np.concatenate([[0.0], np.cumsum(rewards)[:-1]])
    film = kitchen.render_episode(states, captions=[f"{score:g}" for score in score])
    (folder / "episode.gif").write_bytes(film)
    result = {
        "algorithm": algorithm,
        "layout": config.env.layout,
        "dynamics": config.env.dynamics,
        "seeds": [config.seed],
        "env_steps": progress.env_steps,
        "wall_seconds": round(clock(), 2),
        "compile_seconds": round(progress.compile_seconds, 2),
        "train_seconds": round(progress.train_seconds, 2),
        "steps_per_second": round(speed(progress), 1),
        "eval_return_mean": mean,
        "eval_return_std": std,
        "eval_episodes": len(returns),
        "optimum": optimum,
        "eval_fraction_of_optimum": mean / optimum if optimum else None,
        "reached": reached(rows),
    }
    write_json(folder / "result.json", result)
    return result
