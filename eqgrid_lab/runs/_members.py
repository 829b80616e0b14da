"""Trains one run or several seeds in one compiled program.

Members differ only in their seeds, in real-valued settings of `PPO` and in the shaped reward. Each
member has its own folder: `seed-3/` has the same files as a run with `--seed 3` alone, except for
the GIF. A run with several seeds has one GIF, of the seed with the median return, in its own
folder.
"""

import contextlib
import csv
import dataclasses
import functools
import io
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, Shaped
from rich.console import Console
from rich.markup import escape

from agents import (
    AbstractTrainState,
    CheckpointError,
    Hook,
    NonFiniteLoss,
    StopTraining,
    TrainProgress,
    check_memory,
    pick_run,
    restore,
    save,
    train,
    transfer,
    write_atomic,
)
from agents.training import place_runs, stack_runs, trace_block
from eqgrid import AbstractVectorEnv

from ..base import (
    VIDEO_FILE,
    Failures,
    RunError,
    Table,
    is_complete,
    keep_compiled_programs,
)
from ..folders import csv_bytes, read_history, short_name, write_json, writing_into
from ..settings import dump
from ..show import Labelled, Logger, median_seed, open_loggers, what_is_kept
from ._conclusion import Conclusion, draw_video, result_of_all, video_program
from ._curriculum import StageCount, stages
from ._display import open_console, open_display, print_preparations, show_sum
from ._evaluator import Evaluator, EvaluatorOfMany, compiled_ahead
from ._hooks import (
    SAVE_SECONDS,
    Checkpoints,
    Log,
    remove_results,
    speed,
)
from ._report import draw_curves
from ._run import Run

_ALL_HAVE_ENDED = "all runs have ended"


