"""The training loop: compiled blocks of updates inside a plain Python loop."""

import concurrent.futures
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, cast, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, PRNGKeyArray

from eqgrid import VectorEnvironment, check_vector_env
from eqgrid.typing import PyTree

from ..policies import (
    MLP,
    AbstractActionHead,
    AbstractCriticInput,
    AbstractNetwork,
    actor_critic,
    head_for,
)
from ..ppo import AbstractAlgorithm, AbstractTrainState, Metrics, S, check_algorithm
from ._sharding import (
    check_even,
    check_memory,
    num_runs,
    on_each_device,
    place_runs,
    replicate,
    spread,
)


@final
@dataclasses.dataclass(frozen=True)
class TrainProgress(Generic[S]):
    """The progress of a run between two blocks, for its hooks.

    **Arguments:**

    - `state`: the current state. With `donate`, the next block overwrites its arrays, so a hook
        must save or copy the arrays that it keeps.
    - `metrics`: the metrics of every update of the last block (NumPy arrays, one entry per update),
        or `None` before the first block. For many runs, the second axis is the axis of runs.
    - `updates`, `num_updates`: the number of updates made so far, and of the whole run.
    - `env_steps`, `num_env_steps`: the number of steps made so far, and of the whole run, summed
        over the environments of a run.
    - `env_steps_before`: the number of steps made before `train` was called.
    - `wall_seconds`: the time since `train` was called.
    - `compile_seconds`, `train_seconds`: the parts of `wall_seconds` for compiling and for running
        blocks. If `before` is given, its times are added to all three.
    - `measured`: the numbers that `measure` returned after the last block, by name.
    - `stopped`: the reason why `should_stop` or a hook ended the run early, or `None`.
    """

    state: S
    metrics: Metrics | None
    updates: int
    num_updates: int
    env_steps: int
    num_env_steps: int
    env_steps_before: int
    wall_seconds: float = 0.0
    compile_seconds: float = 0.0
    train_seconds: float = 0.0
    measured: Mapping[str, float | int] = dataclasses.field(default_factory=dict)
    stopped: str | None = None


Hook: TypeAlias = Callable[[TrainProgress[Any]], None]
"""A callback that `train` calls after every block. It can end the run with `StopTraining`."""


@final
class StopTraining(Exception):
    """Raised by a hook to end a run early; the message says why."""


@final
class NonFiniteLoss(ArithmeticError):
    """Raised when a loss or a gradient is not finite. Hooks are not called with the bad state.

    **Arguments:**

    - `update`: the first update that was not finite, counted from 1.
    - `where`: the number that was not finite: the gradient of a parameter, or a part of the loss.
    - `run`: the index of the run, from 0, if many runs are trained together.
    """

    def __init__(self, update: int, where: str, run: int | None = None):
        self.update, self.where, self.run = update, where, run
        which = f"update {update}" if run is None else f"update {update} of run {run}"
        super().__init__(
            f"The loss of {which} is not a finite number (first {where}), so the run stops. "
            "Try a smaller learning rate."
        )


