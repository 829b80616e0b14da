"""`Block`: a number of updates of one or several runs, as one compiled program."""

import dataclasses
import time
from typing import Any, Generic, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int

from eqgrid import VectorEnvironment, check_vector_env
from eqgrid.typing import PyTree

from ..ppo import AbstractAlgorithm, AbstractTrainState, Metrics, S, check_algorithm
from ._sharding import check_even, check_memory, map_runs, on_each_device, replicate, shard


@final
class NonFiniteLoss(ArithmeticError):
    """Raised when a loss or a gradient is not finite.

    **Arguments:**

    - `update`: the first update that was not finite, counted from 1.
    - `where`: the number that was not finite: the gradient of a parameter, or a part of the loss.
    - `run`: the index of the run, from 0, if several runs are trained together.
    """

    def __init__(self, update: int, where: str, run: int | None = None):
        self.update, self.where, self.run = update, where, run
        which = f"update {update}" if run is None else f"update {update} of run {run}"
        super().__init__(
            f"The loss of {which} is not a finite number (first {where}), so the run stops. "
            "Try a smaller learning rate."
        )


@final
class Block(Generic[S]):
    """Makes a number of updates of a run in one compiled program: the body of a training loop.

    ```python
    import jax

    from agents import PPO, Block, init_train_state
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    envs = Vectorize(AutoReset(LogEpisodes(make("goals"))), 16)
    ppo = PPO(rollout_length=32)
    block = Block(ppo, envs, num_updates=6, length=2)
    state = init_train_state(ppo, envs, jax.random.key(0))
    for _ in range(3):
        state, metrics = block(state)
        print(metrics.episode_return)
    ```

    Several runs are trained together if `state` was made by `eqx.filter_vmap` of
    `init_train_state`: every array then has a leading `runs` axis. Each run has the result of
    training it alone, except for rounding. `pick_run` extracts one run.

    A call overwrites the arrays of its input, which saves the memory of one state: copy what you
    keep, such as `jax.tree.map(jnp.copy, state.policy)`.

    A program is compiled once for all blocks whose settings differ only in their values of type
    float.

    **Attributes:**

    - `algorithm`, `env`, `length`, `mesh`: the arguments.
    - `compile_seconds`, `train_seconds`: the time so far for compiling and for running the program.
    """

    def __init__(
        self,
        algorithm: AbstractAlgorithm[S],
        env: VectorEnvironment,
        *,
        num_updates: int,
        length: int,
        mesh: Mesh | None = None,
    ):
        """**Arguments:**

        - `algorithm`: the algorithm, such as `PPO`. For several runs, each of its fields of type
            float may be a vector, with an entry for each run.
        - `env`: the environments of a run.
        - `num_updates`: the number of updates of the whole run, over which settings are annealed.
        - `length`: the largest number of updates of a call.
        - `mesh`: the devices to train on, from `device_mesh`; the default device unless given.
            Several runs are divided evenly among them; the environments of a single run are
            sharded evenly. The result is as on one device, except for rounding.

        **Raises:** `TypeError` when an argument has another type, and `ValueError` when `length` is
        below 1.
        """
        check_algorithm(algorithm)
        if length < 1:
            raise ValueError(f"A block needs at least 1 update, not {length}.")
        self.algorithm, self.env = algorithm, check_vector_env(env, "Block(algorithm, env)")
        self.length, self.mesh = length, mesh
        # Settings become arrays, so that the compiled program can be used with other values.
        settings = algorithm.with_arrays(), self.env, _int32(num_updates), length, mesh
        self._settings = _Settings(*settings)
        self._is_compiled = False
        self.compile_seconds = self.train_seconds = 0.0

    def place(self, state: S) -> S:
        """A state on the devices of the block.

        **Raises:** `TypeError` when it is no training state, and `ValueError` when its runs or
        environments cannot be divided evenly.
        """
        if not isinstance(state, AbstractTrainState):
            raise TypeError(
                "A block needs a state such as init_train_state(algorithm, env, key), but got "
                f"{type(state).__name__}."
            )
        if self.mesh is None:
            return state
        if _has_several_runs(state):
            check_even(state.updates.size, self.mesh, "runs")
        else:
            check_even(self.env.num_envs, self.mesh)
        return shard(state, _axes_of_state(state, self.env.num_envs), self.mesh)

    def lower(self, state: S) -> Any:
        """Traces and lowers the program. JAX keeps the result for states of the same shapes, so
        that calling the block only compiles it.

        **Arguments:**

        - `state`: a state with the right shapes, from `place`; its values are not read.
        """
        program: Any = _run
        return program.lower(*self._inputs(state, 1))

    def compile(self, state: S) -> None:
        """Compiles the program for states of the same shapes, without running it.

        **Arguments:**

        - `state`: as in `lower`.

        **Raises:** `OutOfMemory` when the program needs more memory than is free.
        """
        start = time.perf_counter()
        program = self.lower(state).compile()  # JAX keeps it for calls of `_run`
        self.compile_seconds += time.perf_counter() - start
        check_memory(program)
        self._is_compiled = True

    def __call__(self, state: S, count: int | None = None) -> tuple[S, Metrics]:
        """Makes updates.

        **Arguments:**

        - `state`: the state to continue from. Its arrays can no longer be read after the call.
        - `count`: the number of updates, at most `length`, which is the default.

        **Returns:** the next state, on the devices of the block, and the metrics of every update as
        NumPy arrays, with a leading axis of the updates; for several runs, the second axis is the
        axis of runs.

        **Raises:** `NonFiniteLoss`, `OutOfMemory`, `ValueError` when `count` is above `length`, and
        as `place`.
        """
        count = self.length if count is None else count
        if not 0 <= count <= self.length:
            raise ValueError(f"A block of at most {self.length} updates cannot make {count}.")
        state = self.place(state)
        before = int(np.asarray(state.updates).flat[0])  # all runs have made the same number
        if not self._is_compiled:
            self.compile(state)
        start = time.perf_counter()
        state, metrics = _run(*self._inputs(_without_repeats(state), count))
        # The copy to the host waits for the program, so that the time includes its computation.
        metrics = jax.tree.map(lambda x: np.asarray(x)[:count], metrics)
        self.train_seconds += time.perf_counter() - start
        _check_finite(metrics, before, state)
        return state, metrics

    def _inputs(self, state: S, count: int) -> tuple["_Settings", S, Int[Array, ""]]:
        """The inputs of the program, on the devices of the block."""
        settings = self._settings
        if _has_several_runs(state):
            settings = shard(settings, _axes_of_settings(settings), self.mesh)
        else:
            settings = replicate(settings, self.mesh)
        return settings, state, replicate(_int32(count), self.mesh)