@final
@dataclasses.dataclass(frozen=True)
class Members:
    """Runs that are trained together.

    **Arguments:**

    - `whole`: the run as the user started it. Its folder contains the common files.
    - `runs`: the members, each with its own settings, folder and history. A run with one seed is
        its own only member.
    - `checkpoint`: the path of the checkpoint from which all members resume.
    - `state`: the state to start from; `None` for a new one. Its arrays have a leading `runs` axis,
        except for a run with one seed.
    """

    whole: Run
    runs: tuple[Run, ...]
    checkpoint: Path
    state: AbstractTrainState | None = None

    @property
    def alone(self) -> bool:
        """Whether there is one run, whose arrays have no `runs` axis."""
        return self.runs[0].folder == self.whole.folder

    @property
    def names(self) -> list[str]:
        """The names of the runs' folders in the common folder."""
        return [run.folder.relative_to(self.whole.folder).as_posix() for run in self.runs]

    @property
    def of_each(self) -> str:
        """The end of messages about numbers of steps."""
        return "" if self.alone else " of each seed"

    def in_stage(self, number: int) -> "Members":
        """These members in stage `number`, counted from 0."""
        runs = tuple(dataclasses.replace(run, number=number) for run in self.runs)
        return dataclasses.replace(
            self, whole=dataclasses.replace(self.whole, number=number), runs=runs
        )

    def _init(
        self,
    ) -> tuple[Callable[..., AbstractTrainState], AbstractVectorEnv, Shaped[PRNGKeyArray, "*runs"]]:
        """The function that makes training states of the current stage, and its arguments."""
        number = self.whole.number
        keys = [run.keys[0] for run in self.runs]
        # Stage 0 uses the unchanged keys, as a run without a curriculum does.
        keys = [jax.random.fold_in(key, number) if number else key for key in keys]
        config, env = self.whole.config, self.whole.plan.train_env

        def init(env: AbstractVectorEnv, key: PRNGKeyArray) -> AbstractTrainState:
            return config.init_state(env, key)

        if self.alone:
            return init, env, keys[0]
        return eqx.filter_vmap(init, in_axes=(None, 0)), env, jnp.stack(keys)

    def start(
        self, while_compiling: Callable[[AbstractTrainState], object] | None = None
    ) -> AbstractTrainState:
        """Makes the initial training states of the current stage.

        **Arguments:**

        - `while_compiling`: called with states of zeros while the program of the initial states
            compiles in a thread, unless the states are very large.

        **Raises:** `OutOfMemory` when the program needs more memory than there is.
        """
        init, *args = self._init()
        # The program runs only once, so it is compiled with few optimisations.
        program: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
            init, compiler_options={"xla_backend_optimization_level": "0"}
        )
        pool = ThreadPoolExecutor(1, "compiler")
        compiling = pool.submit(program.lower(*args).compile)
        pool.shutdown(wait=False)  # a signal does not wait for XLA
        if while_compiling is not None:
            shapes = eqx.filter_eval_shape(init, *args)
            sizes = [math.prod(x.shape) for x in jax.tree.leaves(shapes) if hasattr(x, "shape")]
            if sum(sizes) < _MOST_ZEROS:
                while_compiling(jax.tree.map(_zeros, shapes))
        compiled = compiling.result()
        check_memory(compiled)
        return compiled(*args)

    def shapes(self) -> AbstractTrainState:
        """The shapes and dtypes of the training states, for `restore`."""
        return eqx.filter_eval_shape(*self._init())

    def resumed(self, position: Table) -> "Members":
        """These members with the state of their checkpoint, and with the history of each run.

        **Arguments:**

        - `position`: the metadata of the checkpoint.

        **Raises:** `CheckpointError` when the checkpoint is damaged or does not fit, and the errors
        of `read_history`.
        """
        number = position.get("stage", 1) - 1
        if number >= len(self.whole.stages):
            raise CheckpointError(
                f"The checkpoint {str(self.checkpoint)!r} belongs to stage {number + 1}, but the "
                f"last stage of the run is {len(self.whole.stages)}: start a new run."
            )
        if len(self._last_rows(position)) != len(self.runs):
            raise CheckpointError(
                f"The checkpoint {str(self.checkpoint)!r} does not contain {len(self.runs)} runs: "
                "start a new run."
            )
        members = self.in_stage(number)
        state = restore(self.checkpoint, members.shapes())
        runs = tuple(
            dataclasses.replace(run, history=read_history(run.folder, position))
            for run in members.runs
        )
        whole = runs[0] if self.alone else members.whole
        return dataclasses.replace(members, whole=whole, state=state, runs=runs)

    @property
    def have_all_files(self) -> bool:
        """Whether the run, and each of its seeds, has written all its files."""
        folder, video = self.whole.folder, self.whole.config.env.has_video
        if self.alone:
            return is_complete(folder, video)
        names = ("result.json", "curve.png", "metrics.csv", *([VIDEO_FILE] if video else []))
        files = [folder / name for name in names]
        files += [run.folder / "policy.safetensors" for run in self.runs]
        return all(path.exists() for path in files)

    def rows_of_all(self) -> bytes:
        """The content of the `metrics.csv` of all seeds, made from the history of each seed."""
        rows = [
            {"seed": str(run.config.seed), **row}
            for run in self.runs
            for row in csv.DictReader(io.StringIO(run.history.rows.decode(), newline=""))
        ]
        rows.sort(key=lambda row: int(row["update"]))  # a stable sort keeps the order of the seeds
        return csv_bytes(rows)

    def ended(self, position: Table) -> bool:
        """Whether the current stage had ended when a checkpoint was written.

        **Arguments:**

        - `position`: the metadata of the checkpoint.
        """
        return self._end_of_stage(self._last_rows(position)) is not None

    def _end_of_stage(self, rows: Sequence[Mapping[str, float | int]]) -> str | None:
        """The reason why the current stage has ended for all members, given the last evaluation of
        each; `None` if it continues.
        """
        return _common_reason([self.whole.stage.ended(row) for row in rows])

    def _last_rows(self, position: Table) -> list[Table]:
        """The last evaluation of each member before a checkpoint, from its metadata."""
        return position.get("members") or [position] * len(self.runs)

    def open_folders(self, console: Console, of_each: str = "") -> None:
        """Makes the folder of each run, with its settings and its logs so far.

        If the runs are resumed, the number of steps so far is printed.

        **Arguments:**

        - `console`: the console.
        - `of_each`: a text to print after the number of steps, such as ` of each seed`.

        **Raises:** `RunError` when a folder cannot be written.
        """
        if self.state is not None:
            plan, updates = self.whole.plan, int(np.asarray(self.state.updates).flat[0])
            end = plan.num_updates * plan.steps_per_update
            console.print(
                f"continuing after {updates * plan.steps_per_update:,} steps{of_each}; annealed "
                f"settings reach their end at step {end:,}",
                highlight=False,
            )
        for run in self.runs:
            with writing_into(run.folder):
                run.folder.mkdir(exist_ok=True)
                write_atomic(run.folder / "config.toml", dump(run.settings).encode())
                if self.state is not None:
                    run.history.write_into(run.folder)

    def train(
        self,
        console: Console,
        failures: Failures,
        position: Table,
        *,
        log: Logger | None = None,
    ) -> "Trained":
        """Trains all runs, one stage after another, to their end or until they are stopped.

        **Arguments:**

        - `console`: where the summed progress of all runs is shown.
        - `failures`: collects the files that cannot be written.
        - `position`: the metadata of the checkpoint from which they resume; empty for new runs.
        - `log`: a logger for the rows of all runs, in addition to the loggers of each run.

        **Returns:** the runs after training, in the last stage that they reached.

        **Raises:** `NonFiniteLoss`, `OutOfMemory`, `Stopped` when a signal arrives before training
        starts, and `ImportError` when the library of a logger is missing.
        """
        members, whole = self, self.whole
        display, previous, rows = open_display(console), None, self._last_rows(position)
        with contextlib.ExitStack() as stack:
            loggers = [self._loggers(run, stack, log) for run in self.runs]
            steps = whole.plan.num_updates * whole.plan.steps_per_update
            display.start(steps * len(self.runs))
            stack.callback(display.stop)
            while True:  # one stage after another
                if whole.in_curriculum:
                    stage = members.whole.stage
                    number = f"stage {members.whole.number + 1} of {len(whole.stages)}"
                    title = escape(f"{stage.name!r}: {stage.end}")
                    console.print(f"{number}, {title}", highlight=False)
                evaluators = members._evaluators(rows)
                hooks = members._hooks(evaluators, loggers, failures)
                # The latest state of several runs is saved in one checkpoint.
                keep = [] if self.alone else [KeepState(members, evaluators, failures)]
                hooks += [*keep, functools.partial(show_sum, display, len(self.runs))]
                before = None if previous is None else previous.progress
                progress = members._train_stage(evaluators, hooks, rows, before)
                for hook in keep if progress.metrics is not None else ():
                    hook.save(progress)
                if previous is not None and progress.updates == previous.progress.updates:
                    # The run was stopped before the first block of this stage, so it ends in the
                    # previous one.
                    stopped = dataclasses.replace(previous.progress, stopped=progress.stopped)
                    return previous._replace(progress=stopped)
                trained = Trained(members, progress, evaluators, failures)
                if progress.measured:
                    rows = [x.rows[-1] for x in evaluators]
                reason = members._end_of_stage(rows)
                if reason is None or progress.stopped not in (None, reason):
                    return trained
                what = f"stage {members.whole.number + 1}: {reason}"
                console.print(f"{what}, after {progress.env_steps:,} steps", highlight=False)
                # The end of the stage stopped training, but does not stop the run.
                trained = trained._replace(progress=dataclasses.replace(progress, stopped=None))
                all_made = progress.updates == members.whole.plan.num_updates
                if all_made or members.whole.is_last_stage:
                    return trained
                previous, members = trained, trained.next_stage()
                rows = [{"env_steps": progress.env_steps}] * len(self.runs)

    def _loggers(
        self, run: Run, stack: contextlib.ExitStack, log: Logger | None
    ) -> Sequence[Logger]:
        """Opens the loggers of a run, which `stack` closes, except the `log` of all runs."""
        history, names = run.history, run.config.log
        loggers = open_loggers(run.folder, names, history.rows, history.env_steps, run.table)
        for logger in loggers:
            stack.callback(logger.close)
        return loggers if log is None else [*loggers, Labelled(log, {"seed": run.config.seed})]

    def _hooks(
        self,
        evaluators: Sequence[Evaluator],
        loggers: Sequence[Sequence[Logger]],
        failures: Failures,
    ) -> list[Hook]:
        """The hooks that write into the folders of the runs, and end the stage."""
        seconds = SAVE_SECONDS if self.alone else np.inf
        each = zip(self.runs, evaluators, loggers, strict=True)
        own = [_hooks_of_run(run, x.rows, logs, failures, seconds) for run, x, logs in each]
        common = (
            [] if self.alone else [functools.partial(remove_results, self.whole.folder, failures)]
        )
        check_end = functools.partial(self._check_end, evaluators)
        return [*common, ForEach(own, evaluators, self.alone), check_end]

    def _check_end(self, evaluators: Sequence[Evaluator], _: TrainProgress) -> None:
        """A hook that stops training once the current stage has ended for all members."""
        if (reason := self._end_of_stage([x.rows[-1] for x in evaluators])) is not None:
            raise StopTraining(reason)

    def _evaluators(self, rows: Sequence[Table]) -> list[Evaluator]:
        """The evaluator of each run in its current stage.

        **Arguments:**

        - `rows`: the last evaluation of each run, with its steps and gate passes in the stage.
        """
        plan, evaluators = self.whole.plan, []
        for run, row in zip(self.runs, rows, strict=True):
            count = None
            if run.in_curriculum:
                begin = row.get("env_steps", 0) - row.get("stage_steps", 0)
                count = StageCount(run.stage, run.number + 1, begin, row.get("gate_passes", 0))
            past = list(run.history.evaluations)
            evaluators.append(
                Evaluator(plan.eval_env, run.keys[1], run.seconds, past, plan.totals, count)
            )
        return evaluators

    def _train_stage(
        self,
        evaluators: Sequence[Evaluator],
        hooks: Sequence[Hook],
        rows: Sequence[Table],
        before: TrainProgress | None,
    ) -> TrainProgress:
        """Trains the current stage. Makes no updates if the stage has ended already.

        **Arguments:**

        - `evaluators`, `hooks`: the evaluator of each run, and the hooks of all runs.
        - `rows`: the last evaluation of each run.
        - `before`: the progress at the end of the previous stage of this process, if any.
        """
        whole, plan, configs = self.whole, self.whole.plan, [run.config for run in self.runs]
        over = self._end_of_stage(rows) is not None
        learner, env = whole.config.learner(), plan.train_env
        if not self.alone:
            learner = stack_runs([config.learner().with_arrays() for config in configs])
        block: Any = {
            "num_updates": rows[0]["update"] if over else plan.num_updates,
            "updates_per_block": plan.updates_per_block,
            "mesh": plan.mesh,
            "donate": True,
        }
        evaluate = evaluators[0] if self.alone else EvaluatorOfMany(evaluators, plan.mesh)
        with contextlib.ExitStack() as tracing:
            # XLA and Python's tracing cannot check for signals, and there are no results yet.
            if before is None:
                tracing.enter_context(whole.process.stopping_at_once())
            trace = functools.partial(trace_block, learner, env, **block)
            state = self._first_state(None if over else trace)
            programs = [] if over else self._later_programs(evaluate, state)
            with compiled_ahead(programs) as wait_for_first:

                def measure(progress: TrainProgress) -> Mapping[str, float]:
                    wait_for_first()
                    return evaluate(progress)

                def should_stop() -> str | None:  # called when the block is traced
                    tracing.close()
                    return whole.process.stop_reason()

                progress = train(
                    learner,
                    env,
                    state,
                    **block,
                    measure=measure,
                    hooks=hooks,
                    should_stop=should_stop,
                    before=before,
                )
        whole.process.training_ended()
        if progress.stopped:
            return progress
        for run, evaluator in zip(self.runs, evaluators, strict=True):
            if not evaluator.rows:
                raise RunError(
                    f"The run {str(run.folder)!r} is complete, but its metrics.csv contains no "
                    "evaluations: add a larger --total-steps, or start a new run."
                )
        return progress

    def _first_state(
        self, trace: Callable[[AbstractTrainState], object] | None
    ) -> AbstractTrainState:
        """The training states to start from, on the devices of the run.

        **Arguments:**

        - `trace`: called with states of zeros while the program of new states compiles.
        """
        state = self.start(trace) if self.state is None else self.state
        mesh = self.whole.plan.mesh
        if mesh is None or self.alone:
            return state
        return place_runs(state, jax.tree.map(eqx.if_array(0), state), mesh)

    def _later_programs(
        self, evaluator: Evaluator | EvaluatorOfMany, state: AbstractTrainState
    ) -> list[Callable[[], None]]:
        """Functions that compile the program of the evaluations and, for a single run, the program
        of the video.

        The list is empty for a single run on several devices, because the shardings of its trained
        state are not known yet.
        """
        whole = self.whole
        if self.alone and whole.plan.mesh is not None:
            return []
        programs = [evaluator.program(state)]
        if self.alone and whole.is_last_stage and whole.config.env.has_video:
            programs.append(video_program(whole, state))
        return programs


