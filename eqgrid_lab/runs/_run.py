"""`Run`: the folder of a run, with its checkpoints and log, and its progress and signals."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import psutil
from jax.sharding import Mesh
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from agents import (
    AbstractCheckedAlgorithm,
    AbstractTrainState,
    Block,
    Metrics,
    NonFiniteLoss,
    TrainedPolicy,
    device_mesh,
    read_metadata,
    restore,
    save,
    save_policy,
    write_atomic,
)
from agents.files import file_of_seed
from agents.ppo import AbstractAlgorithm, S
from agents.training import check_memory, map_runs
from eqgrid import AbstractVectorEnv

from ..base import (
    CHECKPOINT,
    SETTINGS_FILE,
    VIDEO_FILE,
    Failures,
    RunError,
    Stopped,
    StopSignals,
    Table,
    UsageError,
    as_usage_error,
    digest,
    exit_at_once,
    explain,
    file_named,
    is_shared,
    keep_compiled_programs,
    print_error,
    quiet_libraries,
    use_cores_as_devices,
    warn,
)
from ..folders import (
    csv_bytes,
    folder_name,
    open_folder,
    read_csv,
    reading,
    write_json,
    writing_into,
)
from ..partners import Place, run_mark
from ..settings import (
    Experiment,
    command_of,
    dump,
    own_flags,
    script_errors,
    to_table,
)
from ..show import (
    how_to_continue,
    is_constant_sum,
    open_console,
    open_loggers,
    print_result,
    what_is_kept,
)
from ..worlds import is_of_user
from ._display import Display, print_header
from ._evaluation import Columns, Evaluation
from ._finish import (
    compile_the_video,
    draw_pictures,
    final_results,
    joint_result,
    pick,
    write_policies,
)
from ._metrics import block_means, episode_totals

T = TypeVar("T")
_EVAL_STEPS, _EVAL_UPDATES = 100_000, 10
"""By default, this many steps or updates, whichever is longer, are between two evaluations."""
_SAVE_SECONDS = 5.0
"""The minimum time between two checkpoints."""
_MOST_ZEROS = 2**26
"""The most numbers in a state of zeros. A larger one needs memory that is not checked yet."""
_MEMORY = "--num-envs, --ppo.rollout-length, --width or --eval-episodes"
"""The flags to lower when memory runs out, for the error message."""


@final
class Run:
    """A run of one or several seeds in a folder: settings, log, checkpoints, progress and signals.

    ```python
    with Run(config) as run:
        block = run.block(ppo, envs)
        evaluation = run.evaluation(envs)
        state = run.start(init, block, evaluation)
        for count in run.blocks():
            state, metrics = block(state, count)
            result = evaluation(state)
            run.log(metrics, result)
            run.save(state, result)
        run.finish(state)
    print(run.folder, run.exit_code)
    ```

    After a SIGINT or SIGTERM, `blocks` ends after the current block, and `finish` saves the last
    state. An error that is expected, such as a full disk or a wrong setting, ends the run with one
    printed sentence; any other error is raised.

    **Attributes:**

    - `config`: the settings. A curriculum may replace them between two blocks.
    - `seeds`: the seeds, which train together. All arrays of the state have a leading axis of them.
    - `train_keys`, `eval_keys`, `video_keys`: a random key of each seed for training, evaluations
        and the video.
    - `mesh`: the devices that share the seeds, or the environments of a single seed; `None` for one
        device.
    - `folder`: the folder.
    - `updates`, `num_updates`: the number of updates after the current block, and at the end.
    - `steps_per_update`: the environment steps of an update of one seed.
    - `rows`: the rows of `metrics.csv`.
    - `best_env_steps`: the environment steps of the best policy of each seed.
    - `stored_world`: the world as policy files name it.
    - `console`, `failures`: the terminal, and the files that could not be written.
    - `exit_code`: the exit code for the program.
    """

    folder: Path
    steps_per_update: int
    num_updates: int

    def __init__(self, config: Experiment) -> None:
        """**Arguments:**

        - `config`: the settings, for example from `parse`.
        """
        self.config, self.updates, self.exit_code = config, 0, 0
        self.seeds = range(config.seed, config.seed + config.num_seeds)
        self.rows: list[Table] = []
        self._begun = time.perf_counter()
        if not is_shared():  # the time includes the imports of the process
            self._begun -= max(0.0, time.time() - psutil.Process().create_time())
        self._before: Table = {}  # the metadata of the checkpoint from which the run resumes
        self._is_complete, self._due = False, 0.0
        self._best_returns = np.full(len(self.seeds), -np.inf)
        self.best_env_steps = np.zeros(len(self.seeds), int)
        self._improved = np.zeros(len(self.seeds), bool)
        self._blocks: list[Block[Any]] = []
        self._threads: list[concurrent.futures.Future[Any]] = []

    def __enter__(self) -> Self:
        quiet_libraries()
        self.console, self.failures = open_console(), Failures()
        self._stack = contextlib.ExitStack()
        self.signals = StopSignals().__enter__()
        self.display = Display(self.console)
        self._stack.callback(self.display.stop)
        try:
            if self.config.devices != 1 and len(self.seeds) > 1:
                use_cores_as_devices()
            keys = jnp.stack([jax.random.key(seed) for seed in self.seeds])
            self.train_keys, self.eval_keys, self.video_keys = _three_keys(keys)
            self.mesh = choose_mesh(self.config.devices, len(self.seeds))
            self._open_folder()
        except Exception as error:
            if self.__exit__(type(error), error, error.__traceback__):
                raise SystemExit(self.exit_code) from None
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is not None and self.signals.first is None:
            concurrent.futures.wait(self._threads)  # Python must not end while XLA compiles
        self.exit_code, is_expected = self.signals.exit_code, False
        if isinstance(error, Stopped):
            is_expected = True
            print_error("interrupted before training started, so no files were written.", 1)
        elif isinstance(error, Exception):
            error = self._explained(error)
            if (found := explain(error, _MEMORY)) is not None:
                self.exit_code, is_expected = print_error(*found), True
        if self.failures.report() or (error is not None and not is_expected):
            self.exit_code = self.exit_code or 1
        self._stack.close()
        if self.signals.first is not None and not is_shared() and (error is None or is_expected):
            exit_at_once(self.exit_code)
        self.signals.__exit__()  # last, so that no further signal disturbs the end
        return is_expected

    def _explained(self, error: Exception) -> Exception:
        """A `NonFiniteLoss` with its seed, and an error about a wrong setting as a `UsageError`."""
        if isinstance(error, NonFiniteLoss):
            return RunError(
                f"The loss of update {error.update} of seed {self.seeds[error.run or 0]} is not a "
                f"finite number (first {error.where}), so the run stops. Try a smaller learning "
                f"rate. {what_is_kept(self.folder)}"
            )
        found, where = error, error.__traceback__
        try:
            with script_errors(type(self.config)):
                raise error
        except Exception as explained:
            found = explained
        error.with_traceback(where)  # drops the frame of this method
        return found

    def block(self, algorithm: AbstractAlgorithm[S], envs: AbstractVectorEnv) -> Block[S]:
        """The compiled updates between two evaluations.

        **Arguments:**

        - `algorithm`: the algorithm, such as `PPO`.
        - `envs`: the training environments of one seed.
        """
        config, self.steps_per_update = self.config, algorithm.steps_per_update(envs)
        self.num_updates = math.ceil(config.total_steps / self.steps_per_update)
        # With a large batch on a GPU, an evaluation takes as long as many training steps, so the
        # minimum is a number of updates.
        steps, updates = _EVAL_STEPS, min(_EVAL_UPDATES, self.num_updates // 20)
        if config.eval_every is not None:
            steps, updates = config.eval_every, 1
        self._length = min(max(1, steps // self.steps_per_update, updates), self.num_updates)
        return Block(
            algorithm, envs, num_updates=self.num_updates, length=self._length, mesh=self.mesh
        )

    def evaluation(self, envs: AbstractVectorEnv) -> Evaluation:
        """The evaluation of the current policies, in the environments of `config.eval_env`.

        **Arguments:**

        - `envs`: the training environments of one seed.
        """
        config = self.config
        self.world = config.env.build(train=False)
        # Now, since a layout file may change later.
        self.stored_world = Place.of(config.env, config.observe, self.world).policy_world
        totals = config.totals(self.world)
        env = config.eval_env(self.world, config.eval_episodes, tuple(totals))
        return Evaluation(env, envs, self.eval_keys, self.mesh, totals)

    def start(
        self,
        init: Callable[[AbstractVectorEnv, PRNGKeyArray], S],
        block: Block[S],
        evaluation: Evaluation,
    ) -> S:
        """The training state of all seeds: that of the last checkpoint, or a new one. Meanwhile,
        the programs of the loop are compiled.

        **Arguments:**

        - `init`: makes the state of one seed from the environments and a random key.
        - `block`, `evaluation`: the programs that the loop calls.

        **Returns:** the state, whose arrays have a leading `runs` axis.

        **Raises:** `UsageError` when a setting or a partner does not fit, `CheckpointError` when
        the checkpoint is damaged, `OutOfMemory`, and `Stopped` when a signal has arrived.
        """
        self.use(block, evaluation)
        self._is_complete = self._has_all_results()

        def init_runs(envs: AbstractVectorEnv, keys: Shaped[PRNGKeyArray, " runs"]) -> S:
            return map_runs(functools.partial(init, envs), len(self.seeds))(keys)

        shapes = eqx.filter_eval_shape(init_runs, block.env, self.train_keys)
        self._check(block, shapes)
        like = {"state": shapes, "best": eqx.filter_eval_shape(evaluation.policies, shapes)}
        # A checkpoint that does not fit is found before anything is written.
        restored = restore(self._checkpoint, like) if self._before else None
        if not self._is_complete:
            self._open_loggers()
            keep_compiled_programs()
            print_header(self)
            self.display.start(self.num_updates * self.steps_per_update * len(self.seeds))
        if restored is not None:
            state, self._best = restored["state"], restored["best"]
            self._best_returns = np.asarray(self._before["best_returns"])
            self.best_env_steps = np.asarray(self._before["best_env_steps"])
        else:
            state = self._new_state(init_runs, block, shapes)
            self._best = jax.tree.map(_zeros, like["best"])
        if self._is_complete:
            self.updates = self.num_updates  # so `blocks` is empty
            return state
        state = block.place(state)
        compiling = self._in_thread(lambda: block.compile(state))
        policies = self._best  # for its shapes
        self._in_thread(lambda: evaluation.compile(state, policies))
        self._wait(compiling)
        if self.config.env.has_video:
            self._in_thread(lambda: compile_the_video(self, policies))
        return state

    def _has_all_results(self) -> bool:
        """Whether the run has ended by itself, and has written all its files."""
        path, pictures = self.folder / "result.json", ["curve.png"]
        pictures += [VIDEO_FILE] * self.config.env.has_video
        files = [path, *map(self.folder.joinpath, pictures)]
        files += [self.path_of("policy", i) for i in range(len(self.seeds))]
        if not self._before or not all(file.exists() for file in files):
            return False
        result = msgspec.json.decode(path.read_bytes())
        is_of_last_state = result["env_steps"] == self._before["env_steps"]
        # The loop of the script may end before `total_steps`, which a resumed run may change.
        has_ended = self.updates >= self.num_updates
        has_ended |= result["total_steps"] == self.config.total_steps
        return has_ended and is_of_last_state and result["stopped"] is None

    def _new_state(self, init: Any, block: Block[S], shapes: S) -> S:
        """The new state of all seeds. While its program is compiled, the block is traced.

        **Arguments:**

        - `init`: makes the state from the environments and the keys of all seeds.
        - `block`: the block.
        - `shapes`: the shapes of the state.
        """
        # The program runs only once, so it is compiled with few optimisations.
        options = {"xla_backend_optimization_level": "0"}
        program: Any = eqx.filter_jit(init, compiler_options=options)  # pyright: ignore[reportCallIssue]
        compiling = self._in_thread(program.lower(block.env, self.train_keys).compile)
        if sum(getattr(x, "size", 0) for x in jax.tree.leaves(shapes)) < _MOST_ZEROS:
            block.lower(block.place(jax.tree.map(_zeros, shapes)))
        compiled = self._wait(compiling)
        check_memory(compiled)
        return compiled(block.env, self.train_keys)

    def use(self, block: Block[Any], evaluation: Evaluation) -> None:
        """Continues with other programs, as in the next stage of a curriculum. The best policy is
        from now on the best one in the new evaluation.

        **Arguments:**

        - `block`, `evaluation`: the programs that the loop calls.
        """
        self._blocks.append(block)
        self.evaluate = evaluation
        # A column of a row stays in all later rows, also after a resume.
        evaluation.returns_differ |= any("eval_return_agent_0" in row for row in self.rows)
        self._best_returns = np.full(len(self.seeds), -np.inf)

    def blocks(self) -> Iterator[int]:
        """The number of updates of each block, until the last update or a signal."""
        while self.updates < self.num_updates and self.signals.first is None:
            count = min(self._length, self.num_updates - self.updates)
            self.updates += count
            yield count

    def log(self, metrics: Metrics, result: Columns) -> None:
        """Writes a row for each seed to the loggers, and shows progress.

        **Arguments:**

        - `metrics`: the metrics of the last block.
        - `result`: the numbers of the last evaluation, one of each seed. Further entries become
            columns of `metrics.csv`.
        """
        device = jax.local_devices()[0].memory_stats()  # `None` on a CPU: use the process
        memory = device["bytes_in_use"] if device else psutil.Process().memory_info().rss
        rows = []
        for i, seed in enumerate(self.seeds):
            own = jax.tree.map(lambda x, i=i: x[:, i], metrics)
            row = {
                "seed": seed,
                "update": self.updates,
                "env_steps": self.env_steps,
                "wall_seconds": self.seconds(),
                **{name: float(x[i]) for name, x in result.items()},
                "train_seconds": round(self.train_seconds(), 3),
                "steps_per_second": round(self.speed(), 1),
                "memory_bytes": memory,
                **block_means(own),
                **episode_totals(own, self.evaluate.totals),
            }
            rows.append(row)
        self.rows += rows
        for logger in self._loggers:
            with self.failures.writing(logger.path):
                logger.write(rows)
        self.display.show(self, result)

    def save(self, state: AbstractTrainState, result: Columns) -> None:
        """Keeps the policy of each seed if its return is the best so far, and writes a checkpoint
        every few seconds.

        **Arguments:**

        - `state`: the state after the last block.
        - `result`: the numbers of its evaluation.
        """
        mean = result["eval_return_mean"]
        improved = (mean > self._best_returns) | self.constant_sum()
        self._best_returns = np.where(improved, mean, self._best_returns)
        self.best_env_steps = np.where(improved, self.env_steps, self.best_env_steps)
        if improved.any():
            self._best = _choose(jnp.asarray(improved), self.evaluate.policies(state), self._best)
        self._improved |= improved
        if time.perf_counter() >= self._due:
            self._write_checkpoint(state)
            self._due = time.perf_counter() + _SAVE_SECONDS

    def finish(self, state: AbstractTrainState) -> None:
        """Saves the last state, evaluates the last and the best policies, and writes the results,
        the policies and the pictures. After a signal, it also prints how to continue.

        **Arguments:**

        - `state`: the last state.
        """
        if self._is_complete:
            self.console.print(f"the run {self.folder} is complete", highlight=False, markup=False)
            return
        if not self.rows:
            self.signals.check()  # a signal before the first block
        stopped = self.signals.reason
        self.display.stop()
        if stopped:
            self.console.print(f"{stopped} after {self.env_steps:,} steps", highlight=False)
        self._write_checkpoint(state)
        if not (settings := self.folder / SETTINGS_FILE).exists():  # removed during training
            with self.failures.writing(settings):
                write_atomic(settings, self._settings.encode())
        # From here, `--resume` repeats what a signal prevents.
        command = f"{command_of(type(self.config))}{own_flags(self.config)}"
        self.signals.last_words = line = how_to_continue(command, self.folder)
        self.console.print("playing the final evaluation, drawing the pictures")
        last = self.evaluate.policies(state)
        results = final_results(self, last, self._best)
        write_policies(self, results, last, self._best)
        draw_pictures(self, results, last)
        result = joint_result(results) | {"stopped": stopped}
        with self.failures.writing(self.folder / "result.json"):
            write_json(self.folder / "result.json", result)  # last, since it marks a complete run
        self.signals.last_words = None
        print_result(self.console, result, self.folder)
        if stopped:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def path_of(self, name: str, i: int) -> Path:
        """The path of a policy file of one seed, such as `policy.safetensors`, or
        `policy-3.safetensors` if there are several seeds.

        **Arguments:**

        - `name`: the path in the folder without the suffix.
        - `i`: the index of the seed.
        """
        seed = self.seeds[i] if len(self.seeds) > 1 else None
        return file_of_seed(self.folder / f"{name}.safetensors", seed)

    def describe(self, i: int, which: str) -> Table:
        """The provenance of a policy file of one seed, and its partners in training.

        **Arguments:**

        - `i`: the index of the seed.
        - `which`: `best` or `last`.
        """
        config = dataclasses.replace(self.config, seed=self.seeds[i], num_seeds=1)
        about = {"algorithm": config.algorithm, "seed": config.seed, "checkpoint": which}
        partners = {"partners": self._partners} if self._partners else {}
        return about | {"run": run_mark(to_table(config))} | partners

    @property
    def env_steps(self) -> int:
        """The environment steps of each seed after the current block."""
        return self.updates * self.steps_per_update

    def seconds(self) -> float:
        """The wall-clock time of the run so far, in seconds, including earlier processes."""
        return self._before.get("wall_seconds", 0.0) + time.perf_counter() - self._begun

    def train_seconds(self) -> float:
        """The time of all blocks so far, in seconds, including earlier processes."""
        return self._before.get("train_seconds", 0.0) + sum(x.train_seconds for x in self._blocks)

    def compile_seconds(self) -> float:
        """The time of compiling the blocks in this process, in seconds."""
        return sum(block.compile_seconds for block in self._blocks)

    def speed(self) -> float:
        """The environment steps of a seed per second of training time in this process."""
        steps = self.env_steps - self._before.get("env_steps", 0)
        return steps / max(sum(block.train_seconds for block in self._blocks), 1e-9)

    def evaluations(self, i: int) -> list[Table]:
        """The rows of `metrics.csv` of one seed."""
        return [row for row in self.rows if row["seed"] == self.seeds[i]]

    def constant_sum(self) -> Bool[np.ndarray, " runs"]:
        """Whether no evaluation of a seed has a better mean than another, as in a zero-sum game."""
        if self.config.env.optimum is not None:
            return np.zeros(len(self.seeds), bool)
        return np.asarray([is_constant_sum(self.evaluations(i)) for i in range(len(self.seeds))])

    def _open_folder(self) -> None:
        """Opens the folder, and reads the log and the metadata of its checkpoint, if it has one."""
        # A folder of partners may have other files when the run is resumed.
        config = dataclasses.replace(self.config, partners=self.config.partners.found())
        name = folder_name(config.algorithm, config.env.title, config.seed)
        self.config, self._settings = config, dump(config)  # a curriculum may change `config`
        opened = open_folder(name, config.out, self._settings, resume=config.resume)
        self.folder = self._stack.enter_context(opened)
        self._checkpoint = self.folder / CHECKPOINT
        file = file_named(config.env.name) if is_of_user(config.env.name) else None
        self._world_digest = {} if file is None else {"world_sha256": digest(file)}
        if self._checkpoint.exists():
            self._before = read_metadata(self._checkpoint)
            if not config.resume_changed and not self._world_digest.items() <= self._before.items():
                raise UsageError(
                    f"The world in {str(file)!r} has changed since the run in "
                    f"{str(self.folder)!r} was started: choose another --out, or add "
                    "--resume-changed to continue with the new world."
                )
            self.updates = self._before["update"]
            # The log may be ahead of the checkpoint. The other rows are written again.
            log = self.folder / "metrics.csv"
            with reading(log):
                rows = read_csv(log, "seed", "update", "eval_return_mean")
                rows = [row for row in rows if int(row["update"]) <= self.updates]
                self.rows = [{name: float(x) for name, x in row.items() if x} for row in rows]
            self._text = csv_bytes(rows)

    def _open_loggers(self) -> None:
        """Writes the settings, cuts the log after the checkpoint, and opens the loggers."""
        text = self._text if self._before else b""
        with writing_into(self.folder):
            write_atomic(self.folder / SETTINGS_FILE, self._settings.encode())
            if text:
                write_atomic(self.folder / "metrics.csv", text)
        names, settings = self.config.log, to_table(self.config)
        with as_usage_error(of=ImportError):
            self._loggers = open_loggers(self.folder, names, text, self.env_steps, settings)
        for logger in self._loggers:
            self._stack.callback(logger.close)

    def _check(self, block: Block[S], shapes: S) -> None:
        """Checks the policy, the learner and the partners.

        **Arguments:**

        - `block`: the block.
        - `shapes`: the shapes of the state of all seeds.

        **Raises:** `UsageError` when they do not fit together.
        """
        config, envs = self.config, block.env
        if isinstance(algorithm := block.algorithm, AbstractCheckedAlgorithm):
            algorithm.check(envs, jax.tree.map(_of_one, shapes.policy))
        config.check_partners(envs)
        self._partners = config.partner_marks()
        if (obstacle := config.env.obstacle()) is not None:
            warn(f"{obstacle} Training will end at a return of 0.")

    def _write_checkpoint(self, state: AbstractTrainState) -> None:
        # Files of the best policies, for `eqgrid evaluate` during training.
        for i in np.flatnonzero(self._improved).tolist():
            path = self.path_of("checkpoints/best", i)
            with self.failures.writing(path):
                numbers = {
                    "env_steps": int(self.best_env_steps[i]),
                    "eval_return_mean": float(self._best_returns[i]),
                }
                about = numbers | self.describe(i, "best")
                save_policy(path, pick(self._best, i), about, world=self.stored_world)
                self._improved[i] = False
        metadata: Table = {
            "update": self.updates,
            "env_steps": self.env_steps,
            "wall_seconds": self.seconds(),
            "train_seconds": self.train_seconds(),
            "best_returns": self._best_returns.tolist(),
            "best_env_steps": self.best_env_steps.tolist(),
            **self._world_digest,
        }
        with self.failures.writing(self._checkpoint):
            save(self._checkpoint, {"state": state, "best": self._best}, metadata)

    def _in_thread(self, function: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Calls a function in a thread that does not keep the process alive, since XLA cannot be
        interrupted.
        """
        future = concurrent.futures.Future[T]()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, daemon=True).start()
        self._threads.append(future)
        return future

    def _wait(self, future: concurrent.futures.Future[T]) -> T:
        """The result of a thread; until then, signals are noticed.

        **Raises:** `Stopped` when a signal has arrived.
        """
        while not future.done():
            self.signals.check()
            concurrent.futures.wait([future], timeout=0.1)
        return future.result()


