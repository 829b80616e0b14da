"""The program behind every experiment: settings in, a folder with results out."""

import dataclasses
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
from _build import build_evaluation_env, build_kitchen, build_network, build_training_env
from _cache import keep_compiled_programs
from _conclusion import Conclusion
from _config import Config, dump, parse
from _errors import Failures, RunError, UsageError, complain, reason, warn
from _folder import folder_name, open_folder, reopen_folder, short_name, write_whole
from _history import History, read_history
from _hooks import Checkpoints, CsvLog, Display, Evaluator, LiveBar, PlainLines
from _process import Process, Stopped
from _report import print_result
from jaxtyping import PRNGKeyArray
from rich.console import Console
from rich.markup import escape

from agents import (
    AbstractView,
    CheckpointError,
    Hook,
    NonFiniteLoss,
    OutOfMemory,
    Progress,
    RunState,
    check_memory,
    restore,
    start_run,
    train,
)
from eqgrid import AbstractVectorEnv
from eqgrid.envs import find_obstacle


def main(algorithm: str, view: AbstractView, process: Process) -> int:
    """Runs a command line, and says in one line why it cannot be done.

    **Arguments:**

    - `algorithm`: its name, for people and for files.
    - `view`: what the critic is shown.
    - `process`: its clock, and the signals that ask it to end.

    **Returns:** the exit code: 0; 1 when something went wrong and 2 when something wrong was asked;
    130 after a Ctrl-C, and 128 and its number after another signal.
    """
    try:
        return run(algorithm, view, sys.argv[1:], process)
    except UsageError as error:
        return complain(str(error), 2)
    except Stopped:
        return complain(_NOTHING_LEARNED, process.exit_code)
    except OutOfMemory as error:
        return complain(f"{error}: lower {_MEMORY_SETTINGS}.", 1)
    except (RunError, NonFiniteLoss, CheckpointError) as error:
        return complain(str(error), 1)
    except OSError as error:
        where = f"{str(error.filename)!r}: " if error.filename else ""
        return complain(f"{where}{reason(error)}.", 1)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            return complain(f"There is not enough memory: lower {_MEMORY_SETTINGS}.", 1)
        raise


_MEMORY_SETTINGS = "--num-envs, --ppo.rollout-length, --width or --eval-episodes"
_NOTHING_LEARNED = "interrupted before anything was learned, so nothing was written."
_STOP_CODES = {"interrupted": 130, "terminated": 143}


def run(algorithm: str, view: AbstractView, args: Sequence[str], process: Process) -> int:
    """Trains, and leaves a folder behind.

    **Returns:** the exit code.

    **Raises:** what `main` turns into a sentence.
    """
    config = parse(algorithm, args)
    plan = _plan(config)
    process.begin()
    process.check()
    if config.resume is not None:
        with reopen_folder(config.resume) as folder:
            return _resume_in(folder, algorithm, view, config, plan, process)
    name = folder_name(algorithm, config.env.layout, config.seed)
    with open_folder(name, config.out, config.overwrite, dump(algorithm, config)) as folder:
        return _run_in(folder, algorithm, view, config, plan, process, None, History())


def _resume_in(
    folder: Path,
    algorithm: str,
    view: AbstractView,
    config: Config,
    plan: "Plan",
    process: Process,
) -> int:
    """Reads all that is needed before anything in the folder is touched."""
    like = eqx.filter_eval_shape(
        start_run, config.ppo, plan.train_env, jax.random.key(0), **_choices(plan, config, view)
    )
    state = restore(folder / "checkpoints" / "last.safetensors", like)
    updates = int(state.updates)
    if updates >= plan.num_updates:
        steps = updates * plan.steps_per_update
        raise UsageError(
            f"The run {str(folder)!r} is complete, with {steps:,} steps: add a larger "
            "--total-steps to go on."
        )
    history = read_history(folder, updates)
    (folder / "result.json").unlink(missing_ok=True)  # it would speak of a run that had ended
    write_whole(folder / "config.toml", dump(algorithm, config).encode())
    write_whole(folder / "metrics.csv", history.rows)
    return _run_in(folder, algorithm, view, config, plan, process, state, history)