_MOST_ZEROS = 2**26
"""The most numbers in states of zeros: larger ones need memory that has not been checked yet."""


def _zeros(x: Any) -> Any:
    """An array of zeros, if `x` is a shape and a dtype. It is made without a compiled program."""
    if not isinstance(x, jax.ShapeDtypeStruct):
        return x
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_zeros(jax.eval_shape(jax.random.key_data, x)))
    return jax.device_put(np.zeros(x.shape, x.dtype))


def members_of(whole: Run) -> Members:
    """The members of a run: itself, or a run for each of its seeds.

    **Arguments:**

    - `whole`: the run.
    """
    checkpoints, config = whole.folder / "checkpoints", whole.settings
    if config.num_seeds == 1:
        return Members(whole, (whole,), checkpoints / "last.safetensors")
    runs = []
    for seed in range(config.seed, config.seed + config.num_seeds):
        own = dataclasses.replace(config, seed=seed, num_seeds=1, devices=None, out=None)
        folder = whole.folder / f"seed-{seed}"
        runs.append(dataclasses.replace(whole, settings=own, stages=stages(own), folder=folder))
    return Members(whole, tuple(runs), checkpoints / "seeds.safetensors")


def print_header(members: Members) -> Console:
    """Prints the name of the run, makes the folders of its members, and prints preparations."""
    console, whole, config = open_console(), members.whole, members.whole.config
    title = escape(short_name(config.env.title))
    rules = f" ({config.env.rules})" if config.env.rules else ""
    seeds, each = f"seed {config.seed}", ""
    if not members.alone:
        first, last = (members.runs[i].config.seed for i in (0, -1))
        seeds, each = f"seeds {first} to {last} at once", " each"
        if (mesh := whole.plan.mesh) is not None and mesh.size > 1:
            seeds += f" on {mesh.size} {'cores' if jax.default_backend() == 'cpu' else 'devices'}"
    console.print(
        f"[bold]{whole.algorithm}[/] in [bold]{title}[/]{rules}, {seeds}, {config.num_envs} "
        f"environments{each}: writing to {escape(str(whole.folder))}",
        highlight=False,
    )
    members.open_folders(console, members.of_each)
    lengths = [(whole.settings.total_steps, whole.plan)]
    programs = keep_compiled_programs()
    print_preparations(console, config, programs, lengths, members.of_each)
    return console