class _Settings(NamedTuple):
    """The inputs of a program that are the same for all blocks of a run. Other values of its arrays
    do not recompile the program; another `length`, `mesh` or static field does.
    """

    algorithm: AbstractAlgorithm[Any]
    env: VectorEnvironment
    num_updates: Int[Array, ""]
    length: int
    mesh: Mesh | None


def _int32(number: int) -> Int[Array, ""]:
    return jnp.asarray(np.int32(number))  # from NumPy, since JAX compiles a conversion of an `int`


def _without_repeats(state: S) -> S:
    """Copies arrays that occur more than once in the state, such as the parameters of a target
    network, because an array can be donated only once.
    """
    seen = set()

    def copy(leaf: Any) -> Any:
        if not eqx.is_array(leaf) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return jax.device_put(leaf, may_alias=False)

    return jax.tree.map(copy, state)


def _has_several_runs(state: AbstractTrainState[Any]) -> bool:
    """Whether the devices divide runs, and not the environments of a single run."""
    return state.updates.size > 1


def _axes_of_state(state: S, num_envs: int) -> PyTree[int | None]:
    """The axis of each array that the devices divide: that of the runs, or of the environments of a
    single run; `None` for arrays that every device has.
    """
    if _has_several_runs(state):
        return jax.tree.map(eqx.if_array(0), state)
    axis = state.updates.ndim  # after the axis of a single run, if it has one

    def axis_of(x: PyTree) -> int | None:
        return axis if eqx.is_array(x) and x.shape[axis : axis + 1] == (num_envs,) else None

    axes, runner = jax.tree.map(lambda _: None, state), jax.tree.map(axis_of, state.runner)
    return eqx.tree_at(lambda s: s.runner, axes, runner, is_leaf=lambda x: x is None)