def train(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    *,
    num_updates: int,
    updates_per_block: int = 10,
    mesh: Mesh | None = None,
    measure: Callable[[TrainProgress[S]], Mapping[str, float | int]] | None = None,
    hooks: Sequence[Hook] = (),
    should_stop: Callable[[], str | None] = lambda: None,
    before: TrainProgress[S] | None = None,
    donate: bool = False,
) -> TrainProgress[S]:
    """Trains a run until it has made `num_updates` updates, or is stopped.

    A block of updates is compiled once. Later runs reuse it if they differ only in settings of type
    float, or in their length. The last block is shorter if the remaining updates are not a
    multiple of `updates_per_block`.

    Signals are not handled: a Ctrl-C raises `KeyboardInterrupt`, as in any Python program. A
    program that must not lose an update can install a handler that stores the signal, and return
    the reason from `should_stop`.

    Many runs are trained together, in one compiled program, if `state` was made by
    `eqx.filter_vmap` of `init_train_state`: every array then has a leading `runs` axis. Each run
    has the result of training it alone, except for rounding. `pick_run` extracts one run.

    ```python
    import jax

    from agents import PPO, init_train_state, train
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    envs = Vectorize(AutoReset(LogEpisodes(make("goals"))), 16)
    ppo = PPO(rollout_length=32)
    state = init_train_state(ppo, envs, jax.random.key(0))
    policy = train(ppo, envs, state, num_updates=5).state.policy
    ```

    **Arguments:**

    - `algorithm`: the algorithm, such as `PPO`. For many runs, each setting of type float may be a
        vector, with an entry for each run.
    - `env`: the environments of a run.
    - `state`: the state to continue from, from `init_train_state`, `algorithm.init` or
        `restore`.
    - `num_updates`: the number of updates of the whole run, including those already in `state`.
    - `updates_per_block`: the number of updates between two calls of the hooks, at least 1.
    - `mesh`: the devices to train on, from `device_mesh`; the default device unless given. The
        environments of a run are sharded evenly over the devices, and many runs are divided evenly
        among them. The result is as on one device, except for rounding.
    - `measure`: returns numbers by name, such as the results of an evaluation. It is called after
        every block, before the hooks, which read its result from `progress.measured`.
    - `hooks`: called in order after every block. All of them are called, even if one stops the run.
    - `should_stop`: called repeatedly while the first block is compiled, and then after the hooks
        of every block. If it returns a string, the run ends with this reason. XLA cannot be
        interrupted: the compilation continues in a thread, and Python waits for this thread when it
        exits.
    - `before`: the result of an earlier call, to continue its times after a change of environments
        (see `transfer`).
    - `donate`: let every block overwrite the arrays of its input, which saves the memory of one
        state. The arrays of `state` can then no longer be read.

    **Returns:** the progress of the run at its end, with the last state.

    **Raises:** `NonFiniteLoss`; `OutOfMemory` when a block needs more memory than is free; and
    `ValueError` when the numbers of updates, environments, devices and runs do not fit together.
    """
    _check_arguments(algorithm, env, state)
    updates = int(np.asarray(state.updates).flat[0])  # all runs have made the same number
    steps, all_steps = (x * algorithm.steps_per_update(env) for x in (updates, num_updates))
    progress = TrainProgress(state, None, updates, num_updates, steps, all_steps, steps)
    if before is not None:
        kept = ("env_steps_before", "wall_seconds", "compile_seconds", "train_seconds")
        progress = dataclasses.replace(progress, **{name: getattr(before, name) for name in kept})
    call_start = time.perf_counter()
    run_start = call_start - progress.wall_seconds  # as if `before` had ended just now
    if progress.updates > num_updates:
        raise ValueError(
            f"`num_updates` is {num_updates}, but the state has {progress.updates} updates already."
        )
    if updates_per_block < 1:
        raise ValueError(f"`updates_per_block` must be at least 1, not {updates_per_block}.")
    if mesh is not None:
        runs = num_runs(state)
        if runs is None:
            check_even(env.num_envs, mesh)
        else:
            check_even(runs, mesh, "runs")
    if progress.updates == num_updates:
        return progress
    state = _without_repeats(state) if donate else state
    settings, state = _inputs(algorithm, env, state, num_updates, updates_per_block, mesh)
    block, reason = _compile(settings, state, donate, should_stop)
    compiled = progress.compile_seconds + time.perf_counter() - call_start
    # A signal may have come while the block was compiled, so the first block may not run at all.
    stopped = reason or should_stop()
    progress = dataclasses.replace(progress, compile_seconds=compiled, stopped=stopped)
    while progress.updates < num_updates and not progress.stopped:
        state, progress = _advance(block, settings, state, progress, run_start)
        if measure is not None:
            progress = dataclasses.replace(progress, measured=measure(progress))
        reason = _call_hooks(hooks, progress)
        progress = dataclasses.replace(progress, stopped=should_stop() or reason)
    return dataclasses.replace(progress, wall_seconds=time.perf_counter() - run_start)


def _check_arguments(algorithm: object, env: object, state: object) -> None:
    """**Raises:** `TypeError` or `ValueError` for arguments of `train` of other types."""
    check_algorithm(algorithm)
    check_vector_env(env, "train(algorithm, env, state, num_updates)")
    if not isinstance(state, AbstractTrainState):
        raise TypeError(
            f"train needs a state such as init_train_state(algorithm, env, key), but got "
            f"{type(state).__name__}."
        )


def trace_block(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    *,
    num_updates: int,
    updates_per_block: int = 10,
    mesh: Mesh | None = None,
    donate: bool = False,
) -> None:
    """Traces the block of updates ahead of time, so that `train` with the same arguments only
    compiles it. Call it while a thread compiles the program of the initial state.

    **Arguments:**

    - `state`: a state with the right shapes; its values are not read.
    - `algorithm`, `env`, `num_updates`, `updates_per_block`, `mesh`, `donate`: as in
        `train`.
    """
    inputs = _inputs(algorithm, env, state, num_updates, updates_per_block, mesh)
    _lower(*inputs, donate)