@contextlib.contextmanager
def explained(members: Members) -> Iterator[None]:
    """Context manager that turns a `NonFiniteLoss` into a `RunError` that names the seed.

    **Raises:** `RunError`.
    """
    try:
        yield
    except NonFiniteLoss as error:
        sentence = str(error)
        if error.run is not None:
            sentence = (
                f"The loss of update {error.update} of seed "
                f"{members.runs[error.run].config.seed} is not a finite number (first "
                f"{error.where}), so all runs stop. Try a smaller learning rate."
            )
        raise RunError(f"{sentence} {what_is_kept(members.whole.folder)}") from error


@final
class Trained(NamedTuple):
    """The members of a run after training.

    - `members`: the runs.
    - `progress`: the progress of all runs.
    - `evaluators`: the evaluator of each run, with the results of its evaluations.
    - `failures`: collects the files that cannot be written.
    """

    members: Members
    progress: TrainProgress
    evaluators: Sequence[Evaluator]
    failures: Failures

    def conclusion(self, run: int) -> Conclusion:
        """The `Conclusion` of the member with index `run`."""
        evaluator, alone = self.evaluators[run], self.members.alone
        progress = self.progress if alone else _progress_of(self.progress, run, evaluator)
        return Conclusion(self.members.runs[run], progress, evaluator, self.failures, video=alone)

    def conclude(self) -> Table:
        """Evaluates all runs, and writes the results of each run and of all runs together.

        **Returns:** the content of `result.json`.
        """
        runs, whole, failures = self.members.runs, self.members.whole, self.failures
        results = [self.conclusion(i).conclude() for i in range(len(runs))]
        if self.members.alone:
            return results[0]
        folder, env, median = whole.folder, whole.config.env, median_seed(results)
        result = result_of_all(runs, results) | {
            "steps_per_second": round(len(results) * speed(self.progress), 1),
            "wall_seconds": round(whole.seconds(), 2),
            "video": results[median]["seeds"][0] if env.has_video else None,
        }
        with failures.writing(folder / "result.json"):
            write_json(folder / "result.json", result)
        if not whole.process.interrupted_again:
            with failures.writing(folder / "curve.png"):
                title = f"{whole.algorithm.upper()} in {short_name(env.title)}"
                rows = [evaluator.rows for evaluator in self.evaluators]
                draw_curves(folder / "curve.png", rows, title, env.optimum)
        if env.has_video and not whole.process.interrupted_again:
            state = self.conclusion(median).progress.state
            draw_video(folder / VIDEO_FILE, runs[median], state, failures)
        return result

    def next_stage(self) -> Members:
        """The members in their next stage, with the parts of their training states that the stage
        keeps. Their histories have the evaluations so far, but no best return.
        """
        runs = tuple(
            dataclasses.replace(
                run,
                history=dataclasses.replace(
                    run.history, evaluations=tuple(evaluator.rows), best_return=-np.inf
                ),
            )
            for run, evaluator in zip(self.members.runs, self.evaluators, strict=True)
        )
        members = dataclasses.replace(self.members, runs=runs)
        members = members.in_stage(members.whole.number + 1)
        run, old = members.whole, self.progress.state
        keep = functools.partial(transfer, env=run.plan.train_env, keep=run.stage.keep)
        if not members.alone:
            keep = eqx.filter_vmap(keep)
        return dataclasses.replace(members, state=keep(old, members.start()))


