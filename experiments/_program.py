"""The program behind every experiment: settings in, a folder with results out."""

import contextlib
import dataclasses
import math
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray
from rich.console import Console
from rich.markup import escape

from agents import (
    CheckpointError,
    Hook,
    NonFiniteLoss,
    OutOfMemory,
    TrainProgress,
    TrainState,
    check_even,
    check_memory,
    device_mesh,
    init_train_state,
    restore,
    train,
    write_whole,
)
from experiments._build import build_evaluation_env, build_network, build_training_env, build_view
from experiments._cache import keep_compiled_programs
from experiments._conclusion import Conclusion
from experiments._config import Config, dump, parse, value_after
from experiments._display import Display, LiveBar, LogDisplay
from experiments._errors import (
    Failures,
    RunError,
    UsageError,
    print_error,
    print_system_error,
    warn,
)
from experiments._evaluator import Evaluator
from experiments._folder import folder_name, is_complete, open_folder, reopen_folder, short_name
from experiments._history import read_history
from experiments._hooks import (
    Checkpoints,
    EarlyStop,
    Forget,
    Log,
    OutOfTime,
    Profile,
    StopWhenAsked,
)
from experiments._loggers import Logger, open_loggers
from experiments._policies import Description
from experiments._process import Process, Stopped
from experiments._report import print_result
from experiments._run import Plan, Run


def run_command_line(algorithm: str, process: Process, world: str | None = None) -> int:
    """Runs a command line, and says in one line why it cannot be done.

    **Arguments:**

    - `algorithm`: its name, for people and for files.
    - `process`: its clock, and the signals that ask it to end.
    - `world`: which one is meant where neither a flag nor a file names one.

    **Returns:** the exit code: 0; 1 when something went wrong and 2 when something wrong was asked;
    130 after a Ctrl-C, and 128 and its number after another signal.
    """
    try:
        return run(algorithm, _in_world(world, sys.argv[1:]), process)
    except UsageError as error:
        return print_error(str(error), 2)
    except Stopped:
        return print_error(_NOTHING_LEARNED, process.exit_code)
    except OutOfMemory as error:
        return print_error(f"{error}: lower {_MEMORY_SETTINGS}.", 1)
    except (RunError, NonFiniteLoss, CheckpointError) as error:
        return print_error(str(error), 1)
    except OSError as error:
        return print_system_error(error)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            return print_error(f"There is not enough memory: lower {_MEMORY_SETTINGS}.", 1)
        raise


def _in_world(world: str | None, args: Sequence[str]) -> Sequence[str]:
    """The arguments, with a world where nothing names one."""
    named = any(value_after(flag, args) for flag in ("--env.name", "--config", "--resume"))
    return args if world is None or named else ["--env.name", world, *args]


_MEMORY_SETTINGS = "--num-envs, --ppo.rollout-length, --width or --eval-episodes"
_NOTHING_LEARNED = "interrupted before anything was learned, so nothing was written."
_STOP_CODES = {"interrupted": 130, "terminated": 143, "hung up": 129}


def run(algorithm: str, args: Sequence[str], process: Process) -> int:
    """Trains, and leaves a folder behind.

    **Returns:** the exit code.

    **Raises:** what `run_command_line` turns into a sentence.
    """
    config = parse(algorithm, args)
    plan = _plan(config)
    process.begin()
    process.check()
    if config.resume is not None:
        with reopen_folder(config.resume) as folder:
            return _go_on(Run(algorithm, config, plan, process, folder))
    name = folder_name(algorithm, config.env.title, config.seed)
    with open_folder(name, config.out, config.overwrite, dump(algorithm, config)) as folder:
        return _begin(Run(algorithm, config, plan, process, folder))


def _go_on(run: Run) -> int:
    """Reads all that is needed before anything in the folder is touched."""
    like = eqx.filter_eval_shape(
        init_train_state, run.config.ppo, run.plan.train_env, jax.random.key(0), **_choices(run)
    )
    state = restore(run.folder / "checkpoints" / "last.safetensors", like)
    updates = int(state.updates)
    # A run that was killed in its last moments has made its updates, but not all of its files.
    if updates > run.plan.num_updates or (
        updates == run.plan.num_updates and is_complete(run.folder)
    ):
        steps = updates * run.plan.steps_per_update
        raise UsageError(
            f"The run {str(run.folder)!r} is complete, with {steps:,} steps: add a larger "
            "--total-steps to go on."
        )
    history = read_history(run.folder, updates)
    write_whole(run.folder / "config.toml", dump(run.algorithm, run.config).encode())
    write_whole(run.folder / "metrics.csv", history.rows)
    if history.json_rows:
        write_whole(run.folder / "metrics.jsonl", history.json_rows)
    return _begin(dataclasses.replace(run, state=state, history=history))


def _begin(run: Run) -> int:
    """Trains, concludes, and says where everything is."""
    console = _greet(run)
    eval_key, film_key = _keys(run)[1:]
    evaluator = Evaluator(run.plan.eval_env, eval_key, run.seconds, run.history.evaluations)
    failures, describe = Failures(), Description(run)
    live = console.is_terminal and not console.is_dumb_terminal
    display = (LiveBar if live else LogDisplay)(console)
    with _open_loggers(run) as loggers, _profile(run) as profile:
        hooks = (*_hooks(run, failures, describe, loggers), *profile, display)
        progress = _train(run, evaluator, hooks, display)
    stopped = _STOP_CODES.get(progress.stopped or "", 0)
    if progress.stopped and progress.metrics is None:
        return print_error(_NOTHING_LEARNED, stopped)
    if progress.stopped:
        console.print(f"{progress.stopped} after {progress.env_steps:,} steps", highlight=False)
    console.print("playing the final evaluation, drawing the pictures")
    result = Conclusion(run, progress, evaluator, failures, describe).conclude(film_key)
    print_result(console, result, run.folder)
    if progress.stopped:
        command = f"python experiments/{run.algorithm}.py --resume {shlex.quote(str(run.folder))}"
        console.print(f"to go on: {escape(command)}", highlight=False, soft_wrap=True)
    if failures.report():
        return 1
    return stopped or (run.process.exit_code if run.process.first else 0)