def init_train_state(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    key: PRNGKeyArray,
    *,
    network: Callable[..., AbstractNetwork] = MLP,
    critic_input: AbstractCriticInput | None = None,
    head: Callable[[Any], AbstractActionHead] = head_for,
    shared: bool = True,
) -> S:
    """Initialises the policy and the environments of a run, in one compiled program. New values of
    the learning rate, or of other settings of type float, do not recompile it.

    ```python
    import jax

    from agents import MLP, PPO, init_train_state
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    env = Vectorize(AutoReset(LogEpisodes(make("goals"))), num_envs=4)
    state = init_train_state(PPO(), env, jax.random.key(0), network=MLP)
    print(int(state.updates))  # 0
    ```

    **Arguments:**

    - `algorithm`: the algorithm. Its policy must be an `ActorCritic`; for another policy, call
        `algorithm.init`.
    - `env`: the environments.
    - `key`: the source of all randomness of the run.
    - `network`, `critic_input`, `head`, `shared`: as in `actor_critic`.

    **Returns:** the state before the first update.

    **Raises:** `ValueError` when the environment or the settings do not fit.
    """
    check_algorithm(algorithm)
    env = check_vector_env(env, "init_train_state(algorithm, env, key)")
    settings = algorithm.with_arrays()
    return _init_train_state(settings, env, key, network, critic_input, head, shared)


@eqx.filter_jit
def _init_train_state(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    key: PRNGKeyArray,
    network: Callable[..., AbstractNetwork],
    critic_input: AbstractCriticInput | None,
    head: Callable[[Any], AbstractActionHead],
    shared: bool,
) -> S:
    policy_key, run_key = jax.random.split(key)
    policy = actor_critic(
        env, policy_key, network=network, critic_input=critic_input, head=head, shared=shared
    )
    return algorithm.init(policy, env, run_key)


def scan_updates(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    *,
    num_updates: int | Int[Array, ""],
    length: int,
) -> tuple[S, Metrics]:
    """Makes a number of updates of a run in one `jax.lax.scan`.

    Under `eqx.filter_vmap`, it trains many seeds at once. Their states are from `init_train_state`
    under `eqx.filter_vmap`.

    **Arguments:**

    - `algorithm`, `env`: the algorithm and the environments.
    - `state`: the state to continue from.
    - `num_updates`: the number of updates of the whole run, over which settings are annealed.
    - `length`: the number of updates to make now.

    **Returns:** the next state, and the metrics of every update.
    """
    # The carry of a scan consists of arrays; the rest of the state is the same in every update.
    arrays, rest = eqx.partition(state, eqx.is_array)

    def step(arrays: PyTree, _: None) -> tuple[PyTree, Metrics]:
        state, metrics = algorithm.update(env, eqx.combine(arrays, rest), num_updates=num_updates)
        return eqx.filter(state, eqx.is_array), metrics

    arrays, metrics = jax.lax.scan(step, arrays, length=length)
    return eqx.combine(arrays, rest), metrics


class _Settings(NamedTuple):
    """The inputs of a compiled block that are the same for all blocks of a run. Other values of its
    arrays do not recompile the block; another `length`, `mesh` or static field does.

    - `num_updates`: the number of updates of the whole run.
    - `length`: the largest number of updates in a block.
    """

    algorithm: AbstractAlgorithm[Any]
    env: VectorEnvironment
    num_updates: Int[Array, ""]
    length: int
    mesh: Mesh | None