def _axes_of_settings(settings: _Settings) -> _Settings:
    """The axis of the runs in each array of the settings: 0, or `None`."""
    vectors = _vectors_of(settings.algorithm)
    axes = jax.tree.map(lambda _: None, settings)
    return axes._replace(algorithm=jax.tree.map(lambda x: 0 if x else None, vectors))


def _vectors_of(algorithm: AbstractAlgorithm[Any]) -> PyTree[bool]:
    """Whether each leaf is a hyperparameter that is a vector, with an entry for each run. Arrays
    inside a field, such as those of a loss, are the same for all runs.
    """
    values = {x.name: getattr(algorithm, x.name) for x in dataclasses.fields(algorithm)}
    vectors = [name for name, x in values.items() if eqx.is_array(x) and x.ndim]
    return eqx.tree_at(
        lambda x: [getattr(x, name) for name in vectors],
        jax.tree.map(lambda _: False, algorithm),
        [True] * len(vectors),
    )


# The settings are an input of every call, so everything but the settings is donated.
@eqx.filter_jit(donate="all-except-first")
def _run(settings: _Settings, state: S, count: Int[Array, ""]) -> tuple[S, Metrics]:
    """Makes `count` updates, on the devices of the mesh."""
    mesh = settings.mesh
    if mesh is None or not _has_several_runs(state):
        state, metrics = _make_updates(settings, state, count)
        # The result has the shardings of the input. Otherwise XLA could choose others, and the
        # program would be compiled again.
        axes = _axes_of_state(state, settings.env.num_envs)
        return shard(state, axes, mesh), replicate(metrics, mesh)
    arrays, rest = eqx.partition((settings, state), eqx.is_array)

    def block(arrays: PyTree, count: Int[Array, ""]) -> tuple[PyTree, Metrics]:
        settings, state = eqx.combine(arrays, rest)
        state, metrics = _make_updates(settings, state, count)
        return eqx.filter(state, eqx.is_array), metrics

    axes = _axes_of_settings(settings), _axes_of_state(state, settings.env.num_envs)
    arrays, metrics = on_each_device(block, arrays, count, axes=axes, mesh=mesh)
    return eqx.combine(arrays, rest[1]), metrics


def _make_updates(settings: _Settings, state: S, count: Int[Array, ""]) -> tuple[S, Metrics]:
    """Makes `count` updates of a run, or of each of several runs. The count is an input of the
    program, so that a shorter last block needs no program of its own. Rows of the metrics after the
    first `count` are zeros.
    """

    own, common = eqx.partition(settings.algorithm, _vectors_of(settings.algorithm))

    def update_run(own: PyTree, state: S) -> tuple[S, Metrics]:
        algorithm = eqx.combine(own, common)
        return algorithm.update(settings.env, state, num_updates=settings.num_updates)

    update_runs = map_runs(update_run, state.updates.size) if state.updates.ndim else update_run
    arrays, rest = eqx.partition(state, eqx.is_array)

    # With `jit`, one trace serves both `eval_shape` and the loop.
    @jax.jit
    def update(arrays: PyTree) -> tuple[PyTree, Metrics]:
        state, metrics = update_runs(own, eqx.combine(arrays, rest))
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


def _check_finite(metrics: Metrics, updates: int, state: AbstractTrainState[Any]):
    """Raises `NonFiniteLoss` if a metric of the block after `updates` updates is not finite."""
    names = list(metrics.scalars)
    if not names:
        return
    finite = np.isfinite(np.stack([metrics.scalars[name] for name in names]))
    if finite.all():
        return
    # The first update is the cause, and all later numbers are consequences. If there are several
    # runs, the first run in this update is reported.
    update, *run = np.argwhere(~finite.all(axis=0))[0].tolist()
    leaf = int(np.asarray(metrics.bad_leaf)[update, *run])
    if leaf < 0:
        where = f"the {names[int(np.argmin(finite[:, update, *run]))].replace('_', ' ')}"
    else:
        trained = eqx.filter(state.policy, eqx.is_inexact_array)
        path = jax.tree_util.tree_leaves_with_path(trained)[leaf][0]
        where = f"the gradient of {jax.tree_util.keystr(path).removeprefix('.')}"
    raise NonFiniteLoss(updates + update + 1, where, *run)