def _common_reason(reasons: Sequence[str | None]) -> str | None:
    """The reason why all runs stop; `None` while at least one run continues."""
    if None in reasons:
        return None
    return reasons[0] if len({*reasons}) == 1 else _ALL_HAVE_ENDED


def _progress_of(progress: TrainProgress, run: int, evaluator: Evaluator) -> TrainProgress:
    """The progress of one of several runs, with its own state, metrics and evaluations."""
    return dataclasses.replace(
        progress,
        state=pick_run(progress.state, run),
        metrics=jax.tree.map(lambda x: x[:, run], progress.metrics),
        measured=evaluator.rows[-1],
    )


@final
class ForEach:
    """Calls the hooks of each run with the progress of that run."""

    def __init__(
        self, hooks: Sequence[Sequence[Hook]], evaluators: Sequence[Evaluator], alone: bool
    ):
        """**Arguments:**

        - `hooks`, `evaluators`: the hooks and the evaluator of each run.
        - `alone`: whether the progress is that of a single run, without an axis of runs.
        """
        self.hooks, self.evaluators, self.alone = hooks, evaluators, alone

    def __call__(self, progress: TrainProgress) -> None:
        for i, (hooks, evaluator) in enumerate(zip(self.hooks, self.evaluators, strict=True)):
            own = progress if self.alone else _progress_of(progress, i, evaluator)
            for hook in hooks:
                hook(own)