def _without_repeats(state: S) -> S:
    """Copies arrays that occur more than once in the state, such as the parameters of a target
    network, because an array can be donated only once.
    """
    seen = set()

    def copy(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return jnp.copy(leaf)

    return jax.tree.map(copy, state)


def _inputs(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    num_updates: int,
    updates_per_block: int,
    mesh: Mesh | None,
) -> tuple[_Settings, S]:
    """The inputs of a block, on the devices of its mesh, if it has one."""
    # Settings become arrays, so that the compiled block can be used with other values.
    length = min(updates_per_block, num_updates)
    settings = _Settings(algorithm.with_arrays(), env, _int32(num_updates), length, mesh)
    if mesh is not None and num_runs(state) is not None:
        return place_runs((settings, state), _run_axes(settings, state), mesh)
    return replicate(settings, mesh), _spread_envs(state, settings.env.num_envs, mesh)


def _spread_envs(state: S, num_envs: int, mesh: Mesh | None) -> S:
    """Shards the environments of a run over the devices, and replicates everything else."""
    if mesh is None:
        return state
    runner = spread(state.runner, num_envs, mesh)
    return eqx.tree_at(lambda s: s.runner, replicate(state, mesh), runner)


def _run_axes(settings: _Settings, state: PyTree) -> PyTree[int | None]:
    """The axis of the runs in each array of the inputs of a block: 0, or `None`."""
    axes = jax.tree.map(lambda _: None, settings)
    axes = axes._replace(algorithm=jax.tree.map(_axis_of_setting, settings.algorithm))
    return axes, jax.tree.map(eqx.if_array(0), state)


def _axis_of_setting(x: PyTree) -> int | None:
    """The `vmap` axis of a setting: 0 for a vector with an entry for each run, else `None`."""
    return 0 if eqx.is_array(x) and x.ndim else None


_MOST_BLOCKS = 8
_compiled_blocks: dict[Any, Any] = {}


def _compile(
    settings: _Settings,
    state: AbstractTrainState[Any],
    donate: bool,
    should_stop: Callable[[], str | None],
) -> tuple[Any, str | None]:
    """Compiles a block, or finds one that was compiled before for inputs of the same shapes.

    **Returns:** the block and `None`, or, if `should_stop` returned a reason before the block was
    compiled, `None` and this reason.

    **Raises:** `OutOfMemory` when the block needs more memory than is free.
    """
    # A program depends on static fields and on the shapes of arrays, not on their values.
    leaves, structure = jax.tree.flatten((settings, state))
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) if eqx.is_array(x) else x for x in leaves]
    key = (donate, structure, *shapes)
    if key not in _compiled_blocks:
        while len(_compiled_blocks) >= _MOST_BLOCKS:
            del _compiled_blocks[next(iter(_compiled_blocks))]  # the oldest
        # Compiled ahead of time, so that its memory can be checked before it runs.
        lowered = _lower(settings, state, donate)
        block, reason = _call_in_thread(lowered.compile, should_stop)
        if reason:
            return None, reason
        _compiled_blocks[key] = block
    check_memory(_compiled_blocks[key])
    return _compiled_blocks[key], None


def _lower(settings: _Settings, state: AbstractTrainState[Any], donate: bool) -> Any:
    """Traces and lowers a block. JAX keeps the result for inputs of the same shapes."""
    # The settings are an input of every block, so everything but the settings is donated.
    run_block = eqx.filter_jit(_run_block, donate="all-except-first" if donate else "none")
    count = replicate(_int32(1), settings.mesh)
    return cast(Any, run_block).lower(settings, state, count)


def _call_in_thread(
    function: Callable[[], Any], should_stop: Callable[[], str | None]
) -> tuple[Any, str | None]:
    """Calls a function in a thread. Signal handlers can run in the meantime: Python runs them in
    the main thread, but not during a call into XLA.

    **Returns:** the result and `None`, or, if `should_stop` returned a reason before the function
    returned, `None` and this reason.
    """
    pool = concurrent.futures.ThreadPoolExecutor(1, "compiler")
    call = pool.submit(function)
    pool.shutdown(wait=False)
    while not call.done():
        if reason := should_stop():
            return None, reason
        concurrent.futures.wait([call], timeout=0.1)
    return call.result(), None


def _run_block(settings: _Settings, state: S, count: Int[Array, ""]) -> tuple[S, Metrics]:
    """Makes `count` updates, on the devices of the mesh."""
    mesh = settings.mesh
    if mesh is None or num_runs(state) is None:
        state, metrics = _make_updates(settings, state, count)
        # The result has the shardings of the input. Otherwise XLA could choose others, which the
        # same compiled block would reject.
        return _spread_envs(state, settings.env.num_envs, mesh), replicate(metrics, mesh)
    arrays, rest = eqx.partition((settings, state), eqx.is_array)

    def block(arrays: PyTree, count: Int[Array, ""]) -> tuple[PyTree, Metrics]:
        settings, state = eqx.combine(arrays, rest)
        state, metrics = _make_updates(settings, state, count)
        return eqx.filter(state, eqx.is_array), metrics

    axes = _run_axes(settings, state)
    arrays, metrics = on_each_device(block, arrays, count, axes=axes, mesh=mesh)
    return eqx.combine(arrays, rest[1]), metrics