@jax.jit
@jax.vmap
def _three_keys(
    key: PRNGKeyArray,
) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    train_key, eval_key, video_key = jax.random.split(key, 3)
    return train_key, eval_key, video_key


def choose_mesh(size: int | str | None, num_runs: int) -> Mesh | None:
    """The devices that share the runs, or the environments of a single run; `None` for one device.

    By default, each core of a CPU is a device that trains runs of its own, which is faster than
    one program on all cores. GPUs are not used by default, because other commands may need them.

    **Arguments:**

    - `size`: the setting `devices`.
    - `num_runs`: the number of runs that are trained together.

    **Raises:** `UsageError` when there are too few devices.
    """
    if size is None:
        on_cpu = jax.default_backend() == "cpu"
        possible = range(1, len(jax.devices()) + 1) if on_cpu else [1]
        size = max(number for number in possible if num_runs % number == 0)
    with as_usage_error("--devices: "):
        mesh = device_mesh(None if isinstance(size, str) else size)
    return mesh if mesh.size > 1 else None


@eqx.filter_jit
def _choose(
    improved: Bool[Array, " runs"], new: TrainedPolicy, old: TrainedPolicy
) -> TrainedPolicy:
    """The new policy of each run that has improved, and the old policies of all others."""

    def choose(x: Any, y: Any) -> Any:
        return jax.vmap(jnp.where)(improved, x, y) if eqx.is_array(x) else x

    return jax.tree.map(choose, new, old)


def _of_one(x: Any) -> Any:
    """The shape of an array of one run, from the shape of the arrays of all runs."""
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype) if hasattr(x, "shape") else x


def _zeros(x: Any) -> Any:
    """An array of zeros, if `x` is a shape and a dtype. It is made without a compiled program."""
    if not isinstance(x, jax.ShapeDtypeStruct):
        return x
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_zeros(jax.eval_shape(jax.random.key_data, x)))
    return jax.device_put(np.zeros(x.shape, x.dtype))