def _hooks_of_run(
    run: Run,
    evaluations: Sequence[Mapping[str, float]],
    loggers: Sequence[Logger],
    failures: Failures,
    seconds: float,
) -> tuple[Hook, ...]:
    """The hooks of one run in its current stage. Its `evaluations` grow while it trains."""
    config = run.config
    if config.env.optimum is not None:  # a world with a best return is no constant-sum game
        evaluations = ()
    checkpoints = Checkpoints(
        run.folder / "checkpoints",
        failures,
        run.history,
        run.describe,
        seconds=seconds,
        evaluations=evaluations,
    )
    log = Log(loggers, failures, run.history.train_seconds, run.plan.totals)
    begin = functools.partial(remove_results, run.folder, failures)
    return begin, log, checkpoints


@final
class KeepState:
    """Saves the latest state of several runs in one checkpoint every few seconds."""

    def __init__(self, members: Members, evaluators: Sequence[Evaluator], failures: Failures):
        self.members, self.evaluators, self.failures = members, evaluators, failures
        self.due = 0.0

    def __call__(self, progress: TrainProgress) -> None:
        if time.perf_counter() >= self.due:
            self.save(progress)
            self.due = time.perf_counter() + SAVE_SECONDS

    def save(self, progress: TrainProgress) -> None:
        """Writes the checkpoint now."""
        members = self.members
        metadata: Table = {"update": progress.updates, "env_steps": progress.env_steps}
        metadata["runs"] = members.names
        if members.whole.in_curriculum:
            rows = [{"update": progress.updates, **x.rows[-1]} for x in self.evaluators]
            metadata |= {"stage": members.whole.number + 1, "members": rows}
        with self.failures.writing(members.checkpoint):
            save(members.checkpoint, progress.state, metadata)