def _make_updates(settings: _Settings, state: S, count: Int[Array, ""]) -> tuple[S, Metrics]:
    """Makes `count` updates of a run, or of each of many runs. The count is an input of the
    program, so that the shorter last block needs no program of its own. Rows of the metrics after
    the first `count` are zeros.
    """

    def update_run(
        algorithm: AbstractAlgorithm[S], env: VectorEnvironment, state: S
    ) -> tuple[S, Metrics]:
        return algorithm.update(env, state, num_updates=settings.num_updates)

    update_runs = update_run
    if num_runs(state) is not None:
        # Settings may have an axis of the runs, and states always have it.
        in_axes = (_axis_of_setting, None, eqx.if_array(0))
        update_runs = eqx.filter_vmap(update_run, in_axes=in_axes)
    arrays, rest = eqx.partition(state, eqx.is_array)

    # With `jit`, one trace serves both `eval_shape` and the loop.
    @jax.jit
    def update(arrays: PyTree) -> tuple[PyTree, Metrics]:
        state = eqx.combine(arrays, rest)
        state, metrics = update_runs(settings.algorithm, settings.env, state)
        return eqx.filter(state, eqx.is_array), metrics

    def step(i: Array, loop: tuple[PyTree, Metrics]) -> tuple[PyTree, Metrics]:
        arrays, metrics = loop
        arrays, new = update(arrays)
        return arrays, jax.tree.map(lambda rows, row: rows.at[i].set(row), metrics, new)

    # A loop with a traced count cannot stack its results, so it writes into rows of zeros.
    _, shapes = jax.eval_shape(update, arrays)
    metrics = jax.tree.map(lambda x: jnp.zeros((settings.length, *x.shape), x.dtype), shapes)
    arrays, metrics = jax.lax.fori_loop(0, count, step, (arrays, metrics))
    return eqx.combine(arrays, rest), metrics


def _advance(
    block: Callable, settings: _Settings, state: S, before: TrainProgress[S], run_start: float
) -> tuple[S, TrainProgress[S]]:
    """Runs one block of updates.

    **Returns:** the next state, on the devices of the mesh, and the progress of the run.
    """
    block_start = time.perf_counter()
    count = min(settings.length, before.num_updates - before.updates)
    state, metrics = block(settings, state, replicate(_int32(count), settings.mesh))
    # The copy to the host waits for the block, so that the time below includes its computation.
    metrics = jax.tree.map(lambda x: np.asarray(x)[:count], metrics)
    end = time.perf_counter()
    _check_finite(metrics, before.updates, state)  # before any hook could save the state
    updates = before.updates + count
    steps_per_update = before.num_env_steps // before.num_updates
    return state, dataclasses.replace(
        before,
        state=state,
        metrics=metrics,
        updates=updates,
        env_steps=updates * steps_per_update,
        wall_seconds=end - run_start,
        train_seconds=before.train_seconds + end - block_start,
    )


def _check_finite(metrics: Metrics, updates: int, state: AbstractTrainState[Any]):
    """Raises `NonFiniteLoss` if a metric of the block after `updates` updates is not finite."""
    names = list(metrics.scalars)
    if not names:
        return
    finite = np.isfinite(np.stack([metrics.scalars[name] for name in names]))
    if finite.all():
        return
    # The first update is the cause, and all later numbers are consequences. If there are many runs,
    # the first run in this update is reported.
    update, *run = np.argwhere(~finite.all(axis=0))[0].tolist()
    leaf = int(np.asarray(metrics.bad_leaf)[update, *run])
    if leaf < 0:
        where = f"the {names[int(np.argmin(finite[:, update, *run]))].replace('_', ' ')}"
    else:
        trained = eqx.filter(state.policy, eqx.is_inexact_array)
        path = jax.tree_util.tree_leaves_with_path(trained)[leaf][0]
        where = f"the gradient of {jax.tree_util.keystr(path).removeprefix('.')}"
    raise NonFiniteLoss(updates + update + 1, where, *run)


def _call_hooks(hooks: Sequence[Hook], progress: TrainProgress[Any]) -> str | None:
    """Calls all hooks, even if one of them stops the run, and returns the first reason to stop."""
    reasons = []
    for hook in hooks:
        try:
            hook(progress)
        except StopTraining as stop:
            reasons.append(str(stop))
    return next(iter(reasons), None)


def _int32(number: int) -> Int[Array, ""]:
    return jnp.asarray(np.int32(number))  # from NumPy, since JAX compiles a conversion of an `int`