@contextlib.contextmanager
def _open_loggers(run: Run) -> Iterator[list[Logger]]:
    loggers = open_loggers(
        run.folder,
        run.config.log,
        csv_rows=run.history.rows,
        json_rows=run.history.json_rows,
        env_steps=run.history.env_steps,
        settings=tomllib.loads(dump(run.algorithm, run.config)),
    )
    try:
        yield loggers
    finally:
        for logger in loggers:
            logger.close()


@contextlib.contextmanager
def _profile(run: Run) -> Iterator[list[Profile]]:
    """What records a block, where that is asked for."""
    hooks = [Profile(run.folder / "trace")] if run.config.profile else []
    try:
        yield hooks
    finally:
        for hook in hooks:
            hook.close()


def _hooks(
    run: Run, failures: Failures, describe: Description, loggers: Sequence[Logger]
) -> list[Hook]:
    config, history = run.config, run.history
    hooks: list[Hook] = [
        Forget(run.folder, failures),
        Log(loggers, failures, history.train_seconds),
        Checkpoints(
            run.folder / "checkpoints",
            failures,
            history,
            describe,
            keep_every=config.checkpoint_every,
        ),
        EarlyStop(
            history.evaluations,
            target=config.stop_at_return,
            patience=config.patience,
            max_kl=config.max_kl,
        ),
        StopWhenAsked(run.process),
    ]
    return hooks if config.max_hours is None else [*hooks, OutOfTime(run.process, config.max_hours)]


def _greet(run: Run) -> Console:
    # Where nobody looks at a terminal, no line is broken in two.
    console = Console(width=None if sys.stdout.isatty() else 200, emoji=False)
    config, title = run.config, escape(short_name(run.config.env.title))
    rules = f" ({config.env.rules})" if config.env.rules else ""
    console.print(
        f"[bold]{run.algorithm}[/] in [bold]{title}[/]{rules}, seed "
        f"{config.seed}, {config.num_envs} environments: writing to {escape(str(run.folder))}",
        highlight=False,
    )
    if run.state is not None:
        steps = int(run.state.updates) * run.plan.steps_per_update
        end = run.plan.num_updates * run.plan.steps_per_update
        console.print(
            f"going on after {steps:,} steps; what is annealed ends with step {end:,}",
            highlight=False,
        )
    console.print(escape(keep_compiled_programs()), style="dim", highlight=False)
    return console


def _keys(run: Run) -> PRNGKeyArray:
    """One key each for training, for evaluations and for the film."""
    return jax.random.split(jax.random.key(run.config.seed), 3)


def _plan(config: Config) -> Plan:
    """**Raises:** `UsageError` when the settings cannot be built."""
    try:
        train_env = build_training_env(config)
        eval_env = build_evaluation_env(config, config.eval_episodes)
        config.ppo.check(train_env, recurrent=False)
        mesh = _mesh(config)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if (obstacle := config.env.obstacle()) is not None:
        warn(f"{obstacle} Training will end at a return of 0.")
    steps_per_update = config.num_envs * config.ppo.rollout_length
    return Plan(
        train_env,
        eval_env,
        num_updates=math.ceil(config.total_steps / steps_per_update),
        updates_per_block=max(1, config.eval_every // steps_per_update),
        steps_per_update=steps_per_update,
        mesh=mesh,
    )


def _mesh(config: Config) -> Mesh | None:
    """The devices to train on, where there are several.

    **Raises:** `ValueError` when there are not as many, or environments cannot be spread evenly.
    """
    if config.devices == 1:
        return None
    mesh = device_mesh(None if config.devices == "all" else config.devices)
    check_even(config.num_envs, mesh)
    return mesh


def _train(
    run: Run, evaluator: Evaluator, hooks: Sequence[Hook], display: Display
) -> TrainProgress:
    plan = run.plan
    display.start(plan.num_updates * plan.steps_per_update)
    try:
        state = _start(run) if run.state is None else run.state
        run.process.check()
        run.process.settle()  # `train` holds signals for itself
        return train(
            run.config.ppo,
            plan.train_env,
            state,
            num_updates=plan.num_updates,
            updates_per_block=plan.updates_per_block,
            mesh=plan.mesh,
            measure=evaluator,
            hooks=hooks,
        )
    finally:
        display.stop()


def _start(run: Run) -> TrainState:
    # It runs once, so what counts is that it compiles fast.
    start: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        init_train_state, compiler_options={"xla_backend_optimization_level": "0"}
    )
    args = (run.config.ppo, run.plan.train_env, _keys(run)[0])
    start = start.lower(*args, **_choices(run)).compile()
    check_memory(start)
    return start(*args, **_choices(run))


def _choices(run: Run) -> dict[str, Any]:
    return {
        "network": build_network(run.config),
        "view": build_view(run.algorithm, run.config),
    }