def _run_in(
    folder: Path,
    algorithm: str,
    view: AbstractView,
    config: Config,
    plan: "Plan",
    process: Process,
    state: RunState | None,
    history: History,
) -> int:
    # Where nobody looks at a terminal, no line is broken in two.
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(
        f"[bold]{algorithm}[/] in [bold]{escape(short_name(config.env.layout))}[/] "
        f"({config.env.dynamics}), seed {config.seed}, {config.num_envs} environments: writing to "
        f"{escape(str(folder))}",
        highlight=False,
    )
    if state is not None:
        steps = int(state.updates) * plan.steps_per_update
        console.print(f"going on after {steps:,} steps", highlight=False)
    console.print(escape(keep_compiled_programs()), style="dim", highlight=False)
    run_key, eval_key, film_key = jax.random.split(jax.random.key(config.seed), 3)
    evaluator = Evaluator(
        plan.eval_env,
        eval_key,
        lambda: history.wall_seconds + process.seconds(),
        history.evaluations,
    )
    failures = Failures()
    display = (LiveBar if console.is_terminal else PlainLines)(console, evaluator)
    hooks = (
        evaluator,
        CsvLog(folder / "metrics.csv", evaluator, failures, history),
        Checkpoints(folder / "checkpoints", evaluator, failures, history),
        display,
    )
    progress = _train(plan, config, view, run_key, state, hooks, display, process)
    code = _STOP_CODES.get(progress.stopped or "", 0)
    if progress.metrics is None:
        return complain(_NOTHING_LEARNED, code)
    if progress.stopped:
        console.print(f"{progress.stopped} after {progress.env_steps:,} steps", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    conclusion = Conclusion(
        algorithm, config, folder, progress, evaluator, failures, process, history
    )
    print_result(console, conclusion.conclude(film_key), folder)
    if progress.stopped:
        command = f"python experiments/{algorithm}.py --resume {shlex.quote(str(folder))}"
        console.print(f"to go on: {escape(command)}", highlight=False, soft_wrap=True)
    return 1 if failures.complain() else code


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What follows from the settings: environments, and how many updates fit the steps."""

    train_env: AbstractVectorEnv
    eval_env: AbstractVectorEnv
    num_updates: int
    updates_per_block: int
    steps_per_update: int


def _plan(config: Config) -> Plan:
    """**Raises:** `UsageError` when the settings cannot be built."""
    try:
        train_env = build_training_env(config)
        eval_env = build_evaluation_env(config, config.eval_episodes)
        config.ppo.check(train_env, recurrent=False)
    except ValueError as error:
        raise UsageError(str(error)) from error
    kitchen = build_kitchen(config.env, train=False)
    if (obstacle := find_obstacle(kitchen.layout, config.env.dynamics)) is not None:
        warn(f"{obstacle} Training will end at a return of 0.")
    steps_per_update = config.num_envs * config.ppo.rollout_length
    return Plan(
        train_env,
        eval_env,
        num_updates=math.ceil(config.total_steps / steps_per_update),
        updates_per_block=max(1, config.eval_every // steps_per_update),
        steps_per_update=steps_per_update,
    )


def _train(
    plan: Plan,
    config: Config,
    view: AbstractView,
    key: PRNGKeyArray,
    state: RunState | None,
    hooks: Sequence[Hook],
    display: Display,
    process: Process,
) -> Progress:
    display.start(plan.num_updates * plan.steps_per_update)
    try:
        if state is None:
            state = _start(plan, config, view, key)
        process.check()
        return train(
            config.ppo,
            plan.train_env,
            state,
            num_updates=plan.num_updates,
            updates_per_block=plan.updates_per_block,
            hooks=hooks,
        )
    finally:
        display.stop()


def _start(plan: Plan, config: Config, view: AbstractView, key: PRNGKeyArray) -> RunState:
    # It runs once, so what counts is that it compiles fast.
    start: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        start_run, compiler_options={"xla_backend_optimization_level": "0"}
    )
    choices = _choices(plan, config, view)
    start = start.lower(config.ppo, plan.train_env, key, **choices).compile()
    check_memory(start)
    return start(config.ppo, plan.train_env, key, **choices)


def _choices(plan: Plan, config: Config, view: AbstractView) -> dict[str, Any]:
    return {"num_updates": plan.num_updates, "network": build_network(config), "view": view}
